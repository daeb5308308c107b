"""ApiVersions, API key 18, versions 0 to 4: what this daemon answers, read off the registrations.

- 3 is flexible (its response header is not) and tells features; 4 allows features whose lowest version is 0 (KIP-1022).
- A client software name or version that is malformed is answered with INVALID_REQUEST (KIP-511).
- Any version that we don't know is answered by the dispatcher with error 35 in a version 0 body.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode
from ...protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from .registry import Registration, api, load_apis

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..request_context import RequestContext

#: Feature: (lowest, highest supported version, finalised version). Levels are Kafka 4.3's; a feature whose protocol is
#: not there yet is finalised at 0, which tells clients not to use it.
METADATA_VERSION = "metadata.version"
FEATURES = {
    METADATA_VERSION: (7, 30, 30),
    "group.version": (0, 0, 0),
    "share.version": (0, 0, 0),
    "streams.version": (0, 0, 0),
    "transaction.version": (0, 0, 0),
}
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def listed_versions(registrations: dict[int, Registration]) -> list[ApiVersion]:
    """One row an API, by key."""
    return [
        ApiVersion(api_key=key, min_version=entry.listed_min_version, max_version=entry.max_version)
        for key, entry in sorted(registrations.items())
    ]


def finalized_levels(kafkas: Mapping[str, int]) -> list[tuple[str, int]]:
    """Features with a level above 0. In a directory of Apache Kafka's, the metadata version is what it was there."""
    levels = []
    for name, (low, high, level) in FEATURES.items():
        if name == METADATA_VERSION:
            level = min(max(kafkas.get(name, level), low), high)
        if level > 0:
            levels.append((name, level))
    return levels


@api(ApiKey.API_VERSIONS, (0, 4), ApiVersionsRequest)
def api_versions(request: ApiVersionsRequest, context: RequestContext) -> ApiVersionsResponse:
    if context.api_version >= 3 and not (
        _SOFTWARE.fullmatch(request.client_software_name) and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    response = ApiVersionsResponse(api_keys=listed_versions(load_apis()))
    if context.api_version >= 3:
        # Up to version 3, clients do not expect a supported range that begins at 0 (KIP-1022).
        response.supported_features = [
            SupportedFeatureKey(name=name, min_version=low, max_version=high)
            for name, (low, high, _) in FEATURES.items()
            if low > 0 or context.api_version >= 4
        ]
        response.finalized_features_epoch = 0
        response.finalized_features = [
            FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
            for name, level in finalized_levels(context.broker.features)
        ]
    return response
