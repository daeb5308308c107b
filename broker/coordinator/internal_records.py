"""Records of Kafka's own topics as JSON, in the words of DumpLogSegments (its decoder options).

__consumer_offsets    committed offsets and groups; a consumer's subscription and assignment opened too
__transaction_state   transactional ids and where their transactions stand
__share_group_state   what share groups were delivered of partitions
__cluster_metadata    KRaft's records, and its snapshots: types that are not declared here have no `data`
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any
from uuid import UUID

from ...protocol.errors import ProtocolError
from ...protocol.messages.consumer_offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from ...protocol.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from ...protocol.messages.share_group_state import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
)
from ...protocol.messages.transaction_state import TransactionLogKey, TransactionLogValue
from ...protocol.metadata_records import MetadataRecordType, decode_record
from ...protocol.schema import Message, Struct, VersionRange, decode, decode_with_version
from ...storage.log.partition_metadata import encode_uuid
from ...storage.segment.names import CLUSTER_METADATA_TOPIC, parse_directory_name

_CONSUMER_OFFSETS = "__consumer_offsets"
_TRANSACTION_STATE = "__transaction_state"
_SHARE_GROUP_STATE = "__share_group_state"
_DELETED = "<DELETE>"

Layouts = Mapping[int, tuple[type[Message], type[Message]]]
"""Number at the start of a key → layouts of key and value."""
Texts = tuple[str | None, str | None]
"""Key and value."""


def decoder_for(path: str) -> Callable[[bytes | None, bytes | None], Texts] | None:
    """The decoder for a file, by its directory's name; None for the topics of applications."""
    file = Path(path).absolute()
    name = parse_directory_name(file.parent.name)
    topic = name.topic if name is not None else ""
    if topic == _CONSUMER_OFFSETS:
        return offsets_text
    if topic == _TRANSACTION_STATE:
        return transactions_text
    if topic == _SHARE_GROUP_STATE:
        return share_state_text
    if topic == CLUSTER_METADATA_TOPIC or file.suffix == ".checkpoint":
        return metadata_text
    return None


def offsets_text(key: bytes | None, value: bytes | None) -> Texts:
    """A record of `__consumer_offsets`. ValueError when it is none."""
    return _texts(_offset_layouts(), key, value)


def transactions_text(key: bytes | None, value: bytes | None) -> Texts:
    """A record of `__transaction_state`. ValueError when it is none."""
    return _texts({TransactionLogKey.VERSIONS[0]: (TransactionLogKey, TransactionLogValue)}, key, value)


def share_state_text(key: bytes | None, value: bytes | None) -> Texts:
    """A record of `__share_group_state`. ValueError when it is none."""
    return _texts(
        {0: (ShareSnapshotKey, ShareSnapshotValue), 1: (ShareUpdateKey, ShareUpdateValue)}, key, value, "kind"
    )


def _texts(layouts: Layouts, key: bytes | None, value: bytes | None, name: str = "version") -> Texts:
    """Decode a record by the number at the start of its key, which is called `name`. ValueError."""
    if key is None or len(key) < 2:
        raise ValueError("a record without a version in its key")
    number = int.from_bytes(key[:2], "big", signed=True)
    if number not in layouts:
        return f"a key of {name} {number}, which is not known", None
    key_layout, value_layout = layouts[number]
    try:
        key_text = _json({"type": str(number), "data": as_data(decode(key_layout, number, key, 2)[0], number)})
        if value is None:
            return key_text, _DELETED
        content, version = decode_with_version(value_layout, value)
    except ProtocolError as error:
        raise ValueError(str(error)) from None
    data = _group(content, version) if isinstance(content, GroupMetadataValue) else as_data(content, version)
    return key_text, _json({"version": str(version), "data": data})


@lru_cache
def _offset_layouts() -> Layouts:
    first, last = OffsetCommitKey.VERSIONS
    commits = dict.fromkeys(range(first, last + 1), (OffsetCommitKey, OffsetCommitValue))
    groups = {GroupMetadataKey.VERSIONS[0]: (GroupMetadataKey, GroupMetadataValue)}
    return {**heartbeat_group_layouts(), **commits, **groups}


@lru_cache
def heartbeat_group_layouts() -> Layouts:
    """Key version → layouts of key and value, as the three modules declare them in pairs: `…Key`, `…Value`."""
    from ...protocol.messages import consumer_group_records, share_group_records, streams_group_records

    return {
        layout.VERSIONS[0]: (layout, vars(module)[name.removesuffix("Key") + "Value"])
        for module in (consumer_group_records, share_group_records, streams_group_records)
        for name, layout in vars(module).items()
        if name.endswith("Key")
    }


def _group(group: GroupMetadataValue, version: int) -> dict[str, Any]:
    data = as_data(group, version)
    if group.protocol_type == "consumer":
        for member, shown in zip(group.members, data["members"], strict=True):
            shown["subscription"] = _opened(ConsumerProtocolSubscription, member.subscription, shown["subscription"])
            shown["assignment"] = _opened(ConsumerProtocolAssignment, member.assignment, shown["assignment"])
    return data


def _opened(cls: type[Message], data: bytes, otherwise: Any) -> Any:
    try:
        return as_data(*decode_with_version(cls, data))
    except ProtocolError:
        return otherwise


def metadata_text(key: bytes | None, value: bytes | None) -> Texts:
    """A record of KRaft's metadata log. ValueError when it is none."""
    if value is None:
        raise ValueError("a record without a value")
    try:
        record = decode_record(value)
    except ProtocolError as error:
        raise ValueError(str(error)) from None
    known = {kind.value: f"{kind.name}_RECORD" for kind in MetadataRecordType}
    data = None if record.message is None else as_data(record.message, record.version)
    name = known.get(record.record_type, str(record.record_type))
    return None, _json({"type": name, "version": record.version, "data": data})


def as_data(message: Struct, version: int) -> dict[str, Any]:
    """The fields of a version by Kafka's names; tagged ones only where they say something."""
    shown = {}
    for field in message.FIELDS:
        value = getattr(message, field.name)
        is_empty = field.is_array and field.default is not None and value is not None and not len(value)
        is_default = is_empty or value == field.default
        if not VersionRange.parse(field.versions).has(version) or (field.tag is not None and is_default):
            continue
        shown[_camel(field.name)] = _value(value, version, is_uuid=getattr(field.element, "name", "") == "UUID")
    return shown


def _value(value: Any, version: int, *, is_uuid: bool) -> Any:
    if isinstance(value, Struct):
        return as_data(value, version)
    if isinstance(value, bytes):
        return encode_uuid(UUID(bytes=value)) if is_uuid else b64encode(value).decode()
    if isinstance(value, list | tuple):
        return [_value(element, version, is_uuid=is_uuid) for element in value]
    return value


def _camel(name: str) -> str:
    first, *others = name.rstrip("_").split("_")
    return first + "".join(other.capitalize() for other in others)


def _json(data: dict[str, Any]) -> str:
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False)
