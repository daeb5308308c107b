"""OffsetDelete, API key 47, version 0: forgets a group's offsets for topics that its members do not read (KIP-496)."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from ..requests.access import requires_each, requires_field
from ..requests.registry import api
from ..runtime.cooperative import ChunkedResult, Steps, run_in_chunks
from ..security.acl.model import AclOperation, ResourceType

if TYPE_CHECKING:
    from ..requests.context import RequestContext

    _Checked = tuple[dict[tuple[str, int], ErrorCode], list[tuple[str, int]]]


@api(
    ApiKey.OFFSET_DELETE,
    (0, 0),
    OffsetDeleteRequest,
    requires=(
        requires_field(AclOperation.DELETE, ResourceType.GROUP, "group_id"),
        requires_each(AclOperation.READ, ResourceType.TOPIC),
    ),
    audited=True,
    many_names=True,
)
def offset_delete(
    request: OffsetDeleteRequest, context: RequestContext
) -> OffsetDeleteResponse | Awaitable[OffsetDeleteResponse]:
    checked = run_in_chunks(_check(request, context), context)
    if isinstance(checked, ChunkedResult):
        return _check_and_delete(request, context, checked)
    return _delete(request, context, checked)


def _check(request: OffsetDeleteRequest, context: RequestContext) -> Steps[_Checked]:
    """Partitions that may be forgotten, and the errors of the others."""
    codes: dict[tuple[str, int], ErrorCode] = {}
    there: list[tuple[str, int]] = []
    for topic in request.topics:
        yield 1
        may_read = context.allows(AclOperation.READ, ResourceType.TOPIC, topic.name)
        for each in topic.partitions:
            yield 1
            key = topic.name, each.partition_index
            if not may_read:
                codes[key] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif context.services.partitions.get(*key) is None:
                codes[key] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                there.append(key)
    return codes, there


async def _check_and_delete(
    request: OffsetDeleteRequest, context: RequestContext, checking: ChunkedResult[_Checked]
) -> OffsetDeleteResponse:
    answer = _delete(request, context, await checking)
    return answer if isinstance(answer, OffsetDeleteResponse) else await answer


def _delete(
    request: OffsetDeleteRequest, context: RequestContext, checked: _Checked
) -> OffsetDeleteResponse | Awaitable[OffsetDeleteResponse]:
    codes, there = checked
    try:
        outcome = context.services.groups.delete_offsets(request.group_id, there)
    except ProtocolError as error:
        return OffsetDeleteResponse(error_code=error.code)
    if inspect.isawaitable(outcome):
        return _later(request, codes, there, outcome)
    return _respond(request, codes | dict(zip(there, outcome, strict=True)))


async def _later(
    request: OffsetDeleteRequest,
    codes: dict[tuple[str, int], ErrorCode],
    there: list[tuple[str, int]],
    outcome: Awaitable[list[ErrorCode]],
) -> OffsetDeleteResponse:
    try:
        return _respond(request, codes | dict(zip(there, await outcome, strict=True)))
    except ProtocolError as error:
        return OffsetDeleteResponse(error_code=error.code)


def _respond(request: OffsetDeleteRequest, codes: dict[tuple[str, int], ErrorCode]) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(
        topics=[
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetDeleteResponsePartition(
                        partition_index=each.partition_index, error_code=codes[topic.name, each.partition_index]
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
