"""Where a partition can be read, by what its directory says."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.segment_dirs import write_checkpoint, write_log
from tidelog.pipeline.exceptions import CorruptLogError, DirectoryError, TopicError
from tidelog.pipeline.planning.log_directory import LogDirectories
from tidelog.pipeline.planning.places import Bounds, TopicPartition
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.record_batch import Record
from tidelog.storage.io.filesystem import RealFileSystem
from tidelog.storage.ledger.ledger import DELETE_RECORDS, LEDGER_FILE, RETENTION, Ledger, encode
from tidelog.storage.log.partition_metadata import decode_uuid, write_partition_metadata
from tidelog.storage.producers.entry import ProducerStateEntry
from tidelog.storage.producers.snapshot import encode_snapshot


def batch(offset: int, producer: int = -1, *, is_control: bool = False) -> bytes:
    fields = {"producer_id": producer, "producer_epoch": 0, "base_sequence": 0} if producer >= 0 else {}
    return build_batch(
        [Record(0, 1, b"k", b"v")], base_offset=offset, is_transactional=producer >= 0, is_control=is_control, **fields
    )


@pytest.fixture
def home(tmp_path: Path) -> Path:
    write_log(tmp_path / "t-0", [[batch(5), batch(6)], [batch(7), batch(8)]])
    write_log(tmp_path / "t-11", [[batch(0)]])
    write_log(tmp_path / "a-b-0", [[batch(0)]])
    (tmp_path / "gone-0.0123456789abcdef-delete").mkdir()
    (tmp_path / "no partition").mkdir()
    return tmp_path


def test_topics_and_partitions_are_those_that_are_alive(home: Path, tmp_path: Path) -> None:
    second = tmp_path / "second"
    write_log(second / "t-1", [[batch(0)]])
    found = LogDirectories([str(home), str(second)])
    assert found.topics() == ["a-b", "t"]
    assert found.partitions(["t", "a-b"]) == {"t": [0, 1, 11], "a-b": [0]}
    assert found.directory("t", 1) == str(second / "t-1")


@pytest.mark.parametrize("is_known", [True, False])
def test_room_that_an_active_segment_has_reserved_is_behind_the_end(tmp_path: Path, is_known: bool) -> None:
    """Zeros up to the end of the file (Kafka's `preallocate`), of which as many readers of committed data know as others."""
    write_log(tmp_path / "t-0", [[batch(0), batch(1, 7), batch(2, 7, is_control=True)]])
    path = tmp_path / "t-0" / f"{0:020}.log"
    whole = path.read_bytes()
    if is_known:
        write_checkpoint(tmp_path / "replication-offset-checkpoint", {("t", 0): 3})
    where = TopicPartition("t", 0)
    for room in (1, 30, 70_000):
        path.write_bytes(whole + bytes(room))
        found = LogDirectories([str(tmp_path)])
        for committed in (False, True, True):
            assert found.bounds([where], read_committed=committed) == {where: Bounds(0, 3)}
        assert [found.offsets_at({where: time})[where] for time in (1, 2)] == [0, None]
    path.write_bytes(whole + bytes(100) + whole)
    write_checkpoint(tmp_path / "replication-offset-checkpoint", {("t", 0): 9})
    for what in (lambda: found.offsets_at({where: 2}), lambda: found.bounds([where], read_committed=True)):
        with pytest.raises(CorruptLogError, match=rf"{path}: damaged at byte {len(whole)}"):
            what()


def test_a_partition_that_is_gone_is_named(home: Path) -> None:
    with pytest.raises(TopicError, match="no t-7, u-0 here; the topic was deleted"):
        LogDirectories([str(home)]).bounds(
            [TopicPartition("t", 0), TopicPartition("t", 7), TopicPartition("u", 0)], read_committed=False
        )


def test_a_topic_is_known_by_the_id_in_its_directories(home: Path) -> None:
    write_partition_metadata(RealFileSystem(), home / "t-11", decode_uuid("WSaPqH3DTKKfkASHybcnlA"))
    found = LogDirectories([str(home)])
    assert found.topic_ids({"t", "a-b"}) == {"t": "WSaPqH3DTKKfkASHybcnlA"}
    assert found.topic_ids({"a-b"}) == {}
    (home / "a-b-0" / "partition.metadata").write_text("version: 0")
    with pytest.raises(DirectoryError, match=r"a-b-0/partition\.metadata"):
        found.topic_ids({"a-b"})


def test_what_is_not_there_is_told_with_what_is(home: Path) -> None:
    with pytest.raises(TopicError, match=r"no topic orders here; there are a-b, t"):
        LogDirectories([str(home)]).partitions(["orders"])
    with pytest.raises(DirectoryError, match=r"no such directory; path is a daemon.s log\.dirs"):
        LogDirectories([str(home / "nowhere")])


def test_bounds_are_those_of_the_checkpoints(home: Path) -> None:
    write_checkpoint(home / "replication-offset-checkpoint", {("t", 0): 8})
    assert LogDirectories([str(home)]).partition_bounds("t", 0) == Bounds(5, 8)
    write_checkpoint(home / "log-start-offset-checkpoint", {("t", 0): 6})
    assert LogDirectories([str(home)]).partition_bounds("t", 0) == Bounds(6, 8)
    assert LogDirectories([str(home)]).partition_bounds("t", 11) == Bounds(0, 0), (
        "its daemon has said nothing of it yet"
    )


def test_a_copy_of_partitions_is_read_to_its_end(home: Path) -> None:
    assert LogDirectories([str(home)]).partition_bounds("t", 0) == Bounds(5, 9)


def test_a_damaged_checkpoint_is_told(home: Path) -> None:
    (home / "replication-offset-checkpoint").write_text("0\n1\nt 0\n")
    with pytest.raises(DirectoryError, match="start the daemon once"):
        LogDirectories([str(home)]).partition_bounds("t", 0)


def test_committed_data_ends_before_the_oldest_open_transaction(tmp_path: Path) -> None:
    """Producer 1 is open since 1, by the snapshot; 2 commits; 3 begins at 6, behind it."""
    write_log(
        tmp_path / "t-0",
        [
            [batch(0), batch(1, 1)],
            [batch(2, 2), batch(3), batch(4, 2, is_control=True), batch(5, 1, is_control=True), batch(6, 3)],
        ],
    )
    one = ProducerStateEntry(1, 0, 0, 1, 1, ())
    (tmp_path / "t-0" / f"{2:020d}.snapshot").write_bytes(encode_snapshot([one]))
    ends = {}
    for high_watermark in range(8):
        write_checkpoint(tmp_path / "replication-offset-checkpoint", {("t", 0): high_watermark})
        ends[high_watermark] = LogDirectories([str(tmp_path)]).partition_bounds("t", 0, read_committed=True).end
    assert ends == {0: 0, 1: 1, 2: 1, 3: 1, 4: 1, 5: 1, 6: 6, 7: 6}
    (tmp_path / "t-0" / f"{2:020d}.snapshot").unlink()
    assert LogDirectories([str(tmp_path)]).partition_bounds("t", 0, read_committed=True).end == 6


@pytest.mark.parametrize("name", ["meta.properties", "replication-offset-checkpoint"])
def test_a_directory_of_a_newer_daemon_is_told(home: Path, name: str) -> None:
    """Each of these files begins with its version."""
    (home / name).write_text("version=7\nnode.id=1\ncluster.id=x\n" if name == "meta.properties" else "7\n0\n")
    with pytest.raises(DirectoryError, match=rf"{name}.* version .?7"):
        LogDirectories([str(home)]).partition_bounds("t", 0)


def test_what_has_taken_records_is_told_by_the_ledger(home: Path) -> None:
    found = LogDirectories([str(home)])
    where = TopicPartition("t", 0)
    assert found.why_gone(where, 5) == "retention or DeleteRecords has taken"
    assert found.why_gone(where, 6) == "DeleteRecords has taken", "retention takes whole segments"
    for removed, word in (
        ({RETENTION: 3}, "retention has taken"),
        ({DELETE_RECORDS: 3, RETENTION: 0, "superseded": 9}, "DeleteRecords has taken"),
        ({DELETE_RECORDS: 3, RETENTION: 1}, "retention or DeleteRecords has taken"),
    ):
        (home / "t-0" / LEDGER_FILE).write_bytes(encode(Ledger(first=sum(removed.values()), removed=removed)))
        assert found.why_gone(where, 5) == word
