"""Checks a partition's ledger against its segments (see `verify.py`): live counts match, and the account balances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ..ledger.keeper import is_strange, resolved
from ..ledger.ledger import LEDGER_FILE, SegmentExtent, decode

if TYPE_CHECKING:
    from ..io.filesystem import FileSystem
    from ..segment.names import Hole
    from .verify_report import Report


class LedgerCheck:
    """Check of one partition. Made before the segments are read, so that a running daemon's changes are noticed.
    Read-only.
    """

    def __init__(self, file_system: FileSystem, directory: str, report: Report) -> None:
        self._fs = file_system
        self._path = f"{directory}/{LEDGER_FILE}"
        self._report = report
        self._data = self._read()

    def _read(self) -> bytes | None:
        try:
            return self._fs.read_bytes(self._path)
        except FileNotFoundError:
            return None

    def finish(
        self,
        segments: Sequence[SegmentExtent],
        live: Mapping[int, int],
        checkpoint: int | None,
        log_start_offset: int = 0,
        holes: Sequence[Hole] = (),
    ) -> None:
        """Compare. `live`: records by base offset of all `segments`, without those that could not be counted;
        `checkpoint`: the cleaner's.
        """
        if self._data is None or self._read() != self._data:
            return  # none is kept yet, or a daemon is at it
        found = decode(self._data)
        if found is None:
            self._report.add("ledger-corrupt", self._path, 0, "not understood, or appended is not live + removed")
            return
        ledger = resolved(found, segments, lambda segment: live.get(segment.base_offset, -1))
        assert ledger is not None
        if not {hole.name for hole in holes} <= set(ledger.holes):  # the daemon books them as it begins to work
            ledger = ledger.with_holes(holes, segments, lambda segment: live.get(segment.base_offset, 0))
        if is_strange(ledger, segments, checkpoint, log_start_offset):
            self._report.add("ledger-foreign", self._path, -1, "segments are not those that it was kept for")
            return
        for segment in segments:
            told, there = ledger.live_of(segment), live.get(segment.base_offset)
            if there is not None and told != there:
                what = f"segment {segment.base_offset} has {there} records; the ledger says {told}"
                self._report.add("ledger-differs", self._path, -1, what)
