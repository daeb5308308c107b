"""ApiVersions, API key 18, versions 0 to 4: what this daemon answers, read off the registrations.

- 3 is flexible (its response header is not) and tells features; 4 allows features whose lowest version is 0 (KIP-1022).
- A client software name or version that is malformed is answered with INVALID_REQUEST (KIP-511).
- GetTelemetrySubscriptions and PushTelemetry are answered in any case, as by Kafka, and listed where clients are to push
  (`telemetry.enable`): a client that finds them listed asks at once, and says so in its log.
- Any version that we don't know is answered by the dispatcher with error 35 in a version 0 body.
"""

from __future__ import annotations

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

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_FEATURES = EncodedOnce(
    SupportedFeatureKey(name=name, min_version=low, max_version=high) for name, (low, high, _) in SUPPORTED.items()
)
# Up to version 3, clients do not expect a supported range that begins at 0 (KIP-1022).
_FEATURES_BEFORE_4 = EncodedOnce(feature for feature in _FEATURES if feature.min_version > 0)


@api(ApiKey.API_VERSIONS, (0, 4), ApiVersionsRequest, requires=())
def api_versions(request: ApiVersionsRequest, context: RequestContext) -> ApiVersionsResponse:
    if context.api_version >= 3 and not (
        _SOFTWARE.fullmatch(request.client_software_name) and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    response = ApiVersionsResponse(api_keys=context.services.listed_apis)
    if context.api_version >= 3:
        context.connection.software = request.client_software_name, request.client_software_version
        response.supported_features = _FEATURES if context.api_version >= 4 else _FEATURES_BEFORE_4
        features = context.services.features
        response.finalized_features_epoch = features.epoch
        response.finalized_features = [
            FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
            for name, level in features.finalized()
        ]
    return response
