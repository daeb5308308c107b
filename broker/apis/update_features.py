"""UpdateFeatures, API key 57, versions 0 to 2: raises or lowers the levels that clients rely on (KIP-584).

- All features are changed or none; the error names the first at fault. INVALID_UPDATE_VERSION: not supported here, or
  lower than it is without saying so.
- 1 tells safe downgrades from unsafe ones and can validate alone; 0 may only allow a downgrade. 2 answers once for all.
- The same level again is no change. Clients learn levels from ApiVersions; those connected now keep their protocol until
  they ask again.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from ..metadata.features import METADATA_VERSION, SUPPORTED
from ..requests.access import requires_cluster
from ..requests.registry import api
from ..runtime.error_codes import error_code
from ..security.acl.model import AclOperation

if TYPE_CHECKING:
    from ..metadata.features import Features
    from ..requests.context import RequestContext

_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE = 1, 2, 3
_LAST_WITH_RESULTS = 1


@api(
    ApiKey.UPDATE_FEATURES,
    (0, 2),
    UpdateFeaturesRequest,
    requires=(requires_cluster(AclOperation.ALTER),),
    audited=True,
    many_names=True,
)
async def update_features(request: UpdateFeaturesRequest, context: RequestContext) -> UpdateFeaturesResponse:
    services = context.services
    try:
        for update in request.feature_updates:
            _check(update, services.features, context.api_version)
            _check_ranges(update, context)
        if not request.validate_only:
            await asyncio.gather(
                *(
                    services.metadata.set_feature(update.feature, update.max_version_level)
                    for update in request.feature_updates
                )
            )
            for update in request.feature_updates:
                if services.features.level(update.feature) != update.max_version_level:
                    services.features.finalize(update.feature, update.max_version_level)
    except Exception as error:
        code, message = error_code(error)
        return UpdateFeaturesResponse(error_code=code, error_message=message)
    response = UpdateFeaturesResponse()
    if context.api_version <= _LAST_WITH_RESULTS:
        response.results = [UpdatableFeatureResult(feature=update.feature) for update in request.feature_updates]
    return response


def _check_ranges(update: FeatureUpdateKey, context: RequestContext) -> None:
    """Refuse a level at which Kafka would not know rules that there are: they would let in whom they keep out."""
    from ..security.acl.authorizer import AclAuthorizer
    from ..security.acl.rules import ADDRESS_RANGES_LEVEL, is_range

    authorizer = context.services.authorizer
    if update.feature != METADATA_VERSION or update.max_version_level >= ADDRESS_RANGES_LEVEL:
        return
    if isinstance(authorizer, AclAuthorizer) and any(is_range(rule.host) for rule in authorizer.rules):
        raise ProtocolError(
            ErrorCode.INVALID_UPDATE_VERSION,
            f"Cannot downgrade {METADATA_VERSION} below {ADDRESS_RANGES_LEVEL} while CIDR-based ACL host patterns exist. "
            "Remove all CIDR ACLs first.",
        )


def _check(update: FeatureUpdateKey, features: Features, version: int) -> None:
    name, level = update.feature, update.max_version_level
    kind = update.upgrade_type
    if version == 0:
        kind = _SAFE_DOWNGRADE if update.allow_downgrade else _UPGRADE
    supported = SUPPORTED.get(name)

    def refuse(why: str) -> ProtocolError:
        return ProtocolError(
            ErrorCode.INVALID_UPDATE_VERSION,
            "The update failed for all features since the following feature had an error: "
            f"Invalid update version {level} for feature {name}. {why}",
        )

    if kind not in (_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE):
        raise refuse(f"There is no upgrade type {kind}.")
    if level < 0:
        raise refuse("A level is not below 0.")
    if supported is None:
        raise refuse("This broker does not have the feature.")
    if not supported.lowest <= level <= supported.highest:
        raise refuse(f"This broker has versions {supported.lowest} to {supported.highest}.")
    if level < features.level(name) and kind == _UPGRADE:
        raise refuse(f"It is {features.level(name)}: a lower level has to be asked for as a downgrade.")
