"""UpdateFeatures (57): raises or lowers finalised feature levels (KIP-584).

Version 1 tells apart safe and unsafe downgrades and can validate alone, 2 answers for all features at once (KIP-1022).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..schema import ApiMessage, Struct, array, boolean, int8, int16, int32, string


class FeatureUpdateKey(Struct):
    """upgrade_type: 1 up, 2 safe down, 3 unsafe down. max_version_level 0 removes a feature."""

    feature: str = string()
    max_version_level: int = int16()
    allow_downgrade: bool = boolean("0")
    upgrade_type: int = int8("1+", default=1)


class UpdateFeaturesRequest(ApiMessage):
    """Changes to apply; with validate_only they are checked only."""

    API_KEY = ApiKey.UPDATE_FEATURES
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 0
    MOST_ELEMENTS = 10_000

    timeout_ms: int = int32(default=60000)
    feature_updates: Sequence[FeatureUpdateKey] = array(FeatureUpdateKey)
    validate_only: bool = boolean("1+")


class UpdatableFeatureResult(Struct):
    """One feature."""

    feature: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class UpdateFeaturesResponse(ApiMessage):
    """All features were changed, or none."""

    API_KEY = ApiKey.UPDATE_FEATURES
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 0

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    results: Sequence[UpdatableFeatureResult] = array(UpdatableFeatureResult, "0-1", ignorable=True)
