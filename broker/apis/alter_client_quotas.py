"""AlterClientQuotas, API key 49, versions 0 and 1 (flexible): sets and removes quotas of entities (KIP-546).

An entity is changed as a whole or not at all; entities are independent of each other. An entity that is in the request twice is
INVALID_REQUEST, and so is a quota that is named twice. A new quota holds from the next request on.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntryData,
    EntryResult,
)
from ..requests.access import requires_request
from ..requests.registry import api
from ..runtime.cooperative import batches
from ..runtime.error_codes import error_code
from ..security.acl.model import CLUSTER_NAME, AclOperation, ResourceType

if TYPE_CHECKING:
    from ..requests.context import RequestContext

_AT_ONCE = 100
"""Entries that are changed together: they share commits."""


@api(
    ApiKey.ALTER_CLIENT_QUOTAS,
    (0, 1),
    AlterClientQuotasRequest,
    requires=(requires_request(AclOperation.ALTER_CONFIGS, ResourceType.CLUSTER),),
    audited=True,
    many_names=True,
)
async def alter_client_quotas(request: AlterClientQuotasRequest, context: RequestContext) -> AlterClientQuotasResponse:
    if not context.allows(AclOperation.ALTER_CONFIGS, ResourceType.CLUSTER, CLUSTER_NAME):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return AlterClientQuotasResponse(
            entries=[EntryResult(error_code=code, error_message=code.text, entity=e.entity) for e in request.entries]
        )
    times = Counter(_parts(entry) for entry in request.entries)
    answers: list[EntryResult] = []
    for some in batches(request.entries, _AT_ONCE):
        if answers:
            await context.next_turn()
        answers += await asyncio.gather(
            *(_alter(entry, context, request.validate_only, times[_parts(entry)]) for entry in some)
        )
    return AlterClientQuotasResponse(entries=answers)


async def _alter(entry: EntryData, context: RequestContext, validate_only: bool, times: int) -> EntryResult:
    result = EntryResult(entity=entry.entity)
    try:
        if times > 1:
            raise ProtocolError(ErrorCode.INVALID_REQUEST, "an entity may be in the request once")
        twice = [key for key, count in Counter(op.key for op in entry.ops).items() if count > 1]
        if twice:
            raise ProtocolError(ErrorCode.INVALID_REQUEST, f"quotas named more than once: {', '.join(twice)}")
        changes = {op.key: None if op.remove else op.value for op in entry.ops}
        parts = [(part.entity_type, part.entity_name) for part in entry.entity]
        await context.services.quotas.alter(parts, changes, validate_only)
    except Exception as error:
        result.error_code, result.error_message = error_code(error)
    return result


def _parts(entry: EntryData) -> frozenset[tuple[str, str | None]]:
    return frozenset((part.entity_type, part.entity_name) for part in entry.entity)
