"""Against Kafka's own words: golden/test_decoded_dump. Here: what is broken, and which files."""

from __future__ import annotations

import json

import pytest
from tidelog.broker.coordinator.internal_records import (
    as_data,
    decoder_for,
    metadata_text,
    offsets_text,
    share_state_text,
    transactions_text,
)
from tidelog.broker.groups.heartbeat.registry import encoded
from tidelog.broker.groups.store.records import OffsetAndMetadata, offset_key, offset_value
from tidelog.broker.groups.streams.records import target_epoch_record
from tidelog.broker.share.records import (
    RecordState,
    SharePartitionKey,
    ShareUpdate,
    StateBatch,
    snapshot_key,
    update_key,
    update_value,
)
from tidelog.broker.transactions.log import transaction_key, transaction_value
from tidelog.broker.transactions.states import TransactionMetadata, TransactionState
from tidelog.protocol.messages.consumer_offsets import GroupMetadataValue, MemberMetadata
from tidelog.protocol.schema import encode_with_version

KEY = offset_key("g", "orders", 3)


def test_which_files() -> None:
    assert decoder_for("/d/__consumer_offsets-17/00000000000000000000.log") is offsets_text
    assert decoder_for("/d/__transaction_state-3/00000000000000000000.log") is transactions_text
    assert decoder_for("/d/__cluster_metadata-0/00000000000000000000.log") is metadata_text
    assert decoder_for("/d/bootstrap.checkpoint") is metadata_text
    assert decoder_for("/d/orders-0/00000000000000000000.log") is None
    assert decoder_for("00000000000000000000.log") is None


def test_an_offset() -> None:
    key, value = offsets_text(KEY, offset_value(OffsetAndMetadata(42, 5, "ü", 7)))
    assert key == '{"type":"1","data":{"group":"g","topic":"orders","partition":3}}'
    assert value == '{"version":"4","data":{"offset":42,"leaderEpoch":5,"metadata":"ü","commitTimestamp":7}}'
    assert offsets_text(KEY, None) == (key, "<DELETE>")


def test_a_transactional_id() -> None:
    metadata = TransactionMetadata("tx", 5, 1, 100, TransactionState.EMPTY, 7, previous_producer_id=4, client_version=2)
    key, value = transactions_text(transaction_key("tx"), transaction_value(metadata, 2))
    assert key == '{"type":"0","data":{"transactionalId":"tx"}}'
    assert value is not None
    shown = json.loads(value)
    assert shown["version"] == "1"
    assert (shown["data"]["previousProducerId"], shown["data"]["clientTransactionVersion"]) == (4, 2)
    assert (shown["data"]["transactionPartitions"], shown["data"]["transactionStatus"]) == (None, 0)
    assert transactions_text(transaction_key("tx"), None) == (key, "<DELETE>")
    assert transactions_text(b"\0\7", b"") == ("a key of version 7, which is not known", None)


@pytest.mark.parametrize(
    ("key", "value"),
    [(None, None), (b"\0", None), (b"\0\0\0\5a", None), (transaction_key("tx"), b"\0\1")],
)
def test_no_transactional_id(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(ValueError, match=r"version|TransactionLog"):
        transactions_text(key, value)


def test_what_means_nothing() -> None:
    for key, value in ((None, b""), (b"\0", b""), (KEY[:-1], None), (KEY, b""), (KEY, b"\0\7"), (KEY, b"\0\4\0")):
        with pytest.raises(ValueError, match=r"\S"):
            offsets_text(key, value)
    for value in (None, b"", b"\7\0\0", b"\1\2\0\x05"):
        with pytest.raises(ValueError, match=r"\S"):
            metadata_text(None, value)
    # A newer Kafka's records are left as they are.
    assert offsets_text(b"\0\x63rest", b"") == ("a key of version 99, which is not known", None)


def test_a_member_of_another_kind_keeps_its_bytes() -> None:
    member = MemberMetadata(member_id="m", subscription=b"\xff\xfe", assignment=b"")
    for protocol_type in ("consumer", "connect"):
        group = GroupMetadataValue(protocol_type=protocol_type, protocol=None, leader=None, members=[member])
        _, text = offsets_text(b"\0\2\0\1g", encode_with_version(group, 3))
        assert text is not None
        assert json.loads(text)["data"]["members"][0]["subscription"] == "//4="
    assert as_data(member, 0).keys() == {
        "memberId",
        "clientId",
        "clientHost",
        "sessionTimeout",
        "subscription",
        "assignment",
    }


def test_records_of_newer_groups() -> None:
    key, value = encoded(target_epoch_record("g", 7, 99))
    key_text = '{"type":"20","data":{"groupId":"g"}}'
    text = '{"version":"0","data":{"assignmentEpoch":7,"assignmentTimestamp":99}}'
    assert offsets_text(key, value) == (key_text, text)
    assert offsets_text(key, None) == (key_text, "<DELETE>")
    with pytest.raises(ValueError):
        offsets_text(key[:-1], value)


def test_share_groups_state() -> None:
    assert decoder_for("/d/__share_group_state-3/00000000000000000000.log") is share_state_text
    partition = SharePartitionKey("g", bytes(16), 4)
    batches = (StateBatch(3, 5, RecordState.ACKNOWLEDGED, 1),)
    key, value = share_state_text(update_key(partition), update_value(ShareUpdate(2, 7, 3, 3, batches)))
    assert json.loads(key or "") == {"type": "1", "data": {"groupId": "g", "topicId": "A" * 22, "partition": 4}}
    assert json.loads(value or "")["data"]["stateBatches"] == [
        {"firstOffset": 3, "lastOffset": 5, "deliveryState": 2, "deliveryCount": 1}
    ]
    assert share_state_text(snapshot_key(partition), None)[1] == "<DELETE>"
    assert share_state_text(b"\0\7", b"") == ("a key of kind 7, which is not known", None)
    for bad in (None, b"\0\0", snapshot_key(partition)[:-1]):
        with pytest.raises(ValueError, match=r"key|short|ends|version|bytes"):
            share_state_text(bad, b"")
