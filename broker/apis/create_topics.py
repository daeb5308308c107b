"""CreateTopics, API key 19, versions 0 to 7.

- 1 can ask for validation alone and tells errors in words, 4 lets the broker choose numbers (-1, KIP-464), 5 is
  flexible and answers with the topic's settings (KIP-525), 7 with its id.
- A topic is answered when it is durable and can be written to; the time-out of the request is not needed for that.
- One node keeps one copy: any replication factor but 1 and -1 is INVALID_REPLICATION_FACTOR. An assignment by hand is
  taken when every partition is given to this node, and the partitions are 0, 1, 2 …
- A name that is there twice in the request is INVALID_REQUEST, once.
- Partitions count against controller_mutation_rate; from 6 on what is too many is THROTTLING_QUOTA_EXCEEDED (KIP-599).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Container, Iterable, Sequence
from typing import TYPE_CHECKING

from ...config.describe import describe_topic
from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ...storage.segment.names import CLUSTER_METADATA_TOPIC
from ..requests.access import requires_each, reveals, suffices
from ..requests.creation_budget import CreationBudget
from ..requests.registry import api
from ..runtime.cooperative import batches
from ..runtime.error_codes import error_code
from ..security.acl.model import CLUSTER_NAME, AclOperation, ResourceType

if TYPE_CHECKING:
    from ...config.log_config import LogConfig
    from ..requests.context import RequestContext


_FIRST_WITH_SETTINGS = 5
_STRICT_FROM = 6
_AT_ONCE = 100
"""Topics that are made together: they share commits, and what is refused takes the loop for milliseconds."""


@api(
    ApiKey.CREATE_TOPICS,
    (0, 7),
    CreateTopicsRequest,
    requires=(
        suffices(AclOperation.CREATE, ResourceType.CLUSTER),
        requires_each(AclOperation.CREATE, ResourceType.TOPIC),
        reveals(AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, "for the settings of what is made"),
    ),
    audited=True,
    many_names=True,
)
async def create_topics(request: CreateTopicsRequest, context: RequestContext) -> CreateTopicsResponse:
    times = Counter(topic.name for topic in request.topics)
    unique = {topic.name: topic for topic in request.topics}  # in the order of the request
    mutations = context.services.quotas.mutations(
        context.client_id, context.user, strict=context.api_version >= _STRICT_FROM
    )
    answers: list[CreatableTopicResult] = []
    with CreationBudget(context, mutations) as budget:
        for some in batches(unique, _AT_ONCE):
            if answers:
                await context.next_turn()
            creatable: Container[str] = unique
            if not context.allows(AclOperation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME, quietly=True):
                creatable = context.allowed(
                    AclOperation.CREATE, ResourceType.TOPIC, (name for name in some if name != CLUSTER_METADATA_TOPIC)
                )
            describable = context.allowed(AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, some, quietly=True)
            answers += await asyncio.gather(
                *(
                    _refused(name, ProtocolError(ErrorCode.INVALID_REQUEST, f"topic '{name}' is in the request twice"))
                    if times[name] > 1
                    else _refused(
                        name, ProtocolError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "you may not create this topic")
                    )
                    if name not in creatable
                    else _create(unique[name], context, request.validate_only, budget, name in describable)
                    for name in some
                )
            )
    return CreateTopicsResponse(topics=answers, throttle_time_ms=mutations.throttle_ms)


async def _create(
    topic: CreatableTopic, context: RequestContext, validate_only: bool, budget: CreationBudget, tells_settings: bool
) -> CreatableTopicResult:
    topics = context.services.topics
    try:
        if topic.name == CLUSTER_METADATA_TOPIC:
            raise ProtocolError(ErrorCode.INVALID_REQUEST, f"'{topic.name}' is internal to Kafka and can't be created")
        overrides = _overrides(topic)
        partitions = _partitions(topic, context)
        config = topics.check_new(topic.name, partitions, overrides)
        result = CreatableTopicResult(name=topic.name)
        if tells_settings:
            result.num_partitions, result.replication_factor = partitions, 1
            result.configs = _configs(context, config, overrides)
        elif context.api_version >= _FIRST_WITH_SETTINGS:
            result.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if validate_only:
            budget.check(1, partitions)
        else:
            made = await topics.create(topic.name, partitions, overrides, budget.take(1, partitions))
            result.topic_id = made.topic_id.bytes
    except Exception as error:
        return await _refused(topic.name, error)
    return result


async def _refused(name: str, error: Exception) -> CreatableTopicResult:
    code, message = error_code(error)
    return CreatableTopicResult(name=name, error_code=code, error_message=message)


def _overrides(topic: CreatableTopic) -> dict[str, str]:
    overrides: dict[str, str] = {}
    for setting in topic.configs:
        if setting.value is None:
            raise ProtocolError(ErrorCode.INVALID_CONFIG, f"{setting.name} has no value")
        if setting.name in overrides:
            raise ProtocolError(ErrorCode.INVALID_CONFIG, f"{setting.name} is set twice")
        overrides[setting.name] = setting.value
    return overrides


def _partitions(topic: CreatableTopic, context: RequestContext) -> int:
    """Number of partitions, after the numbers or the assignment were validated."""
    if topic.assignments:
        if topic.replication_factor != -1 or topic.num_partitions != -1:
            raise ProtocolError(
                ErrorCode.INVALID_REQUEST,
                "with an assignment by hand, the number of partitions and the replication factor are -1",
            )
        check_assignments((a.broker_ids for a in topic.assignments), context.services.logs.node_id)
        indexes = sorted(assignment.partition_index for assignment in topic.assignments)
        if indexes != list(range(len(indexes))):
            raise ProtocolError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, "the partitions of an assignment are 0, 1, 2 … each once"
            )
        return len(indexes)
    factor = topic.replication_factor
    if factor < -1 or factor == 0:
        raise ProtocolError(ErrorCode.INVALID_REPLICATION_FACTOR, f"a topic can't have {factor} copies")
    if factor > 1:
        raise ProtocolError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"{factor} copies need {factor} brokers, and there is one",
        )
    if topic.num_partitions == -1:
        return context.services.config.num_partitions
    return topic.num_partitions


def check_assignments(assignments: Iterable[Sequence[int]], node_id: int) -> None:
    """Raises `ProtocolError` INVALID_REPLICA_ASSIGNMENT unless each of `assignments` names this node alone."""
    for brokers in assignments:
        if list(brokers) != [node_id]:
            raise ProtocolError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"partitions can be given to broker {node_id} alone, not to {list(brokers)}",
            )


def _configs(context: RequestContext, config: LogConfig, overrides: dict[str, str]) -> list[CreatableTopicConfigs]:
    return [
        CreatableTopicConfigs(
            name=entry.name,
            value=entry.value,
            read_only=entry.read_only,
            config_source=entry.source,
            is_sensitive=entry.sensitive,
        )
        for entry in sorted(describe_topic(context.services.config, config, overrides))
    ]
