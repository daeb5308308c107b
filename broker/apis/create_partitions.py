"""CreatePartitions, API key 37, versions 0 to 3.

- 2 is flexible; from 3 on partitions beyond controller_mutation_rate are THROTTLING_QUOTA_EXCEEDED (KIP-599).
- `count` is the number of partitions afterwards; it can only grow.
- An assignment by hand names this node, once for each new partition.
- The broker's own topics keep their number: it decides where a group or a transaction is.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from ..requests.access import requires_each
from ..requests.creation_budget import CreationBudget
from ..requests.registry import api
from ..runtime.cooperative import batches
from ..runtime.error_codes import error_code
from ..security.acl.model import AclOperation, ResourceType
from .create_topics import check_assignments

if TYPE_CHECKING:
    from ..requests.context import RequestContext


_STRICT_FROM = 3
_AT_ONCE = 100
"""Topics that grow together: as in CreateTopics."""


@api(
    ApiKey.CREATE_PARTITIONS,
    (0, 3),
    CreatePartitionsRequest,
    requires=(requires_each(AclOperation.ALTER, ResourceType.TOPIC),),
    audited=True,
    many_names=True,
)
async def create_partitions(request: CreatePartitionsRequest, context: RequestContext) -> CreatePartitionsResponse:
    times = Counter(topic.name for topic in request.topics)
    unique = {topic.name: topic for topic in request.topics}
    mutations = context.services.quotas.mutations(
        context.client_id, context.user, strict=context.api_version >= _STRICT_FROM
    )
    results: list[CreatePartitionsTopicResult] = []
    with CreationBudget(context, mutations, most=None) as budget:
        for some in batches(unique, _AT_ONCE):
            if results:
                await context.next_turn()
            alterable = context.allowed(AclOperation.ALTER, ResourceType.TOPIC, some)
            results += await asyncio.gather(
                *(
                    _grow(unique[name], context, request.validate_only, times[name], budget, name in alterable)
                    for name in some
                )
            )
    return CreatePartitionsResponse(results=results, throttle_time_ms=mutations.throttle_ms)


async def _grow(
    topic: CreatePartitionsTopic,
    context: RequestContext,
    validate_only: bool,
    times: int,
    budget: CreationBudget,
    is_allowed: bool,
) -> CreatePartitionsTopicResult:
    topics = context.services.topics
    try:
        if times > 1:
            raise ProtocolError(ErrorCode.INVALID_REQUEST, f"topic '{topic.name}' is in the request twice")
        if not is_allowed:
            raise ProtocolError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "you may not alter this topic")
        present = topics.check_growth(topic.name, topic.count)
        if topic.assignments is not None:
            added = topic.count - present.partition_count
            if len(topic.assignments) != added:
                raise ProtocolError(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                    f"{added} partitions are added, and {len(topic.assignments)} are assigned",
                )
            check_assignments((a.broker_ids for a in topic.assignments), context.services.logs.node_id)
        added = topic.count - present.partition_count
        if validate_only:
            budget.check(0, added)
        else:
            await topics.add_partitions(topic.name, topic.count, budget.take(0, added))
    except Exception as error:
        code, message = error_code(error)
        return CreatePartitionsTopicResult(name=topic.name, error_code=code, error_message=message)
    return CreatePartitionsTopicResult(name=topic.name)
