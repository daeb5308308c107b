"""DeleteAcls (31): deletes access rules that filters match.

Version 1 tells literal names from prefixes (KIP-290), 2 is flexible, 3 knows users as a resource (KIP-373).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..api_keys import ApiKey
from ..schema import ApiMessage, Struct, array, int8, int16, int32, string


class DeleteAclsFilter(Struct):
    """A null name, principal or host matches any."""

    resource_type_filter: int = int8()
    resource_name_filter: str | None = string(nullable="0+")
    pattern_type_filter: int = int8("1+", default=3)
    principal_filter: str | None = string(nullable="0+")
    host_filter: str | None = string(nullable="0+")
    operation: int = int8()
    permission_type: int = int8()


class DeleteAclsRequest(ApiMessage):
    """Filters are independent of each other."""

    API_KEY = ApiKey.DELETE_ACLS
    VERSIONS = (0, 3)
    FLEXIBLE_FROM = 2

    filters: Sequence[DeleteAclsFilter] = array(DeleteAclsFilter)


class DeleteAclsMatchingAcl(Struct):
    """A rule that was deleted, or why it was not."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8("1+", default=3)
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


class DeleteAclsFilterResult(Struct):
    """The rules that one filter deleted, or its error."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    matching_acls: Sequence[DeleteAclsMatchingAcl] = array(DeleteAclsMatchingAcl)


class DeleteAclsResponse(ApiMessage):
    """One result for each filter, in the order of the request."""

    API_KEY = ApiKey.DELETE_ACLS
    VERSIONS = (0, 3)
    FLEXIBLE_FROM = 2

    throttle_time_ms: int = int32()
    filter_results: Sequence[DeleteAclsFilterResult] = array(DeleteAclsFilterResult)
