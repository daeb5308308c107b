"""EIO at every write, sync, rename, truncation and removal, of logs, checkpoints, snapshots, ledger, coordinators' logs and
metadata. See support/io_errors.py for what has to hold. One call in 29 fails, with
`--crash-distinct` each.
"""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from support.cleaning import CleaningWorld, put
from support.crash_exploration import Exploration
from support.crash_ring import verify
from support.fake_filesystem import FakeFileSystem
from support.io_errors import BadDisk, left_by
from support.logs import ROOT, World, batch, read_records
from support.transactions import Node
from tidelog.broker.metadata.store import MetadataStore, TopicRecord
from tidelog.protocol.errors import ProtocolError
from tidelog.storage.exceptions import KafkaStorageError, StorageError
from tidelog.storage.log.unified_log import UnifiedLog

SETTINGS: dict[str, Any] = {
    "segment_bytes": 900, "index_interval_bytes": 200, "segment_index_bytes": 240, "retention_bytes": 2500,
}  # fmt: skip
MOST = 2000
pytestmark = pytest.mark.damaged(
    "the disk fails in the middle of each; what a start makes of it is verified by the test"
)


@pytest.fixture
def step(crash_limit: int | Exploration) -> int:
    """Every how many calls one fails."""
    return 1 if isinstance(crash_limit, Exploration) else 29


class Told:
    """What a client knows of one log: what it tried at each offset, what was acknowledged."""

    def __init__(self) -> None:
        self.tried: dict[int, set[bytes]] = {}
        self.acknowledged: dict[int, bytes] = {}
        self.deleted_below = 0

    def judge(self, log: UnifiedLog) -> None:
        assert log.log_start_offset <= max(self.deleted_below, 0) or log.log_start_offset <= log.log_end_offset
        records = read_records(log, log.log_start_offset)
        found = {record.offset: record.value for record in records}
        assert list(found) == list(range(log.log_start_offset, log.log_end_offset)), "a gap"
        for offset, value in found.items():
            assert value in self.tried[offset], f"an invented record at {offset}"
        for offset, value in self.acknowledged.items():
            if offset >= self.deleted_below:
                assert found.get(offset) == value, f"offset {offset} was acknowledged"


@contextmanager
def typed_errors() -> Iterator[None]:
    """A daemon answers these and goes on; anything else would be a traceback."""
    with suppress(StorageError, OSError):
        yield


def write(world: World, told: Told, name: str, *, producer: int = -1, sequence: int = 0) -> None:
    """One record, acknowledged once it is durable."""
    with typed_errors():
        log = world.log()
        value = f"{name} ".encode().ljust(250, b".")
        arguments = {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequence} if producer >= 0 else {}
        data = batch(value, timestamp=world.time.milliseconds(), **arguments)
        told.tried.setdefault(log.log_end_offset, set()).add(value)
        offset = log.append_as_leader(data, 0, len(data)).first_offset
        log.complete_sync(log.flush())
        if log.high_watermark > offset and log.recovery_point > offset:
            told.acknowledged[offset] = value


def life(world: World, told: Told) -> None:
    """Appends, rolls, retention, DeleteRecords, truncation, checkpoints, a stop and a start; a daemon that goes on."""
    for number in range(9):
        write(world, told, f"a{number}", producer=1, sequence=number)
        with typed_errors():
            world.time.advance(milliseconds=10)
        world.manager.checkpoint_recovery_points()
        if number == 4:
            with typed_errors():
                log = world.log()
                told.deleted_below = max(told.deleted_below, 2)
                log.increment_log_start_offset(2)
        if number in (5, 8):
            with typed_errors():
                told.deleted_below = max(told.deleted_below, world.log().high_watermark - 6)
                world.log().delete_old_segments()
            world.manager.checkpoint_log_start_offsets()
            with typed_errors():
                world.time.advance(seconds=70)
    with typed_errors():
        log = world.log()
        end = log.log_end_offset
        if end > log.log_start_offset:
            log.truncate_to(end - 1)
    # Truncation is asked for by who knows better: nothing from there on is promised any more, done or not.
    for offset in [offset for offset in told.acknowledged if offset >= end - 1]:
        del told.acknowledged[offset]
    write(world, told, "after the truncation")
    with typed_errors():
        world.stop()
    world.running = False
    with typed_errors():
        world.start(**SETTINGS)
    if world.running:
        write(world, told, "after the start")


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "lasting"])
def test_a_log_through_its_life(step: int, lasting: bool) -> None:
    places = set()
    for at in range(1, MOST, step):
        world, told, disk = World(), Told(), BadDisk(at, lasting)
        world.start(**SETTINGS)
        world.log()
        world.fake.sync_all()
        world.fake.fail_when(disk)
        life(world, told)
        if not disk.hit:
            break
        places.add(disk.place)
        world.fake.heal()
        for name, state in left_by(world.fake):
            try:
                later = World(state)
                later.start(**SETTINGS)
                told.judge(later.log())
                assert not verify(state)
            except BaseException as error:
                error.add_note(f"call {at}: {disk.hit[0]}; {name}")
                raise
    else:
        raise AssertionError("there is no end to it")
    if step == 1:
        assert places >= {
            *itertools.product(["append", "sync"], ["log", "snapshot.tmp", "recovery-point-offset-checkpoint.tmp"]),
            ("rename", "recovery-point-offset-checkpoint.tmp"), ("sync", "leader-epoch-checkpoint.tmp"),
            ("sync_directory", "t-0"), ("sync_directory", "data"), ("truncate", "log"), ("resize", "index"),
        }  # fmt: skip


def test_a_log_whose_sync_failed_acknowledges_nothing_more() -> None:
    """The second sync finds no dirty pages and succeeds: what it would vouch for is lost."""
    for kind, name in (("sync", ".log"), ("sync_directory", "t-0")):
        world, told = World(), Told()
        world.start(segment_bytes=900)
        write(world, told, "sound")
        world.log().roll()
        failed: list[bool] = []

        def fail_once(operation: Any, kind: str = kind, name: str = name, failed: list[bool] = failed) -> Any:
            if not failed and operation.kind == kind and operation.path.endswith(name):
                failed.append(True)
                return OSError(5, "input/output error")
            return None

        world.fake.fail_when(fail_once)
        write(world, told, "lost")
        write(world, told, "lost too")
        assert failed
        assert list(told.acknowledged) == [0]
        log = world.log()
        assert log.failure is not None
        assert "input/output error" in str(log.failure)
        with pytest.raises(KafkaStorageError):
            log.flush()


def clean(world: CleaningWorld, told: dict[str, str]) -> None:
    """A compacted log with its ledger: rounds of values, each acknowledged once it is durable, and passes."""
    for number in range(12):
        key, value = f"k{number % 3}", f"{number}".ljust(120, ".")
        with typed_errors():
            log = world.log()
            offset = put(log, key, value)
            log.complete_sync(log.flush())
            if log.recovery_point > offset:
                told[key] = value
        if number % 4 == 3:
            with typed_errors():
                world.log().roll()
            with typed_errors():
                world.clean_all()
            with typed_errors():
                world.time.advance(seconds=1)
        world.manager.checkpoint_recovery_points()


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "lasting"])
def test_a_log_that_is_cleaned_and_its_ledger(step: int, lasting: bool) -> None:
    settings = {"segment_bytes": 500, "segment_index_bytes": 240}
    places = set()
    for at in range(1, MOST, step):
        world, told, disk = CleaningWorld(), {}, BadDisk(at, lasting)
        world.start(**settings)
        world.log()
        world.fake.sync_all()
        world.fake.fail_when(disk)
        clean(world, told)
        if not disk.hit:
            break
        places.add(disk.place)
        world.fake.heal()
        for name, state in left_by(world.fake, seeds=2):
            try:
                later = CleaningWorld(file_system=state)
                later.start(**settings)
                log = later.log()
                found = {r.key.decode(): (r.offset, r.value) for r in read_records(log, log.log_start_offset) if r.key}
                for key, value in told.items():
                    # A later one that was not acknowledged may have made it.
                    assert key in found
                    assert int(found[key][1].split(b".")[0]) >= int(value.split(".")[0]), key
                assert not verify(state)
                assert log.local.open_ledger(count=True)
            except BaseException as error:
                error.add_note(f"call {at}: {disk.hit[0]}; {name}")
                raise
    else:
        raise AssertionError("there is no end to it")
    if step == 1:
        assert places >= {
            *itertools.product(["append", "sync"], ["log.cleaned", "index.cleaned", "tidelog-ledger.json.tmp"]),
            ("rename", "log.cleaned"), ("rename", "log.swap"), ("append", "cleaner-offset-checkpoint.tmp"),
        }  # fmt: skip


def transact(node: Node, told: dict[str, set[int]]) -> None:
    """Three transactions over two partitions and a group's offsets, as a client that hears errors and begins anew."""
    for number in (1, 2, 3):
        node.settle()
        with suppress(ProtocolError, StorageError, OSError):
            producer = node.wait(node.transactions.init_producer_id("tx", 60_000, None))
            node.produce("tx", producer, "t", 0, str(number))
            node.produce("tx", producer, "u", 0, str(number))
            if any(code.value for code in node.commit_offsets("tx", producer, "g", ("t", 0, number))):
                continue
            told["asked"].add(number)
            node.end("tx", producer, commit=True)
            told["committed"].add(number)


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "lasting"])
def test_the_logs_of_groups_and_transactions(step: int, lasting: bool) -> None:
    places = set()
    for at in range(1, MOST, step):
        node, disk = Node(flush_messages=1), BadDisk(at, lasting)
        told: dict[str, set[int]] = {"asked": set(), "committed": set()}
        node.world.fake.sync_all()
        node.world.fake.fail_when(disk)
        transact(node, told)
        node.world.fake.heal()
        fake, now = node.world.fake, node.time.milliseconds()
        node.close()
        if not disk.hit:
            break
        places.add((disk.hit[0].kind, disk.hit[0].path.removeprefix(f"{ROOT}/")))
        for name, state in left_by(fake, seeds=1):
            later = Node(state, flush_messages=1, ids=itertools.count(1000), now_ms=now)
            try:
                later.time.advance(90_000)  # what is open is aborted by its time-out
                later.settle()
                shown = {topic: {int(value) for value in later.committed(topic)} for topic in ("t", "u")}
                assert shown["t"] == shown["u"], "torn"
                assert told["committed"] <= shown["t"] <= told["asked"]
                assert later.offset("g") == max(shown["t"], default=-1)
                producer = later.init()
                later.produce("tx", producer, "t", 0, "9")
                later.end("tx", producer, commit=True)
                assert later.committed("t")[-1] == b"9"
            except BaseException as error:
                error.add_note(f"call {at}: {disk.hit[0]}; {name}; told {told}")
                raise
            finally:
                later.close()
    else:
        raise AssertionError("there is no end to it")
    if step == 1:
        for topic in ("__transaction_state", "__consumer_offsets", "t-0"):
            assert any(kind in ("append", "sync") and place.startswith(topic) for kind, place in places), topic


class BadDatabase:
    """SQLite's side of a disk that fails: the `at`-th statement or commit raises, and all from there on where it `lasts`.

    What stands behind SQLite can't be faked, so what it tells us is: "disk I/O error", the transaction rolled back.
    """

    def __init__(self, database: sqlite3.Connection, count: Callable[[], bool]) -> None:
        self._database = database
        self._fails = count

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._database, name)
        if name not in ("execute", "executemany", "executescript", "commit"):
            return method

        def call(*arguments: Any) -> Any:
            self._check()
            return method(*arguments)

        return call

    def _check(self) -> None:
        if self._fails():
            raise sqlite3.OperationalError("disk I/O error")

    def __enter__(self) -> BadDatabase:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None:
            try:
                self._check()  # the commit's sync
            except sqlite3.OperationalError:
                self._database.rollback()
                raise
        self._database.__exit__(kind, error, trace)


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "lasting"])
def test_metadata_whose_disk_fails(tmp_path: Path, lasting: bool) -> None:
    for at in range(1, 100):
        directory = tmp_path / f"{at}"
        directory.mkdir()
        seen = itertools.count(1)
        hits: list[int] = []

        def fails(seen: Iterator[int] = seen, hits: list[int] = hits, at: int = at) -> bool:
            number = next(seen)
            if number == at or (lasting and number > at):
                hits.append(number)
                return True
            return False

        acknowledged: set[str] = set()
        asked: set[str] = set()

        async def work(
            directory: Path = directory,
            fails: Callable[[], bool] = fails,
            acknowledged: set[str] = acknowledged,
            asked: set[str] = asked,
        ) -> None:
            store = MetadataStore(str(directory))
            store.open()
            connect = store._connect
            store._connect = lambda: BadDatabase(connect(), fails)  # type: ignore[method-assign,assignment,return-value]
            for number in range(4):
                name = f"topic-{number}"
                asked.add(name)
                try:
                    await store.add_topic(TopicRecord(name, uuid4(), 2, {"retention.ms": "5"}, 0))
                except KafkaStorageError as error:
                    assert "disk I/O error" in str(error)
                else:
                    acknowledged.add(name)
            store.close()

        asyncio.run(work())
        later = MetadataStore(str(directory))
        names = {record.name for record in later.open()}
        later.close()
        assert acknowledged == names
        if not hits:
            assert acknowledged == asked
            return
    raise AssertionError("there is no end to it")


def test_a_start_whose_disk_fails_fails_with_a_typed_error_and_the_next_one_has_all(step: int) -> None:
    """Recovery writes too: snapshots, indexes, what it cuts."""
    world, told = World(), Told()
    world.start(**SETTINGS | {"retention_bytes": -1})
    for number in range(8):
        write(world, told, f"a{number}", producer=1, sequence=number)
    torn = world.fake.power_cut(5)
    places = set()
    for at in range(1, MOST, step):
        state: FakeFileSystem = torn.kill()
        disk = BadDisk(at)
        state.fail_when(disk)
        with typed_errors():
            World(state).start(**SETTINGS)
        if not disk.hit:
            break
        places.add(disk.place)
        state.heal()
        for name, left in left_by(state, seeds=1):
            try:
                later = World(left)
                later.start(**SETTINGS)
                told.judge(later.log())
                assert not verify(left)
            except BaseException as error:
                error.add_note(f"call {at}: {disk.hit[0]}; {name}")
                raise
    else:
        raise AssertionError("there is no end to it")
    assert places
