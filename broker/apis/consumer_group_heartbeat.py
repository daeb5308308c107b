"""ConsumerGroupHeartbeat, API key 68, versions 0 and 1: members of consumer groups join, stay and leave (KIP-848).

- 1 subscribes by regular expression, and members choose their ids; in 0 the first answer brings one.
- UNSUPPORTED_VERSION where `group.version` is 0 or `group.coordinator.rebalance.protocols` lacks `consumer`.
- Topics that the client may not see would be TOPIC_AUTHORIZATION_FAILED; there is no authoriser.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from ..groups.consumer.heartbeat import HeartbeatRequest, HeartbeatResult
from ..groups.heartbeat.group import JOINING_EPOCH
from ..groups.store.group import GroupType
from ..groups.store.member_memory import NEW_MEMBER, unusual
from ..metadata.features import GROUP_VERSION
from ..requests.access import requires_field, requires_request, shows
from ..requests.authorized_operations import visible_topics
from ..requests.registry import api
from ..security.acl.model import AclOperation, ResourceType

if TYPE_CHECKING:
    from ..requests.context import RequestContext
    from ..requests.services import Services


@api(
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    (0, 1),
    ConsumerGroupHeartbeatRequest,
    requires=(
        requires_field(AclOperation.READ, ResourceType.GROUP, "group_id"),
        requires_request(AclOperation.DESCRIBE, ResourceType.TOPIC, "each that is subscribed to by name"),
        shows(AclOperation.DESCRIBE, ResourceType.TOPIC, "each that its expression matches"),
    ),
    many_names=True,
    is_slow_change=True,
)
def consumer_group_heartbeat(
    request: ConsumerGroupHeartbeatRequest, context: RequestContext
) -> ConsumerGroupHeartbeatResponse | Awaitable[ConsumerGroupHeartbeatResponse]:
    try:
        check_enabled(context.services)
        heartbeat_groups = context.services.groups.heartbeat_groups
        machine = heartbeat_groups.machine(GroupType.CONSUMER)
        check_topics(request.subscribed_topic_names, context)
        asked = _read(request, context)
        machine.check(asked)
        names = unusual(asked.member_id, asked.instance_id, asked.rack_id, asked.client_id)
        context.services.groups.check_room(
            request.group_id,
            request.member_id,
            (
                asked.subscribed_topics,
                asked.expression,
                names,
                NEW_MEMBER if asked.member_epoch == JOINING_EPOCH else None,
            ),
            asked.instance_id,
        )
        outcome = heartbeat_groups.run(
            request.group_id, lambda group, now_ms: machine.heartbeat(group, asked, now_ms), kind=GroupType.CONSUMER
        )
    except ProtocolError as error:
        return _refused(error)
    return _answer(outcome) if isinstance(outcome, HeartbeatResult) else _later(outcome)


def check_enabled(services: Services) -> None:
    """Raises ProtocolError UNSUPPORTED_VERSION while consumer groups are turned off."""
    enabled = "consumer" in services.config.group_coordinator_rebalance_protocols
    if not enabled or not services.features.level(GROUP_VERSION):
        raise ProtocolError(ErrorCode.UNSUPPORTED_VERSION, "the consumer group protocol is not enabled")


def check_topics(names: Iterable[str] | None, context: RequestContext) -> None:
    """Raises ProtocolError unless the client may know of all these topics."""
    for name in dict.fromkeys(names or ()):
        if not context.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, name):
            raise ProtocolError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)


async def _later(outcome: Awaitable[HeartbeatResult]) -> ConsumerGroupHeartbeatResponse:
    try:
        return _answer(await outcome)
    except ProtocolError as error:
        return _refused(error)


def _read(request: ConsumerGroupHeartbeatRequest, context: RequestContext) -> HeartbeatRequest:
    # An expression matches only topics that the member may see whose heartbeat has it matched, as in Kafka.
    names, owned = request.subscribed_topic_names, request.topic_partitions
    return HeartbeatRequest(
        request.group_id,
        request.member_id,
        request.member_epoch,
        request.instance_id,
        request.rack_id,
        request.rebalance_timeout_ms,
        None if names is None else frozenset(names),
        request.subscribed_topic_regex,
        request.server_assignor,
        None if owned is None else {each.topic_id: frozenset(each.partitions) for each in owned},
        context.client_id or "",
        context.client_host,
        chooses_id=context.api_version >= 1,
        visible=visible_topics(context),
    )


def _answer(result: HeartbeatResult) -> ConsumerGroupHeartbeatResponse:
    assignment = None
    if result.assignment is not None:
        assignment = Assignment(
            topic_partitions=[
                TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
                for topic_id, partitions in result.assignment.items()
            ]
        )
    return ConsumerGroupHeartbeatResponse(
        member_id=result.member_id,
        member_epoch=result.member_epoch,
        heartbeat_interval_ms=result.heartbeat_interval_ms,
        assignment=assignment,
    )


def _refused(error: ProtocolError) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
