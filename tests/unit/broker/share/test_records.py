"""Golden bytes: what Apache Kafka 4.3.1's own ShareCoordinatorRecordHelpers and serde make of the same values."""

from __future__ import annotations

from time import thread_time

import pytest
from tidelog.broker.coordinator.runtime import partition_for
from tidelog.broker.share.records import (
    SNAPSHOT,
    UPDATE,
    RecordState,
    SharePartitionKey,
    ShareRecordError,
    ShareState,
    ShareUpdate,
    StateBatch,
    is_coordinator_key,
    read_key,
    read_snapshot,
    read_update,
    snapshot_key,
    snapshot_value,
    update_key,
    update_value,
)

KEY = SharePartitionKey("group", bytes(range(1, 17)), 4)
BATCHES = (StateBatch(100, 101, RecordState.ACKNOWLEDGED, 1), StateBatch(110, 119, RecordState.AVAILABLE, 2))
STATE = ShareState(3, 5, 7, 100, 2, BATCHES, 1700000000000, 1700000000001)
CHANGE = ShareUpdate(3, 7, 100, 2, BATCHES)
GROUP_ID_PARTITION = "000567726f75700102030405060708090a0b0c0d0e0f1000000004"
KAFKAS_SNAPSHOT = (
    "000000000003000000050000000700000000000000640000018bcfe568000000018bcfe5680103000000000000006400000000000000650200"
    "0100000000000000006e00000000000000770000020001000400000002"
)
KAFKAS_UPDATE = (
    "0000000000030000000700000000000000640300000000000000640000000000000065020001000000000000000"
    "06e00000000000000770000020001000400000002"
)


def test_a_snapshot_is_kafkas() -> None:
    assert snapshot_key(KEY).hex() == "0000" + GROUP_ID_PARTITION
    assert snapshot_value(STATE).hex() == KAFKAS_SNAPSHOT
    assert read_snapshot(bytes.fromhex(KAFKAS_SNAPSHOT)) == STATE
    assert read_key(snapshot_key(KEY)) == (SNAPSHOT, KEY)


def test_an_update_is_kafkas() -> None:
    assert update_key(KEY).hex() == "0001" + GROUP_ID_PARTITION
    assert update_value(CHANGE).hex() == KAFKAS_UPDATE
    assert read_update(bytes.fromhex(KAFKAS_UPDATE)) == CHANGE
    assert read_key(update_key(KEY)) == (UPDATE, KEY)


def test_a_key_is_in_kafkas_partition() -> None:
    assert KEY.coordinator_key == "group:AQIDBAUGBwgJCgsMDQ4PEA:4"
    assert partition_for(KEY.coordinator_key, 50) == 48


def test_a_key_of_another_kind_is_not_known() -> None:
    assert read_key(b"\x00\x02whatever") is None
    assert read_key(b"") is None


@pytest.mark.parametrize("data", [b"\x00\x00", snapshot_key(KEY)[:-1], update_key(KEY)[:5]])
def test_a_key_that_is_cut_off_is_told(data: bytes) -> None:
    with pytest.raises(ShareRecordError):
        read_key(data)


def test_values_that_cannot_be_are_told() -> None:
    for data in (
        b"",
        bytes.fromhex(KAFKAS_SNAPSHOT)[:-9],
        snapshot_value(STATE).replace(b"\x02\x00\x01\x00", b"\x03\x00\x01\x00"),
    ):
        with pytest.raises(ShareRecordError):
            read_snapshot(data)
    backwards = CHANGE._replace(batches=(StateBatch(9, 8, RecordState.ARCHIVED, 1),))
    with pytest.raises(ShareRecordError, match="9 to 8"):
        read_update(update_value(backwards))


@pytest.mark.parametrize(
    ("text", "is_right"),
    [
        ("g:AQIDBAUGBwgJCgsMDQ4PEA:0", True),
        ("g:AQIDBAUGBwgJCgsMDQ4PE:0", False),
        ("g:AQIDBAUGBwgJCgsMDQ4PEA:x", False),
        (":AQIDBAUGBwgJCgsMDQ4PEA:0", False),
        (" :AQIDBAUGBwgJCgsMDQ4PEA:0", False),
        ("a:b\n:AQIDBAUGBwgJCgsMDQ4PEA:0", True),
        ("g:AQIDBAUGBwgJCgsMDQ4PEA:\u0663", False),
        ("g", False),
    ],
)
def test_what_find_coordinator_may_ask_for(text: str, is_right: bool) -> None:
    assert is_coordinator_key(text) is is_right


@pytest.mark.parametrize("text", ["a" * 16_000 + ":" * 16_000, "a:" * 16_000, ":" * 32_000])
def test_a_long_text_that_is_no_key_is_seen_at_once(text: str) -> None:
    """Each two of its places were tried: 3 s of the loop for each key of a FindCoordinator."""
    began = thread_time()
    assert not is_coordinator_key(text)
    assert thread_time() - began < 0.2
