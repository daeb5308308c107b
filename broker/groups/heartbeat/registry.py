"""Registry of the types of heartbeat groups and their modules: the only table that a new type is entered in.

A type's module has
    RECORDS     key version → `RecordKind`: how its records are laid out, and what replays each into the groups
    Machine     a class made with one argument, an `Environment`; see `machine.Machine`
and is imported when the first request or the first record of the type comes.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ....protocol.errors import ProtocolError
from ....protocol.schema import Message, decode_with_version, encode_with_version
from ...coordinator.internal_topic import CoordinatorRecord
from ..store.group import Group, GroupType
from ..store.records import OffsetsRecordError
from .machine import GroupRecord

if TYPE_CHECKING:
    from .machine import Machine

#: All groups of a shard, of all types.
Groups = dict[str, Group]


class RecordKind(NamedTuple):
    """One kind of record. `replay(groups, key, value)` applies the record to the groups; a null value is a tombstone."""

    key: type[Message]
    value: type[Message]
    replay: Callable[[Groups, Any, Any], None]


class GroupTypeEntry(NamedTuple):
    """One type: its module in `broker/groups`, and the key versions of its records."""

    module: str
    key_versions: frozenset[int]


TYPES: Mapping[GroupType, GroupTypeEntry] = {
    GroupType.CONSUMER: GroupTypeEntry("consumer.machine", frozenset({3, 4, 5, 6, 7, 8, 16})),
    GroupType.STREAMS: GroupTypeEntry("streams.machine", frozenset({17, 19, 20, 21, 22, 23})),
    GroupType.SHARE: GroupTypeEntry("share.machine", frozenset(range(10, 16))),
}
_TYPE_OF_KEY = {version: kind for kind, entry in TYPES.items() for version in entry.key_versions}
#: All values of heartbeat groups have this version so far; the key's version is the kind.
VALUE_VERSION = 0


def _module(kind: GroupType) -> Any:
    return importlib.import_module(f"..{TYPES[kind].module}", __package__)


def machine_class(kind: GroupType) -> type[Machine]:
    return cast("type[Machine]", _module(kind).Machine)


def record_kind(key_version: int) -> RecordKind | None:
    """None for a key version that nobody here has. Any thread; may import."""
    kind = _TYPE_OF_KEY.get(key_version)
    if kind is None:
        return None
    records: Mapping[int, RecordKind] = _module(kind).RECORDS
    return records[key_version]


def encoded(record: GroupRecord | CoordinatorRecord) -> CoordinatorRecord:
    """Encode a record for the log."""
    if isinstance(record, CoordinatorRecord):
        return record
    key, value = record
    return CoordinatorRecord(
        encode_with_version(key, type(key).VERSIONS[0]),
        None if value is None else encode_with_version(value, VALUE_VERSION),
    )


def replay(groups: Groups, record: GroupRecord) -> None:
    """Does to the groups what the record says."""
    kind = record_kind(type(record.key).VERSIONS[0])
    assert kind is not None, f"nobody replays {type(record.key).__name__}"
    kind.replay(groups, record.key, record.value)


def replay_bytes(groups: Groups, key: bytes, value: bytes | None) -> bool:
    """`replay` of a record as the log has it. False: it is of no type that is known here.

    Raises OffsetsRecordError for bytes that are not what their version says."""
    kind = record_kind(int.from_bytes(key[:2], "big", signed=True))
    if kind is None:
        return False
    try:
        decoded = decode_with_version(kind.key, key)[0]
        content = None if value is None else decode_with_version(kind.value, value)[0]
    except ProtocolError as error:
        raise OffsetsRecordError(str(error)) from None
    kind.replay(groups, decoded, content)
    return True
