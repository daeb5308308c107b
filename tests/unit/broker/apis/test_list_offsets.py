from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.logs import World, append
from support.mock_time import START_MS
from support.topic_world import TopicWorld, topic_world
from tidelog.broker.apis.list_offsets import (
    EARLIEST,
    EARLIEST_LOCAL,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    list_offsets,
)
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tidelog.protocol.schema import decode, encode
from tidelog.storage.exceptions import KafkaStorageError

Row = tuple[int, int, int]
UNSUPPORTED: Row = (ErrorCode.UNSUPPORTED_VERSION, -1, -1)
UNKNOWN: Row = (ErrorCode.NONE, -1, -1)


@asynccontextmanager
async def world_with_records(directory: Path) -> AsyncIterator[TopicWorld]:
    """Topic `t`, one partition: times 0, 10, 20 | 5, 15, 25 | 2, 3, 4 after START_MS; the log starts at offset 1."""
    machine = World()
    async with topic_world(directory, machine.start()) as world:
        await world.topics.create("t", 1, {})
        append(machine.log(), "a", "b", "c", timestamp=START_MS, step=10)
        append(machine.log(), "d", "e", "f", timestamp=START_MS + 5, step=10)
        append(machine.log(), "g", "h", "i", timestamp=START_MS + 2)
        machine.log().increment_log_start_offset(1)
        yield world
    machine.stop()


async def ask(
    world: TopicWorld,
    version: int,
    timestamp: int,
    *,
    topic: str = "t",
    partition: int = 0,
    epoch: int = -1,
    repeat: int = 1,
) -> Row:
    """(error, timestamp after START_MS or -1, offset)"""
    part = ListOffsetsPartition(partition_index=partition, timestamp=timestamp, current_leader_epoch=epoch)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[part] * repeat)])
    received, _ = decode(ListOffsetsRequest, version, encode(request, version))
    answer = await list_offsets(received, world.context(version))
    decoded, _ = decode(ListOffsetsResponse, version, encode(answer, version))
    rows = decoded.topics[0].partitions
    assert len(rows) == repeat
    assert all(row == rows[0] for row in rows)
    row = rows[0]
    if version >= 4:
        assert row.leader_epoch == (0 if row.offset >= 0 else -1)
    return row.error_code, row.timestamp - (START_MS if row.timestamp >= 0 else 0), row.offset


@pytest.mark.parametrize("version", range(1, 12))
async def test_every_question_in_every_version(tmp_path: Path, version: int) -> None:
    async with world_with_records(tmp_path) as world:
        assert await ask(world, version, LATEST) == (ErrorCode.NONE, -1, 9)
        assert await ask(world, version, EARLIEST) == (ErrorCode.NONE, -1, 1)
        assert await ask(world, version, MAX_TIMESTAMP) == ((ErrorCode.NONE, 25, 5) if version >= 7 else UNSUPPORTED)
        assert await ask(world, version, EARLIEST_LOCAL) == ((ErrorCode.NONE, -1, 1) if version >= 8 else UNSUPPORTED)
        assert await ask(world, version, LATEST_TIERED) == (UNKNOWN if version >= 9 else UNSUPPORTED)
        assert await ask(world, version, -6) == (UNKNOWN if version >= 11 else UNSUPPORTED)
        assert await ask(world, version, -7) == UNSUPPORTED
        assert await ask(world, version, START_MS + 11) == (ErrorCode.NONE, 20, 2)
        assert await ask(world, version, START_MS + 21) == (ErrorCode.NONE, 25, 5)
        assert await ask(world, version, START_MS + 26) == UNKNOWN
        assert await ask(world, version, 0) == (ErrorCode.NONE, 10, 1), "nothing before the log's start is found"


async def test_refusals(tmp_path: Path) -> None:
    async with world_with_records(tmp_path) as world:
        assert (await ask(world, 7, LATEST, topic="none"))[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert (await ask(world, 7, LATEST, partition=1))[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert (await ask(world, 7, LATEST, epoch=1))[0] == ErrorCode.UNKNOWN_LEADER_EPOCH
        assert (await ask(world, 7, LATEST, epoch=0))[0] == ErrorCode.NONE
        assert (await ask(world, 7, LATEST, repeat=2))[0] == ErrorCode.INVALID_REQUEST


async def test_a_disk_that_fails_is_one_partitions_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with world_with_records(tmp_path) as world:
        partition = world.partitions.get("t", 0)
        assert partition is not None

        def fail(*_: object, **__: object) -> None:
            raise KafkaStorageError("disk")

        monkeypatch.setattr(type(partition.log), "lookup_by_timestamp", fail)
        assert (await ask(world, 7, START_MS))[0] == ErrorCode.KAFKA_STORAGE_ERROR


async def test_version_0_tells_where_segments_begin(tmp_path: Path) -> None:
    """Newest first, as many as asked for: those that were full by that time, and the log's end as one more."""
    machine = World()
    async with topic_world(tmp_path, machine.start()) as world:
        world.time = machine.time
        machine.time.advance(1000)
        await world.topics.create("t", 1, {"segment.bytes": "200"})
        for n in range(4):  # segments at 0, 2, 4 and 6, with times up to 1, 11, 21 and 31
            append(machine.log(), "a" * 60, "b" * 60, timestamp=START_MS + 10 * n)
        assert [segment.base_offset for segment in machine.log().segments] == [0, 2, 4, 6]
        machine.log().increment_log_start_offset(1)

        async def offsets(timestamp: int, most: int = 10, partition: int = 0) -> tuple[int, list[int]]:
            part = ListOffsetsPartition(partition_index=partition, timestamp=timestamp, max_num_offsets=most)
            request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[part])])
            received, _ = decode(ListOffsetsRequest, 0, encode(request, 0))
            answer = await list_offsets(received, world.context(0))
            (row,) = decode(ListOffsetsResponse, 0, encode(answer, 0))[0].topics[0].partitions
            return row.error_code, list(row.old_style_offsets)

        assert await offsets(LATEST, 1) == (0, [8])
        assert await offsets(LATEST) == (0, [8, 6, 4, 2, 1])
        assert await offsets(EARLIEST) == (0, [1])
        assert await offsets(START_MS + 21) == (0, [4, 2, 1])
        assert await offsets(START_MS + 21, 2) == (0, [4, 2])
        assert await offsets(START_MS + 20) == (0, [2, 1])
        assert await offsets(START_MS) == (0, [])
        assert await offsets(START_MS + 21, -1) == (0, [])
        assert await offsets(machine.time.milliseconds() + 50) == (0, [8, 6, 4, 2, 1])
        assert await offsets(LATEST, partition=3) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, [])
        machine.log().increment_log_start_offset(8)
        assert await offsets(EARLIEST) == (0, [8])
    machine.stop()


@pytest.mark.parametrize("version", [0, 1, 11])
async def test_a_partition_that_is_named_under_its_topic_twice_is_refused_both_times(
    tmp_path: Path, version: int
) -> None:
    """In version 0 each would be told an offset for each of its segments."""
    async with world_with_records(tmp_path) as world:
        await world.topics.create("u", 2, {})
        part = ListOffsetsPartition(timestamp=LATEST, max_num_offsets=100)
        other = ListOffsetsPartition(partition_index=1, timestamp=LATEST, max_num_offsets=100)
        topics = [
            ListOffsetsTopic(name="u", partitions=[part]),
            ListOffsetsTopic(name="t", partitions=[part]),
            ListOffsetsTopic(name="u", partitions=[part, other]),
        ]
        answer = await list_offsets(ListOffsetsRequest(topics=topics), world.context(version))
        assert [[row.error_code for row in topic.partitions] for topic in answer.topics] == [
            [ErrorCode.INVALID_REQUEST],
            [0],
            [ErrorCode.INVALID_REQUEST, 0],
        ]
