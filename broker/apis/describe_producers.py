"""DescribeProducers, API key 61, version 0: the producers that partitions know, and their open transactions (KIP-664).

The log's state is asked in the I/O pool: a slow disk may hold its lock, and a partition may know very many producers. Partitions
behind the first `MOST_PRODUCERS` of them are INVALID_REQUEST: one may be named ten thousand times, which Kafka answers each time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode
from ...protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from ..requests.access import requires_each
from ..requests.registry import api
from ..runtime.cooperative import Turns
from ..security.acl.model import AclOperation, ResourceType

if TYPE_CHECKING:
    from ...storage.log.unified_log import UnifiedLog
    from ..requests.context import RequestContext
    from ..requests.services import Services

MOST_PRODUCERS = 500_000
"""Producers in one answer, about 100 MB while it is written, and those of the partition that goes beyond it."""


@api(
    ApiKey.DESCRIBE_PRODUCERS,
    (0, 0),
    DescribeProducersRequest,
    requires=(requires_each(AclOperation.READ, ResourceType.TOPIC),),
    many_names=True,
)
async def describe_producers(request: DescribeProducersRequest, context: RequestContext) -> DescribeProducersResponse:
    topics = []
    left = MOST_PRODUCERS
    turns = Turns(context)
    for topic in request.topics:
        if turns.spent():
            await turns.next()
        is_readable = context.allows(AclOperation.READ, ResourceType.TOPIC, topic.name)
        rows = []
        for index in topic.partition_indexes:
            if turns.spent():
                await turns.next()
            if is_readable:
                rows.append(await _describe(context.services, topic.name, index) if left > 0 else _too_many(index))
                left -= len(rows[-1].active_producers)
            else:
                rows.append(PartitionResponse(partition_index=index, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        topics.append(TopicResponse(name=topic.name, partitions=rows))
    return DescribeProducersResponse(topics=topics)


async def _describe(services: Services, topic: str, index: int) -> PartitionResponse:
    partition = services.partitions.get(topic, index)
    if partition is None:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return PartitionResponse(partition_index=index, error_code=code, error_message=f"there is no {topic}-{index}")
    producers = await services.loop.run_in_executor(services.io_pool, _states, partition.log)
    return PartitionResponse(partition_index=index, active_producers=producers)


def _too_many(index: int) -> PartitionResponse:
    return PartitionResponse(
        partition_index=index,
        error_code=ErrorCode.INVALID_REQUEST,
        error_message=f"the answer has {MOST_PRODUCERS} producers already: ask for fewer partitions at once",
    )


def _states(log: UnifiedLog) -> list[ProducerState]:
    """What the log knows of its producers. Pool thread."""
    return [
        ProducerState(
            producer_id=known.producer_id,
            producer_epoch=known.producer_epoch,
            last_sequence=known.last_sequence,
            last_timestamp=known.last_timestamp,
            coordinator_epoch=known.coordinator_epoch,
            current_txn_start_offset=known.current_txn_first_offset,
        )
        for known in log.producer_summaries()
    ]
