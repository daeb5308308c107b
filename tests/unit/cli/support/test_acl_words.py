from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import pytest
from tidelog.broker.security.acl.model import Acl, AclOperation, PatternType, Permission, ResourceType
from tidelog.cli.support import acl_words


@pytest.mark.parametrize(
    ("read", "text", "meant"),
    [
        (acl_words.operation, "read", AclOperation.READ),
        (acl_words.operation, "DescribeConfigs", AclOperation.DESCRIBE_CONFIGS),
        (acl_words.operation, "describe-configs", AclOperation.DESCRIBE_CONFIGS),
        (acl_words.operation, "IDEMPOTENT_WRITE", AclOperation.IDEMPOTENT_WRITE),
        (acl_words.operations, "read,write,read", [AclOperation.READ, AclOperation.WRITE]),
        (acl_words.resource_type, "transactional-id", ResourceType.TRANSACTIONAL_ID),
        (acl_words.permission, "Allow", Permission.ALLOW),
        (acl_words.pattern, "any", PatternType.ANY),
        (acl_words.pattern, "match", PatternType.MATCH),
        (acl_words.principal, "User:CN=a,O=b", "User:CN=a,O=b"),
        (acl_words.principal, "User:*", "User:*"),
        (acl_words.host, "*", "*"),
        (acl_words.host, "10.0.0.7", "10.0.0.7"),
        (acl_words.host, "fd00::a", "fd00:0:0:0:0:0:0:a"),
        (acl_words.host, "10.0.0.0/8", "10.0.0.0/8"),
        (acl_words.host, "fd00::/8", "fd00::/8"),
        (acl_words.address, "10.0.0.7", "10.0.0.7"),
    ],
)
def test_words(read: Callable[[str], Any], text: str, meant: object) -> None:
    assert read(text) == meant


@pytest.mark.parametrize(
    ("read", "text", "what"),
    [
        (acl_words.operation, "fly", "no operation; there are all, read, write,"),
        (acl_words.operation, "any", "no operation"),
        (acl_words.operations, "read,", "'' is no operation"),
        (acl_words.resource_type, "unknown", "no resource; there are topic, group, cluster, transactional-id"),
        (acl_words.principal, "alice", "write User:NAME"),
        (acl_words.principal, "User:", "write User:NAME"),
        (acl_words.principal, "Group:a", "write User:NAME"),
        (acl_words.host, "example.org", "no address"),
        (acl_words.host, "10.0.0.0/33", "no range of addresses: write ADDRESS/BITS"),
        (acl_words.host, "example.org/8", "no range of addresses"),
        (acl_words.address, "10.0.0.0/8", "no address"),
    ],
)
def test_what_is_no_word(read: Callable[[str], Any], text: str, what: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=what):
        read(text)


def test_a_rule_as_a_row_and_as_facts() -> None:
    rule = Acl(
        ResourceType.TRANSACTIONAL_ID, "a", PatternType.PREFIXED, "User:b", "*", AclOperation.ALL, Permission.DENY
    )
    assert acl_words.row(rule) == ("User:b", "deny", "ALL", "transactional-id", "a", "prefixed", "*")
    assert len(acl_words.row(rule)) == len(acl_words.HEADINGS)
    facts = acl_words.facts(rule)
    assert facts["resource_type"] == "TRANSACTIONAL_ID"
    assert list(facts) == [
        "principal", "permission", "operation", "resource_type", "resource_name", "pattern_type", "host"
    ]  # fmt: skip


def test_what_no_request_asks() -> None:
    for kind in ResourceType:
        if kind not in (ResourceType.UNKNOWN, ResourceType.ANY):
            assert acl_words.pointless(kind, [AclOperation.ALL]) == ""
    assert acl_words.pointless(ResourceType.TOPIC, [AclOperation.READ, AclOperation.ALTER_CONFIGS]) == ""
    assert acl_words.pointless(ResourceType.TRANSACTIONAL_ID, [AclOperation.READ]) == (
        "nothing asks for read on a transactional id; there are write, describe, two-phase-commit, all"
    )
