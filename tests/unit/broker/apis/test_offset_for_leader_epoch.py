from __future__ import annotations

from pathlib import Path

import pytest
from support.logs import World, append
from support.topic_world import topic_world
from tidelog.broker.apis.offset_for_leader_epoch import offset_for_leader_epoch
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tidelog.protocol.schema import decode, encode


@pytest.mark.parametrize(
    ("topic", "partition", "current", "asked", "expected"),
    [
        ("t", 0, -1, 0, (ErrorCode.NONE, 0, 3)),
        ("t", 0, 0, 0, (ErrorCode.NONE, 0, 3)),
        ("t", 0, 0, 1, (ErrorCode.NONE, -1, -1)),
        ("t", 0, 0, -1, (ErrorCode.NONE, -1, -1)),
        ("t", 0, 1, 0, (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)),
        ("t", 1, 0, 0, (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)),
        ("none", 0, 0, 0, (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)),
    ],
)
@pytest.mark.parametrize("version", range(5))
async def test_the_end_of_an_epoch(
    tmp_path: Path, topic: str, partition: int, current: int, asked: int, expected: tuple[int, int, int], version: int
) -> None:
    machine = World()
    async with topic_world(tmp_path, machine.start()) as world:
        await world.topics.create("t", 1, {})
        append(machine.log(), "a", "b", "c")
        part = OffsetForLeaderPartition(partition=partition, current_leader_epoch=current, leader_epoch=asked)
        topics = [OffsetForLeaderTopic(topic=topic, partitions=[part])]
        request = OffsetForLeaderEpochRequest(replica_id=-1, topics=topics)
        received, _ = decode(OffsetForLeaderEpochRequest, version, encode(request, version))
        answer = offset_for_leader_epoch(received, world.context(version))
        decoded, _ = decode(OffsetForLeaderEpochResponse, version, encode(answer, version))
        (row,) = decoded.topics[0].partitions
        if version < 2 and expected[0] == ErrorCode.UNKNOWN_LEADER_EPOCH:
            expected = (ErrorCode.NONE, 0, 3)  # the current epoch can't be told, so it does not fence
        epoch = row.leader_epoch if version >= 1 else expected[1]
        assert (row.error_code, epoch, row.end_offset) == expected
    machine.stop()
