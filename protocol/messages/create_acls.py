"""CreateAcls (30): adds access rules.

Version 1 tells literal names from prefixes (KIP-290), 2 is flexible, 3 knows users as a resource (KIP-373).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..schema import ApiMessage, Struct, array, int8, int16, int32, string


class AclCreation(Struct):
    """A rule to add."""

    resource_type: int = int8()
    resource_name: str = string()
    resource_pattern_type: int = int8("1+", default=3)
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


class CreateAclsRequest(ApiMessage):
    """Rules are independent of each other."""

    API_KEY = ApiKey.CREATE_ACLS
    VERSIONS = (0, 3)
    FLEXIBLE_FROM = 2

    creations: Sequence[AclCreation] = array(AclCreation)


class AclCreationResult(Struct):
    """Result for one rule."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class CreateAclsResponse(ApiMessage):
    """One result for each rule, in the order of the request."""

    API_KEY = ApiKey.CREATE_ACLS
    VERSIONS = (0, 3)
    FLEXIBLE_FROM = 2

    throttle_time_ms: int = int32()
    results: Sequence[AclCreationResult] = array(AclCreationResult)
