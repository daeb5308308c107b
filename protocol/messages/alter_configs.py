"""AlterConfigs (33): replaces all settings of topics or brokers; IncrementalAlterConfigs is better."""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..schema import ApiMessage, Struct, array, boolean, int8, int16, int32, string


class AlterableConfig(Struct):
    """One setting; null goes back to the default."""

    name: str = string()
    value: str | None = string(nullable="0+")


class AlterConfigsResource(Struct):
    """The complete new overrides of one resource."""

    resource_type: int = int8()
    resource_name: str = string()
    configs: Sequence[AlterableConfig] = array(AlterableConfig)


class AlterConfigsRequest(ApiMessage):
    """Changes to apply; with validate_only they are checked only."""

    API_KEY = ApiKey.ALTER_CONFIGS
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 2
    MOST_ELEMENTS = 5_000

    resources: Sequence[AlterConfigsResource] = array(AlterConfigsResource)
    validate_only: bool = boolean()


class AlterConfigsResourceResponse(Struct):
    """Result for one resource."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    resource_type: int = int8()
    resource_name: str = string()


class AlterConfigsResponse(ApiMessage):
    """One result for each resource."""

    API_KEY = ApiKey.ALTER_CONFIGS
    VERSIONS = (0, 2)
    FLEXIBLE_FROM = 2

    throttle_time_ms: int = int32()
    responses: Sequence[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)
