"""Version 0, which no other codec at hand knows; bytes laid out after the protocol guide."""

from __future__ import annotations

from support.messages import check_round_trip
from tidelog.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)


def test_version_0_asks_for_several_offsets() -> None:
    partition = ListOffsetsPartition(partition_index=2, timestamp=-1, max_num_offsets=3)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[partition])])
    assert check_round_trip(request, 0) == bytes.fromhex(
        "ffffffff 00000001 0001 74 00000001 00000002 ffffffffffffffff 00000003"
    )


def test_version_0_returns_several_offsets() -> None:
    partition = ListOffsetsPartitionResponse(partition_index=2, error_code=1, old_style_offsets=[9, 0])
    response = ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[partition])])
    assert check_round_trip(response, 0) == bytes.fromhex(
        "00000001 0001 74 00000001 00000002 0001 00000002 0000000000000009 0000000000000000"
    )
