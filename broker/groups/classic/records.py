"""The value of a classic group's record in `__consumer_offsets`, byte for byte as Apache Kafka 4.3 writes and reads it.

The key, and the ruler of all records there, are in `store/records.py`. By hand like the rest, and held equal to the declared
schema by the tests. Any thread.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from ..store.records import NO_TIMESTAMP, OffsetsRecordError, RecordReader, string_bytes
from .events import GroupProtocol
from .metadata import EMPTY, STABLE, GroupMetadata, Member

GROUP_VALUE_VERSION = 3

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")


def _nullable_string(text: str | None) -> bytes:
    return b"\xff\xff" if text is None else string_bytes(text)


def _bytes(data: bytes) -> bytes:
    return _INT32.pack(len(data)) + data


def group_value(group: GroupMetadata, assignments: Mapping[str, bytes]) -> bytes:
    """Version 3: the group as it stands, with `assignments` by member id."""
    parts = [
        _INT16.pack(GROUP_VALUE_VERSION),
        string_bytes(group.protocol_type or ""),
        _INT32.pack(group.generation),
        _nullable_string(group.protocol_name),
        _nullable_string(group.leader_id),
        _INT64.pack(NO_TIMESTAMP if group.state_timestamp_ms is None else group.state_timestamp_ms),
        _INT32.pack(len(group.members)),
    ]
    for member in group.members.values():
        parts += (
            string_bytes(member.member_id),
            _nullable_string(member.group_instance_id),
            string_bytes(member.client_id),
            string_bytes(member.client_host),
            _INT32.pack(member.rebalance_timeout_ms),
            _INT32.pack(member.session_timeout_ms),
            _bytes(member.metadata(group.protocol_name)),
            _bytes(assignments[member.member_id]),
        )
    return b"".join(parts)


def read_group_value(group_id: str, value: bytes) -> GroupMetadata:
    """The group as it was written: empty, or stable with its members."""
    reader = RecordReader(value)
    version = reader.int16()
    if not 0 <= version <= 4:
        raise OffsetsRecordError(f"GroupMetadataValue version {version} is not known")
    reader.flexible = version == 4
    group = GroupMetadata(group_id, 0)
    protocol_type = reader.string()
    group.generation = reader.int32()
    group.protocol_name = reader.nullable_string()
    leader_id = reader.nullable_string()
    timestamp_ms = reader.int64() if version >= 2 else NO_TIMESTAMP
    group.state_timestamp_ms = None if timestamp_ms == NO_TIMESTAMP else timestamp_ms
    for _ in range(reader.count(least_size=8)):
        member_id = reader.string()
        instance_id = reader.nullable_string() if version >= 3 else None
        client_id = reader.string()
        client_host = reader.string()
        rebalance_ms = reader.int32() if version >= 1 else -1
        session_ms = reader.int32()
        subscription = reader.blob()
        assignment = reader.blob()
        if reader.flexible:
            reader.tagged_fields()
        if group.protocol_name is None or member_id in group.members:
            raise OffsetsRecordError(f"group {group_id} has members but no protocol, or one member twice")
        if instance_id is not None and instance_id in group.static_members:
            raise OffsetsRecordError(f"group {group_id} has the static member {instance_id} twice")
        protocols = (GroupProtocol(group.protocol_name, subscription),)
        rebalance_ms = session_ms if rebalance_ms < 0 else rebalance_ms
        group.add(
            Member(
                member_id,
                instance_id,
                client_id,
                client_host,
                rebalance_ms,
                session_ms,
                protocol_type,
                protocols,
                assignment,
            ),
            None,
        )
    if reader.flexible:
        reader.tagged_fields()
    group.leader_id = leader_id
    group.protocol_type = protocol_type or None
    group.state = STABLE if group.members else EMPTY
    group.subscribed_topics = group.compute_subscribed_topics()
    return group
