"""What the reader in Java promises by name and no property comes by: what goes while it is read, and what is refused."""

from __future__ import annotations

import ctypes
import os
import select
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from support.columns import Row
from support.jvm import Jvm, JvmError
from support.segment_dirs import write_checkpoint, write_log, write_segment, write_segment_into
from tidelog.pipeline.planning.log_directory import LogDirectories
from tidelog.pipeline.planning.places import TopicPartition
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.legacy_record import build_legacy_set
from tidelog.protocol.records.record_batch import Record
from tidelog.storage.index.offset_index import OffsetIndex
from tidelog.storage.index.time_index import TimeIndex
from tidelog.storage.index.transaction_index import AbortedTxn, TransactionIndex
from tidelog.storage.io.filesystem import RealFileSystem
from tidelog.storage.ledger.ledger import DELETE_RECORDS, LEDGER_FILE, RETENTION, Entry, Ledger, Pending, encode
from tidelog.storage.log.partition_metadata import write_partition_metadata

VALUE = bytes(100_000)


def batch(offset: int, count: int = 1, value: bytes = b"v", **arguments: object) -> bytes:
    content = [Record(0, 5, b"k", value, ()) for _ in range(count)]
    return build_batch(content, base_offset=offset, **arguments)  # type: ignore[arg-type]


def until_error(rows: Iterator[Row], found: list[int]) -> JvmError:
    """Adds the offsets that come before the error."""
    while True:
        try:
            found.append(next(rows).offset)
        except JvmError as error:
            return error


class Opened:
    """How often a directory is opened to be listed, by inotify."""

    _IN_OPEN, _IN_ISDIR = 0x20, 0x4000_0000
    _EVENT = struct.Struct("iIII")  # watch, what, cookie, bytes of the name

    def __init__(self, directory: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd = libc.inotify_init1(os.O_NONBLOCK)
        assert libc.inotify_add_watch(self._fd, bytes(directory), self._IN_OPEN) >= 0, os.strerror(ctypes.get_errno())

    def taken(self) -> int:
        """Since it was asked last."""
        try:
            data, at, times = os.read(self._fd, 1 << 16), 0, 0
        except BlockingIOError:
            return 0
        while at < len(data):
            _, what, _, size = self._EVENT.unpack_from(data, at)
            times += bool(what & self._IN_ISDIR)
            at += self._EVENT.size + size
        return times

    def comes(self, times: int) -> bool:
        """False: not so often within ten seconds."""
        while times > 0 and select.select([self._fd], [], [], 10)[0]:
            times -= self.taken()
        return times <= 0


def test_a_segment_that_is_open_is_read_to_its_end_when_retention_takes_it_and_the_next(
    jvm: Jvm, tmp_path: Path
) -> None:
    # A pipe has room for 64 KiB, so that the reader stands in the first segment until its first row is taken.
    segments = [[batch(at, value=VALUE) for at in range(base, base + 30)] for base in (0, 30, 60)]
    directory = tmp_path / "t-0"
    write_log(directory, segments)
    rows = jvm.stream(tmp_path, "t", 0, 0, 90)
    found = [next(rows).offset]
    for base in (0, 30):
        (directory / f"{base:020d}.log").unlink()
    error = until_error(rows, found)
    assert error.kind == "DataLostException"
    assert "offsets 30 to 59 are gone" in str(error)
    assert found == list(range(30))
    write_log(directory, segments)
    rows = jvm.stream(tmp_path, "t", 0, 0, 90, how="g")
    found = [next(rows).offset]
    for base in (0, 30):
        (directory / f"{base:020d}.log").unlink()
    assert found + [row.offset for row in rows] == [*range(30), *range(60, 90)]


def test_a_segment_that_cleaning_replaces_is_read_as_it_was_and_the_rest_as_it_is(jvm: Jvm, tmp_path: Path) -> None:
    segments = [[batch(at, value=VALUE) for at in range(base, base + 30)] for base in (0, 30)]
    directory = tmp_path / "t-0"
    write_log(directory, segments)
    rows = jvm.stream(tmp_path, "t", 0, 0, 60)
    found = [next(rows).offset]
    write_segment(directory, 60, [])  # the active one, which cleaning leaves
    write_segment(directory, 0, [batch(29), batch(31), batch(45)])
    (directory / f"{30:020d}.log").unlink()
    assert found + [row.offset for row in rows] == [*range(30), 31, 45]


@pytest.mark.parametrize("first", [0, 35, 38])
def test_files_that_end_before_the_split_are_told(jvm: Jvm, tmp_path: Path, first: int) -> None:
    """The daemon has truncated them since, or they are a copy of which its broker knows more."""
    write_log(tmp_path / "t-0", [[batch(at) for at in range(30)], [batch(at) for at in range(30, 36)]])
    with pytest.raises(
        JvmError, match=rf"DataLostException.*t-0: offsets {max(36, first)} to 39 are gone: the files in .* end"
    ):
        jvm.rows(tmp_path, "t", 0, first, 40)
    assert [row.offset for row in jvm.rows(tmp_path, "t", 0, first, 40, how="g")] == list(range(first, 36))
    write_segment(tmp_path / "t-0", 40, [])
    assert [row.offset for row in jvm.rows(tmp_path, "t", 0, first, 40)] == list(range(first, 36))


@pytest.mark.parametrize("is_joined", [False, True])
def test_a_file_with_the_inode_of_one_that_was_read_is_read(jvm: Jvm, tmp_path: Path, is_joined: bool) -> None:
    """Of a later segment, when retention has taken the first one, or of all in one, of a second pass of the cleaner."""
    segments = [[batch(at, value=VALUE) for at in range(base, base + 30)] for base in (0, 30, 60)]
    directory = tmp_path / "t-0"
    write_log(directory, segments)
    rows = jvm.stream(tmp_path, "t", 0, 0, 90)
    found = [next(rows).offset for _ in range(31)]  # the reader stands in the second segment
    base, cleaned = (0, [*segments[0], *segments[1], *segments[2]]) if is_joined else (60, segments[2])
    write_segment_into(directory / f"{0:020d}.log", base, cleaned)
    for name in (30, 60) if is_joined else ():
        (directory / f"{name:020d}.log").unlink()
    assert found + [row.offset for row in rows] == list(range(90))


def test_a_topic_that_was_made_anew_is_lost(jvm: Jvm, tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    segments = [[batch(at, value=VALUE) for at in range(base, base + 30)] for base in (0, 30)]
    write_log(directory, segments)
    write_partition_metadata(RealFileSystem(), str(directory), UUID(int=1))
    rows = jvm.stream(tmp_path, "t", 0, 0, 60)
    found = [next(rows).offset]
    write_partition_metadata(RealFileSystem(), str(directory), UUID(int=2))
    error = until_error(rows, found)
    assert error.kind == "DataLostException"
    assert "made anew" in str(error)
    assert found == list(range(30))


def test_offsets_below_the_first_segment_are_lost(jvm: Jvm, tmp_path: Path) -> None:
    write_log(tmp_path / "t-0", [[batch(7, 3)]])
    with pytest.raises(JvmError, match=r"DataLostException.*offsets 2 to 6 are gone"):
        jvm.rows(tmp_path, "t", 0, 2, 10)
    assert [row.offset for row in jvm.rows(tmp_path, "t", 0, 2, 10, how="g")] == [7, 8, 9]
    assert jvm.value("splits", tmp_path, "t", 0, 2, 7, 1000) == [2, 7], "it is the reader who tells"


def marker(offset: int, producer: int, *, commit: bool) -> bytes:
    content = [Record(0, 1, struct.pack(">hh", 0, int(commit)), struct.pack(">hi", 0, 0))]
    return build_batch(content, base_offset=offset, is_control=True, **transactional(producer))


def transactional(producer: int) -> dict[str, Any]:
    return {"producer_id": producer, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}


def test_committed_data_is_what_transactions_leave_below_the_first_open_one(jvm: Jvm, tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    first = [
        batch(0, 2),
        batch(2, 2, **transactional(7)),
        batch(4, 2, **transactional(8)),
        batch(6),
        marker(7, 7, commit=False),
    ]
    second = [
        marker(8, 8, commit=True),
        batch(9, 2, **transactional(7)),
        batch(11),
        batch(12, **transactional(7)),
        batch(13),
    ]
    write_log(directory, [first, second])
    index = TransactionIndex(RealFileSystem(), directory / f"{0:020d}.txnindex", 0)
    index.append(AbortedTxn(7, 2, 7, 4))
    index.close()
    write_checkpoint(tmp_path / "replication-offset-checkpoint", {("t", 0): 13})
    assert jvm.value("bounds", tmp_path, "t", 0, "") == [0, 13]
    assert jvm.value("bounds", tmp_path, "t", 0, "c") == [0, 9]
    assert [row.offset for row in jvm.rows(tmp_path, "t", 0, 0, 13)] == [0, 1, 2, 3, 4, 5, 6, 9, 10, 11, 12]
    assert [row.offset for row in jvm.rows(tmp_path, "t", 0, 0, 9, how="c")] == [0, 1, 4, 5, 6]
    assert jvm.count(tmp_path, "t", 0, 0, 9, how="c") == 5


def test_a_scan_for_open_transactions_goes_on_in_no_other_file_with_that_inode(jvm: Jvm, tmp_path: Path) -> None:
    """Of a segment that came when the one that was read last was gone, or of that one, when it was cleaned twice."""
    open_one = [batch(at, **transactional(7)) for at in range(10, 12)]
    for topic, base, cleaned in (("t", 20, [batch(20), batch(21)]), ("u", 0, [batch(9), *open_one])):
        directory = tmp_path / f"{topic}-0"
        write_log(directory, [[batch(at) for at in range(10)]])
        write_checkpoint(tmp_path / "replication-offset-checkpoint", {(topic, 0): 10})
        assert jvm.value("bounds", tmp_path, topic, 0, "c") == [0, 10]
        if base:
            write_segment(directory, 10, open_one)
        write_segment_into(directory / f"{0:020d}.log", base, cleaned)
        write_checkpoint(tmp_path / "replication-offset-checkpoint", {(topic, 0): 22})
        assert jvm.value("bounds", tmp_path, topic, 0, "c")[1] == 10


def test_an_abort_that_moves_to_another_index_while_they_are_read_is_found(jvm: Jvm, tmp_path: Path) -> None:
    """Segments are joined behind the first one's index and before the second's; the new index comes behind the new log."""
    directory = tmp_path / "t-0"
    first = [batch(0), batch(2, **transactional(7))]
    second = [batch(4, **transactional(7)), marker(5, 7, commit=False), batch(8)]
    write_log(directory, [first, second])
    one, other = (directory / f"{base:020d}.txnindex" for base in (0, 4))
    other.write_bytes(content := TransactionIndex.encode([AbortedTxn(7, 2, 5, 4)]))
    os.mkfifo(one)
    looks = Opened(directory)
    rows = jvm.stream(tmp_path, "t", 0, 0, 9, how="c")
    with one.open("wb"):  # returns when it is being read
        write_segment(directory, 0, [*first, *second])
        for path in (directory / f"{4:020d}.log", other, one):
            path.unlink()
        (swapped := directory / f"{one.name}.swap").write_bytes(content)
        looks.taken()
    # Who takes what it sees for the truth has come to its end by fewer.
    assert looks.comes(12), "a listing was believed in mid-swap"
    swapped.rename(one)
    assert [row.offset for row in rows] == [0, 8]


def test_a_range_begins_and_ends_within_batches(jvm: Jvm, tmp_path: Path) -> None:
    write_log(tmp_path / "t-0", [[batch(0, 5), batch(5, 5)], [batch(10, 5)]], index_interval=0)
    assert [row.offset for row in jvm.rows(tmp_path, "t", 0, 3, 12)] == list(range(3, 12))
    assert [row.offset for row in jvm.rows(tmp_path, "t", 0, 3, 12, columns="")] == list(range(3, 12))
    assert [row.offset for row in jvm.rows(tmp_path, "t", 0, 7, 8)] == [7]
    assert jvm.rows(tmp_path, "t", 0, 8, 8) == []


def test_an_index_of_another_file_costs_time_and_no_rows(jvm: Jvm, tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    write_log(directory, [[batch(at) for at in range(20)]], index_interval=0)
    index = directory / f"{0:020d}.index"
    index.write_bytes(b"".join(OffsetIndex.ENTRY.pack(at, 75 * at + 7) for at in range(1, 15)))
    assert [row.offset for row in jvm.rows(tmp_path, "t", 0, 10, 20)] == list(range(10, 20))
    write_log(tmp_path / "u-0", [[batch(at) for at in range(20)]], index_interval=0)
    write_checkpoint(tmp_path / "replication-offset-checkpoint", {("u", 0): 20})
    time_index = tmp_path / "u-0" / f"{0:020d}.timeindex"
    time_index.write_bytes(b"".join(TimeIndex.ENTRY.pack(at, at) for at in range(1, 5)))  # every record is of time 5
    assert jvm.value("at", tmp_path, "u", 0, 5) == [0]


@pytest.mark.parametrize("magic", [0, 1])
def test_formats_0_and_1_are_refused_with_the_name_of_the_source_that_reads_them(
    jvm: Jvm, tmp_path: Path, magic: int
) -> None:
    old = build_legacy_set([Record(0, 5, b"k", b"v", ())], magic=magic, base_offset=0)
    write_log(tmp_path / "t-0", [[old, batch(1, 2)]])
    with pytest.raises(JvmError, match=rf"UnsupportedFormatException.*format {magic}.*format\(.*tidelog"):
        jvm.rows(tmp_path, "t", 0, 0, 3)
    assert [row.offset for row in jvm.rows(tmp_path, "t", 0, 1, 3)] == [1, 2]  # behind them nothing is in the way


def test_a_count_believes_headers_and_opens_what_has_gaps(jvm: Jvm, tmp_path: Path) -> None:
    broken = bytearray(batch(10, 5))
    gaps = build_batch([Record(0, 5, b"k", b"v", ())] * 2, base_offset=20, offsets=[20, 23], last_offset=25)
    write_log(tmp_path / "t-0", [[batch(0, 5), bytes(broken), gaps]])
    assert jvm.count(tmp_path, "t", 0, 3, 22) == 2 + 5 + 1
    path = tmp_path / "t-0" / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[len(batch(0, 5)) + 61] = 0  # the first record of the second batch claims no bytes
    path.write_bytes(data)
    assert jvm.count(tmp_path, "t", 0, 0, 26, how="n") == 12
    with pytest.raises(JvmError, match=r"CorruptLogException.*checksum"):
        jvm.count(tmp_path, "t", 0, 0, 26)


def test_a_size_that_a_damaged_header_claims_takes_no_memory(jvm: Jvm, tmp_path: Path) -> None:
    data = bytearray(batch(0, 2))
    data[8:12] = (0x7FFFFF00).to_bytes(4, "big")
    directory = tmp_path / "t-0"
    write_segment(directory, 0, [batch(0, 2)])
    (directory / f"{0:020d}.log").write_bytes(data)
    with pytest.raises(JvmError, match=r"CorruptLogException.*cut off"):
        jvm.rows(tmp_path, "t", 0, 0, 2)
    data = bytearray(batch(0, 2))
    data[57:61] = (0x7FFFFF00).to_bytes(4, "big")
    (directory / f"{0:020d}.log").write_bytes(data)
    with pytest.raises(JvmError, match=r"CorruptLogException.*records in"):
        jvm.rows(tmp_path, "t", 0, 0, 2, how="n")


def test_directories_of_one_daemon_are_one_log(jvm: Jvm, tmp_path: Path) -> None:
    homes = [tmp_path / "a", tmp_path / "b"]
    write_log(homes[0] / "t-0", [[batch(0, 3)]])
    write_log(homes[1] / "t-1", [[batch(0, 4)]])
    write_log(homes[1] / "u-0", [[batch(0, 4)]])
    write_log(homes[1] / "t-2.0123456789abcdef-delete", [[batch(0, 4)]])
    write_log(homes[1] / "t-00", [[batch(0, 4)]])
    write_checkpoint(homes[0] / "replication-offset-checkpoint", {("t", 0): 2})
    write_checkpoint(homes[1] / "replication-offset-checkpoint", {("t", 0): 9, ("t", 1): 4})
    both = ":".join(map(str, homes))
    assert jvm.value("topics", both) == ["t", "u"]
    assert jvm.value("bounds", both, "t", 0, "") == [0, 2]
    assert jvm.value("bounds", both, "t", 1, "") == [0, 4]
    with pytest.raises(JvmError, match=rf"LogException.*{homes[0]}, {homes[1]}: no topic w here; there are t, u$"):
        jvm.value("bounds", both, "w", 0, "")
    with pytest.raises(JvmError, match=r"LogException.*no such directory"):
        jvm.value("topics", tmp_path / "c")
    (homes[0] / "meta.properties").write_text("version=7\nnode.id=1\ncluster.id=x\n")
    with pytest.raises(JvmError, match=r"LogException.*newer daemon"):
        jvm.value("topics", both)


def test_a_log_start_inside_a_segment_is_of_delete_records(jvm: Jvm, tmp_path: Path) -> None:
    write_log(tmp_path / "t-0", [[batch(5, 3)]])
    assert jvm.value("gone", tmp_path, "t", 0, 6) == ["DeleteRecords has taken"]
    assert jvm.value("gone", tmp_path, "t", 0, 5) == ["retention or DeleteRecords has taken"]


@pytest.mark.parametrize(
    ("removed", "words"),
    [
        ({RETENTION: 3}, "retention has taken"),
        ({DELETE_RECORDS: 3, RETENTION: 0}, "DeleteRecords has taken"),
        ({DELETE_RECORDS: 3, RETENTION: 20}, "retention or DeleteRecords has taken"),
        ({"superseded": 3}, "retention or DeleteRecords has taken"),
    ],
)
def test_what_is_gone_was_taken_by_what_the_ledger_says(
    jvm: Jvm, tmp_path: Path, removed: dict[str, int], words: str
) -> None:
    write_log(tmp_path / "t-0", [[batch(5, 3)]])
    under_way = Pending(9, {5: 10}, {5: Entry(0, 5)}, {RETENTION: 1, DELETE_RECORDS: 1})
    for pending in (None, under_way):
        ledger = Ledger(first=sum(removed.values()), removed=removed, pending=pending)
        (tmp_path / "t-0" / LEDGER_FILE).write_bytes(encode(ledger))
        assert jvm.value("gone", tmp_path, "t", 0, 5) == [words]
        assert LogDirectories([str(tmp_path)]).why_gone(TopicPartition("t", 0), 5) == words
    for damaged in (b"", b'{"version":2,"removed":{"retention":5}}', b"\xff"):
        (tmp_path / "t-0" / LEDGER_FILE).write_bytes(damaged)
        assert jvm.value("gone", tmp_path, "t", 0, 5) == ["retention or DeleteRecords has taken"]
