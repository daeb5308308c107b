"""DescribeConfigs (32): settings of topics and brokers, and where each comes from.

Version 1 has sources and synonyms, 3 types and documentation.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..schema import STRING, ApiMessage, Struct, array, boolean, int8, int16, int32, string


class DescribeConfigsResource(Struct):
    """resource_type: 2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group."""

    resource_type: int = int8()
    resource_name: str = string()
    configuration_keys: Sequence[str] | None = array(STRING, nullable="0+")


class DescribeConfigsRequest(ApiMessage):
    """configuration_keys null asks for all."""

    API_KEY = ApiKey.DESCRIBE_CONFIGS
    VERSIONS = (0, 4)
    FLEXIBLE_FROM = 4

    resources: Sequence[DescribeConfigsResource] = array(DescribeConfigsResource)
    include_synonyms: bool = boolean("1+")
    include_documentation: bool = boolean("3+")


class DescribeConfigsSynonym(Struct):
    """A setting that this one falls back to."""

    name: str = string()
    value: str | None = string(nullable="0+")
    source: int = int8()


class DescribeConfigsResourceResult(Struct):
    """One setting; the value of a secret is null."""

    name: str = string()
    value: str | None = string(nullable="0+")
    read_only: bool = boolean()
    is_default: bool = boolean("0")
    config_source: int = int8("1+", default=-1, ignorable=True)
    is_sensitive: bool = boolean()
    synonyms: Sequence[DescribeConfigsSynonym] = array(DescribeConfigsSynonym, "1+", ignorable=True)
    config_type: int = int8("3+", ignorable=True)
    documentation: str | None = string("3+", nullable="0+", default=None, ignorable=True)


class DescribeConfigsResult(Struct):
    """One resource's settings."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    resource_type: int = int8()
    resource_name: str = string()
    configs: Sequence[DescribeConfigsResourceResult] = array(DescribeConfigsResourceResult)


class DescribeConfigsResponse(ApiMessage):
    """One result for each resource."""

    API_KEY = ApiKey.DESCRIBE_CONFIGS
    VERSIONS = (0, 4)
    FLEXIBLE_FROM = 4

    throttle_time_ms: int = int32()
    results: Sequence[DescribeConfigsResult] = array(DescribeConfigsResult)
