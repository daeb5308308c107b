"""StreamsGroupHeartbeat, API key 88, versions 0 and 1: a thread of a Kafka Streams application is a member of its group
(KIP-1071).

- 1 may ask the member to describe its topology (KIP-1331), and says the lag at which a copy of a task counts as caught up in 64
  bits; clients of 0 get neither.
- UNSUPPORTED_VERSION while `streams.version` is 0, or `group.coordinator.rebalance.protocols` leaves streams out.
- Internal topics that the topology needs are made before the answer, so the first assignment need not wait for another
  heartbeat; Kafka makes them after it. Topics that can't be created are named in the status MISSING_INTERNAL_TOPICS.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Container, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.messages import streams_group_heartbeat as wire
from ...protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse
from ..groups.store.group import GroupType
from ..groups.store.member_memory import NEW_MEMBER, unusual
from ..groups.streams.group import StreamsEndpoint, StreamsGroup
from ..groups.streams.requests import StreamsAnswer, StreamsHeartbeat, read_heartbeat
from ..groups.streams.tasks import TaskOffsets, TaskSet, ToldOffsets, task_set
from ..groups.streams.topology import InternalTopic, StatusCode
from ..metadata.features import STREAMS_VERSION
from ..requests.access import requires_field, requires_request, shows, suffices
from ..requests.context import EVERY_NAME
from ..requests.creation_budget import CreationBudget
from ..requests.registry import api
from ..runtime.cooperative import batches
from ..runtime.error_codes import error_code
from ..security.acl.model import CLUSTER_NAME, AclOperation, ResourceType
from .consumer_group_heartbeat import check_topics

if TYPE_CHECKING:
    from ..requests.context import RequestContext
    from ..requests.services import Services

_SHOWN_ERRORS = 3
_AT_ONCE = 100
"""Topics that are made together, as for CreateTopics."""


@api(
    ApiKey.STREAMS_GROUP_HEARTBEAT,
    (0, 1),
    StreamsGroupHeartbeatRequest,
    requires=(
        requires_field(AclOperation.READ, ResourceType.GROUP, "group_id"),
        requires_request(AclOperation.DESCRIBE, ResourceType.TOPIC, "each of the topology"),
        suffices(AclOperation.CREATE, ResourceType.CLUSTER, "where topics are to be made"),
        shows(AclOperation.CREATE, ResourceType.TOPIC, "each that is to be made, or the status says so"),
    ),
    many_names=True,
    is_slow_change=True,
)
def streams_group_heartbeat(
    request: StreamsGroupHeartbeatRequest, context: RequestContext
) -> StreamsGroupHeartbeatResponse | Awaitable[StreamsGroupHeartbeatResponse]:
    heartbeat_groups = context.services.groups.heartbeat_groups
    try:
        check_streams_enabled(context.services)
        read = read_heartbeat(request, context.client_id or "", context.client_host, context.api_version)
        host = None if read.endpoint is None else read.endpoint.host
        found = heartbeat_groups.read(read.group_id)
        offsets: TaskOffsets | ToldOffsets | None = read.task_offsets
        if read.task_offsets is not None and isinstance(found, StreamsGroup):
            offsets = found.offsets_after(read.member_id, read.task_offsets)
        names = unusual(read.member_id, read.instance_id, read.rack_id, read.client_id, host)
        said = (
            read.topology, read.client_tags, read.process_id, offsets, names,
            NEW_MEMBER if read.is_joining else None,
        )  # fmt: skip
        context.services.groups.check_room(request.group_id, request.member_id, said, read.instance_id)
        if read.topology is not None:
            sinks = (name for each in read.topology.subtopologies for name in each.sink_topics)
            check_topics({*read.topology.required_topics(), *sinks}, context)
        to_make = heartbeat_groups.machine(GroupType.STREAMS).topics_to_make(found, read)
    except ProtocolError as error:
        return _refused(error)
    if to_make:
        return _make_and_answer(read, to_make, context)
    return _run(read, "", context)


def check_streams_enabled(services: Services) -> None:
    """Raise ProtocolError UNSUPPORTED_VERSION unless streams groups are enabled."""
    enabled = GroupType.STREAMS in services.config.group_coordinator_rebalance_protocols
    if not enabled or services.features.level(STREAMS_VERSION) < 1:
        raise ProtocolError(ErrorCode.UNSUPPORTED_VERSION, "streams groups are switched off here")


async def _make_and_answer(
    read: StreamsHeartbeat, topics: Sequence[InternalTopic], context: RequestContext
) -> StreamsGroupHeartbeatResponse:
    failed = await _make(topics, context)
    answer = _run(read, failed, context)
    return answer if isinstance(answer, StreamsGroupHeartbeatResponse) else await answer


async def _make(topics: Sequence[InternalTopic], context: RequestContext) -> str:
    """Makes them; says in words what failed."""
    mutations = context.services.quotas.mutations(context.client_id, context.user, strict=False)
    budget = CreationBudget(context, mutations)
    errors: list[str] = []
    for number, some in enumerate(batches(topics, _AT_ONCE)):
        if number:
            await context.next_turn()
        await _make_some(some, budget, errors, context)
    if len(errors) > _SHOWN_ERRORS:
        errors[_SHOWN_ERRORS:] = [f"{len(errors) - _SHOWN_ERRORS} more"]
    return ", ".join(errors)


async def _make_some(
    topics: Sequence[InternalTopic], budget: CreationBudget, errors: list[str], context: RequestContext
) -> None:
    makeable: Container[str] = EVERY_NAME
    if not context.allows(AclOperation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME, quietly=True):
        makeable = context.allowed(AclOperation.CREATE, ResourceType.TOPIC, (topic.name for topic in topics))
    making: list[tuple[str, Any]] = []
    for topic in topics:
        try:
            if topic.name not in makeable:
                raise ProtocolError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "you may not create it")
            if topic.replication_factor > 1:
                raise ProtocolError(
                    ErrorCode.INVALID_REPLICATION_FACTOR,
                    f"{topic.replication_factor} copies need {topic.replication_factor} brokers, and there is one",
                )
            context.services.topics.check_new(topic.name, topic.partitions, dict(topic.configs))
        except Exception as error:
            _tell(errors, topic.name, error)
        else:
            making.append((topic.name, _make_one(topic, budget, context)))
    results = await asyncio.gather(*(made for _, made in making), return_exceptions=True)
    for (name, _), result in zip(making, results, strict=True):
        if isinstance(result, Exception):
            _tell(errors, name, result)


async def _make_one(topic: InternalTopic, budget: CreationBudget, context: RequestContext) -> None:
    # Nothing is claimed before this runs: where the client goes before, nobody would release it.
    claim = budget.take(1, topic.partitions)
    await context.services.topics.create(topic.name, topic.partitions, dict(topic.configs), claim)


def _tell(errors: list[str], topic: str, error: Exception) -> None:
    code, message = error_code(error)
    # Another member of the group was first.
    if code is not ErrorCode.TOPIC_ALREADY_EXISTS:
        errors.append(f"{topic} ({message})")


def _run(
    read: StreamsHeartbeat, failed: str, context: RequestContext
) -> StreamsGroupHeartbeatResponse | Awaitable[StreamsGroupHeartbeatResponse]:
    heartbeat_groups = context.services.groups.heartbeat_groups
    machine = heartbeat_groups.machine(GroupType.STREAMS)
    try:
        if read.instance_id is not None:
            heartbeat_groups.run_at_once(
                read.group_id, lambda group, _: machine.relabelled(group, read), kind=GroupType.STREAMS
            )
        outcome = heartbeat_groups.run(
            read.group_id, lambda group, now_ms: machine.heartbeat(group, read, now_ms), kind=GroupType.STREAMS
        )
    except ProtocolError as error:
        return _refused(error)
    if isinstance(outcome, StreamsAnswer):
        return _answer(outcome, failed)
    return _later(outcome, failed)


async def _later(outcome: Awaitable[StreamsAnswer], failed: str) -> StreamsGroupHeartbeatResponse:
    try:
        return _answer(await outcome, failed)
    except ProtocolError as error:
        return _refused(error)


def _refused(error: ProtocolError) -> StreamsGroupHeartbeatResponse:
    return StreamsGroupHeartbeatResponse(error_code=error.code, error_message=error.message)


def _answer(answer: StreamsAnswer, failed: str) -> StreamsGroupHeartbeatResponse:
    response = StreamsGroupHeartbeatResponse(
        member_id=answer.member_id,
        member_epoch=answer.member_epoch,
        heartbeat_interval_ms=answer.heartbeat_interval_ms,
        status=[
            wire.Status(status_code=code, status_detail=_detail(code, text, failed)) for code, text in answer.statuses
        ],
        endpoint_information_epoch=answer.endpoint_epoch,
        topology_description_required=answer.asks_for_description,
        acceptable_recovery_lag=answer.acceptable_recovery_lag,
        task_offset_interval_ms=answer.task_offset_interval_ms,
    )
    if answer.tasks is not None:
        response.active_tasks = task_ids(task_set(answer.tasks.active))
        response.standby_tasks = task_ids(answer.tasks.standby)
        response.warmup_tasks = task_ids(answer.tasks.warmup)
    if answer.endpoints is not None:
        response.partitions_by_user_endpoint = [
            wire.EndpointToPartitions(
                user_endpoint=endpoint_of(each.endpoint),
                active_partitions=_partitions(each.active),
                standby_partitions=_partitions(each.standby),
            )
            for each in answer.endpoints
        ]
    return response


def _detail(code: StatusCode, text: str, failed: str) -> str:
    if code is StatusCode.MISSING_INTERNAL_TOPICS and failed:
        return f"{text}; Creation failed: {failed}."
    return text


def task_ids(tasks: TaskSet) -> list[wire.TaskIds]:
    """Tasks in the form of the wire, sorted."""
    return [wire.TaskIds(subtopology_id=name, partitions=sorted(tasks[name])) for name in sorted(tasks)]


def endpoint_of(endpoint: StreamsEndpoint) -> wire.Endpoint:
    return wire.Endpoint(host=endpoint.host, port=endpoint.port)


def _partitions(found: Iterable[tuple[str, Sequence[int]]]) -> list[wire.TopicPartition]:
    return [wire.TopicPartition(topic=topic, partitions=partitions) for topic, partitions in found]
