"""Random logs for the pipeline's sources: all formats and codecs, gaps, transactions, markers; and what is in them."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import strategies as st
from support.columns import Row
from support.fake_kafka import FakeLog
from support.record_strategies import batch_arguments, records
from support.segment_dirs import write_log
from tidelog.protocol.records.attributes import Compression, TimestampType
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.legacy_record import build_legacy_set
from tidelog.protocol.records.memory_records import iterate_batches, iterate_records
from tidelog.protocol.records.record_batch import Record
from tidelog.storage.index.time_index import TimeIndex
from tidelog.storage.index.transaction_index import AbortedTxn, TransactionIndex
from tidelog.storage.io.filesystem import RealFileSystem
from tidelog.storage.segment.names import TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX, file_name

MOST_US = 2**63 - 1
PRODUCERS = (7, 8)


@dataclass
class RandomLog:
    """`rows` in order, each with whether its transaction was aborted; `aborted`: (producer, first offset, marker)."""

    segments: list[list[bytes]] = field(default_factory=lambda: [[]])
    rows: list[tuple[Row, bool]] = field(default_factory=list)
    aborted: list[tuple[int, int, int]] = field(default_factory=list)
    first: int = 0
    start: int = 0
    end: int = 0
    stable: int = 0

    def expected(self, first: int, end: int, *, read_committed: bool) -> list[Row]:
        """Rows of [first, end), by definition."""
        return [row for row, gone in self.rows if first <= row.offset < end and not (read_committed and gone)]

    def broker(self) -> FakeLog:
        batches = [one for segment in self.segments for one in segment]
        return FakeLog(batches, self.start, self.end, self.stable, self.aborted)

    def write(self, directory: Path, interval: int) -> None:
        """Segments, their indexes, and the transaction index of each."""
        write_log(directory, self.segments, index_interval=interval)
        bases = sorted(int(path.stem) for path in directory.glob("*.log"))
        for base, batches in zip(bases, self.segments, strict=True):
            entries, largest = b"", -1
            for one in batches:
                young = max((r for r in iterate_records(one)), key=lambda r: r.timestamp, default=None)
                if young is not None and young.timestamp > largest:
                    largest = young.timestamp
                    last = max(header.last_offset for header in iterate_batches(one))
                    entries += TimeIndex.ENTRY.pack(largest, last - base)
            (directory / file_name(base, TIME_INDEX_SUFFIX)).write_bytes(entries + bytes(24))
        for producer, first, marker in self.aborted:
            base = max(one for one in bases if one <= marker)
            path = directory / file_name(base, TRANSACTION_INDEX_SUFFIX)
            index = TransactionIndex(RealFileSystem(), path, base)
            # Committed data ended there, when the marker came, before those that were open still.
            stable = min((other for _, other, end in self.aborted if end > marker), default=marker + 1)
            index.append(AbortedTxn(producer, first, marker, min(stable, marker + 1)))
            index.close()


@st.composite
def random_logs(draw: st.DrawFn, least_format: int = 0) -> RandomLog:
    """Legacy formats first, if any; some transactions stay open."""
    log = RandomLog()
    log.first = end = draw(st.integers(0, 50))
    oldest = draw(st.integers(least_format, 2))
    open_since: dict[int, int] = {}
    members: dict[int, list[int]] = {}
    for _ in range(draw(st.integers(1, 14))):
        magic = oldest = draw(st.integers(oldest, 2))
        producer = draw(st.sampled_from((*PRODUCERS, -1))) if magic == 2 else -1
        own = {"producer_id": producer, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
        if producer >= 0 and producer in open_since and draw(st.booleans()):
            commit = draw(st.booleans())
            marker = Record(0, 1, struct.pack(">hh", 0, int(commit)), struct.pack(">hi", 0, 0))
            log.segments[-1].append(build_batch([marker], base_offset=end, is_control=True, **own))
            first = open_since.pop(producer)
            for index in members.pop(producer):
                log.rows[index] = (log.rows[index][0], not commit)
            if not commit:
                log.aborted.append((producer, first, end))
            last = end
        else:
            content = draw(records(min_size=1, max_size=6))
            deltas = sorted(draw(st.sets(st.integers(0, 20), min_size=len(content), max_size=len(content))))
            offsets = [end + delta for delta in deltas]
            last = offsets[-1]
            if magic == 2:
                arguments = {**draw(batch_arguments()), "is_transactional": False}
                if producer >= 0:
                    arguments.update(own)
                    open_since.setdefault(producer, end)
                data = build_batch(content, base_offset=end, offsets=offsets, last_offset=last, **arguments)
            else:
                codec = draw(st.sampled_from(list(Compression)[:4]))
                data = build_legacy_set(
                    content, magic=magic, base_offset=offsets[0], offsets=offsets, compression=codec
                )
            for record, offset in zip(content, offsets, strict=True):
                time, kind = (record.timestamp, int(TimestampType.CREATE_TIME)) if magic else (-1, -1)
                us = min(time * 1000, MOST_US)
                if producer >= 0:
                    members.setdefault(producer, []).append(len(log.rows))
                headers = record.headers if magic == 2 else ()
                log.rows.append((Row(offset, us, kind, record.key, record.value, headers), False))
            log.segments[-1].append(data)
        end = last + 1 + draw(st.sampled_from([0, 0, 0, 7]))
        if draw(st.integers(0, 3)) == 0:
            log.segments.append([])
    log.segments = [segment for segment in log.segments if segment]
    log.end = end = last + 1  # without a segment behind it a log ends with its last batch
    log.stable = min(open_since.values(), default=end)
    log.start = draw(st.integers(log.first, end))
    return log
