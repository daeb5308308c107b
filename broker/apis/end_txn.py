"""EndTxn, API key 26, versions 0 to 5: commit or abort.

- 2 knows PRODUCER_FENCED, before it is INVALID_PRODUCER_EPOCH; 4 knows TRANSACTION_ABORTABLE.
- 5 is transactions of version 2 (KIP-890): the epoch rises, and the answer says what to go on with.
- The answer comes when the outcome is certain; markers are written right behind it, and mostly are by then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode
from ...protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from ..requests.access import requires_field
from ..requests.registry import api
from ..runtime.error_codes import error_code
from ..security.acl.model import AclOperation, ResourceType
from ..transactions.states import VERSION_2, Producer

if TYPE_CHECKING:
    from ..requests.context import RequestContext

FENCED_FROM = 2
VERSION_2_FROM = 5


@api(
    ApiKey.END_TXN,
    (0, 5),
    EndTxnRequest,
    requires=(requires_field(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, "transactional_id"),),
)
async def end_txn(request: EndTxnRequest, context: RequestContext) -> EndTxnResponse:
    version = context.api_version
    producer = Producer(request.producer_id, request.producer_epoch)
    try:
        following = await context.services.transactions.get().end(
            request.transactional_id, producer, request.committed, VERSION_2 if version >= VERSION_2_FROM else 0
        )
    except Exception as error:
        code, _ = error_code(error)
        if code is ErrorCode.PRODUCER_FENCED and version < FENCED_FROM:
            code = ErrorCode.INVALID_PRODUCER_EPOCH
        return EndTxnResponse(error_code=code)
    return EndTxnResponse(producer_id=following.producer_id, producer_epoch=following.producer_epoch)
