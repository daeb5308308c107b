"""`tidelog groups list|describe|delete|reset`: groups, what they have committed, and how far behind they are.

Lag is in offsets, as Kafka's own tools count it: the end of the partition minus what is committed. Of a share group it is what
nobody is done with from its start offset on, and "committed" is that offset.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .support.kafka_client import client_of
from .support.output import plural, print_deletions, print_json, say_empty

if TYPE_CHECKING:
    from ..protocol.messages.describe_groups import DescribedGroup
    from .support.kafka_client import KafkaClient
    from .support.offsets import Partition
    from .topologies import ShownTopology

    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

#: OffsetFetch 10 and OffsetCommit 10 name topics by id.
_BY_NAME = 9
#: From this version on, OffsetFetch asks for several groups.
_GROUPS_FROM = 8


def add_parser(commands: Subparsers) -> None:
    from .support.kafka_client import add_actions

    action = add_actions(commands, "groups", "list, describe, delete and reset consumer groups", __doc__)

    parser = action("list", run_list, "names of groups, one a line")
    parser.add_argument("--state", metavar="STATE", action="append", default=[], help="only those: Stable, Empty, …")
    parser = action("describe", run_describe, "members, committed offsets and lag")
    parser.add_argument("groups", metavar="GROUP", nargs="*", help="all when none is given")
    parser.add_argument(
        "--topology",
        action="store_true",
        help="show the graph of a streams group's topology, as its application tells it",
    )
    parser = action("delete", run_delete, "delete groups without members, and their offsets")
    parser.add_argument("groups", metavar="GROUP", nargs="+")
    parser = action("reset", run_reset, "set committed offsets of a group without members")
    parser.add_argument("group", metavar="GROUP")
    parser.add_argument(
        "--topic",
        metavar="TOPIC[:PARTITION,…]",
        action="append",
        default=[],
        dest="topics",
        help="what to reset; may be given again (default: all that the group has committed)",
    )
    to = parser.add_mutually_exclusive_group(required=True)
    to.add_argument("--to-earliest", action="store_true", help="to the first record that is there")
    to.add_argument("--to-latest", action="store_true", help="to the end")
    to.add_argument("--to-offset", metavar="N", type=int)
    to.add_argument(
        "--to-datetime", metavar="TIME", help="to the first record at or after it: 2026-01-31T12:00 (UTC, or +01:00)"
    )
    to.add_argument("--shift-by", metavar="N", type=int, help="forward, or back where negative")
    parser.add_argument("--dry-run", action="store_true", help="print what it would come to, change nothing")


def _listed(client: KafkaClient, states: list[str]) -> list[Any]:
    """Groups in those states (none given: all), of every type, by id. KafkaFailure."""
    from ..protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
    from .support.kafka_client import check, patiently

    def attempt() -> Any:
        answer = client.ask(ListGroupsRequest(states_filter=states), ListGroupsResponse)
        check("groups", answer.error_code)
        return answer.groups

    return sorted(patiently(attempt), key=lambda group: group.group_id)


def run_list(options: Any) -> int:
    """Run the command; prints, and returns 0."""
    with client_of(options) as client:
        found = _listed(client, options.state)
    if options.json:
        return print_json(
            [{"group": listed.group_id, "state": listed.group_state, "type": listed.group_type} for listed in found]
        )
    for listed in found:
        print(listed.group_id)
    if not found:
        say_empty("there are no groups" + (" in that state" if options.state else ""))
    return 0


def committed_of(client: KafkaClient, group: str) -> dict[Partition, int]:
    """Committed offsets of a group. KafkaFailure."""
    from ..clients.kafka.conversations import CoordinatorKind
    from ..protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse
    from .support.kafka_client import check, patiently

    def attempt() -> dict[Partition, int]:
        if client.version(OffsetFetchRequest, _BY_NAME) >= _GROUPS_FROM:
            request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])
        else:
            request = OffsetFetchRequest(group_id=group, topics=None)
        answer: Any = client.ask_coordinator(CoordinatorKind.GROUP, [group], request, OffsetFetchResponse, _BY_NAME)
        found = {}
        for described in answer.groups or [answer]:  # before version 8 the answer is of one group
            check(f"group {group}", described.error_code)
            for topic in described.topics:
                for part in topic.partitions:
                    check(f"group {group}, {topic.name}-{part.partition_index}", part.error_code)
                    if part.committed_offset >= 0:
                        found[topic.name, part.partition_index] = part.committed_offset
        return found

    found: dict[Partition, int] = patiently(attempt)
    return found


def _described(client: KafkaClient, groups: list[str]) -> list[DescribedGroup]:
    """Descriptions of classic groups, by id. KafkaFailure: one is not there."""
    from ..clients.kafka.conversations import CoordinatorKind
    from ..protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
    from .support.kafka_client import patiently
    from .support.missing import group_failure

    request = DescribeGroupsRequest(groups=groups)

    def attempt() -> Any:
        answer = client.ask_coordinator(CoordinatorKind.GROUP, groups, request, DescribeGroupsResponse)
        for group in answer.groups:
            if group.error_code:
                raise group_failure(client, group.group_id, group.error_code, group.error_message)
            if group.group_state == "Dead":  # how older versions say that there is none
                raise group_failure(client, group.group_id, 69, "there is no such group")
        return sorted(answer.groups, key=lambda group: group.group_id)

    found: list[DescribedGroup] = patiently(attempt)
    return found


def _shown(client: KafkaClient, names: list[str]) -> list[ShownGroup]:
    """Each group as its type tells of it. Classic ones, and names that are not there, are asked for as classic ones."""
    types = {listed.group_id: listed.group_type.lower() for listed in _listed(client, [])}
    found = []
    for group_type, describe_type in DESCRIBE.items():
        of_type = [name for name in names if types.get(name) == group_type]
        found += describe_type(client, of_type) if of_type else []
    classic = [name for name in names if types.get(name) not in DESCRIBE]
    for group in _described(client, classic) if classic else []:
        members = tuple(
            ShownMember(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                tuple(_assigned(member.member_assignment)),
            )
            for member in group.members
        )
        found.append(ShownGroup(group.group_id, "classic", group.group_state, group.protocol_data, members))
    return sorted(found)


def _assigned(assignment: bytes) -> list[Partition]:
    """The partitions of a member, where its assignment is a consumer's."""
    from ..protocol.errors import ProtocolError
    from ..protocol.messages.consumer_protocol import ConsumerProtocolAssignment
    from ..protocol.schema import decode_with_version

    try:
        opened, _ = decode_with_version(ConsumerProtocolAssignment, assignment)
    except ProtocolError:
        return []
    return [(topic.topic, partition) for topic in opened.assigned_partitions for partition in topic.partitions]


def describe(client: KafkaClient, groups: list[str]) -> list[dict[str, Any]]:
    """Descriptions of groups, in the form for JSON."""
    from .support.kafka_client import KafkaFailure
    from .support.offsets import LATEST, offsets_at, partitions_of

    found = []
    for group in _shown(client, groups):
        shared: dict[Partition, tuple[int | None, int | None]] = {}
        if group.group_type == "share":  # it commits nothing: it begins at the first record that is not done with
            shared = share_offsets(client, group.group_id)
            committed = {part: start for part, (start, _) in shared.items() if start is not None}
        else:
            committed = committed_of(client, group.group_id)
        owners = {part: member for member in group.members for part in member.partitions}
        there: set[Partition] = set()
        for topic in {topic for topic, _ in (*shared, *committed, *owners)}:
            try:
                there.update(partitions_of(client, [topic]))
            except KafkaFailure as error:
                if error.code != "UNKNOWN_TOPIC_OR_PARTITION":
                    raise
        rows = sorted({*shared, *committed, *owners})
        ends = offsets_at(client, {part: LATEST for part in rows if part in there})
        found.append(
            {
                "group": group.group_id,
                "type": group.group_type,
                "state": group.state,
                "protocol": group.protocol,
                "epoch": group.epoch,
                "assignment_epoch": group.assignment_epoch,
                "members": [
                    {
                        "member": member.member_id,
                        "instance": member.instance_id,
                        "client": member.client_id,
                        "host": member.client_host,
                        "partitions": len(member.partitions),
                        "epoch": member.epoch,
                        "protocol": member.protocol or group.group_type,
                    }
                    for member in group.members
                ],
                "partitions": [
                    {
                        "topic": part[0],
                        "partition": part[1],
                        "committed": committed.get(part),
                        "end": ends.get(part),
                        "lag": shared[part][1] if part in shared else _lag(ends.get(part), committed.get(part)),
                        "member": owners[part].member_id if part in owners else None,
                    }
                    for part in rows
                ],
            }
        )
    return found


def _lag(end: int | None, committed: int | None) -> int | None:
    return None if end is None or committed is None else max(end - committed, 0)


def run_describe(options: Any) -> int:
    """Run the command; prints, and returns 0."""
    with client_of(options) as client:
        names = options.groups or [listed.group_id for listed in _listed(client, [])]
        found = describe(client, names) if names else []
        topologies = _topologies_of(client, found) if options.topology else {}
    if options.json:
        for group in found:
            if (topology := topologies.get(group["group"])) is not None:
                group["topology"] = topology.as_json()
        return print_json(found)
    pictures = []
    for group in found:
        topology = topologies.get(group["group"])
        more = [] if topology is None else [f"  {line}" for line in topology.lines()]
        pictures.append("\n".join((*picture(group), *more)))
    print("\n\n".join(pictures) or "there are no groups")
    return 0


def _topologies_of(client: KafkaClient, found: list[dict[str, Any]]) -> dict[str, ShownTopology]:
    """Topologies of the streams groups among these. KafkaFailure: there is none among them."""
    from .support.kafka_client import KafkaFailure
    from .topologies import topologies_of

    streams = [group["group"] for group in found if group["type"] == "streams"]
    if found and not streams:
        raise KafkaFailure("--topology: none of these is a streams group, the only ones with a topology")
    return topologies_of(client, streams) if streams else {}


def picture(group: dict[str, Any]) -> list[str]:
    """A group as lines of text."""
    from .support.output import table

    lags = [part["lag"] for part in group["partitions"] if part["lag"] is not None]
    count = len(group["members"])
    kind = "" if group["type"] == "classic" else f"{group['type']}  "
    head = f"{group['group']}  {kind}{group['state']}  {plural(count, 'member')}  lag {sum(lags):,}"
    titles: tuple[str, ...] = ("member", "client", "host", "partitions")
    if group.get("epoch") is not None:
        head += f"  {group['protocol']}, epoch {group['epoch']}, assigned {group['assignment_epoch']}"
        titles = (*titles, "epoch", "protocol")
    members = [tuple(member[name] for name in titles) for member in group["members"]]
    begun = "start" if group["type"] == "share" else "committed"
    rows = [
        (part["topic"], part["partition"], part["committed"], part["end"], part["lag"], part["member"] or "")
        for part in group["partitions"]
    ]
    return [
        head,
        *table(("topic", "partition", begun, "end", "lag", "member"), rows, indent="  "),
        *table(titles, members, indent="  "),
    ]


def run_delete(options: Any) -> int:
    """Prints; 0 when all are gone, 1 when one could not be deleted."""
    from ..clients.kafka.conversations import CoordinatorKind
    from ..protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
    from .support.missing import group_failure

    request = DeleteGroupsRequest(groups_names=options.groups)
    with client_of(options) as client:
        results = client.ask_coordinator(CoordinatorKind.GROUP, options.groups, request, DeleteGroupsResponse).results
        errors = {
            result.group_id: str(group_failure(client, result.group_id, result.error_code, result.error_message))
            for result in results
            if result.error_code
        }
    deleted = [result.group_id for result in results if not result.error_code]
    return print_deletions(deleted, errors, as_json=options.json)


def run_reset(options: Any) -> int:
    """Prints what the offsets were and are; returns 0."""
    from .support.kafka_client import KafkaFailure
    from .support.nearest import did_you_mean
    from .support.offsets import chosen
    from .support.output import table

    with client_of(options) as client:
        states = {group.group_id: group.group_state for group in _listed(client, [])}
        state = states.get(options.group, "")
        if state not in ("", "Empty", "Dead"):
            raise KafkaFailure(
                f"group {options.group} has members ({state}): stop them first, their commits would undo this"
            )
        committed = committed_of(client, options.group) if state else {}
        partitions = chosen(client, options.topics) if options.topics else sorted(committed)
        if not partitions:
            guess = "" if state else did_you_mean(options.group, states)
            raise KafkaFailure(
                f"group {options.group} has committed nothing{guess or ': say what to reset with --topic TOPIC'}"
            )
        targets = _targets(client, options, partitions, committed)
        if not options.dry_run:
            _commit(client, options.group, targets)
    if options.json:
        return print_json(
            [
                {"topic": t, "partition": p, "before": committed.get((t, p)), "after": offset}
                for (t, p), offset in targets.items()
            ]
        )
    rows = [(t, p, committed.get((t, p)), offset) for (t, p), offset in targets.items()]
    print("\n".join(table(("topic", "partition", "before", "would be" if options.dry_run else "now"), rows)))
    return 0


def _targets(
    client: KafkaClient, options: Any, partitions: list[Partition], committed: dict[Partition, int]
) -> dict[Partition, int]:
    """The new offset of each, within what the partition has."""
    from .support.kafka_client import KafkaFailure
    from .support.offsets import bounds_of, offsets_at

    bounds = bounds_of(client, partitions)
    if options.to_earliest:
        return {partition: bounds[partition].start for partition in partitions}
    if options.to_latest:
        return {partition: bounds[partition].end for partition in partitions}
    if options.to_datetime is not None:
        moment = parse_time(options.to_datetime)
        at = offsets_at(client, dict.fromkeys(partitions, moment))
        return {partition: at[partition] if at[partition] >= 0 else bounds[partition].end for partition in partitions}
    wanted = {}
    for partition in partitions:
        if options.to_offset is not None:
            offset = options.to_offset
        elif partition in committed:
            offset = committed[partition] + options.shift_by
        else:
            raise KafkaFailure(
                f"{partition[0]}-{partition[1]}: the group has committed nothing there that could be shifted"
            )
        wanted[partition] = min(max(offset, bounds[partition].start), bounds[partition].end)
    return wanted


def parse_time(text: str) -> int:
    """Milliseconds of an ISO time; UTC where it names no zone. KafkaFailure."""
    from datetime import UTC, datetime

    from .support.kafka_client import KafkaFailure

    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise KafkaFailure(f"{text!r} is no time; write it as 2026-01-31T12:00:00, or with +01:00") from None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def _commit(client: KafkaClient, group: str, targets: dict[Partition, int]) -> None:
    """Commit these offsets for a group without members. KafkaFailure names the partition."""
    from ..clients.kafka.conversations import CoordinatorKind
    from ..protocol.messages.offset_commit import (
        OffsetCommitRequest,
        OffsetCommitRequestPartition,
        OffsetCommitRequestTopic,
        OffsetCommitResponse,
    )
    from .support.kafka_client import check, patiently

    by_topic: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, partition), offset in targets.items():
        by_topic.setdefault(topic, []).append(
            OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset, committed_metadata="")
        )
    topics = [OffsetCommitRequestTopic(name=name, partitions=parts) for name, parts in by_topic.items()]

    request = OffsetCommitRequest(group_id=group, topics=topics)

    def attempt() -> None:
        answer = client.ask_coordinator(CoordinatorKind.GROUP, [group], request, OffsetCommitResponse, _BY_NAME)
        for topic in answer.topics:
            for part in topic.partitions:
                check(f"group {group}, {topic.name}-{part.partition_index}", part.error_code)

    patiently(attempt)


class ShownMember(NamedTuple):
    """A group member, and the partitions that it reads."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    partitions: tuple[Partition, ...]
    epoch: int | None = None
    protocol: str = ""
    """Protocol of a consumer group's member: `classic` or `consumer`; `share` in a share group."""


class ShownGroup(NamedTuple):
    """A group. `protocol` is its assignor, if it has one of its own."""

    group_id: str
    group_type: str
    state: str
    protocol: str
    members: tuple[ShownMember, ...]
    epoch: int | None = None
    assignment_epoch: int | None = None


def streams_groups(client: KafkaClient, names: Sequence[str]) -> list[ShownGroup]:
    """Descriptions of the streams groups of these names. KafkaFailure: one is not there."""
    from ..clients.kafka.conversations import CoordinatorKind
    from ..protocol.messages.streams_group_describe import StreamsGroupDescribeRequest, StreamsGroupDescribeResponse
    from .support.kafka_client import check

    found = []
    answer = client.ask_coordinator(
        CoordinatorKind.GROUP, names, StreamsGroupDescribeRequest(group_ids=names), StreamsGroupDescribeResponse
    )
    for group in answer.groups:
        check(f"group {group.group_id}", group.error_code, group.error_message)
        subtopologies = group.topology.subtopologies if group.topology is not None else None
        inputs = {
            each.subtopology_id: [*each.source_topics, *(topic.name for topic in each.repartition_source_topics)]
            for each in subtopologies or ()
        }
        members = tuple(
            ShownMember(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                tuple(
                    (topic, partition)
                    for tasks in member.assignment.active_tasks
                    for topic in inputs.get(tasks.subtopology_id, ())
                    for partition in tasks.partitions
                ),
            )
            for member in group.members
        )
        found.append(ShownGroup(group.group_id, "streams", group.group_state, "", members))
    return found


def consumer_groups(client: KafkaClient, names: Sequence[str]) -> list[ShownGroup]:
    """Descriptions of the consumer groups of these names. KafkaFailure: one is not there."""
    from ..clients.kafka.conversations import CoordinatorKind
    from ..protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse

    answer = client.ask_coordinator(
        CoordinatorKind.GROUP, names, ConsumerGroupDescribeRequest(group_ids=names), ConsumerGroupDescribeResponse
    )
    return [
        _with_assignments(group, "consumer", lambda member: "classic" if member.member_type == 0 else "consumer")
        for group in answer.groups
    ]


def share_groups(client: KafkaClient, names: Sequence[str]) -> list[ShownGroup]:
    """Descriptions of the share groups of these names. KafkaFailure: one is not there."""
    from ..clients.kafka.conversations import CoordinatorKind
    from ..protocol.messages.share_group_describe import ShareGroupDescribeRequest, ShareGroupDescribeResponse

    answer = client.ask_coordinator(
        CoordinatorKind.GROUP, names, ShareGroupDescribeRequest(group_ids=names), ShareGroupDescribeResponse
    )
    return [_with_assignments(group, "share", lambda member: "share") for group in answer.groups]


def _with_assignments(group: Any, group_type: str, protocol_of: Callable[[Any], str]) -> ShownGroup:
    """A described consumer or share group. Members of share groups have no instance id. KafkaFailure."""
    from .support.kafka_client import check

    check(f"group {group.group_id}", group.error_code, group.error_message)
    members = tuple(
        ShownMember(
            member.member_id,
            member.instance_id if group_type == "consumer" else None,
            member.client_id,
            member.client_host,
            tuple(
                (topic.topic_name, partition)
                for topic in member.assignment.topic_partitions
                for partition in topic.partitions
            ),
            member.member_epoch,
            protocol_of(member),
        )
        for member in group.members
    )
    return ShownGroup(
        group.group_id,
        group_type,
        group.group_state,
        group.assignor_name,
        members,
        group.group_epoch,
        group.assignment_epoch,
    )


def share_offsets(client: KafkaClient, group: str) -> dict[Partition, tuple[int | None, int | None]]:
    """Start offset of a share group in each partition that it has read, and its lag; None if not known yet.
    KafkaFailure.
    """
    from ..clients.kafka.conversations import CoordinatorKind
    from ..protocol.messages.describe_share_group_offsets import (
        DescribeShareGroupOffsetsRequest,
        DescribeShareGroupOffsetsResponse,
        RequestGroup,
    )
    from .support.kafka_client import check

    request = DescribeShareGroupOffsetsRequest(groups=[RequestGroup(group_id=group, topics=None)])
    (answer,) = client.ask_coordinator(
        CoordinatorKind.GROUP, [group], request, DescribeShareGroupOffsetsResponse
    ).groups
    check(f"group {group}", answer.error_code, answer.error_message)
    return {
        (topic.topic_name, part.partition_index): (
            part.start_offset if part.start_offset >= 0 else None,
            part.lag if part.lag >= 0 else None,
        )
        for topic in answer.topics
        for part in topic.partitions
    }


#: Type of a group, as ListGroups has it → how groups of it are described; all others are classic ones.
DESCRIBE: Mapping[str, Callable[[Any, Sequence[str]], list[ShownGroup]]] = {
    "consumer": consumer_groups,
    "share": share_groups,
    "streams": streams_groups,
}
