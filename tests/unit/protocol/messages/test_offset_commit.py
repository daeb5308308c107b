"""Version 1, whose timestamps no other codec at hand knows; bytes laid out after the protocol guide."""

from __future__ import annotations

from support.messages import check_round_trip
from tidelog.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)


def test_version_1_has_a_timestamp_for_each_partition() -> None:
    partition = OffsetCommitRequestPartition(
        partition_index=2, committed_offset=5, commit_timestamp=7, committed_metadata=None
    )
    request = OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=3,
        member_id="m",
        topics=[OffsetCommitRequestTopic(name="t", partitions=[partition])],
    )
    assert check_round_trip(request, 1) == bytes.fromhex(
        "0001 67 00000003 0001 6d 00000001 0001 74 00000001 00000002 0000000000000005 0000000000000007 ffff"
    )
