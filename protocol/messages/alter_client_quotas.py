"""AlterClientQuotas (49): sets or removes bounds on what clients may ask for (KIP-546).

Version 1 is flexible.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..schema import ApiMessage, Struct, array, boolean, float64, int16, int32, string


class EntityData(Struct):
    """A part of an entity; entity_name null is the default."""

    entity_type: str = string()
    entity_name: str | None = string(nullable="0+")


class OpData(Struct):
    """Sets one bound, or removes it."""

    key: str = string()
    value: float = float64()
    remove: bool = boolean()


class EntryData(Struct):
    """Changes to one entity."""

    entity: Sequence[EntityData] = array(EntityData)
    ops: Sequence[OpData] = array(OpData)


class AlterClientQuotasRequest(ApiMessage):
    """Changes to apply; with validate_only they are checked only."""

    API_KEY = ApiKey.ALTER_CLIENT_QUOTAS
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 1
    MOST_ELEMENTS = 5_000

    entries: Sequence[EntryData] = array(EntryData)
    validate_only: bool = boolean()


class EntryResult(Struct):
    """Result for one entity."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    entity: Sequence[EntityData] = array(EntityData)


class AlterClientQuotasResponse(ApiMessage):
    """One result for each entity."""

    API_KEY = ApiKey.ALTER_CLIENT_QUOTAS
    VERSIONS = (0, 1)
    FLEXIBLE_FROM = 1

    throttle_time_ms: int = int32()
    entries: Sequence[EntryResult] = array(EntryResult)
