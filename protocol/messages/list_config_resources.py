"""ListConfigResources (74): what has settings (KIP-1142); in version 0, client metrics alone (KIP-714)."""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..schema import INT8, ApiMessage, Struct, array, int8, int16, int32, string


class ListConfigResourcesRequest(ApiMessage):
    """An empty list of types asks for all."""

    API_KEY = ApiKey.LIST_CONFIG_RESOURCES
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0
    MOST_ELEMENTS = 10_000

    resource_types: Sequence[int] = array(INT8, "1+")


class ConfigResource(Struct):
    """Type and name of a resource; type 16 is client metrics."""

    resource_name: str = string()
    resource_type: int = int8("1+", default=16, ignorable=True)


class ListConfigResourcesResponse(ApiMessage):
    """Resources by name and type."""

    API_KEY = ApiKey.LIST_CONFIG_RESOURCES
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 0

    throttle_time_ms: int = int32()
    error_code: int = int16()
    config_resources: Sequence[ConfigResource] = array(ConfigResource)
