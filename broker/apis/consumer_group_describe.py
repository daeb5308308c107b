"""ConsumerGroupDescribe, API key 69, versions 0 and 1: consumer groups with epochs, members and assignments (KIP-848).

- 1 says of each member whether it speaks the classic or the consumer protocol (KIP-1099).
- A group that is not there, or of another type, is GROUP_ID_NOT_FOUND. Topics that are gone are left out of assignments.
- What a member has to give up is shown with what it has: it may still use that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from ..groups.store.group import GroupType
from ..requests.access import requires_each
from ..requests.authorized_operations import operations_of
from ..requests.registry import api
from ..runtime.cooperative import ChunkedResult, Steps, each_once, run_in_chunks
from ..security.acl.model import AclOperation, ResourceType
from .consumer_group_heartbeat import check_enabled

if TYPE_CHECKING:
    from ..groups.consumer.group import ConsumerGroup, ConsumerMember
    from ..metadata.topics import TopicRegistry
    from ..requests.context import RequestContext

_CLASSIC, _CONSUMER = 0, 1


UNSEEN_TOPICS = "members of this group have topics that you may not describe"


@api(
    ApiKey.CONSUMER_GROUP_DESCRIBE,
    (0, 1),
    ConsumerGroupDescribeRequest,
    requires=(
        requires_each(AclOperation.DESCRIBE, ResourceType.GROUP),
        requires_each(AclOperation.DESCRIBE, ResourceType.TOPIC, "each that is assigned"),
    ),
    many_names=True,
)
def consumer_group_describe(
    request: ConsumerGroupDescribeRequest, context: RequestContext
) -> ConsumerGroupDescribeResponse | ChunkedResult[ConsumerGroupDescribeResponse]:
    return run_in_chunks(described(request, context, _describe, ConsumerGroupDescribeResponse), context)


class HasMembers(Protocol):
    """A described group of any type."""

    @property
    def members(self) -> Sequence[Any]: ...


class AsksForGroups(Protocol):
    """A request that describes groups, of any type."""

    @property
    def group_ids(self) -> Sequence[str]: ...

    @property
    def include_authorized_operations(self) -> bool: ...


G = TypeVar("G", bound=HasMembers)
R = TypeVar("R")


def described(
    request: AsksForGroups,
    context: RequestContext,
    describe: Callable[[str, bool, RequestContext], G],
    response: Callable[..., R],
) -> Steps[R]:
    """The `response` with each group that is asked for, as `describe` tells it, one after the other. One that is named more than
    once is told once.
    """

    def tell(group_id: str) -> G:
        return describe(group_id, request.include_authorized_operations, context)

    return response(groups=(yield from each_once(request.group_ids, tell, units_of)))


def units_of(group: HasMembers) -> int:
    """Work that the description of a group was, in units of `runtime/cooperative.py`."""
    return 2 + 4 * len(group.members)


def _describe(group_id: str, tells_operations: bool, context: RequestContext) -> DescribedGroup:
    if not context.allows(AclOperation.DESCRIBE, ResourceType.GROUP, group_id):
        return DescribedGroup(group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    heartbeat_groups, topics = context.services.groups.heartbeat_groups, context.services.topics
    machine = heartbeat_groups.machine(GroupType.CONSUMER)
    try:
        check_enabled(context.services)
        group: ConsumerGroup = machine.group(heartbeat_groups.read(group_id), group_id)
    except ProtocolError as error:
        shown = None if error.code is ErrorCode.UNSUPPORTED_VERSION else error.message
        return DescribedGroup(group_id=group_id, error_code=error.code, error_message=shown)
    members = [_member(group, member, topics) for member in group.members.values()]
    assigned = {
        row.topic_name
        for described in members
        for row in (*described.assignment.topic_partitions, *described.target_assignment.topic_partitions)
    }
    if not may_describe_all(context, assigned):
        return DescribedGroup(
            group_id=group_id, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, error_message=UNSEEN_TOPICS
        )
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=machine.assignor(group),
        members=members,
        authorized_operations=operations_of(context, ResourceType.GROUP, group_id, tells_operations),
    )


def may_describe_all(context: RequestContext, topics: Iterable[str]) -> bool:
    """True if the client may describe all these topics: a group with a topic that it may not is not described."""
    return all(context.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, name) for name in dict.fromkeys(topics))


def _member(group: ConsumerGroup, member: ConsumerMember, topics: TopicRegistry) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.subscribed_topics),
        subscribed_topic_regex=member.expression,
        assignment=assignment_of((member.assigned, member.pending), topics),
        target_assignment=assignment_of((group.target.get(member.member_id, {}),), topics),
        member_type=_CONSUMER if member.classic is None else _CLASSIC,
    )


def assignment_of(parts: Iterable[Mapping[bytes, Iterable[int]]], topics: TopicRegistry) -> Assignment:
    """All these partitions by the names of their topics; those of topics that are gone are left out."""
    found: dict[bytes, set[int]] = {}
    for part in parts:
        for topic_id, partitions in part.items():
            found.setdefault(topic_id, set()).update(partitions)
    rows = []
    for topic_id, indexes in found.items():
        topic = topics.by_id(topic_id)
        if topic is not None:
            rows.append(TopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=sorted(indexes)))
    return Assignment(topic_partitions=sorted(rows, key=lambda row: row.topic_name))
