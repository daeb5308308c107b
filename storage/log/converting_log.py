"""ConvertingLog: the part of a log that takes what has to be converted, above all message sets of formats 0 and 1.

    append_message_set            on the spot
    prepare, append_prepared      in two steps: the long one in any thread, then the append, which is as quick as any other
    check_batch, append_checked   the same for a batch of format 2 whose records are long to look at, being compressed

`prepare` makes records for the end of the log as it is then; `append_prepared` moves them to where it is by then.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from ...protocol.records.record_batch import MAGIC_V2
from .shrinking_log import ShrinkingLog
from .validator import (
    AppendRules,
    CheckedBatch,
    PreparedRecords,
    TargetFormat,
    ValidatedRecords,
    checked_batch,
    make_ready,
    moved,
)
from .values import NO_TIMESTAMP, LogAppendInfo

if TYPE_CHECKING:
    from ..io.disk_space import DiskSpace
    from ..io.filesystem import Buffer


class ConvertingLog(ShrinkingLog):
    """See `UnifiedLog`, which sets the attributes, for what they mean, and for threads."""

    __slots__ = (
        "_append_time",
        "_max_message_bytes",
        "_require_keys",
        "_space",
        "_target",
        "_timestamp_after_max",
        "_timestamp_before_max",
        "converts_batches",
        "leader_epoch",
    )

    converts_batches: bool
    leader_epoch: int
    _append_time: bool
    _max_message_bytes: int
    _require_keys: bool
    _space: DiskSpace
    _target: TargetFormat | None
    _timestamp_after_max: int
    _timestamp_before_max: int

    @abstractmethod
    def _next_append_time(self, now: int) -> int: ...

    @abstractmethod
    def _write(
        self,
        data: Buffer,
        batch: ValidatedRecords,
        now: int,
        offset_of_max_timestamp: int = -1,
        stand_alone: bool = False,
    ) -> None: ...

    def append_message_set(self, buffer: Buffer, start: int, end: int) -> LogAppendInfo:
        """Append the messages of format 0 or 1 in buffer[start:end], as produce requests before version 3 bring them:
        plain ones, or one wrapper. They are stored in the topic's format; the buffer stays as it is. Loop thread.

        Raises as `append_as_leader`. Nothing was appended then.
        """
        with self._lock:
            if end - start > self._space.left:
                self._space.check(end - start, is_client=True)
            now = self._time.milliseconds()
            append_time = self._next_append_time(now) if self._append_time else NO_TIMESTAMP
            return self._write_records(
                self._made_ready(buffer, start, end, now, append_time), now, append_time, end - start
            )

    def prepare(self, buffer: Buffer, start: int, end: int) -> PreparedRecords:
        """All of the work of appending a message set, or a batch that the topic's format is not, but for the append itself.
        Any thread; takes long. The buffer stays as it is. Raises as `append_message_set`.
        """
        config = self._directory.config
        now = self._time.milliseconds()
        append_time = now if self._append_time else NO_TIMESTAMP
        return PreparedRecords(self._made_ready(buffer, start, end, now, append_time), config, append_time, end - start)

    def append_prepared(self, prepared: PreparedRecords) -> LogAppendInfo | None:
        """Append what `prepare` gave. None: since then settings have changed, or the log has grown and this is of the one
        kind that can't be moved (see `log_validator.moved`), so that it has to be prepared anew. Loop thread.
        """
        with self._lock:
            if prepared.config is not self._directory.config:
                return None
            if prepared.size > self._space.left:
                self._space.check(prepared.size, is_client=True)
            append_time = self._next_append_time(prepared.append_time) if self._append_time else NO_TIMESTAMP
            records = moved(prepared.records, self.log_end_offset, append_time)
            if records is None:
                return None
            return self._write_records(records, self._time.milliseconds(), append_time, prepared.size)

    def check_batch(self, buffer: Buffer, start: int, end: int) -> CheckedBatch:
        """All checks of the client's batch of format 2 in buffer[start:end] but for its producer's, and the topic's codec, for
        a topic that keeps that format. Any thread; may take long. The buffer stays as it is. Raises as `append_as_leader`.
        """
        config = self._directory.config
        now = self._time.milliseconds()
        append_time = now if self._append_time else NO_TIMESTAMP
        return checked_batch(buffer, start, end, config, self._target, self._rules(now, append_time))

    def _made_ready(self, buffer: Buffer, start: int, end: int, now: int, append_time: int) -> ValidatedRecords:
        """Checked, and in the topic's format, for the end of the log as it is now."""
        target = self._target or TargetFormat(MAGIC_V2, None)
        return make_ready(buffer, start, end, target, self._rules(now, append_time))

    def _rules(self, now: int, append_time: int) -> AppendRules:
        return AppendRules(
            self.log_end_offset,
            self.leader_epoch,
            append_time,
            self._require_keys,
            now - self._timestamp_before_max,
            now + self._timestamp_after_max,
            self._max_message_bytes,
        )

    def _write_records(self, records: ValidatedRecords, now: int, append_time: int, size: int) -> LogAppendInfo:
        """Append what was converted; it has no producer. Under the lock. `size` is that of what came."""
        self._write(records.data, records, now, records.offset_of_max_timestamp, records.stand_alone)
        return LogAppendInfo(
            records.base_offset,
            records.last_offset,
            append_time,
            self.log_start_offset,
            records.record_count,
            size,
            False,
        )
