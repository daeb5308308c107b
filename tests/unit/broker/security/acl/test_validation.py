from __future__ import annotations

from typing import Any

import pytest
from tidelog.broker.security.acl.model import AclOperation, PatternType, Permission, ResourceType
from tidelog.broker.security.acl.rules import LONGEST_TEXT, new_filter, new_rule
from tidelog.protocol.errors import ErrorCode, ProtocolError

RULE: dict[str, Any] = {
    "resource_type": 2,
    "resource_name": "orders",
    "pattern_type": 4,
    "principal": "User:alice",
    "host": "*",
    "operation": 3,
    "permission": 3,
}


def test_a_rule() -> None:
    rule = new_rule(**RULE)
    assert rule == (2, "orders", 4, "User:alice", "*", 3, 3)
    assert rule.operation is AclOperation.READ
    assert rule.permission is Permission.ALLOW
    cluster = new_rule(**RULE | {"resource_type": 4, "resource_name": "kafka-cluster", "pattern_type": 3})
    assert cluster.resource_type is ResourceType.CLUSTER
    assert new_rule(**RULE | {"operation": AclOperation.TWO_PHASE_COMMIT, "resource_type": ResourceType.USER})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"resource_type": 0}, "unknown resource type 0"),
        ({"resource_type": 1}, "Invalid resourceType ANY"),
        ({"resource_type": 99}, "unknown resource type 99"),
        ({"pattern_type": 0}, "unknown pattern type 0"),
        ({"pattern_type": 1}, "Invalid patternType ANY"),
        ({"pattern_type": 2}, "Invalid patternType MATCH"),
        ({"operation": 0}, "unknown operation 0"),
        ({"operation": 1}, "Invalid operation ANY"),
        ({"operation": -1}, "unknown operation -1"),
        ({"permission": 0}, "unknown permission type 0"),
        ({"permission": 1}, "Invalid permissionType ANY"),
        ({"resource_name": ""}, "Invalid empty resource name"),
        ({"resource_type": 4}, "The only valid name for the CLUSTER resource is kafka-cluster"),
        ({"principal": "alice"}, "no colon"),
        ({"principal": ""}, "no colon"),
        ({"host": "x" * (LONGEST_TEXT + 1)}, "at most 2048"),
        ({"host": "10.0.0.0/33"}, "Invalid CIDR notation"),
        ({"host": "example.org/8"}, "Invalid CIDR notation"),
    ],
)
def test_what_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ProtocolError, match=message) as raised:
        new_rule(**RULE | change)
    assert raised.value.code is ErrorCode.INVALID_REQUEST


def test_a_range_of_addresses_needs_a_level_at_which_kafka_knows_it() -> None:
    assert new_rule(**RULE | {"host": "10.0.0.0/8"}).host == "10.0.0.0/8"
    with pytest.raises(ProtocolError, match=r"require metadata\.version 32") as raised:
        new_rule(**RULE | {"host": "10.0.0.0/8"}, ranges=False)
    assert raised.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_a_filter_takes_any_and_nothing_unknown() -> None:
    wanted = new_filter(1, None, 1, None, None, 1, 1)
    assert wanted == (ResourceType.ANY, None, PatternType.ANY, None, None, AclOperation.ANY, Permission.ANY)
    assert new_filter(2, "", 2, "", "", 3, 2).pattern_type is PatternType.MATCH
    for position in (0, 2, 5, 6):
        for number in (0, 77):
            values: list[Any] = [1, None, 1, None, None, 1, 1]
            values[position] = number
            with pytest.raises(ProtocolError, match="unknown"):
                new_filter(*values)
