from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from support.nodes import made
from support.permissions import Rule, Rules, nothing, only
from tidelog.broker.requests.access import (
    DENIED,
    refusal,
    requires_cluster,
    requires_each,
    requires_field,
    suffices_on_cluster,
)
from tidelog.broker.requests.context import RequestContext
from tidelog.broker.requests.registry import load_apis, loaded
from tidelog.broker.security.acl.model import CLUSTER_NAME, AclOperation, ResourceType
from tidelog.protocol.api_keys import ApiKey
from tidelog.protocol.errors import ErrorCode

READ_GROUP = requires_field(AclOperation.READ, ResourceType.GROUP, "group_id")
ALTER = AclOperation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME


def asked(rule: Rule, *asks: Any, group_id: str | None = "g") -> tuple[ErrorCode | None, int]:
    """The refusal, and how many denials were noted."""
    noted: list[Any] = []
    broker: Any = SimpleNamespace(
        authorizer=Rules(rule), audit=made(SimpleNamespace(denied=lambda *what: noted.append(what)))
    )
    connection: Any = SimpleNamespace(principal="User:alice", peer_host="10.0.0.7")
    context = RequestContext(broker, connection, ApiKey.HEARTBEAT, 4, 1, None)
    return refusal(asks, SimpleNamespace(group_id=group_id), context), len(noted)


def test_a_field_names_the_resource() -> None:
    assert asked(nothing, READ_GROUP) == (ErrorCode.GROUP_AUTHORIZATION_FAILED, 1)
    assert asked(only((AclOperation.READ, ResourceType.GROUP, "g")), READ_GROUP) == (None, 0)
    assert asked(only((AclOperation.READ, ResourceType.GROUP, "h")), READ_GROUP)[0] is not None


def test_a_name_that_is_null_is_asked_as_the_empty_one() -> None:
    """Found by fuzzing: ShareAcknowledge has a group that may be null."""
    assert asked(nothing, READ_GROUP, group_id=None) == (ErrorCode.GROUP_AUTHORIZATION_FAILED, 1)
    assert asked(only((AclOperation.READ, ResourceType.GROUP, "")), READ_GROUP, group_id=None) == (None, 0)


def test_the_first_that_is_refused_counts() -> None:
    both = requires_cluster(AclOperation.ALTER), READ_GROUP
    assert asked(nothing, *both) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, 1)
    assert asked(only(ALTER), *both) == (ErrorCode.GROUP_AUTHORIZATION_FAILED, 1)


def test_what_suffices_ends_the_questions_and_its_no_is_not_noted() -> None:
    asks = suffices_on_cluster(AclOperation.ALTER), requires_cluster(AclOperation.CLUSTER_ACTION)
    assert asked(only(ALTER), *asks) == (None, 0)
    assert asked(nothing, *asks) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, 1)


def test_questions_of_handlers_are_not_the_dispatchers() -> None:
    assert asked(nothing, requires_each(AclOperation.READ, ResourceType.TOPIC)) == (None, 0)


@pytest.mark.parametrize("key", sorted(load_apis()), ids=lambda key: ApiKey(key).label)
def test_what_apis_declare_can_be_asked(key: ApiKey) -> None:
    registration = loaded(load_apis()[key])
    for ask in registration.requires:
        assert ask.resource_type in DENIED
        assert not registration.raw or not ask.guards, "the dispatcher does not read raw requests"
        if ask.field is not None:
            assert ask.field in {field.name for field in registration.request.FIELDS}
