"""Golden bytes: the control records in a snapshot that Apache Kafka 4.3.1 wrote (`kafka-storage format --standalone`)."""

from __future__ import annotations

import pytest
from tidelog.protocol.metadata_records import (
    KRaftVersionFeature,
    KRaftVersionRecord,
    Voter,
    VoterEndpoint,
    VotersRecord,
)
from tidelog.protocol.schema import Message, decode, encode

GOLDEN = [
    ("0000000100", KRaftVersionRecord(version=0, kraft_version=1)),
    (
        "00000200000001cd29faa2e45b4ed2a0457caa0a182227020b434f4e54524f4c4c45520a3132372e302e302e3185690000000001000000",
        VotersRecord(
            version=0,
            voters=[
                Voter(
                    voter_id=1,
                    voter_directory_id=bytes.fromhex("cd29faa2e45b4ed2a0457caa0a182227"),
                    endpoints=[VoterEndpoint(name="CONTROLLER", host="127.0.0.1", port=34153)],
                    kraft_version_feature=KRaftVersionFeature(min_supported_version=0, max_supported_version=1),
                )
            ],
        ),
    ),
]


@pytest.mark.parametrize(("text", "message"), GOLDEN, ids=lambda value: type(value).__name__)
def test_kafkas_bytes(text: str, message: Message) -> None:
    data = bytes.fromhex(text)
    assert decode(type(message), 0, data) == (message, len(data))
    assert encode(message, 0) == data
