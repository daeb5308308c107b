"""DescribeProducers, API key 61, version 0: the producers that partitions know, and their open transactions (KIP-664).

The log's state is asked in the I/O pool: a slow disk may hold its lock.
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
    from ..requests.context import RequestContext
    from ..requests.services import Services


@api(
    ApiKey.DESCRIBE_PRODUCERS,
    (0, 0),
    DescribeProducersRequest,
    requires=(requires_each(AclOperation.READ, ResourceType.TOPIC),),
    many_names=True,
)
async def describe_producers(request: DescribeProducersRequest, context: RequestContext) -> DescribeProducersResponse:
    topics = []
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
                rows.append(await _describe(context.services, topic.name, index))
            else:
                rows.append(PartitionResponse(partition_index=index, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        topics.append(TopicResponse(name=topic.name, partitions=rows))
    return DescribeProducersResponse(topics=topics)


async def _describe(services: Services, topic: str, index: int) -> PartitionResponse:
    partition = services.partitions.get(topic, index)
    if partition is None:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return PartitionResponse(partition_index=index, error_code=code, error_message=f"there is no {topic}-{index}")
    producers = await services.loop.run_in_executor(services.io_pool, partition.log.producer_summaries)
    return PartitionResponse(
        partition_index=index,
        active_producers=[
            ProducerState(
                producer_id=known.producer_id,
                producer_epoch=known.producer_epoch,
                last_sequence=known.last_sequence,
                last_timestamp=known.last_timestamp,
                coordinator_epoch=known.coordinator_epoch,
                current_txn_start_offset=known.current_txn_first_offset,
            )
            for known in producers
        ],
    )
