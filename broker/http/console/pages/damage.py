"""What the scrubber found and how far it is, as parts of other pages: the overview, a directory, a topic, a partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .....storage.scrub.status import NEVER, ScrubState
from ....cleaning.scrub_facts import ScrubFacts, damage_text
from ..html import Element, element
from ..layout import badge, card, note, progress, quiet, table, topic_link
from ..units import ago_text, moment_text, plural, rate_text, size_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .....storage.log.unified_log import UnifiedLog
    from .....storage.scrub.status import ScrubDamage, ScrubStatus
    from ..state import ConsoleState

MAX_DAMAGE = 50
"""Damaged places on one page; the rest is counted."""
_SETTING = "tidelog.log.scrub.bytes.per.second"


def scrub_facts(state: ConsoleState) -> ScrubFacts:
    """Facts of the scrubber now."""
    return ScrubFacts(state.services.scrubber.statuses())


def whole_text(statuses: Sequence[ScrubStatus], now_ms: int) -> str:
    """When everything closed was last read whole: of several directories, the one where that is longest ago."""
    unread = [status for status in statuses if status.whole_ms == NEVER]
    if unread and not any(status.bytes_per_second for status in unread):
        return f"never ({_SETTING})"
    if unread:
        done, total = sum(status.done_bytes for status in unread), sum(status.total_bytes for status in unread)
        return f"not yet, {100 * min(done, total) // max(1, total)} % so far"
    oldest_ms = min((status.whole_ms for status in statuses), default=NEVER)
    return "never" if oldest_ms == NEVER else f"{moment_text(oldest_ms)}, {ago_text(oldest_ms, now_ms)}"


def directory_facts(status: ScrubStatus, now_ms: int) -> list[tuple[str, object]]:
    """The scrubber of one directory, as pairs for `facts`."""
    doing = {
        ScrubState.OFF: "it begins soon" if status.bytes_per_second else f"off ({_SETTING})",
        ScrubState.READING: f"now, up to {rate_text(status.bytes_per_second)}",
        ScrubState.WAITING: "the next pass begins later",
        ScrubState.FAILED: f"failed: {status.reason}",
    }[status.state]
    pairs: list[tuple[str, object]] = [("read for damage", doing), ("all read whole", whole_text((status,), now_ms))]
    if status.state is ScrubState.READING:
        done = f"{size_text(status.done_bytes)} of {size_text(status.total_bytes)}"
        bar = progress(status.done_bytes, status.total_bytes, done)
        pairs.append((f"this pass, begun {ago_text(status.begun_ms, now_ms)}", element("span", bar, " ", done)))
    return pairs


def directory_damage(status: ScrubStatus) -> list[Element | None]:
    """What is damaged in one directory, with links to its partitions; empty where nothing is."""
    if not status.damage:
        return []
    rows = [
        (
            topic_link(damage.topic, damage.partition, f"{damage.topic}-{damage.partition}"),
            _what(damage), moment_text(damage.found_ms),
        )
        for damage in status.damage[:MAX_DAMAGE]
    ]  # fmt: skip
    return [
        _summary(status.damage, "Each partition's page says what to do; look at the disk too."),
        table(("partition", "what is damaged", "found (UTC)"), rows, caption=f"Damage in {status.directory}"),
        _omitted(len(status.damage) + status.omitted),
    ]


def damage_card(facts: ScrubFacts, log: UnifiedLog) -> Element | None:
    """What is damaged in one partition, and what to do about it; None where nothing is."""
    found = facts.damage_of(log)
    if not found:
        return None
    shown = found[:MAX_DAMAGE]
    remedies = dict.fromkeys(damage.remedy for damage in shown if damage.still_there)
    return card(
        "Damage",
        _summary(found, "What is in it is served as it is."),
        table(
            ("what is damaged", "found (UTC)"),
            [(_what(damage), moment_text(damage.found_ms)) for damage in shown],
            caption=f"Damage in {log.name}",
        ),
        _omitted(len(found)),
        [element("p", f"What to do: {remedy}.") for remedy in remedies],
    )


def _what(damage: ScrubDamage) -> list[object]:
    return [damage_text(damage), None if damage.still_there else [" ", badge("mended", "good")]]


def _summary(found: Sequence[ScrubDamage], advice: str) -> Element:
    files = len({damage.path for damage in found if damage.still_there})
    if not files:
        return note("What was damaged is mended.", kind="good")
    return note(f"{plural(files, 'damaged file')}. {advice}", kind="bad")


def _omitted(count: int) -> Element | None:
    return quiet(f"{plural(count - MAX_DAMAGE, 'more place')}.") if count > MAX_DAMAGE else None
