"""Validates rules and filters of requests as Kafka does. The error is INVALID_REQUEST.

Beyond Kafka's checks, texts have a bound, since rules stay in memory.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TypeVar

from ....protocol.errors import ErrorCode, ProtocolError
from .model import CLUSTER_NAME, Acl, AclOperation, PatternType, Permission, ResourceType
from .rules import AclFilter

E = TypeVar("E", bound=IntEnum)

LONGEST_TEXT = 2048
"""Maximum length of a name, a principal or a host in characters; a certificate's subject has a few hundred."""


def new_rule(
    resource_type: int,
    resource_name: str,
    pattern_type: int,
    principal: str,
    host: str,
    operation: int,
    permission: int,
) -> Acl:
    """Make a rule to add. Raises `ProtocolError`."""
    rule = Acl(
        _one_of(ResourceType, resource_type, "resource type"),
        resource_name,
        _one_of(PatternType, pattern_type, "pattern type"),
        principal,
        host,
        _one_of(AclOperation, operation, "operation"),
        _one_of(Permission, permission, "permission type"),
    )
    if rule.resource_type is ResourceType.ANY:
        raise _refused("Invalid resourceType ANY")
    if rule.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise _refused(f"Invalid patternType {rule.pattern_type.name}")
    if rule.operation is AclOperation.ANY:
        raise _refused("Invalid operation ANY")
    if rule.permission not in (Permission.ALLOW, Permission.DENY):
        raise _refused(f"Invalid permissionType {rule.permission.name}")
    if rule.resource_type is ResourceType.CLUSTER and resource_name != CLUSTER_NAME:
        raise _refused(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not resource_name:
        raise _refused("Invalid empty resource name")
    if ":" not in principal:
        raise _refused(f"Could not parse principal {principal!r}: it has no colon, as in User:alice")
    for text in (resource_name, principal, host):
        if len(text) > LONGEST_TEXT:
            raise _refused(f"a name, principal or host has {len(text)} characters; at most {LONGEST_TEXT} are kept")
    return rule


def new_filter(
    resource_type: int,
    resource_name: str | None,
    pattern_type: int,
    principal: str | None,
    host: str | None,
    operation: int,
    permission: int,
) -> AclFilter:
    """Make a filter. Raises `ProtocolError`."""
    return AclFilter(
        _one_of(ResourceType, resource_type, "resource type"),
        resource_name,
        _one_of(PatternType, pattern_type, "pattern type"),
        principal,
        host,
        _one_of(AclOperation, operation, "operation"),
        _one_of(Permission, permission, "permission type"),
    )


def _one_of(kind: type[E], number: int, what: str) -> E:
    """The enum member of a number. UNKNOWN (0) is invalid too: clients send it for numbers that they don't know."""
    try:
        if number:
            return kind(number)
    except ValueError:
        pass
    raise _refused(f"unknown {what} {number}")


def _refused(message: str) -> ProtocolError:
    return ProtocolError(ErrorCode.INVALID_REQUEST, message)
