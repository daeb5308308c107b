"""Whatever a log holds, wherever its splits lie and whatever its daemon does between planning and reading: each record of
the range comes once, in order, as it was written.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from support.columns import Row, rows_of
from support.record_strategies import batch_arguments, records
from support.segment_dirs import write_log, write_segment
from tidelog.pipeline.planning.splits import Split, plan
from tidelog.pipeline.reading.columns import Wish
from tidelog.pipeline.reading.segment_files import list_segments
from tidelog.pipeline.reading.segment_reader import read_split
from tidelog.protocol.records.attributes import Compression, TimestampType
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.legacy_record import build_legacy_set
from tidelog.protocol.records.memory_records import iterate_batches, iterate_records
from tidelog.protocol.records.record_batch import Record

MOST_US = 2**63 - 1


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[list[bytes]], list[Row], int]:
    """Segments of batches of all formats, with the gaps of compaction, their rows, and the log's end."""
    segments: list[list[bytes]] = [[]]
    rows: list[Row] = []
    end = draw(st.integers(0, 50))
    oldest = draw(st.integers(0, 2))
    for _ in range(draw(st.integers(1, 14))):
        content = draw(records(min_size=1, max_size=6))
        deltas = sorted(draw(st.sets(st.integers(0, 20), min_size=len(content), max_size=len(content))))
        offsets = [end + delta for delta in deltas]
        magic, is_control = draw(st.integers(oldest, 2)), False
        if magic == 2:
            is_control = draw(st.sampled_from([False, False, True]))
            content_arguments = draw(batch_arguments())
            data = build_batch(
                content,
                base_offset=end,
                offsets=offsets,
                last_offset=offsets[-1],
                is_control=is_control,
                **content_arguments,
            )
        else:
            codec = draw(st.sampled_from(list(Compression)[:4]))
            data = build_legacy_set(content, magic=magic, base_offset=offsets[0], offsets=offsets, compression=codec)
        for record, offset in zip(content, offsets, strict=True):
            time, kind = (record.timestamp, TimestampType.CREATE_TIME) if magic else (-1, -1)
            us = min(time * 1000, MOST_US)
            if not is_control:
                rows.append(Row(offset, us, int(kind), record.key, record.value, record.headers if magic == 2 else ()))
        # A set of plain messages is several entries.
        segments[-1].append(data)
        last = offsets[-1]
        end = last + 1 + draw(st.sampled_from([0, 0, 0, 7]))
        if draw(st.integers(0, 3)) == 0:
            segments.append([])
    # Without a segment behind it a log ends with its last batch.
    return [segment for segment in segments if segment], rows, last + 1


def iterate_all(data: bytes) -> Iterator[Record]:
    for header in iterate_batches(data):
        yield from iterate_records(data, header.position, header.position + header.size)


def read(splits: list[Split], wish: Wish) -> list[Row]:
    return [row for split in splits for columns in read_split(split, wish) for row in rows_of(columns)]


@given(logs(), st.integers(1, 900), st.integers(0, 400), st.data())
def test_each_record_of_the_range_comes_once(
    log: tuple[list[list[bytes]], list[Row], int], split_bytes: int, interval: int, data: st.DataObject
) -> None:
    segments, rows, log_end = log
    first = data.draw(st.integers(0, log_end))
    end = data.draw(st.integers(0, log_end))
    home = Path(tempfile.mkdtemp())
    try:
        directory = home / "t-3"
        write_log(directory, segments, index_interval=interval)
        first = max(first, list_segments(directory)[0].base_offset)  # what lies before is gone
        splits = plan("t", 3, list_segments(directory), first, end, split_bytes)
        assert [(one.topic, one.partition) for one in splits] == [("t", 3)] * len(splits)
        bounds = [(one.first_offset, one.end_offset) for one in splits]
        assert all(a < b for a, b in bounds)
        assert [b for _, b in bounds[:-1]] == [a for a, _ in bounds[1:]]
        if splits:
            assert (bounds[0][0], bounds[-1][1]) == (first, end)
        else:
            assert first >= end
        cleaned_after = data.draw(st.integers(0, len(splits)))
        found = read(splits[:cleaned_after], Wish(headers=True))
        left = rows
        if data.draw(
            st.booleans()
        ):  # a pass removes some and groups all segments into one, which has the first one's name
            names = [one.base_offset for one in list_segments(directory)]
            kept = [one for segment in segments for one in segment if data.draw(st.booleans())] or [segments[-1][-1]]
            offsets = {record.offset for batch in kept for record in iterate_all(batch)}
            boundary = splits[cleaned_after].first_offset if cleaned_after < len(splits) else end
            left = [row for row in rows if row.offset < boundary or row.offset in offsets]
            write_segment(directory, log_end, [])  # the active one, which cleaning leaves
            write_segment(directory, names[0], kept, index_interval=interval)
            for name in names[1:]:
                (directory / f"{name:020d}.log").unlink()
        found += read(splits[cleaned_after:], Wish(headers=True))
    finally:
        shutil.rmtree(home)
    assert found == [row for row in left if first <= row.offset < end]
