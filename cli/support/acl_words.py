"""Words of the command line as parts of access rules, and rules as words and JSON."""

from __future__ import annotations

import argparse
import ipaddress
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any, TypeVar

from ...broker.security.acl.model import EVERYTHING, Acl, AclOperation, PatternType, Permission, ResourceType
from ...broker.security.acl.rules import address_range, is_range

E = TypeVar("E", bound=IntEnum)

OPERATIONS: Mapping[ResourceType, frozenset[AclOperation]] = {
    ResourceType.TOPIC: frozenset(
        (
            AclOperation.READ,
            AclOperation.WRITE,
            AclOperation.CREATE,
            AclOperation.DESCRIBE,
            AclOperation.DELETE,
            AclOperation.ALTER,
            AclOperation.DESCRIBE_CONFIGS,
            AclOperation.ALTER_CONFIGS,
        )
    ),
    ResourceType.GROUP: frozenset(
        (
            AclOperation.READ,
            AclOperation.DESCRIBE,
            AclOperation.DELETE,
            AclOperation.DESCRIBE_CONFIGS,
            AclOperation.ALTER_CONFIGS,
        )
    ),
    ResourceType.CLUSTER: frozenset(
        (
            AclOperation.CREATE,
            AclOperation.CLUSTER_ACTION,
            AclOperation.DESCRIBE_CONFIGS,
            AclOperation.ALTER_CONFIGS,
            AclOperation.IDEMPOTENT_WRITE,
            AclOperation.ALTER,
            AclOperation.DESCRIBE,
        )
    ),
    ResourceType.TRANSACTIONAL_ID: frozenset(
        (AclOperation.DESCRIBE, AclOperation.WRITE, AclOperation.TWO_PHASE_COMMIT)
    ),
    ResourceType.DELEGATION_TOKEN: frozenset((AclOperation.DESCRIBE,)),
    ResourceType.USER: frozenset((AclOperation.CREATE_TOKENS, AclOperation.DESCRIBE_TOKENS)),
}
"""Operations that requests check on each type of resource, as in kafka-acls. Rules about others never decide anything.
"""

HEADINGS = ("PRINCIPAL", "PERMISSION", "OPERATION", "RESOURCE", "NAME", "PATTERN", "HOST")


def resource_type(text: str) -> ResourceType:
    """Parse a resource type: `topic`, `transactional-id` …"""
    return _named(ResourceType, text, "resource")


def operation(text: str) -> AclOperation:
    """Parse an operation: `read`, `describe-configs`, `DESCRIBE_CONFIGS`, `DescribeConfigs`."""
    return _named(AclOperation, text, "operation")


def operations(text: str) -> list[AclOperation]:
    """Several, with commas between them."""
    return list(dict.fromkeys(operation(word) for word in text.split(",")))


def permission(text: str) -> Permission:
    """Parse a permission: `allow` or `deny`."""
    return _named(Permission, text, "permission")


def pattern(text: str) -> PatternType:
    """`literal`, `prefixed`, or to search with: `match`, `any`."""
    return PatternType.ANY if text.lower() == "any" else _named(PatternType, text, "pattern")


def principal(text: str) -> str:
    """Parse a principal: `User:alice`, `User:*`."""
    kind, colon, name = text.partition(":")
    if kind != "User" or not colon or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is no user: write User:NAME, or 'User:*' for everybody")
    return text


def host(text: str) -> str:
    """An address, a range of addresses as ADDRESS/BITS, or `*`. Names are refused: rules are compared with addresses."""
    if not is_range(text):
        return address(text)
    if address_range(text) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no range of addresses: write ADDRESS/BITS, as 10.0.0.0/8")
    return text


def address(text: str) -> str:
    """An address, or `*`."""
    if text == EVERYTHING:
        return text
    try:
        parsed = ipaddress.ip_address(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no address; * stands for all") from None
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    # As Java writes it, for Apache Kafka compares spellings.
    return ":".join(f"{int(group, 16):x}" for group in parsed.exploded.split(":"))


def pointless(resource: ResourceType, wanted: Iterable[AclOperation]) -> str:
    """Text that says why no request will ever check such a rule; "" if one may."""
    for asked in wanted:
        if asked is not AclOperation.ALL and asked not in OPERATIONS[resource]:
            there = ", ".join(shown(other) for other in sorted(OPERATIONS[resource]))
            return f"nothing asks for {shown(asked)} on a {resource.name.lower().replace('_', ' ')}; there are {there}, all"
    return ""


def _named(kind: type[E], text: str, what: str) -> E:
    wanted = _plain(text)
    for member in kind:
        if member.name not in ("UNKNOWN", "ANY") and _plain(member.name) == wanted:
            return member
    there = ", ".join(shown(member) for member in kind if member.name not in ("UNKNOWN", "ANY"))
    raise argparse.ArgumentTypeError(f"{text!r} is no {what}; there are {there}")


def _plain(text: str) -> str:
    return text.replace("_", "").replace("-", "").lower()


def shown(member: IntEnum) -> str:
    """Format an enum member: `TRANSACTIONAL_ID` as `transactional-id`."""
    return member.name.lower().replace("_", "-")


def row(rule: Acl) -> tuple[str, ...]:
    """Table row of a rule, under `HEADINGS`."""
    return (
        rule.principal,
        shown(rule.permission),
        rule.operation.name,
        shown(rule.resource_type),
        rule.resource_name,
        shown(rule.pattern_type),
        rule.host,
    )


def facts(rule: Acl) -> dict[str, Any]:
    """A rule for JSON, with Kafka's names."""
    return {
        "principal": rule.principal,
        "permission": rule.permission.name,
        "operation": rule.operation.name,
        "resource_type": rule.resource_type.name,
        "resource_name": rule.resource_name,
        "pattern_type": rule.pattern_type.name,
        "host": rule.host,
    }
