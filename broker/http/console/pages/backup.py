"""The backup: how far it is, the last cuts, the last drill, what it costs; without one, how to have one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .....backup.cut.status import RUNNING, STOPPED
from ....monitoring.health import BACKUP_GRACE_MS
from ..layout import badge, card, document, facts, live, note, quiet, table, topic_link
from ..units import ago_text, count_text, duration_text, moment_text, size_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .....backup.cut.status import BackupStatus
    from ..html import Element
    from ..page_request import Page, PageRequest
    from ..state import ConsoleState

_CUTS = 20
_HELD = 50
_KINDS = {
    "create": "manifests",
    "upload": "packs, segments, metadata",
    "read": "reads",
    "list": "listings",
    "delete": "deletions",
}


def backup(state: ConsoleState, request: PageRequest) -> Page:
    """Page of the backup."""
    service = state.services.backup
    if service is None:
        content: Sequence[object] = (
            note("This daemon makes no backup: what is on its disk is lost with the disk."),
            quiet(
                "backup.url names a place for one: file:///mnt/nas/tidelog, or a bucket. See docs/how-to/back-up.md."
            ),
        )
        return document(state, request, "Backup", content)
    status = service.status()
    return document(
        state, request, "Backup",
        live(
            "backup",
            [_lag(status, state.now_ms), _held(status), _drill(status, state.now_ms), _cuts(status), _requests(status)],
        ),
        is_live=True,
    )  # fmt: skip


def _lag(status: BackupStatus, now_ms: int) -> Element:
    progress = status.progress
    is_late = status.lag_ms > BACKUP_GRACE_MS + status.interval_ms
    return card(
        status.store or "Backup",
        note(status.reason, kind="bad" if status.state == STOPPED else "warn") if status.reason else None,
        note(f"A kept cut can't be read: {progress.damaged[0]}", kind="bad") if progress.damaged else None,
        facts(
            ("state", badge(status.state, "good" if status.state == RUNNING else "warn")),
            ("would be lost with the disk now", _lag_text(status, is_late=is_late)),
            ("a cut is made every", duration_text(status.interval_ms / 1000)),
            (
                "last cut",
                f"{progress.number}, {ago_text(progress.taken_ms, now_ms)}" if progress.number else "none yet",
            ),
            ("logs in it", size_text(progress.logs_bytes)),
            ("sent since the start", size_text(progress.bytes)),
        ),
    )


def _lag_text(status: BackupStatus, *, is_late: bool) -> object:
    if status.lag_ms < 0:
        return badge("all: there is no cut yet", "bad")
    text = f"the last {duration_text(status.lag_ms / 1000)}"
    return badge(text, "bad") if is_late else text


def _held(status: BackupStatus) -> Element | None:
    progress = status.progress
    held = [
        *progress.held,
        *(
            (*one[:2], f"{size_text(one.bytes)} are sent before the next cut", one.since_ms)
            for one in progress.waits_for
        ),
        *(
            (*one[:2], f"as before a pass: {size_text(one.bytes)} are being sent", one.since_ms)
            for one in progress.passes
        ),
    ]
    if not held:
        return None
    rows = [
        (topic_link(topic, partition, f"{topic}-{partition}"), reason, moment_text(since))
        for topic, partition, reason, since in held[:_HELD]
    ]
    return card(
        "Behind, or waited for",
        table(("partition", "why", "since (UTC)"), rows, caption="Partitions that hold back"),
        quiet(f"{count_text(len(held) - _HELD)} more.") if len(held) > _HELD else None,
    )


def _drill(status: BackupStatus, now_ms: int) -> Element:
    last, good = status.drills.last, status.drills.good
    every = f"every {duration_text(status.drill_interval_ms / 1000)}" if status.drill_interval_ms else "never"
    pairs: list[tuple[str, object] | None] = [("the daemon makes one", f"{every} (backup.verify.interval.ms)")]
    if status.drills.is_running:
        pairs.append(("now", "one is being made"))
    if last is not None:
        pairs += [
            ("last one", f"{ago_text(last.ended_ms, now_ms)}, of cut {last.cut}"),
            ("it read", f"{size_text(last.bytes)} of logs in {duration_text(last.seconds)}"),
        ]
    pairs.append(("last one that was good", ago_text(good.ended_ms, now_ms) if good is not None else "none is known"))
    damage = note(f"Cut {last.cut} is damaged: {last.fault}", kind="bad") if last is not None and last.fault else None
    return card("Drill", damage, facts(*pairs))


def _cuts(status: BackupStatus) -> Element:
    rows = [
        (
            str(cut.number), moment_text(cut.taken_ms), count_text(cut.partitions), size_text(cut.sent_bytes),
            duration_text(cut.seconds),
        )
        for cut in reversed(status.progress.recent[-_CUTS:])
    ]  # fmt: skip
    heads = ("cut", "taken (UTC)", "partitions", "sent", "until it was there")
    return card(
        "Last cuts",
        table(heads, rows, {0, 2, 3, 4}, caption="Last cuts since the start")
        if rows
        else quiet("None since the start."),
        quiet("tidelog backup list has all that can be restored."),
    )


def _requests(status: BackupStatus) -> Element:
    rows: list[tuple[Any, ...]] = [
        (_KINDS.get(kind, kind), count_text(count.requests), size_text(count.bytes), count_text(count.errors))
        for kind, count in status.counts.items()
    ]
    return card(
        "Requests to the store since the start",
        table(("kind", "requests", "bytes", "failed"), rows, {1, 2, 3}, caption="Requests by kind"),
    )
