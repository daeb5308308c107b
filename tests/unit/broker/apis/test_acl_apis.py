"""CreateAcls, DescribeAcls and DeleteAcls through the wire, in each version, with an authorizer that keeps rules in memory."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from support.nodes import made
from tidelog.broker.metadata.features import METADATA_VERSION, Features
from tidelog.broker.requests.access import refusal
from tidelog.broker.requests.context import RequestContext
from tidelog.broker.requests.dispatcher import refused
from tidelog.broker.requests.error_responses import response_class
from tidelog.broker.requests.registry import load_apis, loaded
from tidelog.broker.security.acl.authorizer import AclAuthorizer
from tidelog.broker.security.acl.model import Acl, AclOperation, PatternType, Permission, ResourceType
from tidelog.config.broker_config import BrokerConfig
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from tidelog.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from tidelog.protocol.messages.describe_acls import DescribeAclsRequest
from tidelog.protocol.schema import ApiMessage, decode, encode
from tidelog.storage.exceptions import KafkaStorageError

CREATION: dict[str, Any] = {
    "resource_type": ResourceType.TOPIC,
    "resource_name": "orders",
    "principal": "User:alice",
    "host": "*",
    "operation": AclOperation.READ,
    "permission_type": Permission.ALLOW,
}
ANY: dict[str, Any] = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
NOTHING_NAMED: dict[str, Any] = dict.fromkeys(("resource_name_filter", "principal_filter", "host_filter"))


class Store:
    def __init__(self) -> None:
        self.error: Exception | None = None

    async def set_resources(self, kind: str, resources: object) -> None:
        if self.error is not None:
            raise self.error


class RuledBroker:
    """A broker with rules; `ask` is one request of `who`."""

    def __init__(self, **settings: Any) -> None:
        self.store: Any = Store()
        self.features = Features()
        self.authorizer = AclAuthorizer({}, self.store, BrokerConfig(**{"super_users": "User:admin", **settings}))

    async def ask(self, request: ApiMessage, version: int = 3, who: str = "User:admin") -> Any:
        registration = loaded(load_apis()[request.API_KEY])
        assert registration.handler is not None
        connection: Any = SimpleNamespace(principal=who, peer_host="127.0.0.1")
        audit = SimpleNamespace(denied=lambda *refusal: None)
        broker: Any = SimpleNamespace(authorizer=self.authorizer, audit=made(audit), features=self.features)
        sent, _ = decode(type(request), version, encode(request, version))
        context = RequestContext(broker, connection, request.API_KEY, version, 1, None)
        code = refusal(registration.requires, sent, context)  # as the dispatcher does
        if code is not None:
            answer = refused(request.API_KEY, version, sent, code)
        else:
            answer = registration.handler(sent, context)
            if request.API_KEY.name != "DESCRIBE_ACLS":
                answer = await answer
        return decode(response_class(registration), version, encode(answer, version))[0]

    async def create(self, *creations: dict[str, Any], version: int = 3) -> list[tuple[int, str | None]]:
        request = CreateAclsRequest(creations=[AclCreation(**{**CREATION, **one}) for one in creations])
        answer = await self.ask(request, version)
        return [(result.error_code, result.error_message) for result in answer.results]

    def rules(self) -> list[Acl]:
        return sorted(self.authorizer.rules)


async def test_rules_are_made_once_and_what_is_wrong_has_its_own_error() -> None:
    ruled = RuledBroker()
    results = await ruled.create(
        {}, {}, {"principal": "alice"}, {"resource_pattern_type": PatternType.PREFIXED}, {"operation": 0}
    )
    assert [code for code, _ in results] == [0, 0, ErrorCode.INVALID_REQUEST, 0, ErrorCode.INVALID_REQUEST]
    assert "no colon" in (results[2][1] or "")
    assert [(rule.pattern_type, rule.resource_name) for rule in ruled.rules()] == [(3, "orders"), (4, "orders")]
    assert (await ruled.create({}))[0] == (0, None)
    assert len(ruled.rules()) == 2


async def test_ranges_of_addresses_are_taken_from_a_level_on() -> None:
    ruled = RuledBroker()
    wanted = ({"host": "10.0.0.0/8"}, {"host": "10.0.0.0/99"}, {"host": "10.0.0.7"})
    assert [code for code, _ in await ruled.create(*wanted)] == [ErrorCode.UNSUPPORTED_VERSION] * 2 + [0]
    ruled.features.finalize(METADATA_VERSION, 32)
    assert [code for code, _ in await ruled.create(*wanted)] == [0, ErrorCode.INVALID_REQUEST, 0]
    assert sorted(rule.host for rule in ruled.rules()) == ["10.0.0.0/8", "10.0.0.7"]


@pytest.mark.parametrize("version", range(4))
async def test_every_version(version: int) -> None:
    ruled = RuledBroker()
    kinds = [{"resource_name": "a"}, {"resource_name": "b", "principal": "User:bob"}]
    assert await ruled.create(*kinds, version=version) == [(0, None)] * 2
    await ruled.create({"resource_name": "a", "resource_pattern_type": PatternType.PREFIXED})
    wanted = ANY if version else {key: value for key, value in ANY.items() if key != "pattern_type_filter"}
    answer = await ruled.ask(DescribeAclsRequest(**wanted, **NOTHING_NAMED), version)
    found = {(one.resource_name, one.pattern_type): [acl.principal for acl in one.acls] for one in answer.resources}
    expected = {("a", 3): ["User:alice"], ("b", 3): ["User:bob"], ("a", 4): ["User:alice"]}
    if not version:
        del expected["a", 4]
    assert found == expected
    one = DeleteAclsFilter(**wanted, **{**NOTHING_NAMED, "resource_name_filter": "a"})
    other = DeleteAclsFilter(**wanted, **{**NOTHING_NAMED, "principal_filter": "User:bob"})
    wrong = DeleteAclsFilter(**{**wanted, "operation": 0}, **NOTHING_NAMED)
    answer = await ruled.ask(DeleteAclsRequest(filters=[one, wrong, other, one]), version)
    names = [sorted(acl.resource_name for acl in result.matching_acls) for result in answer.filter_results]
    assert names == [["a"] * (2 if version else 1), [], ["b"], ["a"] * (2 if version else 1)]
    codes = [result.error_code for result in answer.filter_results]
    assert codes == [0, ErrorCode.INVALID_REQUEST, 0, 0]
    assert len(ruled.rules()) == (0 if version else 1)


async def test_who_may_see_and_who_may_change() -> None:
    ruled = RuledBroker()
    cluster = {"resource_type": ResourceType.CLUSTER, "resource_name": "kafka-cluster", "principal": "User:auditor"}
    await ruled.create({**cluster, "operation": AclOperation.DESCRIBE})
    describe, refused = DescribeAclsRequest(**ANY, **NOTHING_NAMED), ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    create = CreateAclsRequest(creations=[AclCreation(**CREATION)] * 2)
    delete = DeleteAclsRequest(filters=[DeleteAclsFilter(**ANY, **NOTHING_NAMED)])
    assert (await ruled.ask(describe, who="User:auditor")).error_code == 0
    assert (await ruled.ask(describe, who="User:alice")).error_code == refused
    for who in ("User:auditor", "User:alice"):
        assert [result.error_code for result in (await ruled.ask(create, who=who)).results] == [refused] * 2
        assert [result.error_code for result in (await ruled.ask(delete, who=who)).filter_results] == [refused]
    assert len(ruled.rules()) == 1
    await ruled.create({**cluster, "operation": AclOperation.ALTER})
    assert [result.error_code for result in (await ruled.ask(create, who="User:auditor")).results] == [0, 0]


async def test_unknown_numbers_are_no_filter() -> None:
    answer = await RuledBroker().ask(DescribeAclsRequest(**{**ANY, "resource_type_filter": 0}, **NOTHING_NAMED))
    assert (answer.error_code, answer.error_message) == (ErrorCode.INVALID_REQUEST, "unknown resource type 0")


async def test_what_cannot_be_stored() -> None:
    ruled = RuledBroker()
    await ruled.create({})
    ruled.store.error = KafkaStorageError("/data/metadata.db: disk full")
    assert (
        await ruled.create({"host": "10.0.0.1"}, {"principal": "x"})
        == [(ErrorCode.KAFKA_STORAGE_ERROR, "the disk under the log failed")] * 2
    )
    answer = await ruled.ask(DeleteAclsRequest(filters=[DeleteAclsFilter(**ANY, **NOTHING_NAMED)]))
    assert [one.error_code for one in answer.filter_results] == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert len(ruled.rules()) == 1


async def test_more_rules_than_are_kept() -> None:
    ruled = RuledBroker(max_acl_rules=1)
    results = await ruled.create({}, {"host": "10.0.0.1"})
    assert [code for code, _ in results] == [0, ErrorCode.POLICY_VIOLATION]
