"""Checks transaction indexes against the log when it is loaded: a wrong one would give aborted records to
read_committed consumers.

Each entry is held against the batches that it names: its abort marker, and the first record of the transaction. On a difference
the index is written anew from the log. After a clean stop, which has left the file's checksum (`stop_record.py`), that is enough,
and tells a file that is missing or has lost whole entries. Without one the newest `HELD_AGAINST_LOG` entries of a log are looked
up, since each takes several reads and a start comes to every log; the others only have to be possible. Where no batch is,
compaction or a hole has been, whatever the policy is now, and nothing is concluded from that.

Blocks; one thread, before the log is published. OSError.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from ...protocol.records.exceptions import RecordError
from ..exceptions import CorruptIndexError
from ..index.transaction_index import AbortedTxn, TransactionIndex
from ..producers.replay import ProducerReplay
from ..producers.state import ProducerStateManager
from ..producers.transaction_marker import parse_transaction_marker
from ..segment import file_records
from ..segment.names import TRANSACTION_INDEX_SUFFIX
from ..segment.segment_list import floor_index
from .stop_record import index_checksum

if TYPE_CHECKING:
    from ...protocol.records.record_batch import BatchHeader, Record
    from ..clock import Time
    from ..segment.files import LogDirectory
    from ..segment.log_segment import LogSegment

logger = logging.getLogger(__name__)

HELD_AGAINST_LOG = 16
"""Number of entries of one log, the newest ones, that are compared with the log; 0.12 ms of CPU each."""


def check_transaction_indexes(
    directory: LogDirectory,
    segments: Sequence[LogSegment],
    bases: set[int],
    end_offset: int,
    snapshots: Collection[int],
    time: Time,
    checksums: Mapping[int, int] | None = None,
) -> int:
    """Check the indexes of the segments at `bases`, and rewrite wrong ones; returns how many were wrong. `segments` are
    all of the log.

    `snapshots`: offsets of those of the producers. `checksums`: of indexes that are known, by base offset.
    """
    view = tuple(segments)
    ends = [*(segment.base_offset for segment in view[1:]), end_offset]
    wrong: list[int] = []
    left = HELD_AGAINST_LOG
    for number, segment in reversed(tuple(enumerate(view))):
        if segment.base_offset not in bases:
            continue
        path = directory.file(segment.base_offset, TRANSACTION_INDEX_SUFFIX)
        try:
            expected = (checksums or {}).get(segment.base_offset)
            if expected is not None:
                actual = index_checksum(directory.file_system, directory.path, segment.base_offset)
                problem = "" if actual == expected else "it is not what it was when the log was closed"
            else:
                index = TransactionIndex(directory.file_system, path, segment.base_offset)
                index.sanity_check()
                entries = list(index.all())
                newest = entries[max(0, len(entries) - left) :]
                left -= len(newest)
                problem = _impossible(entries, segment.base_offset, ends[number]) or _problem(view, newest)
        except (CorruptIndexError, RecordError) as error:
            problem = str(error)
        if problem:
            logger.warning("%s is wrong (%s): it is made anew from the log", path, problem)
            wrong.insert(0, number)
    if wrong:
        _rebuild(directory, view, wrong, ends, snapshots, time)
    return len(wrong)


def index_aborted(
    directory: LogDirectory,
    segments: Sequence[LogSegment],
    bases: set[int],
    snapshots: Sequence[int],
    log_start_offset: int,
    time: Time,
) -> None:
    """Add to the indexes of the segments at `bases`, which are some of `segments`, what the log has of aborted transactions,
    durably. Reads no part of the log twice.

    Entries that are there stay, since a restore and compaction leave some of which the log has the marker alone; whether
    they can be is for `check_transaction_indexes`, later in the load.

    `snapshots`: rising offsets of those of the producers, from the newest of which at or below a segment the log is read.
    """
    producers = ProducerStateManager(directory.path, directory.file_system, time)
    replay = ProducerReplay(directory, producers, time)
    begun = False
    for number, segment in enumerate(segments):
        base = segment.base_offset
        if base not in bases:
            continue
        usable = [offset for offset in snapshots if offset <= base]
        if not begun or (usable and usable[-1] > producers.map_end_offset):
            producers.found_snapshots(usable)
            replay.catch_up(segments[:number], log_start_offset, base)
        else:
            replay.advance(segments[:number], base)
        begun = True
        aborted = {txn.last_offset: txn for txn in _readable(directory, base)}
        aborted |= {txn.last_offset: txn for txn in replay.aborted_of([segment])}
        if number + 1 < len(segments):
            producers.update_map_end_offset(segments[number + 1].base_offset)
        _write(directory, base, [aborted[offset] for offset in sorted(aborted)])


def _readable(directory: LogDirectory, base_offset: int) -> list[AbortedTxn]:
    """Entries of an index; none where it is missing or damaged."""
    try:
        path = directory.file(base_offset, TRANSACTION_INDEX_SUFFIX)
        return list(TransactionIndex(directory.file_system, path, base_offset).all())
    except CorruptIndexError:
        return []


def _write(directory: LogDirectory, base_offset: int, aborted: Sequence[AbortedTxn]) -> None:
    path = directory.file(base_offset, TRANSACTION_INDEX_SUFFIX)
    if aborted:
        directory.file_system.write_atomically(path, TransactionIndex.encode(aborted))
    else:
        directory.file_system.unlink(path, missing_ok=True)


def _impossible(entries: Sequence[AbortedTxn], base: int, end: int) -> str:
    """Text that says which entry can't be so in any log, for a segment from `base` to `end`; empty if none. Reads
    nothing.
    """
    before = base - 1
    for txn in entries:
        if txn.last_offset >= end:
            return f"{txn} ends behind the segment"
        if txn.last_offset <= before:
            return f"{txn} ends before where it should"
        if not 0 <= txn.first_offset <= txn.last_offset:
            return f"{txn} begins nowhere"
        before = txn.last_offset
    return ""


def _problem(view: tuple[LogSegment, ...], entries: Sequence[AbortedTxn]) -> str:
    """Text that says which entry the log contradicts; empty if none. A gap in the log contradicts nothing."""
    for txn in entries:
        marker = _batch_at(view, txn.last_offset)
        if marker is not None and not _is_abort(*marker, txn):
            return f"no abort of producer {txn.producer_id} at offset {txn.last_offset}"
        if txn.first_offset < view[0].base_offset:
            continue  # retention has taken it
        first = _batch_at(view, txn.first_offset)
        if first is None:
            continue
        header = first[0]
        is_data = header.is_transactional and not header.is_control
        if header.base_offset != txn.first_offset or header.producer_id != txn.producer_id or not is_data:
            return f"offset {txn.first_offset} does not begin a transaction of producer {txn.producer_id}"
    return ""


def _batch_at(view: tuple[LogSegment, ...], offset: int) -> tuple[BatchHeader, list[Record]] | None:
    """The batch at the offset, with its records if it is a control batch; None if the log has none there."""
    segment = view[max(0, floor_index(view, offset))]
    found = segment.find(offset, segment.size)
    if found is None:
        return None
    file = segment.lease_file()
    try:
        for header in file_records.read_headers(file, found.position, found.position + found.size):
            if header.base_offset > offset:
                return None
            return header, list(file_records.read_records(file, header)) if header.is_control else []
        return None
    finally:
        file.release()


def _is_abort(header: BatchHeader, records: list[Record], txn: AbortedTxn) -> bool:
    if not header.is_control or header.producer_id != txn.producer_id or header.base_offset != txn.last_offset:
        return False
    markers = [parse_transaction_marker(record.key, record.value) for record in records]
    return not records or any(marker is not None and not marker.is_commit for marker in markers)


def _rebuild(
    directory: LogDirectory,
    view: tuple[LogSegment, ...],
    wrong: list[int],
    ends: list[int],
    snapshots: Collection[int],
    time: Time,
) -> None:
    """Rewrite the indexes at `wrong` from a walk that begins at the log's first segment: a transaction may begin anywhere
    before its marker. Of one that began in a segment that is deleted by now the snapshot at the first one tells.
    """
    first = view[0].base_offset
    producers = ProducerStateManager(directory.path, directory.file_system, time)
    producers.found_snapshots({first}.intersection(snapshots))
    replay = ProducerReplay(directory, producers, time)
    replay.catch_up((), first, first)
    found = replay.aborted_of(view[: wrong[-1] + 1])
    for number in wrong:
        base = view[number].base_offset
        _write(directory, base, [txn for txn in found if base <= txn.last_offset < ends[number]])
