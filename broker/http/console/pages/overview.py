"""The start page: is it well, what goes through it, where the bytes are, what is dirtiest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .....cleaner.eligibility import Cause
from .....storage.io.platform import process_age_s
from ..html import Element, element
from ..layout import badge, card, cards, document, facts, link, live, note, quiet, table, topic_link
from ..units import count_text, duration_text, plural, size_text
from .damage import scrub_facts, whole_text
from .throughput import bytes_chart, requests_chart, waiting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .....storage.log.unified_log import UnifiedLog
    from ....requests.services import Services
    from ..page_request import Page, PageRequest
    from ..state import ConsoleState

_SHOWN = 8
_PROBLEMS = 20


def overview(state: ConsoleState, request: PageRequest) -> Page:
    """Page with the overview."""
    logs = state.logs()
    samples = state.samples.samples() if state.samples is not None else []
    now_ms = state.now_ms
    return document(
        state, request, "Overview",
        live("health", _health(state)),
        live("facts", _facts(state, logs)),
        live(
            "throughput",
            cards(
                card("Record bytes", bytes_chart(samples, now_ms) if samples else waiting(), more=link("more", "/throughput")),
                card("Requests", requests_chart(samples, now_ms) if samples else waiting(), more=link("more", "/throughput")),
            ),
        ),
        live("largest", cards(_biggest(logs), _dirtiest(state))),
        is_live=True,
    )  # fmt: skip


def _health(state: ConsoleState) -> list[Element]:
    problems = list(state.health.problems())
    if not problems:
        return [note("All is well.", kind="good")]
    notes = [
        note(badge(problem.reason, "bad"), f" {problem.subject} {problem.text}", kind="bad")
        for problem in problems[:_PROBLEMS]
    ]
    if len(problems) > _PROBLEMS:
        notes.append(note(f"{plural(len(problems) - _PROBLEMS, 'more problem')}; /health has them all.", kind="bad"))
    return notes


def _facts(state: ConsoleState, logs: Sequence[UnifiedLog]) -> Element:
    services = state.services
    server = services.socket_server
    free = [space.free_bytes for _, space in services.logs.spaces if space.free_bytes >= 0]
    return facts(
        ("running for", duration_text(process_age_s())),
        ("clients connect to", ", ".join(map(str, (*server.endpoints, *server.message_set_endpoints)))),
        ("topics", link(count_text(len({log.topic for log in logs})), "/topics")),
        ("partitions", count_text(len(logs))),
        ("logs", size_text(sum(log.size for log in logs))),
        ("free on disk", link(" · ".join(map(size_text, free)) or "not looked at yet", "/disks")),
        ("all read whole", link(whole_text(scrub_facts(state).statuses, state.now_ms), "/disks")),
        ("in the backup", link(_backup_text(services), "/backup")),
        ("connections", link(count_text(len(server.connections)), "/connections")),
        ("actions", "on" if services.config.http_admin_enable else "off (http.admin.enable)"),
    )


def _backup_text(services: Services) -> str:
    if services.backup is None:
        return "nothing: there is none"
    status = services.backup.status()
    if status.lag_ms < 0:
        return f"nothing yet ({status.state})"
    return f"all but the last {duration_text(status.lag_ms / 1000)}"


def _biggest(logs: Sequence[UnifiedLog]) -> Element:
    sizes: dict[str, int] = {}
    for log in logs:
        sizes[log.topic] = sizes.get(log.topic, 0) + log.size
    largest = sorted(sizes.items(), key=lambda item: -item[1])[:_SHOWN]
    rows = [(topic_link(topic), size_text(size)) for topic, size in largest]
    return card(
        "Largest topics",
        table(("topic", "size"), rows, {1}, caption="Largest topics") if rows else quiet("No topics yet."),
        more=link("all", "/topics"),
    )


def _dirtiest(state: ConsoleState) -> Element:
    found = [
        cleaning
        for cleaning in state.services.cleaner.manager.partitions()
        if cleaning.eligibility.cause is not Cause.NOT_COMPACTED
        and (cleaning.eligibility.dirty_bytes or cleaning.failure is not None)
    ]
    found.sort(key=lambda cleaning: (cleaning.failure is None, -cleaning.eligibility.dirty_ratio))
    rows = [
        (
            element("span", topic_link(cleaning.topic), " ", topic_link(cleaning.topic, cleaning.partition)),
            f"{100 * cleaning.eligibility.dirty_ratio:.0f} %", size_text(cleaning.eligibility.dirty_bytes),
        )
        for cleaning in found[:_SHOWN]
    ]  # fmt: skip
    return card(
        "Dirtiest partitions",
        table(("partition", "dirty", "bytes"), rows, {1, 2}, caption="Dirtiest partitions")
        if rows
        else quiet("No compacted partition has anything to clean."),
        more=link("cleaner", "/cleaner"),
    )
