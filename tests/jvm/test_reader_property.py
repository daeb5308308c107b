"""The reader in Java gives the rows of the reader in Python, for any log and any damage, or refuses with it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.columns import Row, rows_of
from support.jvm import LEAST, MOST, Jvm, JvmError
from support.pipeline_logs import RandomLog, random_logs
from support.segment_dirs import write_checkpoint, write_segment
from tidelog.pipeline.exceptions import CorruptLogError, DataLossError, DirectoryError
from tidelog.pipeline.planning.log_directory import LogDirectories
from tidelog.pipeline.planning.places import TopicPartition
from tidelog.pipeline.planning.splits import LOOK_UP, Split, plan
from tidelog.pipeline.reading.columns import Wish
from tidelog.pipeline.reading.segment_files import list_segments
from tidelog.pipeline.reading.segment_reader import read_split
from tidelog.protocol.records.memory_records import iterate_batches, read_header

KINDS = {
    CorruptLogError: "CorruptLogException",
    DataLossError: "DataLostException",
    DirectoryError: "LogException",
}

one_jvm = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@contextmanager
def home_of(log: RandomLog, interval: int) -> Iterator[Path]:
    home = Path(tempfile.mkdtemp())
    try:
        log.write(home / "t-3", interval)
        yield home
    finally:
        shutil.rmtree(home)


def python(directory: Path, first: int, end: int, wish: Wish, how: str) -> list[Row] | str:
    """Rows, or the name of Java's exception for the same."""
    split = Split("t", 3, first, end, list_segments(directory)[0], LOOK_UP)
    try:
        parts = list(
            read_split(
                split, wish, read_committed="c" in how, check_crc="n" not in how,
                fail_on_data_loss="g" not in how, skip_corrupt="s" in how,
            )
        )  # fmt: skip
    except (CorruptLogError, DataLossError) as error:
        return KINDS[type(error)]
    return [row for columns in parts for row in rows_of(columns)]


def java(jvm: Jvm, directory: Path, first: int, end: int, wish: Wish, how: str) -> list[Row] | str:
    wanted = (("k", wish.keys), ("v", wish.values), ("h", wish.headers), ("t", wish.timestamps))
    columns = "".join(letter for letter, is_wanted in wanted if is_wanted)
    try:
        return jvm.rows(
            directory.parent, "t", 3, first, end, columns=columns, least=wish.min_timestamp, most=wish.max_timestamp, how=how
        )  # fmt: skip
    except JvmError as error:
        return error.kind


def shown(rows: list[Row] | str, wish: Wish) -> list[Row] | str:
    """Without the timestamps that were not asked for: they are zeros, or right."""
    if isinstance(rows, str) or wish.timestamps:
        return rows
    return [row._replace(timestamp=0) for row in rows]


@st.composite
def wishes(draw: st.DrawFn, log: RandomLog) -> Wish:
    times = [LEAST, 0, 2**40, 1_600_000_002_000, 2**62, MOST]
    times += [row.timestamp // 1000 for row, _ in log.rows]
    flags = [draw(st.booleans()) for _ in range(4)]
    if draw(st.booleans()):
        return Wish(*flags)
    return Wish(*flags, min_timestamp=draw(st.sampled_from(times)), max_timestamp=draw(st.sampled_from(times)))


def damage(draw: st.DataObject, directory: Path) -> None:
    """Nothing, or what disks and crashes do to one segment."""
    path = draw.draw(st.sampled_from(sorted(directory.glob("*.log"))))
    data = bytearray(path.read_bytes())
    at = draw.draw(st.integers(0, len(data) - 1))
    match draw.draw(st.sampled_from(["nothing", "flip", "cut", "zeros", "hole", "garbage"])):
        case "flip":
            data[at] ^= 1 << draw.draw(st.integers(0, 7))
        case "cut":
            del data[at:]
        case "zeros":
            data += bytes(draw.draw(st.integers(1, 200)))
        case "hole":
            data[at : at + 100] = bytes(len(data[at : at + 100]))
        case "garbage":
            data[at:at] = draw.draw(st.binary(min_size=1, max_size=80))
    with path.open("r+b") as file:  # the inode stays
        file.truncate(0)
        file.write(data)


@one_jvm
@given(random_logs(least_format=2), st.integers(0, 400), st.sampled_from(["", "c"]), st.data())
def test_rows_are_those_that_were_written(
    jvm: Jvm, log: RandomLog, interval: int, how: str, data: st.DataObject
) -> None:
    first, end = data.draw(st.integers(log.first, log.end)), data.draw(st.integers(0, log.end))
    with home_of(log, interval) as home:
        found = java(jvm, home / "t-3", first, end, Wish(headers=True), how)
        assert found == log.expected(first, end, read_committed=how == "c")
        assert jvm.count(home, "t", 3, first, end, how=how) == len(found)


@one_jvm
@given(random_logs(least_format=2), st.integers(0, 400), st.sampled_from(["", "c", "g", "s", "cs"]), st.data())
def test_whatever_is_damaged_or_cleaned_gets_the_verdict_of_the_reader_in_python(
    jvm: Jvm, log: RandomLog, interval: int, how: str, data: st.DataObject
) -> None:
    first, end = data.draw(st.integers(0, log.end)), data.draw(st.integers(0, log.end + 3))
    wish = data.draw(wishes(log))
    with home_of(log, interval) as home:
        directory = home / "t-3"
        is_cleaned = data.draw(st.booleans())
        if is_cleaned:  # a pass removes some and groups all segments into one, which has the first one's name
            names = [segment.base_offset for segment in list_segments(directory)]
            kept = [batch for segment in log.segments for batch in segment if data.draw(st.booleans())]
            write_segment(directory, names[0], kept or [log.segments[-1][-1]], index_interval=interval)
            for name in names[1:]:
                (directory / f"{name:020d}.log").unlink()
        damage(data, directory)
        if is_cleaned:
            write_segment(directory, log.end, [])  # the active one, which cleaning leaves
        expected = shown(python(directory, first, end, wish, how), wish)
        assert shown(java(jvm, directory, first, end, wish, how), wish) == expected
        rows = python(directory, first, end, Wish(), how)
        if not isinstance(rows, str):
            assert jvm.count(home, "t", 3, first, end, how=how) == len(rows)


@one_jvm
@given(random_logs(), st.integers(0, 400), st.integers(1, 900), st.data())
def test_a_plan_is_that_of_python(
    jvm: Jvm, log: RandomLog, interval: int, split_bytes: int, data: st.DataObject
) -> None:
    where = TopicPartition("t", 3)
    with home_of(log, interval) as home:
        if data.draw(st.booleans()):  # the room that an active segment has reserved
            with max((home / "t-3").glob("*.log")).open("ab") as file:
                file.write(bytes(data.draw(st.sampled_from([1, 25, 26, 5000]))))
        # A high watermark below the end of the log, an empty file, no file, and one that is damaged.
        ends = home / "replication-offset-checkpoint"
        match data.draw(st.sampled_from(["all", "some", "empty", "none", "damaged", "another"])):
            case "all":
                write_checkpoint(ends, {("t", 3): log.end})
            case "some":
                write_checkpoint(ends, {("t", 2): 1, ("t", 3): data.draw(st.integers(log.first, log.end))})
            case "empty":
                ends.write_bytes(b"")
            case "damaged":
                ends.write_bytes(b"0\n2\nt 3 7\n")
            case "another":
                write_checkpoint(ends, {("t", 4): 1})
        write_checkpoint(home / "log-start-offset-checkpoint", {("t", 3): log.start})
        for committed in (False, True):
            try:
                expected = list(LogDirectories([str(home)]).bounds([where], read_committed=committed)[where])
            except DirectoryError:
                expected = None
            try:
                found = jvm.value("bounds", home, "t", 3, "c" if committed else "")
            except JvmError as error:
                assert error.kind == "LogException"
                found = None
            assert found == expected
        times = [0, 1, 2**41, *(row.timestamp // 1000 + more for row, _ in log.rows for more in (0, 1))]
        timestamp = data.draw(st.sampled_from(times))
        if expected is not None:
            try:
                there = jvm.value("at", home, "t", 3, timestamp)
            except JvmError as error:
                assert error.kind == "UnsupportedFormatException"  # a message that holds others has to be opened
            else:
                assert there == [LogDirectories([str(home)]).offsets_at({where: timestamp})[where]]
        first, end = data.draw(st.integers(0, log.end)), data.draw(st.integers(0, log.end + 3))
        splits = plan("t", 3, list_segments(home / "t-3"), first, end, split_bytes)
        edges = [edge for split in splits for edge in (split.first_offset, split.end_offset)]
        assert jvm.value("splits", home, "t", 3, first, end, split_bytes) == edges


@one_jvm
@given(random_logs(), st.data())
def test_a_stream_finds_the_bounds_that_are_found_anew(jvm: Jvm, log: RandomLog, data: st.DataObject) -> None:
    where = TopicPartition("t", 3)
    home = Path(tempfile.mkdtemp())
    try:
        directory = home / "t-3"
        directory.mkdir()
        end = step = 0
        for batches in log.segments:
            first = read_header(batches[0])
            path = directory / f"{end if first.magic < 2 else first.base_offset:020d}.log"
            for batch in batches:
                with path.open("ab") as file:
                    file.write(batch)
                end = max(header.last_offset for header in iterate_batches(batch)) + 1
                if data.draw(st.booleans()):  # another file of the same name, as cleaning leaves
                    path.with_name("new").write_bytes(path.read_bytes())
                    path.with_name("new").replace(path)
                step += 1
                if data.draw(st.booleans()):  # long unchanged: its listing is kept
                    os.utime(directory, (step, step))
                if data.draw(st.booleans()):
                    write_checkpoint(home / "replication-offset-checkpoint", {("t", 3): data.draw(st.integers(0, end))})
                    for committed in (True, False):
                        expected = LogDirectories([str(home)]).bounds([where], read_committed=committed)[where]
                        assert jvm.value("bounds", home, "t", 3, "c" if committed else "") == list(expected)
    finally:
        shutil.rmtree(home)
