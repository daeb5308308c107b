"""DescribeClientQuotas (48): bounds on what clients may ask for (KIP-546).

Version 1 is flexible.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..schema import ApiMessage, Struct, array, boolean, float64, int8, int16, int32, string
from .alter_client_quotas import EntityData


class ComponentData(Struct):
    """match_type: 0 the name `match`, 1 the default, 2 any that is named."""

    entity_type: str = string()
    match_type: int = int8()
    match: str | None = string(nullable="0+")


class DescribeClientQuotasRequest(ApiMessage):
    """strict leaves out entities with parts that no component asks for."""

    API_KEY = ApiKey.DESCRIBE_CLIENT_QUOTAS
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 1
    MOST_ELEMENTS = 10_000

    components: Sequence[ComponentData] = array(ComponentData)
    strict: bool = boolean()


class ValueData(Struct):
    """One quota: its key and its limit."""

    key: str = string()
    value: float = float64()


class EntryData(Struct):
    """An entity and its bounds."""

    entity: Sequence[EntityData] = array(EntityData)
    values: Sequence[ValueData] = array(ValueData)


class DescribeClientQuotasResponse(ApiMessage):
    """Entities that match; null after an error."""

    API_KEY = ApiKey.DESCRIBE_CLIENT_QUOTAS
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 1

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    entries: Sequence[EntryData] | None = array(EntryData, nullable="0+")
