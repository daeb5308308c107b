"""What access control speaks of: resources, operations, rules, with Kafka's numbers (KIP-11, KIP-290)."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class ResourceType(IntEnum):
    """Kinds of things that rules are about."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How a rule names its resources. MATCH and ANY only search for rules."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    """What one does with a resource."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(IntEnum):
    """Whether a rule lets in or keeps out."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


CLUSTER_NAME = "kafka-cluster"
"""The one resource of type CLUSTER."""

EVERYTHING = "*"
"""A literal rule's name that stands for all resources of its type; also a host, and after `User:` all users."""


class Acl(NamedTuple):
    """One rule: `principal` ("User:alice") from `host` may, or may not, do `operation` to resources of that name."""

    resource_type: ResourceType
    resource_name: str
    pattern_type: PatternType
    principal: str
    host: str
    operation: AclOperation
    permission: Permission


def super_users_of(setting: str) -> frozenset[str]:
    """The principals that `super.users` names, with semicolons between them."""
    return frozenset(filter(None, map(str.strip, setting.split(";"))))
