from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.logs import World, append
from support.topic_world import TopicWorld, topic_world
from tidelog.broker.apis.describe_log_dirs import describe_log_dirs
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from tidelog.protocol.schema import decode, encode
from tidelog.storage.io.filesystem import RealFileSystem


async def ask(world: TopicWorld, topics: dict[str, list[int]] | None, version: int = 5) -> list[DescribeLogDirsResult]:
    asked = None if topics is None else [DescribableLogDirTopic(topic=name, partitions=p) for name, p in topics.items()]
    response = await describe_log_dirs(DescribeLogDirsRequest(topics=asked), world.context(version))
    decoded, _ = decode(DescribeLogDirsResponse, version, encode(response, version))
    assert decoded.error_code == ErrorCode.NONE
    return list(decoded.results)


def rows(result: DescribeLogDirsResult) -> dict[str, list[tuple[int, int]]]:
    return {
        topic.name: [(part.partition_index, part.partition_size) for part in topic.partitions]
        for topic in result.topics
    }


def sizes(path: str) -> dict[int, int]:
    """What the file system says: bytes of `t`'s segments, by partition."""
    return {int(log.parent.name[2:]): log.stat().st_size for log in Path(path).glob("t-*/*.log")}


@pytest.mark.parametrize("version", range(6))
async def test_each_directory_is_told_with_its_logs(tmp_path: Path, version: int) -> None:
    paths = [str(tmp_path / "one"), str(tmp_path / "two/")]
    machine = World(RealFileSystem(), directories=paths)
    async with topic_world(tmp_path, machine.start()) as world:
        await world.topics.create("t", 2, {})
        append(machine.log("t", 1), "some", "records")
        on_disk = {path: sizes(path) for path in paths}
        assert sorted(index for logs in on_disk.values() for index in logs) == [0, 1]
        everything = await ask(world, None, version)
        assert [result.log_dir for result in everything] == paths
        for result in everything:
            assert dict(rows(result).get("t", [])) == on_disk[result.log_dir]
            assert (result.total_bytes > 0, result.usable_bytes > 0) == (version >= 4, version >= 4)
        one = [rows(result) for result in await ask(world, {"t": [1, 7], "none": [0]}, version)]
        size = next(logs[1] for logs in on_disk.values() if 1 in logs)
        assert sorted(one, key=len) == [{}, {"t": [(1, size)]}]
        assert [rows(result) for result in await ask(world, {}, version)] == [{}, {}]
    machine.stop()


async def test_a_directory_that_cant_be_looked_at_has_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_path: str) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(shutil, "disk_usage", fail)
    machine = World(RealFileSystem(), directories=[str(tmp_path)])
    async with topic_world(tmp_path, machine.start()) as world:
        await world.topics.create("t", 1, {})
        (result,) = await ask(world, None)
        assert (result.error_code, result.topics) == (ErrorCode.KAFKA_STORAGE_ERROR, [])
    machine.stop()
