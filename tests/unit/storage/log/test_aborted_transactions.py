"""Aborted transactions of a fetch: against a brute-force scan of Kafka's sample logs, offset by offset and size by size."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from support.cleaning import Producer, append_marker, cleaning_world, put
from support.fake_filesystem import Operation
from support.logs import ROOT, World, append
from tidelog.protocol.records.record_batch import iterate_batches, iterate_records
from tidelog.storage.exceptions import KafkaStorageError, OffsetOutOfRangeError
from tidelog.storage.index.transaction_index import AbortedTxn, TransactionIndex
from tidelog.storage.io.filesystem import FileSystem, RealFileSystem
from tidelog.storage.log import aborted_transactions, unified_log
from tidelog.storage.log.aborted_transactions import AbortedTransactions
from tidelog.storage.log.unified_log import UnifiedLog
from tidelog.storage.values import FetchDataInfo

GOLDEN = Path(__file__).parents[3] / "golden" / "kafka-data" / "data"
TOPICS = ("txn", "compact-txn")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    directory = tmp_path_factory.mktemp("kafka") / "data"
    for topic in TOPICS:
        shutil.copytree(GOLDEN / f"{topic}-0", directory / f"{topic}-0")
    (directory / ".kafka_cleanshutdown").touch()
    (directory / "cleaner-offset-checkpoint").write_bytes((GOLDEN / "cleaner-offset-checkpoint").read_bytes())
    (directory / "recovery-point-offset-checkpoint").write_bytes(
        (GOLDEN / "recovery-point-offset-checkpoint").read_bytes()
    )
    started = World(RealFileSystem(), directories=(str(directory),))
    started.start()
    yield started
    started.stop()


def log_of(world: World, topic: str) -> UnifiedLog:
    log = world.manager.get(topic, 0)
    assert log is not None
    return log


def kafkas_entries(topic: str) -> list[AbortedTxn]:
    files = sorted((GOLDEN / f"{topic}-0").glob("*.txnindex"))
    return [txn for file in files for txn in TransactionIndex(RealFileSystem(), file, int(file.stem)).all()]


def last_offset_in(info: FetchDataInfo) -> int:
    """Of the last whole batch in the slice; -1 when there is none."""
    assert info.file is not None
    data = info.file.pread(info.size, info.position)
    return max((header.last_offset for header in iterate_batches(data)), default=-1)


@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.parametrize("max_bytes", [1, 700, 3000, 1 << 20])
def test_exactly_those_of_the_slice(world: World, topic: str, max_bytes: int) -> None:
    log, entries = log_of(world, topic), kafkas_entries(topic)
    assert entries
    for offset in range(log.log_start_offset, log.last_stable_offset):
        info = log.read(offset, max_bytes, limit_offset=log.last_stable_offset)
        if info.file is None:
            continue
        last = last_offset_in(info)
        found = log.aborted_transactions(offset, info)
        info.release()
        assert found == [txn for txn in entries if txn.last_offset >= offset and txn.first_offset <= last]


def committed_values(log: UnifiedLog, max_bytes: int) -> list[tuple[int, bytes | None]]:
    """What a consumer keeps, by the consumer's own rule: from an aborted transaction's first offset to its marker."""
    kept, offset, limit = [], log.log_start_offset, log.last_stable_offset
    while offset < limit:
        info = log.read(offset, max_bytes, limit_offset=limit)
        if info.file is None:
            break
        waiting = sorted(log.aborted_transactions(offset, info), key=lambda txn: txn.first_offset)
        data = info.file.pread(info.size, info.position)
        info.release()
        aborted: set[int] = set()
        for header in iterate_batches(data):
            while waiting and waiting[0].first_offset <= header.last_offset:
                aborted.add(waiting.pop(0).producer_id)
            records = [record for record in iterate_records(data, header.position) if record.offset >= offset]
            if header.is_control:
                if any(record.key == b"\0\0\0\0" for record in records):
                    aborted.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in aborted):
                kept += [(record.offset, record.value) for record in records]
            offset = header.last_offset + 1
    return kept


@pytest.mark.parametrize("topic", TOPICS)
def test_a_consumer_keeps_the_same_however_it_slices(world: World, topic: str) -> None:
    log = log_of(world, topic)
    whole = committed_values(log, 1 << 20)
    assert len(whole) == {"txn": 780, "compact-txn": 150}[topic]
    for max_bytes in (1, 500, 4000):
        assert committed_values(log, max_bytes) == whole


def test_nothing_for_nothing(world: World) -> None:
    log = log_of(world, "txn")
    assert log.aborted_transactions(0, FetchDataInfo(0, None, 0, 0)) == []


def test_a_closed_segment_is_asked_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    log = log_of(world, "txn")
    transactions = AbortedTransactions(log.log_directory)
    info = log.read(0, 1, limit_offset=log.last_stable_offset)
    assert transactions.overlapping(log.segments, 0, info)
    asked: list[int] = []

    def opened(file_system: FileSystem, path: str, base_offset: int) -> TransactionIndex:
        asked.append(base_offset)
        return TransactionIndex(file_system, path, base_offset)

    monkeypatch.setattr(aborted_transactions, "TransactionIndex", opened)
    transactions.overlapping(log.segments, 0, info)
    info.release()
    assert asked == [], "nor the active one, as long as its file is the same"


def test_loaded_until_a_segment_is_new(world: World) -> None:
    log = log_of(world, "compact-txn")
    transactions = AbortedTransactions(log.log_directory)
    assert not transactions.is_loaded(log.segments)
    transactions.load(log.segments)
    assert transactions.is_loaded(log.segments)
    assert not transactions.is_loaded(log.segments[:-1])


class Counted:
    """A file system that counts how often transaction indexes are read."""

    def __init__(self, world: World) -> None:
        self.reads = 0
        original = world.fake.read_bytes

        def read_bytes(path: Any, limit: int = 64 << 20) -> bytes:
            self.reads += str(path).endswith(".txnindex")
            return original(path, limit)

        world.fake.read_bytes = read_bytes  # type: ignore[method-assign]


def aborted(log: UnifiedLog) -> list[int]:
    """Producers of the transactions that a fetch of all is told."""
    info = log.read(0, 1 << 20)
    found = log.aborted_transactions(0, info)
    info.release()
    return [txn.producer_id for txn in found]


def test_the_active_segments_index_is_read_again_when_it_has_changed_and_not_for_each_fetch() -> None:
    world = World()
    world.start()
    log = world.log()
    append(log, "first")
    counted = Counted(world)
    assert [aborted(log) for _ in range(10)] == [[]] * 10
    assert counted.reads == 0, "there is none"
    for number in (1, 2):
        Producer(number).send(log, (b"k", b"v"))
        append_marker(log, number, 0, commit=False)
        expected = list(range(1, number + 1))
        assert [aborted(log) for _ in range(10)] == [expected] * 10
        assert counted.reads == 1, "of the second look, what is new alone"
    world.stop()


def test_an_entry_that_takes_the_place_of_one_that_failed_within_a_tick_is_told() -> None:
    """Size and time of the file are the same then."""
    world = World(damaged="entries of markers that are not there")
    world.start()
    log = world.log()
    append(log, "first", "second")
    base = log.segments[-1].base_offset
    kept = AbortedTransactions(log.log_directory)

    def told() -> list[int]:
        info = log.read(0, 1 << 20)
        found = kept.overlapping(log.segments, 0, info)
        info.release()
        return [txn.producer_id for txn in found]

    with suppress(OSError), kept.noted(base, AbortedTxn(1, 0, 1, 1)):
        assert told() == [1]
        raise OSError("full")
    with kept.noted(base, AbortedTxn(2, 0, 1, 1)):
        assert told() == [2]
    assert told() == [2]
    world.stop()


def test_who_looks_for_the_first_time_in_the_midst_of_a_swap_is_told_of_what_he_reads() -> None:
    """Found by the simulator (seed 484): the index had another name for a moment, and aborted records were given as committed."""
    world = cleaning_world()
    log = world.log()
    producer = Producer(7)
    put(log, "a", "1")
    producer.send(log, (b"k", b"aborted"))
    producer.end(log, commit=False)
    log.roll()
    put(log, "a", "2")
    log.roll()
    put(log, "b", "1")
    told = []

    def looks(operation: Operation) -> None:
        if operation.kind == "rename" and operation.path.endswith((".log.swap", ".timeindex.swap")):
            info = log.read(0, 1 << 20)
            log.load_aborted()
            told.append([txn.first_offset for txn in log.aborted_transactions(0, info)])
            info.release()

    world.fake.fail_when(looks)
    world.clean_all()
    world.fake.fail_when(None)
    assert told
    assert all(first_offsets == [1] for first_offsets in told), told
    world.stop()


def test_a_swap_that_failed_leaves_the_segments_that_stay_known() -> None:
    """Each fetch of committed records went through a pool, and looked at each segment, until a later swap."""
    world = cleaning_world()
    log = world.log()
    for number in range(2):
        put(log, "a", str(number))
        log.roll()
    put(log, "b", "1")

    def no_room(operation: Operation) -> OSError | None:
        is_it = operation.kind == "rename" and str(operation.detail).endswith(".swap")
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) if is_it else None

    world.fake.fail_when(no_room)
    before = log.segments
    world.clean_all()
    world.fake.heal()
    assert log.segments is before
    log.load_aborted()
    assert log.aborted_are_loaded
    world.stop()


def test_two_that_look_at_once_do_not_mix_what_they_found() -> None:
    """One with the list of before a roll, one with the list behind it: the segment in between had no aborted transaction."""
    world = cleaning_world()
    log = world.log()
    append(log, "first")
    log.roll()
    producer = Producer(7)
    producer.send(log, (b"a", b"1"))
    append_marker(log, producer.producer_id, producer.epoch, commit=False)
    older = log.segments
    log.roll()
    append(log, "last")
    newer, turns = log.segments, [older]

    class Interrupted(AbortedTransactions):
        """Before the thread with the newer list sets any field, the one with the older list does all that it does."""

        __slots__ = ()

        def __setattr__(self, name: str, value: Any) -> None:
            if turns and isinstance(value, tuple) and any(each is newer for each in (value, *value)):
                self.load(turns.pop())
            super().__setattr__(name, value)

    log._aborted = Interrupted(log.log_directory)
    log.load_aborted()
    info, aborted = log.read_committed(1, 1000, limit_offset=log.last_stable_offset)
    info.release()
    assert not turns
    assert [txn.producer_id for txn in aborted] == [7]
    world.stop()


def before_looking(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Calls `act` once, as soon as somebody has read a slice and is about to look what of it was aborted."""
    overlapping, acts = AbortedTransactions.overlapping, [act]

    def first(self: AbortedTransactions, *arguments: Any) -> Any:
        if acts:
            acts.pop()()
        return overlapping(self, *arguments)

    monkeypatch.setattr(AbortedTransactions, "overlapping", first)


def after_reading(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Calls `act` once, as soon as somebody has read a slice."""
    read, acts = UnifiedLog.read, [act]

    def then(self: UnifiedLog, *arguments: Any, **named: Any) -> FetchDataInfo:
        info = read(self, *arguments, **named)
        if acts:
            acts.pop()()
        return info

    monkeypatch.setattr(UnifiedLog, "read", then)


def with_an_abort(log: UnifiedLog) -> None:
    """Offsets 0 and 1 in a segment of their own, in the next one a record, an aborted one at 3 and its marker, and one behind."""
    put(log, "a", "1")
    put(log, "b", "1")
    log.roll()
    producer = Producer(7)
    put(log, "a", "2")
    producer.send(log, (b"k", b"aborted"))
    producer.end(log, commit=False)
    log.roll()
    put(log, "c", "1")


def test_who_has_read_what_retention_takes_is_given_nothing_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The index goes with its segment, and aborted records would be given as committed."""
    world = cleaning_world()
    log = world.log()
    with_an_abort(log)

    def retain() -> None:
        log.increment_log_start_offset(5)
        log.flush()
        log.delete_old_segments()
        assert log.segments[0].base_offset == 5

    before_looking(monkeypatch, retain)
    with pytest.raises(OffsetOutOfRangeError):
        log.read_committed(2, 1 << 20, limit_offset=log.last_stable_offset)
    world.stop()


def test_who_has_read_what_a_pass_joins_is_given_what_it_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """The joined segment's index may lack the transactions whose records are in the old one alone."""
    world = cleaning_world()
    log = world.log()
    with_an_abort(log)
    after_reading(monkeypatch, world.clean_all)
    info, aborted = log.read_committed(2, 1 << 20, limit_offset=log.last_stable_offset)
    assert [segment.base_offset for segment in log.segments] == [0, 5]
    assert info.file is not None
    offsets = [header.base_offset for header in iterate_batches(info.file.pread(info.size, info.position))]
    assert 3 not in offsets or [txn.first_offset for txn in aborted] == [3]
    info.release()
    world.stop()


def test_files_that_go_while_they_are_looked_at_are_no_failure_of_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by the simulator, with a backup (seed 350): the daemon said that its storage had failed."""
    world = cleaning_world()
    log = world.log()
    with_an_abort(log)

    def retain() -> None:
        log.increment_log_start_offset(5)
        log.flush()
        log.delete_old_segments()
        raise FileNotFoundError(2, "No such file or directory")

    before_looking(monkeypatch, retain)
    with pytest.raises(OffsetOutOfRangeError):
        log.read_committed(2, 1 << 20, limit_offset=log.last_stable_offset)
    world.stop()


def test_a_disk_that_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    world = cleaning_world()
    log = world.log()
    with_an_abort(log)

    def fail() -> None:
        raise OSError(5, "Input/output error")

    before_looking(monkeypatch, fail)
    with pytest.raises(KafkaStorageError):
        log.read_committed(2, 1 << 20, limit_offset=log.last_stable_offset)
    world.stop()


def test_segments_that_are_replaced_again_and_again_end_in_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the loop's thread that reads."""
    world = cleaning_world()
    log = world.log()
    with_an_abort(log)
    read, count = UnifiedLog.read, 0

    def replaced(self: UnifiedLog, *arguments: Any, **named: Any) -> FetchDataInfo:
        nonlocal count
        count += 1
        info = read(self, *arguments, **named)
        put(log, "a", str(count))
        log.roll()
        return info

    monkeypatch.setattr(UnifiedLog, "read", replaced)
    with pytest.raises(KafkaStorageError, match="replaced faster than they are read, 10 times"):
        log.read_committed(2, 1 << 20, limit_offset=log.last_stable_offset)
    assert count == 10
    world.stop()


def many_aborts(count: int) -> tuple[World, UnifiedLog]:
    """So many transactions of a record, one after the other, all aborted; a committed record before, between and behind."""
    world = World()
    world.start(index_interval_bytes=300)
    log = world.log()
    append(log, b"committed")
    producer = Producer(7)
    for number in range(count):
        producer.send(log, (b"k", b"aborted %d" % number))
        producer.end(log, commit=False)
        append(log, b"committed %d" % number)
    return world, log


def test_of_aborts_behind_the_slice_no_more_are_looked_at_than_began_before_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, log = many_aborts(200)
    looked: list[AbortedTxn] = []
    entries = AbortedTransactions._entries

    def noted(self: AbortedTransactions, *arguments: Any) -> Iterator[AbortedTxn]:
        for txn in entries(self, *arguments):
            looked.append(txn)
            yield txn

    monkeypatch.setattr(AbortedTransactions, "_entries", noted)
    for offset in (0, 100, 301):
        looked.clear()
        info = log.read(offset, 400)
        last = last_offset_in(info)
        found = log.aborted_transactions(offset, info)
        info.release()
        assert [txn.first_offset for txn in found] == [
            first for first in range(1, 601, 3) if offset < first + 2 and first <= last
        ]
        assert len(looked) <= len(found) + 1
    world.stop()


def test_a_transaction_behind_the_slice_has_nobody_walk_through_the_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.start()
    log = world.log()
    for _ in range(300):
        append(log, b"v" * 1000)
    producer = Producer(7)
    producer.send(log, (b"k", b"aborted"))
    producer.end(log, commit=False)
    info = log.read(280, 2500)
    assert info.file is not None
    read = type(info.file).pread
    taken: list[int] = []

    def pread(self: Any, count: int, position: int) -> bytes:
        taken.append(count)
        return read(self, count, position)

    monkeypatch.setattr(type(info.file), "pread", pread)
    assert log.aborted_transactions(280, info) == []
    info.release()
    assert sum(taken) <= 4 * 8192, "two batches behind an entry of the index"
    world.stop()


def test_a_slice_has_no_more_aborts_than_may_be_told_and_a_consumer_keeps_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, log = many_aborts(40)
    whole = committed_values(log, 1 << 20)
    assert len(whole) == 41
    monkeypatch.setattr(unified_log, "MOST_ABORTED", 3)
    offset, values = 0, []
    while offset < log.last_stable_offset:
        info, found = log.read_committed(offset, 1 << 20, limit_offset=log.last_stable_offset, min_one_message=False)
        assert info.file is not None
        assert 0 < len(found) <= 3 or offset == log.log_end_offset - 1
        data = info.file.pread(info.size, info.position)
        aborted_at = {txn.first_offset for txn in found}
        for header in iterate_batches(data):
            if not header.is_control and header.base_offset not in aborted_at:
                values += [(record.offset, record.value) for record in iterate_records(data, header.position)]
            offset = header.last_offset + 1
        info.release()
    assert values == whole
    world.stop()


def test_a_batch_in_more_transactions_than_may_be_told_is_told_with_all(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.start()
    log = world.log()
    producers = [Producer(number) for number in range(1, 9)]
    for producer in producers:
        producer.send(log, (b"k", b"aborted"))
    append(log, b"in the midst")
    for producer in producers:
        producer.end(log, commit=False)
    monkeypatch.setattr(unified_log, "MOST_ABORTED", 3)
    info, found = log.read_committed(8, 1 << 20, limit_offset=log.last_stable_offset)
    assert [txn.producer_id for txn in found] == list(range(1, 9))
    assert last_offset_in(info) == 8
    info.release()
    world.stop()


@pytest.mark.parametrize("damage", ["", "wrong entries", "no index"])
def test_the_last_offset_in_a_slice_is_that_of_a_walk_through_it(damage: str) -> None:
    """From each batch to each end, whatever the index says."""
    world = World(damaged=damage)
    world.start(index_interval_bytes=150, segment_bytes=1 << 20)
    log = world.log()
    for number in range(40):
        append(log, *(b"v" * (13 * number % 70) for _ in range(1 + number % 3)))
    log.roll()
    segment = log.segments[0]
    info = log.read(0, 1 << 20)
    assert info.file is not None
    headers = list(iterate_batches(info.file.pread(info.size, 0)))
    info.release()
    path = f"{ROOT}/t-0/{0:020d}.index"
    assert world.fake.stat(path).size > 8 * 5
    if damage == "wrong entries":
        for entry in range(0, world.fake.stat(path).size // 8, 3):
            world.fake.corrupt(path, 8 * entry + 3, bytes([world.fake.read_bytes(path)[8 * entry + 3] ^ 1]))
    elif damage:
        world.fake.unlink(path)
    for first in headers[::5]:
        for end in range(first.position + 1, segment.size + 1, 37):
            inside = [
                each.last_offset
                for each in headers
                if each.position >= first.position and each.position + each.size <= end
            ]
            assert segment.last_offset_in(first.position, end) == max(inside, default=None)
    world.stop()


def test_what_is_new_in_the_active_segments_index_is_read_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read on the loop's thread, after each abort, and may have a million entries."""
    world, log = many_aborts(30)
    producer = Producer(8)
    assert len(aborted(log)) == 30
    whole = TransactionIndex.all
    monkeypatch.setattr(TransactionIndex, "all", lambda _: pytest.fail("all of it was read"))
    for number in range(5):
        producer.send(log, (b"k", b"v"))
        producer.end(log, commit=False)
        assert aborted(log) == [7] * 30 + [8] * (number + 1)
    monkeypatch.setattr(TransactionIndex, "all", whole)
    world.stop()


def test_who_looked_last_does_not_keep_the_files_of_segments_that_were_cleaned() -> None:
    """Found by the simulator (seed 17): their room was taken until somebody read committed records there again."""
    world = cleaning_world()
    log = world.log()
    put(log, "a", "1")
    log.roll()
    put(log, "a", "2")
    log.roll()
    put(log, "b", "1")
    view = log.segments
    assert aborted(log) == []
    assert world.clean_all()
    assert log.segments[0] is not view[0]
    transactions = log._aborted
    transactions.load(view)  # by one that is late
    assert log.log_directory.pinned
    del view
    assert not log.log_directory.pinned
    assert aborted(log) == []
    assert transactions.is_loaded(log.segments)
    world.stop()
