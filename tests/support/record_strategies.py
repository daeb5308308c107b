"""Hypothesis strategies for records, whole V2 batches, and message sets of formats 0 and 1."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from tidelog.protocol.records.attributes import Compression, TimestampType
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.legacy_record import build_legacy_set
from tidelog.protocol.records.record_batch import Record

# Around varint widths: 63/64 and 8191/8192 change the size of a length field.
SIZES = st.sampled_from([0, 1, 5, 62, 63, 64, 65, 300, 8191, 8192, 9000])
DATA = st.one_of(st.binary(max_size=80), SIZES.map(lambda size: bytes(range(256)) * (size // 256) + bytes(size % 256)))
HEADER_KEYS = st.one_of(st.just(b""), st.text(max_size=6).map(lambda text: text.encode("utf-8", "ignore")))
HEADERS = st.lists(st.tuples(HEADER_KEYS, st.none() | st.binary(max_size=40)), max_size=4).map(tuple)
TIMESTAMPS = st.one_of(
    st.integers(1_600_000_000_000, 1_600_000_005_000),
    st.just(-1),
    st.sampled_from([0, 1, 2**31, 2**40, 2**62]),
)


@st.composite
def records(draw: st.DrawFn, min_size: int = 1, max_size: int = 12) -> list[Record]:
    """Records with consecutive offsets from 0."""
    count = draw(st.integers(min_size, max_size))
    return [
        Record(offset, draw(TIMESTAMPS), draw(st.none() | DATA), draw(st.none() | DATA), draw(HEADERS))
        for offset in range(count)
    ]


@st.composite
def batch_arguments(draw: st.DrawFn) -> dict[str, Any]:
    """Keyword arguments of `build_batch` for what a well-behaved client sends."""
    producer = draw(st.booleans())
    return {
        "compression": draw(st.sampled_from(list(Compression))),
        "producer_id": draw(st.integers(0, 2**63 - 1)) if producer else -1,
        "producer_epoch": draw(st.integers(0, 2**15 - 1)) if producer else -1,
        "base_sequence": draw(st.integers(0, 2**31 - 1)) if producer else -1,
        "is_transactional": producer and draw(st.booleans()),
    }


@st.composite
def client_batches(draw: st.DrawFn) -> bytes:
    """One batch as a client sends it."""
    return build_batch(draw(records()), **draw(batch_arguments()))


@st.composite
def stored_batches(draw: st.DrawFn, base_offset: int = 0) -> bytes:
    """One batch as a log may hold it: offsets with gaps, control, delete horizon, append time, perhaps empty."""
    content = draw(records(min_size=0, max_size=6))
    deltas = sorted(draw(st.sets(st.integers(0, 40), min_size=len(content), max_size=len(content))))
    last = max([*deltas, 0]) + draw(st.integers(0, 5))
    return build_batch(
        content,
        base_offset=base_offset,
        offsets=[base_offset + delta for delta in deltas],
        last_offset=base_offset + last,
        timestamp_type=draw(st.sampled_from(TimestampType)),
        append_time=draw(st.integers(0, 2**41)),
        is_control=draw(st.booleans()),
        delete_horizon=draw(st.none() | st.integers(0, 2**41)),
        partition_leader_epoch=draw(st.integers(-1, 2**31 - 1)),
        **draw(batch_arguments()),
    )


@st.composite
def legacy_sets(draw: st.DrawFn, base_offset: int = 0) -> bytes:
    """Messages of format 0 or 1 as a log may hold them, one wrapper or several plain ones, offsets with gaps."""
    content = draw(records(min_size=1, max_size=6))
    deltas = sorted(draw(st.sets(st.integers(0, 40), min_size=len(content), max_size=len(content))))
    return build_legacy_set(
        content,
        magic=draw(st.integers(0, 1)),
        base_offset=base_offset + deltas[0],
        offsets=[base_offset + delta for delta in deltas],
        compression=draw(st.sampled_from(list(Compression)[:4])),
        timestamp_type=draw(st.sampled_from(TimestampType)),
        append_time=draw(st.integers(0, 2**41)),
    )
