"""ApiVersions (18): which APIs and versions a broker speaks; what clients ask first.

Version 3 is flexible and tells the client's name (KIP-511), and features (KIP-584) come as tagged fields of the
response. Version 4 lets a feature's lowest version be 0 (KAFKA-17011): before it, such features must be left out. Version 5
says which node of which cluster the client means to reach (KIP-1242). The response always has header version 0. Version 2
only allows throttling after the answer.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..schema import ApiMessage, Struct, array, boolean, int16, int32, int64, string


class ApiVersionsRequest(ApiMessage):
    """No fields before version 3.

    `cluster_id` and `node_id` are given together or not at all, by clients that know both of the node that they connect to.
    """

    API_KEY = ApiKey.API_VERSIONS
    VERSIONS = (0, 5)
    FLEXIBLE_FROM = 3

    client_software_name: str = string("3+", ignorable=True)
    client_software_version: str = string("3+", ignorable=True)
    cluster_id: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    node_id: int = int32("5+", default=-1, ignorable=True)


class ApiVersion(Struct):
    """Versions of one API that may be used."""

    api_key: int = int16()
    min_version: int = int16()
    max_version: int = int16()


class SupportedFeatureKey(Struct):
    """Levels of one feature that the broker could work at."""

    name: str = string()
    min_version: int = int16()
    max_version: int = int16()


class FinalizedFeatureKey(Struct):
    """The level of one feature that the cluster works at."""

    name: str = string()
    max_version_level: int = int16()
    min_version_level: int = int16()


class ApiVersionsResponse(ApiMessage):
    """Its version 0 also answers requests of versions that the broker doesn't know."""

    API_KEY = ApiKey.API_VERSIONS
    VERSIONS = (0, 5)
    FLEXIBLE_FROM = 3

    error_code: int = int16()
    api_keys: Sequence[ApiVersion] = array(ApiVersion)
    throttle_time_ms: int = int32("1+", ignorable=True)
    supported_features: Sequence[SupportedFeatureKey] = array(SupportedFeatureKey, "3+", tag=0, ignorable=True)
    finalized_features_epoch: int = int64("3+", default=-1, tag=1, ignorable=True)
    finalized_features: Sequence[FinalizedFeatureKey] = array(FinalizedFeatureKey, "3+", tag=2, ignorable=True)
    zk_migration_ready: bool = boolean("3+", tag=3, ignorable=True)
