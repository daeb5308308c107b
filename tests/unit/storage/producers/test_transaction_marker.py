from __future__ import annotations

import pytest
from tidelog.protocol.records.exceptions import CorruptRecordError
from tidelog.storage.producers.transaction_marker import TransactionMarker, parse_transaction_marker


@pytest.mark.parametrize(
    ("key", "value", "marker"),
    [
        ("00000000", "000000000007", TransactionMarker(is_commit=False, coordinator_epoch=7)),
        ("00000001", "000000000000", TransactionMarker(is_commit=True, coordinator_epoch=0)),
        ("00050001", "0001000000ff00", TransactionMarker(is_commit=True, coordinator_epoch=255)),
        ("00000002", "00", None),  # LeaderChange of a Raft log
    ],
)
def test_parse(key: str, value: str, marker: TransactionMarker | None) -> None:
    assert parse_transaction_marker(bytes.fromhex(key), bytes.fromhex(value)) == marker


def test_round_trip() -> None:
    for marker in (TransactionMarker(True, 3), TransactionMarker(False, 2**31 - 1)):
        assert parse_transaction_marker(marker.key(), marker.value()) == marker


@pytest.mark.parametrize(
    ("key", "value"), [(None, None), (b"", b""), (b"\0\0\0", b""), (b"\0\0\0\1", None), (b"\0\0\0\1", b"\0\0\0\0\0")]
)
def test_malformed_markers_are_refused(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(CorruptRecordError):
        parse_transaction_marker(key, value)


def test_negative_versions_are_refused() -> None:
    with pytest.raises(CorruptRecordError):
        parse_transaction_marker(b"\xff\xff\0\1", bytes(6))
    with pytest.raises(CorruptRecordError):
        parse_transaction_marker(b"\0\0\0\1", b"\xff\xff\0\0\0\0")
