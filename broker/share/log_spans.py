"""Spans of a log slice, for share groups: offsets of its batches, their positions, and which of them were aborted.

Reads batch headers, never records. Loop thread, for slices whose headers are in memory.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.records.record_batch import MAGIC_V2
from ...storage.segment.file_records import read_headers
from .partition import Acquired, Span

if TYPE_CHECKING:
    from ...storage.index.transaction_index import AbortedTxn
    from ...storage.values import FetchDataInfo


_first_offset_of = attrgetter("first_offset")


class SliceSpans(NamedTuple):
    """`ends`: the position in the file behind each span's batch."""

    spans: Sequence[Span]
    ends: Sequence[int]
    aborted: Sequence[Span]


def read_spans(info: FetchDataInfo, until: int, aborted: Sequence[AbortedTxn] = ()) -> SliceSpans:
    """Read the spans of a slice's whole batches, up to the one that holds offset `until`.

    A message of format 0 or 1 counts as a batch. OSError, CorruptRecordError.
    """
    spans: list[Span] = []
    ends: list[int] = []
    lost: list[Span] = []
    if info.file is None:
        return SliceSpans((), (), ())
    own: dict[int, list[AbortedTxn]] = {}
    for txn in aborted:  # in the log's order; those of one producer do not overlap
        own.setdefault(txn.producer_id, []).append(txn)
    for header in read_headers(info.file, info.position, info.position + info.size):
        base, last = header.base_offset, header.last_offset
        if header.magic < MAGIC_V2 and header.compression:  # a wrapper tells its last offset alone
            base = spans[-1].last + 1 if spans else min(info.offset, last)
        span = Span(base, last)
        spans.append(span)
        ends.append(header.position + header.size)
        if aborted and header.is_transactional and not header.is_control:
            txns = own.get(header.producer_id, ())
            before = bisect_right(txns, base, key=_first_offset_of)
            if before and base <= txns[before - 1].last_offset:
                lost.append(span)
        if last >= until:
            break
    return SliceSpans(spans, ends, lost)


def place_of(acquired: Sequence[Acquired], read: SliceSpans, start: int) -> tuple[int, int]:
    """(position, size) of the batches that hold what was acquired; `start` is where the first batch of the slice lies."""
    first, last = acquired[0].first, acquired[-1].last
    begin = end = start
    for span, behind in zip(read.spans, read.ends, strict=True):
        if span.last < first:
            begin = behind
        elif span.base > last:
            break
        end = behind
    return begin, end - begin
