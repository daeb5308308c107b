"""UnregisterController, API key 94, version 0: for controllers that have gone; the only one is this node, and it is here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode
from ...protocol.messages.unregister_controller import UnregisterControllerRequest, UnregisterControllerResponse
from ..requests.access import requires_cluster
from ..requests.registry import api
from ..security.acl.model import AclOperation

if TYPE_CHECKING:
    from ..requests.context import RequestContext


@api(
    ApiKey.UNREGISTER_CONTROLLER,
    (0, 0),
    UnregisterControllerRequest,
    requires=(requires_cluster(AclOperation.ALTER),),
)
def unregister_controller(
    request: UnregisterControllerRequest, context: RequestContext
) -> UnregisterControllerResponse:
    if request.controller_id != context.services.logs.node_id:
        return UnregisterControllerResponse(
            error_code=ErrorCode.CONTROLLER_ID_NOT_REGISTERED,
            error_message=f"controller {request.controller_id} is not registered",
        )
    return UnregisterControllerResponse(
        error_code=ErrorCode.INVALID_REQUEST,
        error_message=f"controller {request.controller_id} is the one that answers: it can't be forgotten",
    )
