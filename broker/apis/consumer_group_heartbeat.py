"""ConsumerGroupHeartbeat, API key 68, versions 0 and 1: members of consumer groups join, stay and leave (KIP-848).

- 1 subscribes by regular expression, and members choose their ids; in 0 the first answer brings one.
- UNSUPPORTED_VERSION where `group.version` is 0 or `group.coordinator.rebalance.protocols` lacks `consumer`.
- Topics that the client may not see would be TOPIC_AUTHORIZATION_FAILED; there is no authoriser.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from ..features import GROUP_VERSION
from ..group_types import GroupType
from ..modern_groups.consumer_requests import HeartbeatRequest, HeartbeatResult
from .registry import api

if TYPE_CHECKING:
    from ..request_context import RequestContext
    from ..server import Broker


@api(ApiKey.CONSUMER_GROUP_HEARTBEAT, (0, 1), ConsumerGroupHeartbeatRequest)
def consumer_group_heartbeat(
    request: ConsumerGroupHeartbeatRequest, context: RequestContext
) -> ConsumerGroupHeartbeatResponse | Awaitable[ConsumerGroupHeartbeatResponse]:
    try:
        check_enabled(context.broker)
        modern = context.broker.groups.modern
        machine = modern.machine(GroupType.CONSUMER)
        asked = _read(request, context)
        machine.check(asked)
        outcome = modern.run(
            request.group_id, lambda group, now_ms: machine.heartbeat(group, asked, now_ms), kind=GroupType.CONSUMER
        )
    except ProtocolError as error:
        return _refused(error)
    return _answer(outcome) if isinstance(outcome, HeartbeatResult) else _later(outcome)


def check_enabled(broker: Broker) -> None:
    """Raises ProtocolError UNSUPPORTED_VERSION while consumer groups are turned off."""
    enabled = "consumer" in broker.config.group_coordinator_rebalance_protocols
    if not enabled or not broker.features.level(GROUP_VERSION):
        raise ProtocolError(ErrorCode.UNSUPPORTED_VERSION, "the consumer group protocol is not enabled")


async def _later(outcome: Awaitable[HeartbeatResult]) -> ConsumerGroupHeartbeatResponse:
    try:
        return _answer(await outcome)
    except ProtocolError as error:
        return _refused(error)


def _read(request: ConsumerGroupHeartbeatRequest, context: RequestContext) -> HeartbeatRequest:
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
