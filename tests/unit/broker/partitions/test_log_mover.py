"""Moves of logs inside of a daemon: who waits, who does not, how they end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import pytest
from support.logs import World, append, batch, read_records
from support.patience import PATIENCE_S
from support.topic_world import TopicWorld, topic_world
from tidelog.broker.partitions.conversion_thread import LoopBudget
from tidelog.broker.partitions.log_mover import LogMover
from tidelog.config.broker_config import BrokerConfig
from tidelog.protocol.errors import ErrorCode, ProtocolError
from tidelog.storage.io.filesystem import RealFileSystem
from tidelog.storage.manager.move import LogMove

T = TypeVar("T")


class Moves:
    """A daemon's storage with two directories and one partition `t-0` in the first of them."""

    def __init__(self, machine: World, world: TopicWorld, paths: list[str]) -> None:
        self.machine = machine
        self.world = world
        self.mover: LogMover = world.mover.get()
        self.log = machine.log("t", 0)
        self.home = self.log.directory.rpartition("/")[0]
        (self.other,) = set(paths) - {self.home}

    @property
    def place(self) -> str:
        return self.log.directory.rpartition("/")[0]


@asynccontextmanager
async def moves(tmp_path: Path, **settings: object) -> AsyncIterator[Moves]:
    paths = [str(tmp_path / "one"), str(tmp_path / "two")]
    machine = World(RealFileSystem(), directories=paths)
    async with topic_world(tmp_path, machine.start(segment_bytes=700), **settings) as world:
        await world.topics.create("t", 1, {})
        for _ in range(6):
            append(machine.log("t", 0), b"." * 300)
        made = Moves(machine, world, paths)
        yield made
        await soon(made.mover.stop())
    machine.stop()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110  # a thread brings it about, and tells nobody
            await asyncio.sleep(0)


def copies(directory: str) -> list[Path]:
    return list(Path(directory).glob("t-0*"))


async def soon(wanted: Awaitable[T]) -> T:
    return await asyncio.wait_for(wanted, PATIENCE_S)


async def test_a_log_moves_and_is_appended_to_by_the_new_directorys_ways(tmp_path: Path) -> None:
    async with moves(tmp_path) as made:
        partition = made.world.partitions.get("t", 0)
        assert partition is not None
        before = partition.disk_binding
        await made.mover.move("t", 0, made.other)
        await soon(made.mover.idle())
        assert made.place == made.other
        assert partition.disk_binding != before
        assert partition.disk_binding == made.world.partitions.disk_binding_of(made.log)
        assert (made.mover.moved, made.mover.failed, made.mover.cancelled) == (1, 0, 0)
        assert made.mover.copied_bytes == made.log.size
        await made.mover.move("t", 0, made.other)
        assert made.machine.manager.moves() == []


async def test_appends_during_the_change_over_wait_in_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with moves(tmp_path) as made:
        begun, go_on = threading.Event(), threading.Event()
        commit = LogMove.commit

        def held(move: LogMove) -> None:
            begun.set()
            assert go_on.wait(PATIENCE_S)
            commit(move)

        monkeypatch.setattr(LogMove, "commit", held)
        partition = made.world.partitions.get("t", 0)
        assert partition is not None
        await made.mover.move("t", 0, made.other)
        assert await soon(asyncio.to_thread(begun.wait, PATIENCE_S))
        assert partition.offload.active
        data = [batch(b"%d" % number) for number in range(3)]
        waiting = [partition.append(one, 0, len(one), LoopBudget("", 0)) for one in data]
        assert made.log.log_end_offset == 6
        go_on.set()
        assert [(await soon(one)).first_offset for one in waiting] == [6, 7, 8]
        await soon(made.mover.idle())
        assert (made.place, partition.offload.active) == (made.other, False)
        assert len(read_records(made.log, 0)) == 9


async def test_what_a_slow_disk_has_of_the_log_comes_before_the_change_over(tmp_path: Path) -> None:
    async with moves(tmp_path) as made:
        partition = made.world.partitions.get("t", 0)
        assert partition is not None
        slow, release = partition.offload, threading.Event()
        slow.active = True
        first = slow.submit(lambda: release.wait(PATIENCE_S))
        data = batch(b"late")
        second = partition.append(data, 0, len(data), LoopBudget("", 0))
        await made.mover.move("t", 0, made.other)
        await until(lambda: partition.offload is not slow)  # the change-over stands in line
        release.set()
        assert await soon(first)
        assert (await soon(second)).first_offset == 6
        await soon(made.mover.idle())
        assert (made.place, made.log.log_end_offset) == (made.other, 7)


async def test_a_move_back_cancels_and_one_to_where_it_goes_is_the_same_move(tmp_path: Path) -> None:
    async with moves(tmp_path, replica_alter_log_dirs_io_max_bytes_per_second=1) as made:
        await made.mover.move("t", 0, made.other)
        (move,) = made.machine.manager.moves()
        await made.mover.move("t", 0, made.other)
        assert made.machine.manager.moves() == [move]
        await soon(made.mover.move("t", 0, made.home))
        await soon(made.mover.idle())
        assert (made.place, made.mover.cancelled, made.machine.manager.moves()) == (made.home, 1, [])
        assert not copies(made.other)


async def test_the_throttle_can_be_lifted_while_a_log_is_copied(tmp_path: Path) -> None:
    async with moves(tmp_path, replica_alter_log_dirs_io_max_bytes_per_second=1) as made:
        await made.mover.move("t", 0, made.other)
        await until(lambda: made.mover.copied_bytes > 0)
        assert made.place == made.home
        made.mover.use(BrokerConfig())
        await soon(made.mover.idle())
        assert made.place == made.other


async def test_a_stop_leaves_the_copy_for_the_next_start(tmp_path: Path) -> None:
    async with moves(tmp_path, replica_alter_log_dirs_io_max_bytes_per_second=1) as made:
        await made.mover.move("t", 0, made.other)
        await until(lambda: made.mover.copied_bytes > 0)
        await soon(made.mover.stop())
        assert [path.name[-7:] for path in copies(made.other)] == ["-future"]
        with pytest.raises(ProtocolError):
            await made.mover.move("t", 0, made.home)
        made.machine.stop()
        manager = made.machine.start(segment_bytes=700)
        assert manager.interrupted_moves == [("t", 0, made.other)]
        again = LogMover(
            BrokerConfig(), manager, made.world.partitions, made.world.cleaner.manager, made.world.time, made.world.loop
        )
        again.resume()
        assert [move.target.directory.path for move in manager.moves()] == [made.other]
        await soon(again.idle())
        await soon(again.stop())


async def test_an_interrupted_move_that_is_asked_for_again_or_whose_topic_is_gone_stops_no_start(
    tmp_path: Path,
) -> None:
    """Clients are served before moves are begun anew."""
    async with moves(tmp_path, replica_alter_log_dirs_io_max_bytes_per_second=1) as made:
        await made.world.topics.create("u", 1, {})
        manager = made.machine.manager
        manager.interrupted_moves = [("t", 0, made.other), ("gone", 0, made.other), ("u", 0, made.other)]
        await made.mover.move("t", 0, made.other)
        made.mover.resume()
        assert {move.log.topic for move in manager.moves()} >= {"t"}
        assert manager.interrupted_moves == []


async def test_a_topic_that_is_deleted_ends_its_move(tmp_path: Path) -> None:
    async with moves(tmp_path, replica_alter_log_dirs_io_max_bytes_per_second=1) as made:
        await made.mover.move("t", 0, made.other)
        await made.world.topics.delete("t")
        await soon(made.mover.idle())
        assert (made.mover.cancelled, made.machine.manager.moves()) == (1, [])
        assert not copies(made.other)


async def test_a_copy_that_fails_leaves_the_log_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with moves(tmp_path) as made:

        def refuse(_move: LogMove) -> None:
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(LogMove, "begin", refuse)
        await made.mover.move("t", 0, made.other)
        await soon(made.mover.idle())
        assert (made.place, made.mover.failed) == (made.home, 1)
        append(made.log, b"goes on")
        assert made.world.cleaner.manager.hold(made.log)
        with pytest.raises(ProtocolError) as raised:
            await made.mover.move("none", 0, made.other)
        assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR
