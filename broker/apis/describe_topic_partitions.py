"""DescribeTopicPartitions, API key 75, version 0: topics and their partitions, a page at a time (KIP-966).

- An empty list asks for all topics. Topics come sorted by name. A page has at most as many partitions as the client
  asks for and no more than 2000; where one is left over, the cursor names the partition that the next page starts with.
- The cursor's topic may be gone by then: the page starts with the next one.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from ..metadata.topics import INTERNAL_TOPICS, check_name
from ..requests.access import requires_each, shows
from ..requests.authorized_operations import NOT_ASKED, operations_of
from ..requests.registry import api
from ..runtime.cooperative import CHUNK_UNITS, SLICE_UNITS, ChunkedResult, Steps, batches, run_in_chunks
from ..runtime.error_codes import error_code
from ..security.acl.model import AclOperation, ResourceType

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..requests.context import RequestContext

MAX_PARTITIONS = 2000
"""The default of Kafka's max.request.partition.size.limit."""


@api(
    ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    (0, 0),
    DescribeTopicPartitionsRequest,
    requires=(
        requires_each(AclOperation.DESCRIBE, ResourceType.TOPIC),
        shows(AclOperation.DESCRIBE, ResourceType.TOPIC, "where all are asked for"),
    ),
    many_names=True,
)
def describe_topic_partitions(
    request: DescribeTopicPartitionsRequest, context: RequestContext
) -> DescribeTopicPartitionsResponse | ChunkedResult[DescribeTopicPartitionsResponse]:
    return run_in_chunks(_steps(request, context), context)


def _steps(request: DescribeTopicPartitionsRequest, context: RequestContext) -> Steps[DescribeTopicPartitionsResponse]:
    topics, cursor = context.services.topics, request.cursor
    if cursor is not None and cursor.partition_index < 0:
        raise ProtocolError(ErrorCode.INVALID_REQUEST, f"the cursor's partition is {cursor.partition_index}")
    least = "" if cursor is None else cursor.topic_name
    distinct: set[str] = set()
    for some in batches(request.topics, CHUNK_UNITS):
        distinct.update([topic.name for topic in some if topic.name >= least])
        yield len(some) // 8  # a name more in the set takes a microsecond at most
    if request.topics:
        runs: list[list[str]] = []
        for names in batches(distinct, CHUNK_UNITS):
            runs.append(sorted(names))
            yield len(names) // 8
        found = _shown(heapq.merge(*runs), context, quietly=False)
    else:
        found = _shown((topic.name for topic in topics.all() if topic.name >= least), context, quietly=True)
    left = max(1, min(request.response_partition_limit, MAX_PARTITIONS))
    response = DescribeTopicPartitionsResponse(topics=(rows := []), next_cursor=None)
    for name, is_shown in found:
        yield 2
        first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        if not is_shown:
            if request.topics:
                rows.append(_refused(name))
            continue
        topic = topics.get(name)
        if topic is None:
            rows.append(_missing(name, context))
            continue
        if not left:
            response.next_cursor = Cursor(topic_name=name, partition_index=first)
            break
        end = min(topic.partition_count, first + left)
        left -= max(0, end - first)
        yield max(0, end - first)
        rows.append(
            DescribeTopicPartitionsResponseTopic(
                name=name,
                topic_id=topic.topic_id.bytes,
                is_internal=topic.is_internal,
                partitions=[_partition(name, index, context) for index in range(first, end)],
                topic_authorized_operations=operations_of(context, ResourceType.TOPIC, name),
            )
        )
        if end < topic.partition_count:
            response.next_cursor = Cursor(topic_name=name, partition_index=end)
            break
    return response


def _shown(names: Iterable[str], context: RequestContext, *, quietly: bool) -> Iterator[tuple[str, bool]]:
    """Each of `names`, and whether the client may know of it; asked for some at a time."""
    for some in batches(names, SLICE_UNITS):
        allowed = context.allowed(AclOperation.DESCRIBE, ResourceType.TOPIC, some, quietly=quietly)
        yield from ((name, name in allowed) for name in some)


def _refused(name: str) -> DescribeTopicPartitionsResponseTopic:
    """Nothing tells whether it exists."""
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name, topic_authorized_operations=NOT_ASKED
    )


def _missing(name: str, context: RequestContext) -> DescribeTopicPartitionsResponseTopic:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        check_name(name)
    except ProtocolError as error:
        code = error_code(error)[0]
    return DescribeTopicPartitionsResponseTopic(
        error_code=code,
        name=name,
        is_internal=name in INTERNAL_TOPICS,
        topic_authorized_operations=operations_of(context, ResourceType.TOPIC, name),
    )


def _partition(name: str, index: int, context: RequestContext) -> DescribeTopicPartitionsResponsePartition:
    services = context.services
    node_id = services.logs.node_id
    log = services.topics.log(name, index)
    if log is None:
        return DescribeTopicPartitionsResponsePartition(
            error_code=ErrorCode.LEADER_NOT_AVAILABLE,
            partition_index=index,
            leader_id=-1,
            replica_nodes=[node_id],
            isr_nodes=[],
            eligible_leader_replicas=[],
            last_known_elr=[],
            offline_replicas=[node_id],
        )
    return DescribeTopicPartitionsResponsePartition(
        partition_index=index,
        leader_id=node_id,
        leader_epoch=log.leader_epoch,
        replica_nodes=[node_id],
        isr_nodes=[node_id],
        eligible_leader_replicas=[],
        last_known_elr=[],
    )
