"""Reading Apache Kafka's metadata log, from the one in tests/golden and from built ones; writing snapshots of our own.

That Kafka reads them is for tests/compat.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.record_batch import Record, iterate_batches, iterate_records
from tidelog.storage.exceptions import DataDirectoryError
from tidelog.storage.inspect.metadata_log import (
    KRAFT_VERSION,
    METADATA_LOG_DIRECTORY,
    SNAPSHOT_HEADER,
    MetadataLogFiles,
    MetadataLogReader,
    SnapshotId,
    find_metadata_log,
    write_snapshot,
)
from tidelog.storage.io.filesystem import RealFileSystem

GOLDEN = Path(__file__).parents[3] / "golden" / "kafka-data" / "data"
FILES = RealFileSystem()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / METADATA_LOG_DIRECTORY
    made.mkdir()
    return made


def batch(first: int, *values: bytes, epoch: int = 1) -> bytes:
    records = [Record(0, 5, None, value) for value in values]
    return build_batch(records, base_offset=first, partition_leader_epoch=epoch)


def segment(path: Path, *batches: bytes, base_offset: int = 0) -> Path:
    file = path / f"{base_offset:020d}.log"
    file.write_bytes(b"".join(batches))
    return file


def found(path: Path) -> MetadataLogFiles:
    files = find_metadata_log(FILES, [str(path.parent)])
    assert files is not None
    return files


def read(path: Path) -> tuple[list[bytes], MetadataLogReader]:
    reader = MetadataLogReader(FILES, found(path))
    return list(reader), reader


def test_kafkas_own() -> None:
    files = find_metadata_log(FILES, [str(GOLDEN.parent), str(GOLDEN)])
    assert files is not None
    assert files.snapshot is None
    assert files.segments == ((0, 17743),)
    reader = MetadataLogReader(FILES, files)
    assert len(list(reader)) == 272
    assert (reader.end_offset, reader.epoch, reader.cut_bytes) == (273, 1, 0)


def test_where_kafka_never_was(tmp_path: Path) -> None:
    assert find_metadata_log(FILES, [str(tmp_path)]) is None
    (tmp_path / METADATA_LOG_DIRECTORY).mkdir()
    assert find_metadata_log(FILES, [str(tmp_path)]) is None


def test_a_snapshot_and_the_log_behind_it(path: Path) -> None:
    segment(path, batch(0, b"a", b"b"), batch(2, b"c", b"d"), batch(4, b"e", epoch=3))
    write_snapshot(FILES, path, SnapshotId(2, 1), [b"old"], timestamp=5)
    write_snapshot(FILES, path, SnapshotId(3, 1), [b"a+b+c"], timestamp=5)
    values, reader = read(path)
    assert values == [b"a+b+c", b"d", b"e"]
    assert (reader.end_offset, reader.epoch) == (5, 3)


def test_a_snapshot_that_is_newer_than_all_of_the_log(path: Path) -> None:
    segment(path, batch(0, b"a"), batch(1, b"b", epoch=4))
    write_snapshot(FILES, path, SnapshotId(9, 5), [b"x"], timestamp=5, control_values=[(KRAFT_VERSION, b"kv")])
    values, reader = read(path)
    assert values == [b"x"]
    assert (reader.end_offset, reader.epoch) == (9, 5)
    assert reader.control_values[KRAFT_VERSION] == b"kv"


def test_bytes_of_a_snapshot(tmp_path: Path) -> None:
    path = tmp_path / METADATA_LOG_DIRECTORY
    write_snapshot(FILES, str(path), SnapshotId(300, 2), [bytes([n]) * 100_000 for n in range(9)], timestamp=1234)
    [file] = path.iterdir()
    assert file.name == "00000000000000000300-0000000002.checkpoint"
    data = file.read_bytes()
    batches = list(iterate_batches(data))
    assert [one.is_control for one in batches] == [True, False, False, False, True]
    assert [one.base_offset for one in batches] == [0, 1, 4, 7, 10]
    assert {one.partition_leader_epoch for one in batches} == {2}
    [header] = iterate_records(data)
    assert (header.key, header.value) == (b"\0\0\0\3", b"\0\0" + (1234).to_bytes(8, "big") + b"\0")
    [footer] = iterate_records(data, batches[-1].position)
    assert (footer.key, footer.value) == (b"\0\0\0\4", b"\0\0\0")


def test_what_a_kill_left_at_the_end_is_left_out(path: Path) -> None:
    good, torn = batch(0, b"a", b"b"), batch(2, b"c")
    for tail in (torn[:-1], torn[:10], b"\0" * 500, torn[:-1] + b"?"):
        file = segment(path, good, tail)
        values, reader = read(path)
        assert values == [b"a", b"b"]
        assert (reader.end_offset, reader.cut_bytes) == (2, len(tail))
        assert file.read_bytes() == good + tail


def test_damage_anywhere_else_is_an_error(path: Path) -> None:
    segment(path, batch(0, b"a")[:-1] + b"?")
    segment(path, batch(1, b"b"), base_offset=1)
    with pytest.raises(DataDirectoryError, match=r"batch at byte 0 is damaged; start Apache Kafka once"):
        read(path)


def test_records_that_are_missing(path: Path) -> None:
    segment(path, batch(7, b"a"), base_offset=7)
    with pytest.raises(DataDirectoryError, match="records 0 to 6 are missing"):
        read(path)


def test_a_snapshot_that_is_not_whole(path: Path) -> None:
    write_snapshot(FILES, path, SnapshotId(3, 1), [b"x"], timestamp=5)
    [file] = path.iterdir()
    whole = file.read_bytes()
    *_, footer = iterate_batches(whole)
    file.write_bytes(whole[: footer.position])
    with pytest.raises(DataDirectoryError, match="no footer"):
        read(path)
    file.write_bytes(whole[:-1])
    with pytest.raises(DataDirectoryError, match="damaged"):
        read(path)
    file.write_bytes(whole + batch(9, b"more"))
    with pytest.raises(DataDirectoryError, match="follows its footer"):
        read(path)


def test_batches_larger_than_a_chunk(path: Path) -> None:
    large = [bytes([n]) * 1_500_000 for n in range(3)]
    segment(path, *(batch(n, value) for n, value in enumerate(large)), batch(3, b"small"))
    assert read(path)[0] == [*large, b"small"]


def test_the_position_changes_with_every_batch(path: Path) -> None:
    segment(path, batch(0, b"a"))
    seen = {found(path).position}
    segment(path, batch(0, b"a"), batch(1, b"b"))
    seen.add(found(path).position)
    write_snapshot(FILES, path, SnapshotId(2, 1), [b"x"], timestamp=5)
    seen.add(found(path).position)
    segment(path, base_offset=2)
    seen.add(found(path).position)
    assert len(seen) == 4


def test_control_records_are_no_data() -> None:
    files = find_metadata_log(FILES, [str(GOLDEN)])
    assert files is not None
    reader = MetadataLogReader(FILES, files)
    list(reader)
    assert set(reader.control_values) == {2}
    assert SNAPSHOT_HEADER not in reader.control_values


def test_nothing_is_changed_by_reading(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / METADATA_LOG_DIRECTORY, tmp_path / METADATA_LOG_DIRECTORY)
    before = {file.name: file.read_bytes() for file in (tmp_path / METADATA_LOG_DIRECTORY).iterdir()}
    read(tmp_path / METADATA_LOG_DIRECTORY)
    assert {file.name: file.read_bytes() for file in (tmp_path / METADATA_LOG_DIRECTORY).iterdir()} == before
