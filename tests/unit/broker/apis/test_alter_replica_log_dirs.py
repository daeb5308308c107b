from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from support.logs import World, append
from support.patience import PATIENCE_S
from support.topic_world import TopicWorld, topic_world
from tidelog.broker.apis.alter_replica_log_dirs import alter_replica_log_dirs
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from tidelog.protocol.schema import decode, encode
from tidelog.storage.io.filesystem import RealFileSystem


async def ask(world: TopicWorld, version: int, path: str, topic: str, *partitions: int) -> list[int]:
    wanted = AlterReplicaLogDir(path=path, topics=[AlterReplicaLogDirTopic(name=topic, partitions=partitions)])
    response = await alter_replica_log_dirs(AlterReplicaLogDirsRequest(dirs=[wanted]), world.context(version))
    decoded, _ = decode(AlterReplicaLogDirsResponse, version, encode(response, version))
    ((told, rows),) = [(result.topic_name, result.partitions) for result in decoded.results]
    assert (told, [row.partition_index for row in rows]) == (topic, list(partitions))
    return [row.error_code for row in rows]


@pytest.mark.parametrize("version", range(3))
async def test_where_a_partition_lies_it_may_lie(tmp_path: Path, version: int) -> None:
    paths = [str(tmp_path / "one"), str(tmp_path / "two")]
    machine = World(RealFileSystem(), directories=paths)
    async with topic_world(tmp_path, machine.start()) as world:
        await world.topics.create("t", 1, {})
        home = machine.log("t", 0).directory.rpartition("/")[0]
        assert await ask(world, version, f"{home}/", "t", 0, 1) == [
            ErrorCode.NONE,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]
        assert await ask(world, version, str(tmp_path), "t", 0) == [ErrorCode.LOG_DIR_NOT_FOUND]
        assert await ask(world, version, "one", "t", 0) == [ErrorCode.LOG_DIR_NOT_FOUND]
    machine.stop()


async def test_a_partition_goes_to_the_directory_that_is_asked_for(tmp_path: Path) -> None:
    paths = [str(tmp_path / "one"), str(tmp_path / "two")]
    machine = World(RealFileSystem(), directories=paths)
    async with topic_world(tmp_path, machine.start()) as world:
        await world.topics.create("t", 1, {})
        append(machine.log("t", 0), "some", "records")
        home = machine.log("t", 0).directory.rpartition("/")[0]
        (other,) = set(paths) - {home}
        assert await ask(world, 2, other, "t", 0) == [ErrorCode.NONE]
        await asyncio.wait_for(world.mover.get().idle(), PATIENCE_S)
        assert machine.log("t", 0).directory == f"{other}/t-0"
        await world.mover.get().stop()
    machine.stop()


async def test_a_cordoned_directory_and_a_name_without_room_are_refused(tmp_path: Path) -> None:
    paths = [str(tmp_path / "one"), str(tmp_path / "two")]
    machine = World(RealFileSystem(), directories=paths)
    async with topic_world(tmp_path, machine.start(), cordoned_log_dirs=(paths[1],)) as world:
        long = "t" * 249
        for name in ("t", long):
            await world.topics.create(name, 1, {})
        cordoned, home = [ErrorCode.INVALID_REPLICA_ASSIGNMENT], machine.log("t", 0).directory.rpartition("/")[0]
        assert await ask(world, 2, paths[1], "t", 0) == (cordoned if home == paths[0] else [ErrorCode.NONE])
        away = (set(paths) - {machine.log(long, 0).directory.rpartition("/")[0]}).pop()
        wanted = ErrorCode.INVALID_TOPIC_EXCEPTION if away == paths[0] else ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert await ask(world, 2, away, long, 0) == [wanted]
    machine.stop()


async def test_a_directory_that_is_moved_while_stopped_is_found(tmp_path: Path) -> None:
    paths = [str(tmp_path / "one"), str(tmp_path / "two")]
    machine = World(RealFileSystem(), directories=paths)
    async with topic_world(tmp_path, machine.start()) as world:
        await world.topics.create("t", 1, {})
        append(machine.log("t", 0), "some", "records")
    machine.stop()
    (home,) = [path for path in paths if (Path(path) / "t-0").exists()]
    (other,) = set(paths) - {home}
    (Path(home) / "t-0").rename(Path(other) / "t-0")
    async with topic_world(tmp_path, machine.start()) as world:
        moved = machine.log("t", 0)
        assert (moved.directory, moved.log_end_offset) == (f"{other}/t-0", 2)
        assert await ask(world, 2, other, "t", 0) == [ErrorCode.NONE]
    machine.stop()
