"""Random logs for the cleaner's kernel: whole batches in offset order, with what the transaction indexes would say."""

from __future__ import annotations

import struct
from typing import NamedTuple

from hypothesis import strategies as st
from tidelog.protocol.records.attributes import Compression, TimestampType
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.record_batch import Record

NOW = 1_700_000_000_000
KEYS = [b"", b"a", b"b", b"c", b"long key " * 9, b"\x00" * 16]


class RandomLog(NamedTuple):
    """Attributes: `data`: the batches, end to end; `end_offset`: the next offset; `aborted`: producer, first offset,
    offset of the abort marker; `boundaries`: base and end offsets of the batches, in order.
    """

    data: bytes
    end_offset: int
    aborted: list[tuple[int, int, int]]
    boundaries: list[int]


def marker(offset: int, producer_id: int, epoch: int, commit: bool, delete_horizon: int | None = None) -> bytes:
    """A transaction marker as Kafka's coordinator writes it."""
    record = Record(offset, NOW - 1000, struct.pack(">hh", 0, int(commit)), struct.pack(">hi", 0, 0))
    return build_batch(
        [record],
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=epoch,
        is_transactional=True,
        is_control=True,
        delete_horizon=delete_horizon,
    )


@st.composite
def record_lists(draw: st.DrawFn, large: bool) -> list[Record]:
    """Records of one batch; keys repeat, some are null, some values are."""
    count = draw(st.sampled_from([1, 2, 3, 5, 33, 40] if large else [1, 1, 2, 3, 5]))
    return [
        Record(
            0,
            NOW + draw(st.integers(-5000, 5000)),
            draw(st.sampled_from(KEYS)) if draw(st.integers(0, 9)) else None,
            draw(st.sampled_from([b"", b"value", b"x" * 200])) if draw(st.integers(0, 4)) else None,
            ((b"h", None), (b"i", b"j")) if draw(st.integers(0, 9)) == 0 else (),
        )
        for _ in range(count)
    ]


HORIZONS = st.sampled_from([None, None, None, NOW - 10, NOW, NOW + 10])


@st.composite
def random_logs(draw: st.DrawFn, codecs: tuple[Compression, ...] = tuple(Compression)) -> RandomLog:
    """Up to a dozen batches of plain, idempotent and transactional producers, with gaps, markers and emptied batches."""
    data = b""
    offset = draw(st.integers(0, 3))
    running: dict[int, int] = {}
    aborted = []
    boundaries = []
    for _ in range(draw(st.integers(1, 12))):
        producer = draw(st.sampled_from([-1, -1, 1, 2, 3]))
        offset += draw(st.sampled_from([0, 0, 0, 2]))
        boundaries.append(offset)
        if producer in running and draw(st.booleans()):
            commit = draw(st.booleans())
            data += marker(offset, producer, 0, commit, draw(HORIZONS))
            first = running.pop(producer)
            if not commit:
                aborted.append((producer, first, offset))
            offset += 1
            continue
        transactional = producer > 1
        records = draw(record_lists(large=not draw(st.integers(0, 3))))
        gaps = draw(st.integers(0, 1)) and [draw(st.integers(0, 2)) for _ in records]
        offsets = [offset + index + (sum(gaps[: index + 1]) if gaps else 0) for index in range(len(records))]
        last = offsets[-1] + draw(st.sampled_from([0, 0, 1]))
        if draw(st.integers(0, 9)) == 0:
            records, offsets = [], []
        append_time = draw(st.integers(0, 4)) == 0
        if transactional:
            running.setdefault(producer, offset)
        data += build_batch(
            records,
            base_offset=offset,
            offsets=offsets,
            last_offset=last,
            compression=draw(st.sampled_from(codecs)),
            timestamp_type=TimestampType.LOG_APPEND_TIME if append_time else TimestampType.CREATE_TIME,
            append_time=NOW - 77,
            producer_id=producer,
            producer_epoch=-1 if producer < 0 else 0,
            base_sequence=-1 if producer < 0 else 7,
            is_transactional=transactional,
            partition_leader_epoch=draw(st.integers(0, 3)),
            delete_horizon=draw(HORIZONS),
        )
        offset = last + 1
        boundaries.append(offset)
    for producer, first in running.items():  # every transaction below the last stable offset is decided
        commit = draw(st.booleans())
        data += marker(offset, producer, 0, commit)
        if not commit:
            aborted.append((producer, first, offset))
        offset += 1
    return RandomLog(data, offset, aborted, boundaries)
