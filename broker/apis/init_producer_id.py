"""InitProducerId, API key 22, versions 0 to 5: an id for an idempotent producer.

- Without a transactional id each request gets a new id with epoch 0, whatever id and epoch the producer says it has
  (version 3, KIP-360): a new id is as good as a new epoch.
- With one, UNSUPPORTED_VERSION: there is no transaction coordinator in this version. The code is one that clients
  hold for final and name as a missing feature; COORDINATOR_NOT_AVAILABLE would have them ask again for ever, and
  TRANSACTIONAL_ID_AUTHORIZATION_FAILED would send people to look for permissions.
- An empty transactional id is INVALID_REQUEST, as in Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode
from ...protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ..error_mapping import error_code
from .registry import api

if TYPE_CHECKING:
    from ..request_context import RequestContext

_NO_EPOCH = -1


@api(ApiKey.INIT_PRODUCER_ID, (0, 5), InitProducerIdRequest)
async def init_producer_id(request: InitProducerIdRequest, context: RequestContext) -> InitProducerIdResponse:
    if request.transactional_id is not None:
        code = ErrorCode.UNSUPPORTED_VERSION if request.transactional_id else ErrorCode.INVALID_REQUEST
        return InitProducerIdResponse(error_code=code, producer_epoch=_NO_EPOCH)
    try:
        return InitProducerIdResponse(producer_id=await context.broker.producer_ids.next(), producer_epoch=0)
    except Exception as error:
        return InitProducerIdResponse(error_code=error_code(error)[0], producer_epoch=_NO_EPOCH)
