"""Rebuilds producer state: from the newest snapshot, then from the batches behind it.

Used by loading and by truncation. During recovery the batches come from the scan that checks them anyway, and aborted
transactions are written to the segment's transaction index again; otherwise headers alone are walked, in segments that may
be damaged: what can't be read is told and passed over, since a log that is damaged in one place has to open.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ...protocol.records.exceptions import RecordError
from ...protocol.records.record_batch import iterate_records
from ..index.transaction_index import AbortedTxn, TransactionIndex
from ..segment import scan as segment_scan
from ..segment.names import TRANSACTION_INDEX_SUFFIX
from .transaction_marker import parse_transaction_marker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...protocol.records._kernel import BatchInfo
    from ..clock import Time
    from ..io.filesystem import Buffer
    from ..segment.files import LogDirectory
    from ..segment.log_segment import LogSegment
    from .state import ProducerStateManager

logger = logging.getLogger(__name__)


class ProducerReplay:
    """One load or truncation of one log. Used by the log's writer; blocks."""

    def __init__(self, directory: LogDirectory, producers: ProducerStateManager, time: Time) -> None:
        self._directory = directory
        self._producers = producers
        self._time = time
        self._aborted: TransactionIndex | None = None
        self._collected: list[AbortedTxn] | None = None

    def catch_up(self, segments: Sequence[LogSegment], log_start_offset: int, end_offset: int) -> None:
        """Advance the state to `end_offset`, the end of `segments`.

        Batches below the log's start count as long as they are there: their producers may send them again.
        """
        producers = self._producers
        first_offset = min(log_start_offset, segments[0].base_offset if segments else end_offset)
        producers.truncate_and_reload(first_offset, end_offset, self._time.milliseconds())
        self.advance(segments, end_offset)

    def advance(self, segments: Sequence[LogSegment], end_offset: int) -> None:
        """Bring the state from where it is to `end_offset`, the end of `segments`."""
        producers = self._producers
        start_offset = producers.map_end_offset
        if start_offset < end_offset:
            for index, segment in enumerate(segments):
                if index + 1 < len(segments) and segments[index + 1].base_offset <= start_offset:
                    continue
                self._replay_from(segment, start_offset)
        producers.update_map_end_offset(end_offset)

    def _replay_from(self, segment: LogSegment, offset: int) -> None:
        def add(batch: BatchInfo, data: Buffer) -> None:
            if batch.base_offset >= offset:
                self.add(batch, data)

        try:
            found = segment.find(offset, segment.size)
        except RecordError as error:
            logger.warning(
                "%s: producers are read up to there, from the segment's start: %s", self._directory.path, error
            )
            segment_scan.scan_segment(self._directory, segment, check_crc=False, on_batch=add)
            return
        if found is not None:
            segment_scan.scan_segment(
                self._directory, segment, start=found.position, check_crc=False, on_batch=self.add
            )

    def aborted_of(self, segments: Sequence[LogSegment]) -> list[AbortedTxn]:
        """Aborted transactions that end in `segments`, at whose beginning the state is. Leaves it at their end, as far as
        there are records of producers.
        """
        self._collected = []
        for segment in segments:
            segment_scan.scan_segment(self._directory, segment, check_crc=False, on_batch=self.add)
        return self._collected

    def begin_segment(self, base_offset: int) -> None:
        """Called when recovery reads this segment from its start: its transaction index is rebuilt."""
        path = self._directory.file(base_offset, TRANSACTION_INDEX_SUFFIX)
        self._aborted = TransactionIndex(self._directory.file_system, path, base_offset)
        self._aborted.reset()

    def restart_segment(self, earlier: Sequence[LogSegment], log_start_offset: int, base_offset: int) -> None:
        """Return to the state before the segment that was begun, behind the segments `earlier`: it has to be read
        again.
        """
        if self._aborted is not None:
            self._aborted.close()
            self._aborted = None
        self.catch_up(earlier, log_start_offset, base_offset)
        self.begin_segment(base_offset)

    def end_segment(self, end_offset: int, *, is_last: bool) -> None:
        """Called when the segment was read to its end, or to where it was cut. Takes a snapshot, to spare the next
        recovery this work.

        None for the last one: no recovery could use it, and once the segment is rolled there, unsynced, it would be taken for
        the sign of durable indexes.
        """
        assert self._aborted is not None
        self._aborted.close()
        self._aborted = None
        self._producers.update_map_end_offset(end_offset)
        if not is_last and not self._producers.is_empty:
            self._producers.take_snapshot()

    def add(self, batch: BatchInfo, data: Buffer) -> None:
        """Apply a batch with a producer id or control bit."""
        if batch.producer_id < 0:
            return
        if not batch.is_control:
            self._producers.update(batch)
            return
        try:
            markers = [(record, parse_transaction_marker(record.key, record.value)) for record in iterate_records(data)]
        except RecordError as error:
            logger.warning(
                "%s: a control batch of producer %d at offset %d can't be read, and counts for nothing: %s",
                self._directory.path,
                batch.producer_id,
                batch.base_offset,
                error,
            )
            return
        if not markers:
            self._producers.drop_transaction(batch.producer_id)
        for record, marker in markers:
            if marker is None:
                continue
            completed = self._producers.update_marker(
                batch.producer_id, batch.producer_epoch, marker, record.offset, record.timestamp
            )
            if completed is None:
                continue
            if completed.is_aborted and (self._aborted is not None or self._collected is not None):
                stable = self._producers.last_stable_offset(completed)
                aborted = AbortedTxn(completed.producer_id, completed.first_offset, completed.last_offset, stable)
                if self._aborted is not None:
                    self._aborted.append(aborted)
                if self._collected is not None:
                    self._collected.append(aborted)
            self._producers.complete_txn(completed)

    def finish(self, segments: Sequence[LogSegment], log_start_offset: int, end_offset: int, *, clean: bool) -> None:
        """Called when the log is loaded; it ends at `end_offset`."""
        producers = self._producers
        if clean and producers.latest_snapshot_offset is not None:
            self.catch_up(segments, log_start_offset, end_offset)
        elif producers.map_end_offset > end_offset or producers.map_end_offset < log_start_offset:
            producers.truncate_fully_and_start_at(end_offset)
        # A clean stop leaves a snapshot if there was ever a producer: without one there is nothing to find.
        producers.update_map_end_offset(end_offset)
        producers.on_high_watermark_updated(end_offset)
