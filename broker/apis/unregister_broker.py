"""UnregisterBroker, API key 64, version 0: for brokers that have gone; the only one is this, and it is here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode
from ...protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from ..requests.access import requires_cluster
from ..requests.registry import api
from ..security.acl.model import AclOperation

if TYPE_CHECKING:
    from ..requests.context import RequestContext


@api(
    ApiKey.UNREGISTER_BROKER,
    (0, 0),
    UnregisterBrokerRequest,
    requires=(requires_cluster(AclOperation.ALTER),),
)
def unregister_broker(request: UnregisterBrokerRequest, context: RequestContext) -> UnregisterBrokerResponse:
    if request.broker_id != context.services.logs.node_id:
        return UnregisterBrokerResponse(
            error_code=ErrorCode.BROKER_ID_NOT_REGISTERED,
            error_message=f"broker {request.broker_id} is not registered",
        )
    return UnregisterBrokerResponse(
        error_code=ErrorCode.INVALID_REQUEST,
        error_message=f"broker {request.broker_id} is the one that answers: it can't be forgotten",
    )
