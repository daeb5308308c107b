"""Topics, a topic, and a partition's anatomy: segments to scale, and why each of them is still there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .....config.definitions import TOPIC_SETTINGS
from ....cleaning.backup_facts import BackupFacts
from ....cleaning.why import why_partition
from ....metadata.creation_limits import NOBODYS
from ....metadata.topics import INTERNAL_TOPICS
from ....monitoring.health import flush_is_behind
from ..html import Element, element
from ..layout import (
    badge,
    button_link,
    card,
    document,
    facts,
    field,
    get_form,
    link,
    note,
    quiet,
    table,
    topic_link,
    topic_path,
)
from ..units import ago_text, count_text, duration_text, plural, size_text, time_text, visible
from .anatomy import anatomy, next_to_go
from .damage import damage_card, scrub_facts, whole_text

if TYPE_CHECKING:
    from collections.abc import Container

    from .....storage.log.unified_log import UnifiedLog
    from .....storage.scrub.status import ScrubStatus
    from ..page_request import Page, PageRequest
    from ..state import ConsoleState

MAX_TOPICS = 1000
MAX_PARTITIONS = 1000
TOPICS_CRUMB = ("Topics", "/topics")


def topics(state: ConsoleState, request: PageRequest) -> Page:
    """Page of all topics, or those whose name contains a text."""
    wanted = request.text("q").lower()
    found: dict[str, list[UnifiedLog]] = {}
    for log in state.logs():
        if wanted in log.topic.lower():
            found.setdefault(log.topic, []).append(log)
    rows = [
        (
            [topic_link(topic), " ", badge("internal") if topic in INTERNAL_TOPICS else None],
            count_text(len(logs)), count_text(sum(log.segment_count for log in logs)),
            size_text(sum(log.size for log in logs)), policy_text(logs[0]), retention_text(logs[0]),
        )
        for topic, logs in list(found.items())[:MAX_TOPICS]
    ]  # fmt: skip
    heads = ("topic", "partitions", "segments", "size", "cleanup.policy", "kept")
    nothing = "No topic has such a name." if wanted else "No topics yet."
    search = get_form("/topics", field("q", "Name has", request.text("q"), kind="search"), button="Search")
    return document(
        state, request, "Topics",
        search,
        table(heads, rows, {1, 2, 3}, caption="Topics") if rows else quiet(nothing),
        quiet(f"{plural(len(found) - MAX_TOPICS, 'more topic')}: search by name.") if len(found) > MAX_TOPICS else None,
    )  # fmt: skip


def policy_text(log: UnifiedLog) -> str:
    return ", ".join(sorted(log.config.cleanup_policy)) or "none"


def retention_text(log: UnifiedLog) -> str:
    """Effect of retention.ms and retention.bytes in words."""
    config = log.config
    if "delete" not in config.cleanup_policy:
        return "the latest of each key" if "compact" in config.cleanup_policy else "everything"
    limits = []
    if config.retention_ms >= 0:
        limits.append(duration_text(config.retention_ms / 1000))
    if config.retention_bytes >= 0:
        limits.append(f"{size_text(config.retention_bytes)} a partition")
    return ", ".join(limits) or "everything"


def topic(state: ConsoleState, request: PageRequest, name: str) -> Page:
    """Page of a topic's partitions."""
    logs = state.logs_of(name)
    now_ms = state.now_ms
    dirty = {
        cleaning.partition: cleaning.eligibility.dirty_ratio
        for cleaning in state.services.cleaner.manager.partitions()
        if cleaning.topic == name
    }
    damaged = scrub_facts(state).present
    is_compacted = "compact" in logs[0].config.cleanup_policy
    rows = [
        (
            topic_link(name, log.partition),
            log.log_start_offset, log.high_watermark, log.log_end_offset,
            count_text(log.segment_count), size_text(log.size),
            _dirty_text(dirty.get(log.partition)) if is_compacted else _next_due(log, now_ms),
            [_state(log, now_ms, damaged), " ", link("records", topic_path(name, log.partition, "records"))],
        )
        for log in logs[:MAX_PARTITIONS]
    ]  # fmt: skip
    last = "dirty" if is_compacted else "retention's next"
    heads = ("partition", "log start", "high watermark", "log end", "segments", "size", last, "")
    config = logs[0].config
    summary = facts(
        ("partitions", count_text(len(logs))),
        ("size", size_text(sum(log.size for log in logs))),
        ("offsets in all", count_text(sum(log.log_end_offset - log.log_start_offset for log in logs))),
        ("cleanup.policy", policy_text(logs[0])),
        ("kept", retention_text(logs[0])),
        ("segments roll at", f"{size_text(config.segment_bytes)} or {plural(config.segment_ms // 3_600_000, 'hour')}"),
        ("topic id", str(logs[0].topic_id) if logs[0].topic_id is not None else "none"),
        ("made by", _makers_text(state, name)),
    )
    return document(
        state, request, name,
        card("Topic", summary, _topic_links(state, request, name)),
        card("Partitions", table(heads, rows, {1, 2, 3, 4, 5, 6}, caption=f"Partitions of {name}")),
        quiet(f"{plural(len(logs) - MAX_PARTITIONS, 'more partition')}.") if len(logs) > MAX_PARTITIONS else None,
        trail=(link(*TOPICS_CRUMB),),
    )  # fmt: skip


def _makers_text(state: ConsoleState, name: str) -> str:
    """Creator of a topic, and other creators of its partitions, as counted for max.partitions.per.principal."""
    found = state.services.topics.get(name)
    makers = NOBODYS if found is None else found.makers
    others = [
        f"{principal} ({plural(count, 'partition')})"
        for principal, count in sorted(makers.partitions.items())
        if principal != makers.owner
    ]
    return ", ".join([makers.owner or "nobody in particular", *others])


def _dirty_text(ratio: float | None) -> str:
    return "" if ratio is None else f"{100 * ratio:.0f} %"


def _topic_links(state: ConsoleState, request: PageRequest, name: str) -> Element:
    return element(
        "p",
        link("settings", topic_path(name, "settings")),
        [
            [" ", button_link("Clean now…", "/actions/clean", topic=name)],
            [" ", button_link("Apply retention…", "/actions/retention", topic=name)],
        ]
        if state.may_act(request)
        else None,
        class_="buttons",
    )


def _next_due(log: UnifiedLog, now_ms: int) -> str:
    outlook = log.retention_outlook(now_ms)
    due = sum(outlook.due_bytes.values())
    if due:
        return f"{size_text(due)} due"
    return time_text(outlook.next_due_ms, now_ms).partition(",")[0]


def _state(log: UnifiedLog, now_ms: int, damaged: Container[tuple[str, int]]) -> Element | None:
    if log.failure is not None:
        return badge("failed", "bad")
    if (log.topic, log.partition) in damaged:
        return badge("damaged", "bad")
    if flush_is_behind(log, now_ms):
        return badge("sync late", "warn")
    if log.last_stable_offset < log.high_watermark:
        return badge("open transaction", "warn")
    return None


def partition(state: ConsoleState, request: PageRequest, name: str, number: str) -> Page:
    """Page of a partition: its segments to scale, and why each of them is still there."""
    log = state.log_of(name, number)
    services = state.services
    scrubbed = scrub_facts(state)
    told = why_partition(
        log,
        services.cleaner.manager,
        is_cleaner_enabled=services.cleaner.is_enabled,
        backup=BackupFacts(services.backup),
    )
    segments = told["segments"]
    shown = [name for name in ("clean", "dirty", "closed", "active") if any(s["section"] == name for s in segments)]
    going = next_to_go(segments)
    keys: list[object] = []
    for section in shown:
        keys += [element("span", section, class_=f"key {section}"), " "]
    if going is not None:
        keys.append(f"outlined: retention takes it next, the segment at {going}")
    heads = ("segment", "to", "size", "section", "not cleaned or deleted yet because of", "until")
    return document(
        state, request, log.name,
        note(f"Takes no records until a restart: {log.failure}", kind="bad") if log.failure is not None else None,
        damage_card(scrubbed, log),
        card(
            "Anatomy", anatomy(told), element("p", keys, class_="keys"),
            _offsets(told, scrubbed.status_of(log)),
            element(
                "p",
                link("records", topic_path(name, number, "records")), " ",
                link("newest of each key", topic_path(name, number, "latest")),
                [
                    [" ", button_link("Delete records…", "/actions/delete-records", topic=name, partition=number)],
                    [" ", button_link("Clean now…", "/actions/clean", topic=name)],
                ]
                if state.may_act(request)
                else None,
                class_="buttons",
            ),
        ),
        card(
            "Segments, and why they are there",
            table(
                heads,
                [_segment_row(segment, name, told["asOfMs"]) for segment in segments],
                {0, 1, 2},
                caption=f"Segments of {log.name}",
            ),
            quiet(f"{plural(told['segmentsOmitted'], 'more segment')}.") if told["segmentsOmitted"] else None,
        ),
        _ledger(told),
        trail=(link(*TOPICS_CRUMB), topic_link(name)),
    )  # fmt: skip


def _offsets(told: dict[str, Any], scrubbed: ScrubStatus | None) -> Element:
    ratio = told["dirtyRatio"]
    return facts(
        ("log start offset", str(told["logStartOffset"])),
        ("last stable offset", str(told["lastStableOffset"])),
        ("high watermark", str(told["highWatermark"])),
        ("log end offset", str(told["logEndOffset"])),
        ("size", size_text(told["size"])),
        ("cleanup.policy", told["cleanupPolicy"]),
        None if ratio is None else ("dirty", f"{size_text(told['dirtyBytes'])}, {100 * ratio:.0f} %"),
        None if ratio is None else ("cleaned above", f"{100 * told['minCleanableDirtyRatio']:.0f} % dirty"),
        None if told["nextMs"] is None else ("next change by time alone", time_text(told["nextMs"], told["asOfMs"])),
        ("being cleaned", "yes, now") if told["inWork"] else None,
        None if scrubbed is None else ("last read whole", whole_text((scrubbed,), told["asOfMs"])),
        None if told["backup"] is None else ("in the backup", backup_text(told["backup"], told["asOfMs"])),
    )


def backup_text(backup: dict[str, Any], now_ms: int) -> str:
    """How far a partition is in the backup."""
    if backup["cut"] is None:
        return "nothing yet"
    return f"up to offset {backup['endOffset']}, by cut {backup['cut']}, {ago_text(backup['takenMs'], now_ms)}"


def _ledger(told: dict[str, Any]) -> Element | None:
    """Table of what became of every assigned offset; None without a ledger."""
    ledger = told["ledger"]
    if ledger is None:
        return None
    rows = [("still here", count_text(ledger["live"]))]
    rows += [(f"gone: {cause}", count_text(count)) for cause, count in ledger["removed"].items() if count]
    return card(
        "Where its offsets went",
        quiet(
            f"{plural(ledger['appended'], 'offset')} given since the count began; live and gone make up all of them."
        ),
        table(("", "offsets"), rows, {1}, caption="Offsets by what became of them"),
    )


def _segment_row(segment: dict[str, Any], topic: str, now_ms: int) -> tuple[object, ...]:
    held = dict.fromkeys(
        (reason["setting"], reason["reason"] if reason["setting"] is None else f"{reason['setting']}={reason['value']}")
        for reason in segment["reasons"]
    )
    because = [
        [", " if number else "", visible(text) if setting is None else _setting_link(topic, setting, text)]
        for number, (setting, text) in enumerate(held)
    ]
    until = time_text(segment["untilMs"], now_ms) or segment["event"] or ""
    return (
        segment["baseOffset"],
        segment["endOffset"],
        size_text(segment["size"]),
        badge(segment["section"], segment["section"]),
        because,
        until,
    )


def _setting_link(topic: str, setting: str, text: str) -> Element:
    """`text` as a link to the setting's entry: the topic's where topics have it, else the broker's."""
    page = topic_path(topic, "settings") if setting in TOPIC_SETTINGS else "/settings"
    return link(text, f"{page}#{setting}")
