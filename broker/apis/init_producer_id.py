"""InitProducerId, API key 22, versions 0 to 5: an id for an idempotent producer, or id and epoch for a transactional one.

- Without a transactional id each request gets a new id with epoch 0, whatever id and epoch the producer says it has
  (version 3, KIP-360): a new id is as good as a new epoch.
- With one, older instances of the producer are fenced and what they have under way is aborted.
- 4 knows PRODUCER_FENCED, before it is INVALID_PRODUCER_EPOCH; 5 knows TRANSACTION_ABORTABLE. Version 6 (two-phase commit,
  KIP-939) is not answered, as Kafka 4.3 does not unless it is told to.
- An empty transactional id is INVALID_REQUEST, as in Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode
from ...protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ..requests.access import requires_request, suffices
from ..requests.registry import api
from ..runtime.error_codes import error_code
from ..security.acl.model import CLUSTER_NAME, AclOperation, ResourceType

if TYPE_CHECKING:
    from ..requests.context import RequestContext

_NO_EPOCH = -1
_NO_PRODUCER = (-1, -1)
FENCED_FROM = 4


@api(
    ApiKey.INIT_PRODUCER_ID,
    (0, 5),
    InitProducerIdRequest,
    requires=(
        requires_request(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, "where the request names one"),
        suffices(AclOperation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, "where it names none"),
        requires_request(
            AclOperation.WRITE, ResourceType.TOPIC, "any topic at all", ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        ),
    ),
)
async def init_producer_id(request: InitProducerIdRequest, context: RequestContext) -> InitProducerIdResponse:
    try:
        if (code := _refusal(request.transactional_id, context)) is not None:
            return InitProducerIdResponse(error_code=code, producer_epoch=_NO_EPOCH)
        if request.transactional_id is None:
            return InitProducerIdResponse(producer_id=await context.services.producer_ids.next(), producer_epoch=0)
        return await _transactional(request, request.transactional_id, context)
    except Exception as error:
        code, _ = error_code(error)
        if code is ErrorCode.PRODUCER_FENCED and context.api_version < FENCED_FROM:
            code = ErrorCode.INVALID_PRODUCER_EPOCH
        return InitProducerIdResponse(error_code=code, producer_epoch=_NO_EPOCH)


def _refusal(transactional_id: str | None, context: RequestContext) -> ErrorCode | None:
    """Error code if the client may not have a producer id. Without a transactional id it needs WRITE on any topic
    (KIP-679).
    """
    if transactional_id is not None:
        is_allowed = context.allows(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)
        return None if is_allowed else ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    is_allowed = context.allows(
        AclOperation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME, quietly=True
    ) or context.allows_any(AclOperation.WRITE, ResourceType.TOPIC)
    return None if is_allowed else ErrorCode.CLUSTER_AUTHORIZATION_FAILED


async def _transactional(
    request: InitProducerIdRequest, transactional_id: str, context: RequestContext
) -> InitProducerIdResponse:
    from ..transactions.states import Producer

    said = Producer(request.producer_id, request.producer_epoch)
    if said != _NO_PRODUCER and min(said) < 0:
        return InitProducerIdResponse(error_code=ErrorCode.INVALID_REQUEST, producer_epoch=_NO_EPOCH)
    producer = await context.services.transactions.get().init_producer_id(
        transactional_id, request.transaction_timeout_ms, None if said == _NO_PRODUCER else said
    )
    return InitProducerIdResponse(producer_id=producer.producer_id, producer_epoch=producer.producer_epoch)
