"""AddOffsetsToTxn, API key 25, versions 0 to 4: the transaction is about to commit offsets of a group.

The partition that is added is the group's partition of `__consumer_offsets`. 2 knows PRODUCER_FENCED, before it is
INVALID_PRODUCER_EPOCH; 4 knows TRANSACTION_ABORTABLE.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode
from ...protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ..requests.access import requires_field
from ..requests.registry import api
from ..runtime.error_codes import error_code
from ..security.acl.model import AclOperation, ResourceType
from ..transactions.states import Producer

if TYPE_CHECKING:
    from ..requests.context import RequestContext

FENCED_FROM = 2


@api(
    ApiKey.ADD_OFFSETS_TO_TXN,
    (0, 4),
    AddOffsetsToTxnRequest,
    requires=(
        requires_field(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, "transactional_id"),
        requires_field(AclOperation.READ, ResourceType.GROUP, "group_id"),
    ),
)
async def add_offsets_to_txn(request: AddOffsetsToTxnRequest, context: RequestContext) -> AddOffsetsToTxnResponse:
    services = context.services
    producer = Producer(request.producer_id, request.producer_epoch)
    try:
        await services.groups.ensure_topic()
        partition = services.groups.partition_of(request.group_id)
        wait = services.transactions.get().add_partitions(request.transactional_id, producer, {partition}, 0)
        if wait is not None:
            await asyncio.shield(wait)
    except Exception as error:
        code, _ = error_code(error)
        if code is ErrorCode.PRODUCER_FENCED and context.api_version < FENCED_FROM:
            code = ErrorCode.INVALID_PRODUCER_EPOCH
        return AddOffsetsToTxnResponse(error_code=code)
    return AddOffsetsToTxnResponse()
