"""IncrementalAlterConfigs (44): changes single settings of topics or brokers (KIP-339)."""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..schema import ApiMessage, Struct, array, boolean, int8, int32, string
from .alter_configs import AlterConfigsResourceResponse


class AlterableConfig(Struct):
    """config_operation: 0 set, 1 delete, 2 append, 3 subtract."""

    name: str = string()
    config_operation: int = int8()
    value: str | None = string(nullable="0+")


class AlterConfigsResource(Struct):
    """Changes to one resource."""

    resource_type: int = int8()
    resource_name: str = string()
    configs: Sequence[AlterableConfig] = array(AlterableConfig)


class IncrementalAlterConfigsRequest(ApiMessage):
    """Changes to apply; with validate_only they are checked only."""

    API_KEY = ApiKey.INCREMENTAL_ALTER_CONFIGS
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 1
    MOST_ELEMENTS = 5_000

    resources: Sequence[AlterConfigsResource] = array(AlterConfigsResource)
    validate_only: bool = boolean()


class IncrementalAlterConfigsResponse(ApiMessage):
    """One result for each resource."""

    API_KEY = ApiKey.INCREMENTAL_ALTER_CONFIGS
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 1

    throttle_time_ms: int = int32()
    responses: Sequence[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)
