"""What coordinators keep in internal topics, and what clients put into groups: keys, values, whole replays."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from typing import Any

from fuzz.target import target
from fuzz.targets.records import batches, mended
from support.messages import random_struct
from tidelog.broker.coordinator.internal_topic import BatchReader, CoordinatorRecord, ReplayBatch, coordinator_batch
from tidelog.broker.groups.classic.records import group_value, read_group_value
from tidelog.broker.groups.consumer import classic_protocol as consumer_protocol
from tidelog.broker.groups.heartbeat import regex_subscription as expressions
from tidelog.broker.groups.heartbeat.registry import TYPES, record_kind
from tidelog.broker.groups.loading import load_partition
from tidelog.broker.groups.store import records as offsets
from tidelog.broker.share import records as share
from tidelog.broker.share.state import load_share_state
from tidelog.broker.transactions.log import (
    TransactionRecordError,
    load_transactions,
    read_transaction_key,
    read_transaction_value,
    transaction_key,
    transaction_value,
)
from tidelog.protocol.errors import MalformedRequest, ProtocolError
from tidelog.protocol.messages.consumer_offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from tidelog.protocol.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from tidelog.protocol.messages.share_group_state import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
)
from tidelog.protocol.messages.transaction_state import TransactionLogKey, TransactionLogValue
from tidelog.protocol.records.exceptions import CorruptRecordError
from tidelog.protocol.schema import Message, encode_with_version

NOW = 1_700_000_000_000
_SIZE = struct.Struct(">H")


def pair(key: bytes, value: bytes) -> bytes:
    return _SIZE.pack(len(key)) + key + value


def split(data: bytes) -> tuple[bytes, bytes]:
    if len(data) < 2:
        return data, b""
    (size,) = _SIZE.unpack_from(data)
    return data[2 : 2 + size], data[2 + size :]


def messages(seed: str, *pairs: tuple[type[Message], type[Message]]) -> Iterator[bytes]:
    rng = random.Random(seed)
    for key, value in pairs:
        key_bytes = encode_with_version(random_struct(rng, key, key.VERSIONS[1]), key.VERSIONS[1])
        for version in range(value.VERSIONS[0], value.VERSIONS[1] + 1):
            yield pair(key_bytes, encode_with_version(random_struct(rng, value, version), version))


def offset_records() -> Iterator[bytes]:
    for topic_id in (None, bytes(range(16))):
        committed = offsets.OffsetAndMetadata(7, 1, "", NOW, topic_id=topic_id)
        yield pair(offsets.offset_key("group", "topic", 3), offsets.offset_value(committed))
    yield from messages("offsets", (OffsetCommitKey, OffsetCommitValue), (GroupMetadataKey, GroupMetadataValue))


@target(offsets.OffsetsRecordError, seeds=offset_records)
def consumer_offsets(data: bytes) -> None:
    key, value = split(data)
    what = offsets.read_key(key)
    if isinstance(what, offsets.OffsetKey):
        assert offsets.read_key(offsets.offset_key(*what)) == what
        committed = offsets.read_offset_value(value)
        again = offsets.read_offset_value(offsets.offset_value(committed))
        if committed.expire_timestamp_ms == offsets.NO_TIMESTAMP:
            assert again == committed
    elif isinstance(what, offsets.GroupKey):
        group = read_group_value(what.group, value)
        assignments = {member_id: member.assignment for member_id, member in group.members.items()}
        written = group_value(group, assignments)
        assert group_value(read_group_value(what.group, written), assignments) == written


def transaction_states() -> Iterator[bytes]:
    yield from messages("transactions", (TransactionLogKey, TransactionLogValue))
    for state in range(8):
        value = random_struct(random.Random(state), TransactionLogValue, 1)
        value.transaction_status = state
        yield pair(transaction_key("id"), encode_with_version(value, 1))


@target(TransactionRecordError, seeds=transaction_states)
def transaction_state(data: bytes) -> None:
    key, value = split(data)
    transactional_id = read_transaction_key(key)
    if transactional_id is None:
        return
    assert read_transaction_key(transaction_key(transactional_id)) == transactional_id
    found = read_transaction_value(transactional_id, value)
    written = transaction_value(found, 1)
    assert transaction_value(read_transaction_value(transactional_id, written), 1) == written


def share_states() -> Iterator[bytes]:
    yield from messages("share", (ShareSnapshotKey, ShareSnapshotValue), (ShareUpdateKey, ShareUpdateValue))
    key = share.SharePartitionKey("group", bytes(16), 3)
    batch = share.StateBatch(5, 9, share.RecordState(0), 1)
    yield pair(share.snapshot_key(key), share.snapshot_value(share.ShareState(1, 2, 3, 4, 5, (batch,))))
    yield pair(share.update_key(key), share.update_value(share.ShareUpdate(1, 2, 3, 4, (batch,))))


@target(share.ShareRecordError, seeds=share_states)
def share_state(data: bytes) -> None:
    key, value = split(data)
    found = share.read_key(key)
    if found is None:
        return
    kind, place = found
    assert share.is_coordinator_key(place.coordinator_key) or not place.group.strip() or place.partition < 0
    if kind == share.SNAPSHOT:
        assert share.read_key(share.snapshot_key(place)) == found
        state = share.read_snapshot(value)
        assert share.read_snapshot(share.snapshot_value(state)) == state
    else:
        assert share.read_key(share.update_key(place)) == found
        update = share.read_update(value)
        assert share.read_update(share.update_value(update)) == update


def heartbeat_group_records() -> Iterator[bytes]:
    for versions in (entry.key_versions for entry in TYPES.values()):
        for version in sorted(versions):
            kind = record_kind(version)
            assert kind is not None
            yield from messages(f"heartbeat_groups {version}", (kind.key, kind.value))
    yield from offset_records()


@target(seeds=heartbeat_group_records, growth=2000)
def replayed_groups(data: bytes) -> None:
    """`__consumer_offsets` played back: records of any kind, twice and with a tombstone; nothing may stop a start."""
    key, value = split(data)
    records: list[tuple[int, bytes | None, bytes | None]] = [
        (0, key, value),
        (1, key, None),
        (2, key, value),
        (3, None, value),
    ]
    for transactional in (False, True):
        batch = ReplayBatch(0, 5, transactional, False, records)
        marker = ReplayBatch(99, 5, True, True, [(99, b"\0\0\0\1", b"\0\0\0\0\0\0")])
        loaded = load_partition("fuzz", [batch, marker], NOW)
        assert loaded.records == len(records) + 1


@target(seeds=share_states, growth=2000)
def replayed_shares(data: bytes) -> None:
    """`__share_group_state` played back: no record may stop a start."""
    key, value = split(data)
    records: list[tuple[int, bytes | None, bytes | None]] = [
        (0, key, value),
        (1, key, value),
        (2, key, None),
        (3, None, value),
    ]
    loaded = load_share_state("fuzz", [ReplayBatch(0, 5, False, False, records)])
    assert loaded.skipped + loaded.broken <= len(records)


def internal_batches() -> Iterator[bytes]:
    yield from batches()
    rows = [CoordinatorRecord(*split(data)) for data in offset_records()]
    yield b"\1" + bytes(coordinator_batch(rows[:3], NOW))
    yield b"\1" + bytes(coordinator_batch(rows[:3], NOW, 5, 1))
    yield b"\1" + bytes(coordinator_batch([CoordinatorRecord(*split(data)) for data in transaction_states()][:3], NOW))


@target(CorruptRecordError, seeds=internal_batches, extra=8 << 20, growth=3000)
def internal_topics(data: bytes) -> None:
    """The bytes of an internal topic's segment, into groups and transactions. A size that can't be ends the load."""
    log = mended(data)
    found = list(BatchReader("fuzz", log))
    assert sum(len(batch.records) for batch in found) <= max(1, len(log) * 200)
    load_partition("fuzz", found, NOW)
    load_transactions("fuzz", found)


def client_blobs() -> Iterator[bytes]:
    for data in messages("subscriptions", (ConsumerProtocolAssignment, ConsumerProtocolSubscription)):
        key, value = split(data)
        yield b"\1" + key
        yield b"\0" + value


@target(MalformedRequest, seeds=client_blobs)
def group_blobs(data: bytes) -> None:
    """What consumers hand each other through JoinGroup and SyncGroup."""
    read: Callable[[bytes], Any]
    read = consumer_protocol.read_subscription if data[:1] == b"\0" else consumer_protocol.read_assignment
    found = read(data[1:])
    rows = found.owned_partitions if data[:1] == b"\0" else found.assigned_partitions
    assert sum(map(len, consumer_protocol.named(rows).values())) <= len(data)


def regexes() -> Iterator[bytes]:
    yield from (b"topic-.*", b"(a|b)+[c-z]{2,9}\\d$", b"(?i)x", b"(((((a*)*)*)*)*)*b")


@target(ProtocolError, seeds=regexes, max_input=300, extra=32 << 20)
def topic_expressions(data: bytes) -> None:
    """Subscriptions by expression (KIP-848), and what they match."""
    expression = data.decode("utf-8", "replace")
    names = ["topic-1", "a" * 249, "x.y"]
    found = expressions.resolve([expression], names, 1, NOW)[expression]
    assert found.topics <= set(names)
    expressions.check(expression)
