from __future__ import annotations

import pytest
from support.groups import Groups
from tidelog.broker.groups.store.shards import Shards, append_failure, java_hash, partition_for
from tidelog.protocol.errors import ErrorCode, ProtocolError
from tidelog.protocol.records.exceptions import RecordTooLargeError
from tidelog.storage.exceptions import KafkaStorageError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("Hello, World!", 1498789909),
        ("polygenelubricants", -(2**31)),  # the known string whose hash has no absolute value
        ("\U0001f600", 31 * 0xD83D + 0xDE00),
    ],
)
def test_java_hash(text, expected):
    assert java_hash(text) == expected


def test_partition_of_a_group():
    assert partition_for("hello", 50) == 99162322 % 50
    assert partition_for("polygenelubricants", 50) == 0
    assert {partition_for(f"group-{i}", 50) for i in range(2000)} == set(range(50))


def test_what_clients_are_told_of_failed_writes():
    assert append_failure(KafkaStorageError("x")).code is ErrorCode.NOT_COORDINATOR
    assert append_failure(RecordTooLargeError("x")).code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert (
        append_failure(ProtocolError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)).code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    )


def code_of(shards, group_id, **options):
    with pytest.raises(ProtocolError) as caught:
        shards.find(group_id, **options)
    return caught.value.code


def test_finding_a_shard():
    harness = Groups()
    shards = Shards(harness.log, harness.time)
    assert code_of(shards, "g") is ErrorCode.NOT_COORDINATOR
    shards.open(4, loaded=False)
    assert code_of(shards, "g") is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert code_of(shards, "") is ErrorCode.INVALID_GROUP_ID
    for shard in shards:
        shard.loaded = True
    assert shards.find("g").index == partition_for("g", 4)
    assert shards.find("", allow_empty_id=True).index == 0
    shards.closed = True
    assert code_of(shards, "g") is ErrorCode.COORDINATOR_NOT_AVAILABLE
    harness.close()
