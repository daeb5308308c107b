"""Metadata, API key 3, versions 0 to 13: this node, and topics with their partitions.

- The node's address is the one that the client dialled, or what advertised.listeners says for its listener.
- Version 0 asks for all topics by an empty list, later ones by null (an empty list is none). 4 lets the client forbid
  that topics are made, 7 tells leader epochs, 8 authorized operations, 9 is flexible, 12 takes topic ids
  (10 and 11 have the field, and their clients must not use it), 13 has an error for the whole answer.
- A topic that is not there is made first, where client and `auto.create.topics.enable` allow it, and the answer
  waits until it can be written to: old clients (up to version 3) take the first answer for the last word. It counts as
  one that its client made with CreateTopics: over a bound it is POLICY_VIOLATION, and over controller_mutation_rate the
  client is told to wait, and that the topic is not there yet (UNKNOWN_TOPIC_OR_PARTITION), as Kafka says it.
- One node leads every partition and is the only replica. A partition whose log is not there is LEADER_NOT_AVAILABLE.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode
from ...protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ...storage.segment.names import is_valid_topic
from ..metadata.topics import INTERNAL_TOPICS, Topic
from ..requests.access import requires_each, reveals, shows, suffices
from ..requests.authorized_operations import NOT_ASKED, cluster_operations, operations_of
from ..requests.creation_budget import CreationBudget
from ..requests.registry import api
from ..runtime.cooperative import Steps, run_in_chunks
from ..runtime.error_codes import error_code
from ..security.acl.model import CLUSTER_NAME, AclOperation, ResourceType

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from ..requests.context import RequestContext

_NO_ID = bytes(16)
# A request names thousands that are not there: to look a member of an enumeration up costs as much as the rest of a row.
_DESCRIBE, _TOPIC, _UNKNOWN = AclOperation.DESCRIBE, ResourceType.TOPIC, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
_FIRST_WITH_IDS = 12
_MADE_AT_ONCE = 50
"""Topics that are made together: they share commits, and what is refused takes the loop for milliseconds."""


@api(
    ApiKey.METADATA,
    (0, 13),
    MetadataRequest,
    requires=(
        requires_each(AclOperation.DESCRIBE, ResourceType.TOPIC, "each that is named"),
        shows(AclOperation.DESCRIBE, ResourceType.TOPIC, "where all are asked for"),
        suffices(AclOperation.CREATE, ResourceType.CLUSTER, "where a topic would be made"),
        requires_each(AclOperation.CREATE, ResourceType.TOPIC, "each that would be made"),
        reveals(AclOperation.DESCRIBE, ResourceType.CLUSTER, "for cluster_authorized_operations"),
    ),
    many_names=True,
)
def metadata(request: MetadataRequest, context: RequestContext) -> MetadataResponse | Awaitable[MetadataResponse]:
    services = context.services
    if request.topics is None or (context.api_version == 0 and not request.topics):
        topics = services.topics.all()
        shown = context.allowed(
            AclOperation.DESCRIBE, ResourceType.TOPIC, (topic.name for topic in topics), quietly=True
        )
        return run_in_chunks(_all(request, context, [topic for topic in topics if topic.name in shown]), context)
    may_create = request.allow_auto_topic_creation and services.config.auto_create_topics_enable
    if may_create and any(
        item.name is not None and item.topic_id == _NO_ID and services.topics.get(item.name) is None
        for item in request.topics
    ):
        return _create_and_answer(request, context, request.topics)
    return run_in_chunks(_named(request, context, request.topics), context)


def _all(request: MetadataRequest, context: RequestContext, topics: list[Topic]) -> Steps[MetadataResponse]:
    rows = []
    for topic in topics:
        rows.append(_topic(topic, request, context))
        yield topic.partition_count
    return _response(request, context, rows)


def _named(
    request: MetadataRequest, context: RequestContext, wanted: Sequence[MetadataRequestTopic]
) -> Steps[MetadataResponse]:
    rows: dict[tuple[bytes, str | None], MetadataResponseTopic] = {}
    for item in wanted:
        place = (item.topic_id, item.name)
        units = 1
        if place not in rows:
            rows[place] = row = _look_up(item, request, context)
            units += len(row.partitions)
        yield units
    return _response(request, context, list(rows.values()))


async def _create_and_answer(
    request: MetadataRequest, context: RequestContext, wanted: Sequence[MetadataRequestTopic]
) -> MetadataResponse:
    mutations = context.services.quotas.mutations(context.client_id, context.user, strict=True)
    rows: dict[tuple[bytes, str | None], MetadataResponseTopic] = {}
    with CreationBudget(context, mutations) as budget:
        for first in range(0, len(wanted), _MADE_AT_ONCE):
            some = {(item.topic_id, item.name): item for item in wanted[first : first + _MADE_AT_ONCE]}
            new = [item for place, item in some.items() if place not in rows]
            made = await asyncio.gather(*(_look_up_or_create(item, request, context, budget) for item in new))
            rows.update(zip(((item.topic_id, item.name) for item in new), made, strict=True))
            if first + _MADE_AT_ONCE < len(wanted):
                await context.next_turn()
    response = _response(request, context, list(rows.values()))
    response.throttle_time_ms = mutations.throttle_ms
    return response


async def _look_up_or_create(
    item: MetadataRequestTopic, request: MetadataRequest, context: RequestContext, budget: CreationBudget
) -> MetadataResponseTopic:
    name, topics = item.name, context.services.topics
    if item.topic_id == _NO_ID and name is not None and _may_describe(context, name):
        if topics.get(name) is None and not _may_create(context, name):
            return _failed(item, ErrorCode.TOPIC_AUTHORIZATION_FAILED, request, context)
        try:
            await topics.ensure(name, partial(budget.take, 1))
        except Exception as error:
            code = error_code(error)[0]
            if code is ErrorCode.THROTTLING_QUOTA_EXCEEDED:  # no code of this answer: its clients try again
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return _failed(item, code, request, context)
    return _look_up(item, request, context)


def _may_describe(context: RequestContext, name: str) -> bool:
    return context.allows(_DESCRIBE, _TOPIC, name)


def _may_create(context: RequestContext, name: str) -> bool:
    return context.allows(AclOperation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME, quietly=True) or context.allows(
        AclOperation.CREATE, ResourceType.TOPIC, name
    )


def _look_up(item: MetadataRequestTopic, request: MetadataRequest, context: RequestContext) -> MetadataResponseTopic:
    topics, name, has_id = context.services.topics, item.name, item.topic_id != _NO_ID
    if has_id and context.api_version >= _FIRST_WITH_IDS:
        topic = topics.by_id(item.topic_id)
        # An id is no secret, as in Kafka; the name that belongs to it is.
        code = ErrorCode.UNKNOWN_TOPIC_ID
        if topic is not None:
            if _may_describe(context, topic.name):
                return _topic(topic, request, context)
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return MetadataResponseTopic(
            error_code=code, name=None, topic_id=item.topic_id, topic_authorized_operations=NOT_ASKED
        )
    if name is None or has_id:
        return _failed(item, ErrorCode.INVALID_REQUEST, request, context)
    if not _may_describe(context, name):  # whether it exists is not looked at
        return MetadataResponseTopic(
            error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name, topic_authorized_operations=NOT_ASKED
        )
    topic = topics.get(name)
    if topic is not None:
        return _topic(topic, request, context)
    return _failed(item, _UNKNOWN if is_valid_topic(name) else ErrorCode.INVALID_TOPIC_EXCEPTION, request, context)


def _operations(name: str, request: MetadataRequest, context: RequestContext) -> int:
    return operations_of(context, _TOPIC, name, request.include_topic_authorized_operations)


def _failed(
    item: MetadataRequestTopic, code: ErrorCode, request: MetadataRequest, context: RequestContext
) -> MetadataResponseTopic:
    name = item.name or ""
    return MetadataResponseTopic(
        error_code=code,
        name=name,
        is_internal=item.name in INTERNAL_TOPICS,
        topic_authorized_operations=_operations(name, request, context),
    )


def _topic(topic: Topic, request: MetadataRequest, context: RequestContext) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id.bytes,
        is_internal=topic.is_internal,
        partitions=[_partition(topic.name, index, context) for index in range(topic.partition_count)],
        topic_authorized_operations=_operations(topic.name, request, context),
    )


def _partition(name: str, index: int, context: RequestContext) -> MetadataResponsePartition:
    services = context.services
    node_id = services.logs.node_id
    log = services.topics.log(name, index)
    if log is None:
        return MetadataResponsePartition(
            error_code=ErrorCode.LEADER_NOT_AVAILABLE,
            partition_index=index,
            leader_id=-1,
            replica_nodes=[node_id],
            isr_nodes=[],
            offline_replicas=[node_id],
        )
    return MetadataResponsePartition(
        partition_index=index,
        leader_id=node_id,
        leader_epoch=log.leader_epoch,
        replica_nodes=[node_id],
        isr_nodes=[node_id],
    )


def _response(
    request: MetadataRequest, context: RequestContext, topics: list[MetadataResponseTopic]
) -> MetadataResponse:
    services = context.services
    host, port = context.local_address
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(
                node_id=services.logs.node_id, host=host, port=port, rack=services.config.broker_rack
            )
        ],
        cluster_id=services.logs.cluster_id,
        controller_id=services.logs.node_id,
        topics=topics,
        cluster_authorized_operations=cluster_operations(context, request.include_cluster_authorized_operations),
    )
