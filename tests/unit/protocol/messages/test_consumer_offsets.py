"""Golden bytes: records that Apache Kafka 4.3.1 wrote to `__consumer_offsets` for a librdkafka consumer."""

from __future__ import annotations

import pytest
from tidelog.protocol.errors import ErrorCode, ProtocolError
from tidelog.protocol.messages.consumer_offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from tidelog.protocol.schema import Message, decode_with_version, encode_with_version

MEMBER = "rdkafka-3c65019d-6edf-4aef-bf6a-83b7e509e4a9"
SUBSCRIPTION = "000300000002000a636c69656e742d6c7a3400056d697865640000000000000000ffffffff0000"
ASSIGNMENT = (
    "000000000002000a636c69656e742d6c7a34000000010000000000056d697865640000000300000000000000010000000200000000"
)

GOLDEN = [
    (
        "0001000c73616d706c652d67726f757000056d6978656400000002",
        1,
        OffsetCommitKey(group="sample-group", topic="mixed", partition=2),
    ),
    (
        "000400000000000000c80000000001000001a1fd71765801001071fa43d7a18d40eab5808a708953c498",
        4,
        OffsetCommitValue(
            offset=200,
            leader_epoch=0,
            metadata="",
            commit_timestamp=1795253433944,
            topic_id=bytes.fromhex("71fa43d7a18d40eab5808a708953c498"),
        ),
    ),
    ("0002000c73616d706c652d67726f7570", 2, GroupMetadataKey(group="sample-group")),
    (
        "0003000000000000ffffffff000001a1fd71758500000000",
        3,
        GroupMetadataValue(
            protocol_type="",
            generation=0,
            protocol=None,
            leader=None,
            current_state_timestamp=1795253433733,
            members=[],
        ),
    ),
    (
        "00030008636f6e73756d657200000001000572616e6765002c72646b61666b612d33633635303139642d366564662d346165662d6266"
        "36612d383362376535303965346139000001a1fd71759c00000001002c72646b61666b612d33633635303139642d366564662d346165"
        "662d626636612d383362376535303965346139ffff000772646b61666b61000a2f3132372e302e302e31000493e00000afc800000027"
        f"{SUBSCRIPTION}00000035{ASSIGNMENT}",
        3,
        GroupMetadataValue(
            protocol_type="consumer",
            generation=1,
            protocol="range",
            leader=MEMBER,
            current_state_timestamp=1795253433756,
            members=[
                MemberMetadata(
                    member_id=MEMBER,
                    group_instance_id=None,
                    client_id="rdkafka",
                    client_host="/127.0.0.1",
                    rebalance_timeout=300000,
                    session_timeout=45000,
                    subscription=bytes.fromhex(SUBSCRIPTION),
                    assignment=bytes.fromhex(ASSIGNMENT),
                )
            ],
        ),
    ),
]


@pytest.mark.parametrize(("data", "version", "message"), GOLDEN)
def test_what_kafka_wrote(data: str, version: int, message: Message) -> None:
    assert encode_with_version(message, version).hex() == data
    assert decode_with_version(type(message), bytes.fromhex(data)) == (message, version)


@pytest.mark.parametrize(
    ("version", "data"),
    [
        (0, "0000 0000000000000005 0001 6d 0000000000000007"),
        (1, "0001 0000000000000005 0001 6d 0000000000000007 0000000000000009"),
        (2, "0002 0000000000000005 0001 6d 0000000000000007"),
        (3, "0003 0000000000000005 00000003 0001 6d 0000000000000007"),
        (4, "0004 0000000000000005 00000003 02 6d 0000000000000007 00"),
    ],
)
def test_an_offset_in_every_version_of_its_value(version: int, data: str) -> None:
    value = OffsetCommitValue(offset=5, leader_epoch=3, metadata="m", commit_timestamp=7, expire_timestamp=9)
    assert encode_with_version(value, version) == bytes.fromhex(data)


def test_a_key_of_a_version_to_come_is_no_offset() -> None:
    with pytest.raises(ProtocolError) as caught:
        decode_with_version(OffsetCommitKey, bytes.fromhex("0003000161"))
    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION
