"""ApiVersions, API key 18, versions 0 to 5: what this daemon answers, read off the registrations.

- 3 is flexible (its response header is not) and tells features; 4 allows features whose lowest version is 0 (KIP-1022).
- 5 says which node of which cluster the client means (KIP-1242). If that is another, the answer is REBOOTSTRAP_REQUIRED and
  nothing else, before authentication too: an address has come to lead here that led elsewhere, and the client has to begin
  with its bootstrap servers again.
- A client software name or version that is malformed is answered with INVALID_REQUEST (KIP-511), and so is a cluster without a
  node, or a node without a cluster.
- GetTelemetrySubscriptions and PushTelemetry are answered in any case, as by Kafka, and listed where clients are to push
  (`telemetry.enable`): a client that finds them listed asks at once, and says so in its log.
- Any version that we don't know is answered by the dispatcher with error 35 in a version 0 body.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode
from ...protocol.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from ...protocol.schema import EncodedOnce
from ..metadata.features import SUPPORTED
from ..requests.registry import api

if TYPE_CHECKING:
    from ..requests.context import RequestContext

log = logging.getLogger(__name__)

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
MOST_KEPT = 256
"""Characters of a name and of a version that are kept with the connection: before authentication each may have 32,767."""
_FEATURES = EncodedOnce(
    SupportedFeatureKey(name=name, min_version=low, max_version=high) for name, (low, high, _) in SUPPORTED.items()
)
# Up to version 3, clients do not expect a supported range that begins at 0 (KIP-1022).
_FEATURES_BEFORE_4 = EncodedOnce(feature for feature in _FEATURES if feature.min_version > 0)


#: Node of a client that means none.
_NO_NODE = -1


@api(ApiKey.API_VERSIONS, (0, 5), ApiVersionsRequest, requires=())
def api_versions(request: ApiVersionsRequest, context: RequestContext) -> ApiVersionsResponse:
    if context.api_version >= 3 and not (
        _SOFTWARE.fullmatch(request.client_software_name) and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    if (request.cluster_id is None) != (request.node_id == _NO_NODE):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    if _is_misrouted(request, context):
        return ApiVersionsResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)
    response = ApiVersionsResponse(api_keys=context.services.listed_apis)
    if context.api_version >= 3:
        context.connection.software = (
            request.client_software_name[:MOST_KEPT],
            request.client_software_version[:MOST_KEPT],
        )
        response.supported_features = _FEATURES if context.api_version >= 4 else _FEATURES_BEFORE_4
        features = context.services.features
        response.finalized_features_epoch = features.epoch
        response.finalized_features = [
            FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
            for name, level in features.finalized()
        ]
    return response


def _is_misrouted(request: ApiVersionsRequest, context: RequestContext) -> bool:
    """True, and a line in the log, if the client means another node than this one. Before version 5 no cluster is given."""
    if request.cluster_id is None:
        return False
    own = context.services.logs
    if (request.cluster_id, request.node_id) == (own.cluster_id, own.node_id):
        return False
    log.info(
        "%s: client %.100r meant node %d of cluster %.100r, and this is node %d of %s: REBOOTSTRAP_REQUIRED. Where do its "
        "addresses lead?",
        context.connection, context.client_id, request.node_id, request.cluster_id, own.node_id, own.cluster_id,
    )  # fmt: skip
    return True
