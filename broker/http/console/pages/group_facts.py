"""Facts about groups of any type, from the coordinator's own APIs: a new type with a Describe API appears by itself.

    ListGroups                                  every group: state, type
    DescribeGroups | <Type>GroupDescribe        its members and what each has
    OffsetFetch | DescribeShareGroupOffsets     committed offsets, or where a share group's delivery begins

The newer Describe APIs differ in what a member has; what is read here are the fields that they have in common.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from .....protocol.api_keys import ApiKey
from .....protocol.errors import ErrorCode, ProtocolError
from .....protocol.messages.consumer_protocol import ConsumerProtocolAssignment
from .....protocol.schema import decode, decode_with_version
from ....runtime.threads import shortened_switch_interval
from ..page_request import FAILED, NOT_FOUND, UNAVAILABLE, PageError
from ..units import plural

if TYPE_CHECKING:
    from collections.abc import Callable

    from .....storage.log.record_counts import RecordCounts
    from ..state import ConsoleState

CLASSIC, SHARE = "classic", "share"
MAX_TOPOLOGY_LINES = 2000


class Listed(NamedTuple):
    """A group in the list."""

    group_id: str
    type: str
    state: str
    protocol_type: str


class Member(NamedTuple):
    """A group member. `assigned`: (topic or subtopology, partitions); `details`: further facts of its type, as text."""

    member_id: str
    instance_id: str
    client: str
    host: str
    assigned: tuple[tuple[str, tuple[int, ...]], ...]
    details: str


class Described(NamedTuple):
    """Description of a group. `details`: names and values that its type has."""

    group_id: str
    state: str
    details: tuple[tuple[str, str], ...]
    members: tuple[Member, ...]
    topology: tuple[str, ...] | None = None
    """Lines; empty where its application has not told it, None in a group that has none."""


class Position(NamedTuple):
    """Position of a group in a partition. Lags: None if the partition is gone, or its records are not counted yet."""

    topic: str
    partition: int
    offset: int
    metadata: str
    log_end: int | None
    lag_offsets: int | None
    lag_records: int | None


def list_groups(state: ConsoleState) -> list[Listed]:
    """All groups, sorted by name. PageError."""
    found = state.calls.ask(ApiKey.LIST_GROUPS, lambda request: request())
    _check(found.error_code)
    return sorted(
        Listed(group.group_id, group.group_type or CLASSIC, group.group_state, group.protocol_type)
        for group in found.groups
    )


def find_group(state: ConsoleState, group_id: str) -> Listed:
    """Find one group of the list. PageError if it is not there."""
    for group in list_groups(state):
        if group.group_id == group_id:
            return group
    raise PageError(NOT_FOUND, f"There is no group {group_id[:200] or '(no name)'}.")


def describe_group(state: ConsoleState, listed: Listed) -> Described:
    """Description of a group with its members. PageError."""
    describe = ApiKey.__members__.get(f"{listed.type.upper()}_GROUP_DESCRIBE")
    if describe is not None and state.calls.has(describe):
        (group,) = state.calls.ask(describe, lambda request: _describe_request(request, listed.group_id)).groups
        _check(group.error_code, getattr(group, "error_message", None))
        return _heartbeat_group(group)
    (group,) = state.calls.ask(ApiKey.DESCRIBE_GROUPS, lambda request: request(groups=[listed.group_id])).groups
    _check(group.error_code, getattr(group, "error_message", None))
    members = tuple(_classic_member(group.protocol_type, member) for member in group.members)
    details = (("protocol", group.protocol_data),) if group.protocol_data else ()
    return Described(group.group_id, group.group_state, details, members)


def _describe_request(kind: Any, group_id: str) -> Any:
    """A request for one group, with the graph of its topology where groups of its type have one."""
    has_topology = any(field.name == "include_topology_description" for field in getattr(kind, "FIELDS", ()))
    return kind(group_ids=[group_id], **({"include_topology_description": True} if has_topology else {}))


def _check(code: int, message: str | None = None) -> None:
    if code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        raise PageError(UNAVAILABLE, "The groups are still being read from their log.")
    if code:
        raise PageError(FAILED, message or error_name(code))


def error_name(code: int) -> str:
    """Kafka's name of an error code."""
    return next((known.name for known in ErrorCode if known == code), f"error {code}")


def _classic_member(protocol_type: str, member: Any) -> Member:
    assigned: tuple[tuple[str, tuple[int, ...]], ...] = ()
    details = f"{plural(len(member.member_assignment), 'byte')} of assignment" if member.member_assignment else ""
    if protocol_type == "consumer" and member.member_assignment:
        try:
            decoded, _ = decode_with_version(ConsumerProtocolAssignment, bytes(member.member_assignment))
        except ProtocolError:
            details += ", which can't be read"
        else:
            assigned = _merged((topic.topic, topic.partitions) for topic in decoded.assigned_partitions)
            details = ""
    return Member(
        member.member_id, member.group_instance_id or "", member.client_id, member.client_host, assigned, details
    )


#: Of a group and of a member: what is shown elsewhere, or says nothing to people.
_GROUP_SHOWN = frozenset(
    {
        "error_code",
        "error_message",
        "group_id",
        "group_state",
        "members",
        "authorized_operations",
        "topology_description_status",
    }
)
_MEMBER_SHOWN = frozenset({"member_id", "instance_id", "client_id", "client_host"})


def _heartbeat_group(group: Any) -> Described:
    details = tuple(
        (_words(name), _text(value))
        for name, value in _plain_fields(group)
        if name not in _GROUP_SHOWN and value not in (None, "")
    )
    return Described(
        group.group_id,
        group.group_state,
        details,
        tuple(_heartbeat_member(member) for member in group.members),
        _topology(group),
    )


def _topology(group: Any) -> tuple[str, ...] | None:
    if not hasattr(group, "topology_description"):
        return None
    if group.topology_description is None:
        return ()
    from .....protocol.messages.streams_group_topology_description_update import TopologyDescription
    from ....groups.streams.topology_text import lines_of

    with shortened_switch_interval():
        description, _ = decode(TopologyDescription, 0, group.topology_description)  # as it is stored
        lines = tuple(islice(lines_of(description), MAX_TOPOLOGY_LINES + 1))
    return (
        lines
        if len(lines) <= MAX_TOPOLOGY_LINES
        else (*lines[:-1], "… tidelog groups describe --topology shows the rest")
    )


def _heartbeat_member(member: Any) -> Member:
    assigned = list(_assigned(getattr(member, "assignment", None)))
    details = ", ".join(
        f"{_words(name)} {_text(value)}"
        for name, value in _plain_fields(member)
        if name not in _MEMBER_SHOWN and value not in (None, "", [], ())
    )
    return Member(
        member.member_id,
        getattr(member, "instance_id", None) or "",
        member.client_id,
        member.client_host,
        _merged(assigned),
        details,
    )


def _assigned(assignment: Any) -> Iterator[tuple[str, Iterable[int]]]:
    """Consumers and share consumers have partitions of topics, streams tasks of subtopologies: active, standby, warm-up."""
    for topic in getattr(assignment, "topic_partitions", ()) or ():
        yield topic.topic_name or str(topic.topic_id), topic.partitions
    for kind in ("active_tasks", "standby_tasks", "warmup_tasks"):
        for task in getattr(assignment, kind, ()) or ():
            yield f"{kind.partition('_')[0]} {task.subtopology_id}", task.partitions


def _merged(assigned: Iterable[tuple[str, Iterable[int]]]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    found: dict[str, set[int]] = {}
    for topic, partitions in assigned:
        found.setdefault(topic, set()).update(partitions)
    return tuple((topic, tuple(sorted(partitions))) for topic, partitions in sorted(found.items()))


def _plain_fields(message: Any) -> Iterator[tuple[str, Any]]:
    """Fields that are a number, a text, or a list of texts."""
    for field in message.FIELDS:
        value = getattr(message, field.name)
        if isinstance(value, str | int | bool) or (
            isinstance(value, list | tuple) and value and all(isinstance(item, str) for item in value)
        ):
            yield field.name, value


def _words(name: str) -> str:
    return name.replace("_", " ")


def _text(value: Any) -> str:
    return ", ".join(value) if isinstance(value, list | tuple) else str(value)


def positions(
    state: ConsoleState, listed: Listed, counts: RecordCounts, is_out_of_time: Callable[[], bool]
) -> list[Position]:
    """Committed offsets and lags of a group, as monitoring/groups.py defines them. Counts records, and so must run
    under `reading`.
    """
    found: list[tuple[str, int, int, str]] = []
    if listed.type == SHARE:
        found += _share_offsets(state, listed.group_id)
    else:
        found += _committed(state, listed.group_id)
    answer = []
    for topic, partition, offset, metadata in sorted(found):
        log = state.services.logs.get(topic, partition)
        if log is None or offset < 0:
            answer.append(
                Position(topic, partition, offset, metadata, None if log is None else log.log_end_offset, None, None)
            )
            continue
        lag = max(0, log.high_watermark - max(offset, log.log_start_offset))
        records = counts.count(log, offset, is_out_of_time)
        answer.append(Position(topic, partition, offset, metadata, log.log_end_offset, lag, records))
    return answer


def _committed(state: ConsoleState, group_id: str) -> Iterator[tuple[str, int, int, str]]:
    from .....protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

    asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id, topics=None)])
    (group,) = state.calls.ask(ApiKey.OFFSET_FETCH, asked, version=9).groups
    _check(group.error_code)
    for topic in group.topics:
        for partition in topic.partitions:
            yield topic.name, partition.partition_index, partition.committed_offset, partition.metadata or ""


def _share_offsets(state: ConsoleState, group_id: str) -> Iterator[tuple[str, int, int, str]]:
    key = ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS
    if not state.calls.has(key):
        return

    def request(cls: Any) -> Any:
        (field,) = [declared for declared in cls.FIELDS if declared.name == "groups"]
        return cls(groups=[field.element(group_id=group_id, topics=None)])

    (group,) = state.calls.ask(key, request).groups
    _check(group.error_code, getattr(group, "error_message", None))
    for topic in group.topics:
        for partition in topic.partitions:
            yield topic.topic_name, partition.partition_index, partition.start_offset, ""


def total(values: Sequence[int | None]) -> int | None:
    """Sum of the values; None where one is not known."""
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
