"""Retention's executor: carries out on a log what `../retention/plan.py` says must go, for `UnifiedLog.delete_old_segments`.

    plan          facts of each segment, oldest first, until the policies name none any more    deletion lock
    ledger        known before the first change
    roll          if the active segment goes too; its producers are durable in a snapshot       + the log's lock
    take out      log start offset moves up, the list is published without the segments         + the log's lock
    checkpoint    of several segments, or one with aborted records, or before the name of the next one is durable, the new start
                  first
    .deleted      files are renamed, and go after file.delete.delay.ms

In this order, in pool threads; the locks are those of `LocalLog`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ..deletion_policy import START_OFFSET, LogFacts
from ..exceptions import KafkaStorageError
from ..io.filesystem import has_no_room
from ..ledger.ledger import Ledger, SegmentExtent

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..clock import Time
    from ..retention.plan import SegmentDeletion
    from ..segment.log_segment import LogSegment
    from .local_log import LocalLog
    from .unified_log import UnifiedLog


def delete_old_segments(log: UnifiedLog, time: Time) -> list[SegmentDeletion]:
    """Apply retention to `log` now, unless it is closed; returns what went and why. Pool threads; blocks. KafkaStorageError."""
    local = log.local
    with local.deletion_lock:
        if local.is_closed:  # a stop has told which files there are
            return []
        if local.failure is not None:  # no snapshot tells of the producers of what went
            return []
        try:
            _with_room(log, log.write_owed_snapshot)
            deletions = log.retention.plan(local.segment_views(), _facts(log, time.milliseconds()))
            if not deletions:
                return []
            local.ledger.open(local.extents, local.count)
            with local.lock:
                _roll_active(local, deletions)
            if not deletions:
                return []
            _keep_producers(log, deletions[-1].next_base_offset)
            # Else the name of the next segment may go with the power, and that of the last one too.
            with local.flush_lock:
                is_durable = not local.directory_is_dirty
            with local.lock:
                end = deletions[-1].next_base_offset
                deletions = _counted(deletions, local.ledger.value)
                # DeleteRecords has promised more than the first segment's name says.
                is_promised = log.log_start_offset > local.segments.view[0].base_offset
                if is_promised:  # before the list says otherwise: a checkpoint that comes meanwhile has to keep it
                    log.is_shortening = True
                log.raise_log_start_offset(max(log.log_start_offset, end))
                doomed = local.take_out_below(end)
        except OSError as error:
            raise KafkaStorageError(f"{log.name}: retention failed: {error}") from error
        log.retention.note(deletions)
        asked = [d.next_base_offset for d in deletions if d.policy == START_OFFSET.name]
        local.ledger.delete(asked[-1] if asked else 0, end)
        is_safe = is_durable and not (is_promised or local.has_left_files or local.has_aborted(doomed[0]))
        if is_safe and len(doomed) == 1:
            local.delete_files(doomed)  # one that a power cut brings back is old again
        else:
            _delete_many(log, doomed)
        if local.has_left_files:
            log.save_start_offset()
        return deletions


def _facts(log: UnifiedLog, now_ms: int) -> LogFacts:
    local = log.local
    return LogFacts(
        log.topic,
        log.partition,
        local.config,
        now_ms,
        local.size,
        log.log_start_offset,
        log.high_watermark,
    )


def _roll_active(local: LocalLog, deletions: list[SegmentDeletion]) -> None:
    """Roll the active segment if it is to go; take it out of `deletions` if somebody has written to it since the plan: it is
    not old any more, or since there is no room for the file of the next one, and others can go before it, which make some. Under
    the log's lock. OSError."""
    last = deletions[-1]
    if last.base_offset != local.segments.active.base_offset:
        return
    if last.next_base_offset == local.log_end_offset:
        try:
            local.roll_now(f"deletion policy {last.policy}")
        except OSError as error:
            if len(deletions) == 1 or local.failure is not None or not has_no_room(error):
                raise
        else:
            return
    deletions.pop()


def _keep_producers(log: UnifiedLog, end: int) -> None:
    """Wait for the snapshots of rolls: once the records are gone they are all that tells of the producers. Where there is no room
    for them, the next pass writes what is still owed, and a kill before that forgets producers: retention is what makes room.
    OSError, KafkaStorageError."""
    _with_room(log, log.flush_rolled)
    _with_room(log, partial(log.keep_snapshot_at, end))


def _with_room(log: UnifiedLog, write: Callable[[], object]) -> None:
    """Write what there is room for. OSError, KafkaStorageError where that is not why it fails."""
    try:
        write()
    except (OSError, KafkaStorageError) as error:
        cause = error if isinstance(error, OSError) else error.__cause__
        if log.local.failure is not None or not isinstance(cause, OSError) or not has_no_room(cause):
            raise


def _counted(deletions: list[SegmentDeletion], ledger: Ledger | None) -> list[SegmentDeletion]:
    """Set in each deletion the number of records that go, if the ledger knows it."""
    if ledger is None or not ledger.segments:
        return deletions
    extents = [SegmentExtent(d.base_offset, d.next_base_offset, d.size) for d in deletions]
    return [d._replace(live=ledger.live_of(e)) for d, e in zip(deletions, extents, strict=True)]


def _delete_many(log: UnifiedLog, doomed: list[LogSegment]) -> None:
    """Checkpoint the log start offset, then delete the files of `doomed`, and sync the directory.

    A power cut may bring any of the files back, in any order. With the start offset on disk, a start sees no hole, and no
    aborted record whose transaction index has gone.
    """
    directory = log.local.directory
    # Without it the checkpoint would leave the log out, which starts at its first segment again.
    log.is_shortening = True
    if not log.save_start_offset() and log.local.has_left_files:
        return  # a gap behind what was left, above the start that is known, would be taken for the log's end
    log.local.delete_files(doomed)
    try:
        directory.file_system.sync_directory(directory.path)
    except OSError as error:
        raise KafkaStorageError(f"{log.name}: retention failed: {error}") from error
    log.is_shortening = False
