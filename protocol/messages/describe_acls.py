"""DescribeAcls (29): access rules that a filter matches.

Version 1 tells literal names from prefixes (KIP-290), 2 is flexible, 3 knows users as a resource (KIP-373).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..schema import ApiMessage, Struct, array, int8, int16, int32, string


class DescribeAclsRequest(ApiMessage):
    """A null name, principal or host matches any."""

    API_KEY = ApiKey.DESCRIBE_ACLS
    VERSIONS = (0, 3)
    FLEXIBLE_FROM = 2

    resource_type_filter: int = int8()
    resource_name_filter: str | None = string(nullable="0+")
    pattern_type_filter: int = int8("1+", default=3)
    principal_filter: str | None = string(nullable="0+")
    host_filter: str | None = string(nullable="0+")
    operation: int = int8()
    permission_type: int = int8()


class AclDescription(Struct):
    """One rule."""

    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


class DescribeAclsResource(Struct):
    """Rules of one resource."""

    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8("1+", default=3)
    acls: Sequence[AclDescription] = array(AclDescription)


class DescribeAclsResponse(ApiMessage):
    """Rules by resource, or one error."""

    API_KEY = ApiKey.DESCRIBE_ACLS
    VERSIONS = (0, 3)
    FLEXIBLE_FROM = 2

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    resources: Sequence[DescribeAclsResource] = array(DescribeAclsResource)
