"""Log directories: what is in them, what is free, what is kept in reserve, and whether their disk is slow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..layout import card, document, facts, live, note, progress
from ..units import count_text, duration_text, size_text
from .damage import directory_damage, directory_facts, scrub_facts

if TYPE_CHECKING:
    from .....storage.io.disk_space import DiskSpace
    from .....storage.scrub.status import ScrubStatus
    from ..html import Element
    from ..page_request import Page, PageRequest
    from ..state import ConsoleState


def disks(state: ConsoleState, request: PageRequest) -> Page:
    """Page of disks."""
    spaces = dict(state.services.logs.spaces)
    scrubbed = {status.directory: status for status in scrub_facts(state).statuses}
    return document(
        state, request, "Disks",
        live("disks", [_directory(state, path, space, scrubbed.get(path)) for path, space in spaces.items()]),
        is_live=True,
    )  # fmt: skip


def _directory(state: ConsoleState, path: str, space: DiskSpace, scrubbed: ScrubStatus | None) -> Element:
    services = state.services
    logs = [log for log in services.logs.logs() if log.directory.rpartition("/")[0] == path]
    pace = dict(services.logs.paces).get(path)
    size, free = sum(log.size for log in logs), space.free_bytes
    return card(
        path,
        note(f"Appends are refused until more than {size_text(space.reserve)} are free.", kind="bad") if space.is_full else None,
        note("Slow: clients' appends go through a thread of their own.", kind="warn") if pace and pace.is_slow else None,
        progress(size, size + free, f"{size_text(size)} of logs, {size_text(free)} free") if free >= 0 else None,
        facts(
            ("logs", size_text(size)),
            ("free", size_text(free) if free >= 0 else "not looked at yet"),
            ("in reserve (log.dir.reserve.bytes)", size_text(space.reserve) if space.reserve else "nothing"),
            ("partitions", count_text(len(logs))),
            ("segments", count_text(sum(log.segment_count for log in logs))),
            ("appends refused for lack of room", count_text(space.refused)),
            None if pace is None else ("writes of 100 ms or longer", count_text(pace.slow_writes)),
            None if pace is None or not pace.longest_s else ("longest write lately", duration_text(pace.longest_s)),
            ("failed partitions", count_text(sum(log.failure is not None for log in logs))),
            ("new partitions are made here", "no" if path in services.config.cordoned_log_dirs else "yes"),
            *(() if scrubbed is None else directory_facts(scrubbed, state.now_ms)),
        ),
        () if scrubbed is None else directory_damage(scrubbed),
    )  # fmt: skip
