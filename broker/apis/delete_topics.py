"""DeleteTopics, API key 20, versions 0 to 6.

- 4 is flexible, 5 tells errors in words, 6 takes ids too (KIP-516): a topic is named by one of both, and once.
- A client that may DELETE the cluster (by a rule for ALL of it) may delete all topics. Others need DELETE of a
  topic that they name, and DESCRIBE to be told that it does not exist.
- `delete.topic.enable=false` refuses every topic: TOPIC_DELETION_DISABLED from version 3 on, INVALID_REQUEST before.
- The broker's own topics can't be deleted (INVALID_TOPIC_EXCEPTION).
- From 5 on partitions beyond controller_mutation_rate are THROTTLING_QUOTA_EXCEEDED (KIP-599).
- A topic is answered when its deletion is stored and it is gone for clients; its files follow after a delay.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING
from uuid import UUID

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from ...storage.log.partition_metadata import encode_uuid
from ..requests.access import requires_each, reveals, suffices
from ..requests.registry import api
from ..runtime.cooperative import CHUNK_UNITS, batches
from ..runtime.error_codes import error_code
from ..security.acl.model import CLUSTER_NAME, AclOperation, ResourceType

if TYPE_CHECKING:
    from ..quotas.manager import Mutations
    from ..requests.context import RequestContext

_NO_ID = bytes(16)
_STRICT_FROM = 5
_AT_ONCE = 100
"""Topics that are deleted together: they share commits, and what is refused takes the loop for milliseconds."""


@api(
    ApiKey.DELETE_TOPICS,
    (0, 6),
    DeleteTopicsRequest,
    requires=(
        suffices(AclOperation.DELETE, ResourceType.CLUSTER),
        requires_each(AclOperation.DESCRIBE, ResourceType.TOPIC, "each that is named and not given by its id"),
        requires_each(AclOperation.DELETE, ResourceType.TOPIC),
        reveals(AclOperation.DESCRIBE, ResourceType.TOPIC, "for the name of what its id names"),
    ),
    audited=True,
    many_names=True,
)
async def delete_topics(request: DeleteTopicsRequest, context: RequestContext) -> DeleteTopicsResponse:
    states: list[DeleteTopicState] = []
    names: list[str | None] = []
    named = (DeleteTopicState(name=name) for name in request.topic_names)
    for some in batches(request.topics if context.api_version >= 6 else named, CHUNK_UNITS):
        if states:
            await context.next_turn()
        states += some
        names += [_name(state, context) for state in some]
    topics = context.services.topics
    mutations = context.services.quotas.mutations(
        context.client_id, context.user, strict=context.api_version >= _STRICT_FROM
    )
    may_all = context.allows(AclOperation.DELETE, ResourceType.CLUSTER, CLUSTER_NAME, quietly=True)
    times = Counter(name for name in names if name is not None)
    answers: dict[tuple[str | None, bytes], DeletableTopicResult] = {}
    wanted: list[tuple[str, UUID | None, DeletableTopicResult]] = []
    for done, (state, name) in enumerate(zip(states, names, strict=True), 1):
        if done % _AT_ONCE == 0:
            await context.next_turn()
        error: ProtocolError | None = None
        if not context.services.config.delete_topic_enable:
            code = ErrorCode.TOPIC_DELETION_DISABLED if context.api_version >= 3 else ErrorCode.INVALID_REQUEST
            error = ProtocolError(code, "delete.topic.enable is false")
        elif (state.name is None) == (state.topic_id == _NO_ID):
            error = ProtocolError(ErrorCode.INVALID_REQUEST, "a topic is named by its name or by its id")
        elif name is None:
            error = ProtocolError(
                ErrorCode.UNKNOWN_TOPIC_ID, f"there is no topic with id {encode_uuid(UUID(bytes=state.topic_id))}"
            )
        elif not may_all and (refusal := _refusal(name, is_named=state.name is not None, context=context)) is not None:
            error = refusal
        elif times[name] > 1:
            error = ProtocolError(ErrorCode.INVALID_REQUEST, f"topic '{name}' is in the request twice")
        topic = topics.get(name) if name is not None else None
        result = DeletableTopicResult(name=state.name, topic_id=state.topic_id)
        if error is not None:
            result.error_code, result.error_message = error.code, str(error)
            # A client that named the topic by its id gets its name if it may describe it; one that named it by its name gets
            # nothing else.
            if (
                error.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
                and name is not None
                and context.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, name, quietly=True)
            ):
                result.name = name
        elif name is not None:
            result.name = name
            if state.name is not None:
                result.topic_id = topic.topic_id.bytes if topic is not None else _NO_ID
            wanted.append((name, None if state.name is not None else UUID(bytes=state.topic_id), result))
        answers[state.name, state.topic_id] = result  # one answer for what is named twice
    for first in range(0, len(wanted), _AT_ONCE):
        at_once = wanted[first : first + _AT_ONCE]
        await asyncio.gather(*(_delete(*one, context, mutations) for one in at_once))
        if first + _AT_ONCE < len(wanted):
            await context.next_turn()
    return DeleteTopicsResponse(responses=list(answers.values()), throttle_time_ms=mutations.throttle_ms)


def _name(state: DeleteTopicState, context: RequestContext) -> str | None:
    if state.name is not None:
        return state.name
    topic = context.services.topics.by_id(state.topic_id)
    return topic.name if topic is not None else None


def _refusal(name: str, *, is_named: bool, context: RequestContext) -> ProtocolError | None:
    error = ProtocolError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "you may not delete this topic")
    if is_named:
        if not context.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, name):
            return error
        if context.services.topics.get(name) is None:
            return ProtocolError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return None if context.allows(AclOperation.DELETE, ResourceType.TOPIC, name) else error


async def _delete(
    name: str,
    topic_id: UUID | None,
    result: DeletableTopicResult,
    context: RequestContext,
    mutations: Mutations,
) -> None:
    """Delete the topic. `topic_id`: how the client has named it; one of the same name that came since is not meant."""
    try:
        if (topic := context.services.topics.get(name)) is not None and topic_id in (None, topic.topic_id):
            mutations.take(topic.partition_count)
        await context.services.topics.delete(name, topic_id)
    except Exception as error:
        result.error_code, result.error_message = error_code(error)
