from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tidelog.broker.security.acl.authorizer import AclAuthorizer, acl_text, parse_acl, policy_of, stored_form
from tidelog.broker.security.acl.model import Acl, AclOperation, PatternType, Permission, ResourceType
from tidelog.broker.security.acl.rules import AclFilter
from tidelog.config.broker_config import BrokerConfig
from tidelog.protocol.errors import ErrorCode, ProtocolError
from tidelog.storage.exceptions import DataDirectoryError, KafkaStorageError

ADMIN = "User:admin"
READ_ORDERS = Acl(
    ResourceType.TOPIC, "orders", PatternType.LITERAL, "User:alice", "*", AclOperation.READ, Permission.ALLOW
)
DENY_IT = READ_ORDERS._replace(principal="User:*", host="10.0.0.9", permission=Permission.DENY)
QUESTION = ("User:alice", "10.0.0.1", AclOperation.READ, ResourceType.TOPIC, "orders")


class Store:
    """Keeps rules as `metadata.db` does; each write waits until it is let go."""

    path = "metadata.db"

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, str]] = {}
        self.commits = 0
        self.error: Exception | None = None
        self.go_on = asyncio.Event()
        self.go_on.set()

    def set_resources(self, kind: str, resources: dict[str, dict[str, str]]) -> asyncio.Future[None]:
        assert kind == "acl"
        # What was handed over is written, whether anybody still waits or not.
        return asyncio.shield(asyncio.ensure_future(self._write(resources)))

    async def _write(self, resources: dict[str, dict[str, str]]) -> None:
        await self.go_on.wait()
        if self.error is not None:
            raise self.error
        self.commits += 1
        self.rows.update(resources)
        self.rows = {name: parts for name, parts in self.rows.items() if parts}


def authorizer_of(store: Any = None, *rules: Acl, **settings: Any) -> AclAuthorizer:
    stored = stored_form((rule, f"id-{number}") for number, rule in enumerate(rules))
    if store is not None:
        store.rows = dict(stored)
    return AclAuthorizer(stored, store, BrokerConfig(**settings))


def test_what_is_stored_is_read_again() -> None:
    strange = READ_ORDERS._replace(resource_name='a"b,ü', principal="User:CN=x,O=y", host="::1")
    for rule in (READ_ORDERS, DENY_IT, strange):
        assert parse_acl(acl_text(rule)) == rule
        assert isinstance(parse_acl(acl_text(rule)).operation, AclOperation)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "nonsense",
        '["TOPIC","a","LITERAL","User:a","*","FLY","ALLOW"]',
        '["TOPIC",1,"LITERAL","User:a","*","READ","ALLOW"]',
        pytest.param("[" * 100_000, id="deep"),
    ],
)
def test_a_rule_that_cannot_be_read_stops_the_start(text: str) -> None:
    store: Any = Store()
    with pytest.raises(DataDirectoryError, match="not a stored access rule"):
        AclAuthorizer.read({"id": {"rule": text}}, store, BrokerConfig())


def test_super_users_are_separated_by_semicolons() -> None:
    assert policy_of(" User:a ;User:CN=b,O=c;; ", True) == (frozenset({"User:a", "User:CN=b,O=c"}), True)


def test_decisions_are_counted_and_kept_until_rules_change() -> None:
    authorizer = authorizer_of(None, READ_ORDERS)
    assert authorizer.allows(*QUESTION)
    assert authorizer.allows(*QUESTION)
    assert not authorizer.allows(*QUESTION[:-1], "payments")
    assert authorizer.allows_any(*QUESTION[:-1])
    assert (authorizer.allowed, authorizer.denied, authorizer.rule_count) == (3, 1, 1)
    assert authorizer.why(*QUESTION) == "User:alice allow READ topic orders"
    assert authorizer.why(*QUESTION[:-1], "payments") == "no rule is about it"
    assert (authorizer.allowed, authorizer.denied) == (3, 1)


def test_what_is_kept_is_bounded() -> None:
    authorizer = authorizer_of(None)
    for number in range(20_500):
        assert not authorizer.allows(*QUESTION[:-1], f"t{number}")
        authorizer.allows_any(f"User:{number}", *QUESTION[1:-1])
    assert len(authorizer._known) <= 10_000
    assert len(authorizer._known_any) <= 10_000
    authorizer.allows(*QUESTION[:-1], "x" * 10_000)
    assert not any(len(key[-1]) > 512 for key in authorizer._known)


async def test_a_change_holds_when_it_is_stored_and_not_before() -> None:
    store: Any = Store()
    authorizer = authorizer_of(store)
    assert not authorizer.allows(*QUESTION)
    store.go_on.clear()
    pending = asyncio.ensure_future(authorizer.create([READ_ORDERS, READ_ORDERS]))
    await asyncio.sleep(0)
    assert not authorizer.allows(*QUESTION)
    store.go_on.set()
    assert await pending == [None, None]
    assert authorizer.allows(*QUESTION)
    assert [parse_acl(row["rule"]) for row in store.rows.values()] == [READ_ORDERS]
    assert await authorizer.create([READ_ORDERS]) == [None]
    assert store.commits == 1
    assert await authorizer.create([DENY_IT]) == [None]
    assert not authorizer.allows("User:alice", "10.0.0.9", *QUESTION[2:])
    # Each filter tells what it finds, though another has found it as well.
    filters = [AclFilter(principal="User:*"), AclFilter(), AclFilter(principal="User:bob")]
    assert await authorizer.delete(filters) == [[DENY_IT], [READ_ORDERS, DENY_IT], []]
    assert not authorizer.allows(*QUESTION)
    assert (store.rows, store.commits) == ({}, 3)
    assert await authorizer.delete(filters) == [[], [], []]
    assert store.commits == 3


async def test_what_could_not_be_stored_does_not_hold() -> None:
    store: Any = Store()
    authorizer = authorizer_of(store, DENY_IT)
    store.error = KafkaStorageError("disk full")
    with pytest.raises(KafkaStorageError):
        await authorizer.create([READ_ORDERS])
    with pytest.raises(KafkaStorageError):
        await authorizer.delete([AclFilter()])
    assert list(authorizer.rules) == [DENY_IT]
    store.error = None
    assert await authorizer.create([READ_ORDERS]) == [None]


async def test_a_client_that_leaves_does_not_part_what_is_stored_from_what_holds() -> None:
    store: Any = Store()
    authorizer = authorizer_of(store)
    store.go_on.clear()
    pending = asyncio.ensure_future(authorizer.create([READ_ORDERS]))
    await asyncio.sleep(0)
    pending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await pending
    store.go_on.set()
    assert await authorizer.create([READ_ORDERS]) == [None]
    assert authorizer.allows(*QUESTION)
    assert len(store.rows) == store.commits == 1


async def test_there_is_a_bound_on_rules() -> None:
    store: Any = Store()
    authorizer = authorizer_of(store, READ_ORDERS, max_acl_rules=2)
    rules = [READ_ORDERS._replace(resource_name=name) for name in ("a", "orders", "b", "a")]
    results = await authorizer.create(rules)
    assert [error and error.code for error in results] == [None, None, ErrorCode.POLICY_VIOLATION, None]
    assert "max.acl.rules" in str(results[2])
    assert authorizer.rule_count == 2


async def test_there_is_a_bound_on_what_filters_find() -> None:
    store: Any = Store()
    rules = [READ_ORDERS._replace(resource_name=str(number)) for number in range(1000)]
    authorizer = authorizer_of(store, *rules)
    with pytest.raises(ProtocolError, match="more than 100000"):
        await authorizer.delete([AclFilter()] * 101)
    assert authorizer.rule_count == 1000
    assert len((await authorizer.delete([AclFilter()] * 100))[99]) == 1000


async def test_changes_are_logged_and_many_of_them_counted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    store: Any = Store()
    authorizer = authorizer_of(store)
    await authorizer.create([READ_ORDERS])
    await authorizer.delete([AclFilter()])
    await authorizer.create([READ_ORDERS._replace(resource_name=str(number)) for number in range(25)])
    lines = [record.getMessage() for record in caplog.records]
    assert lines[:2] == [
        "access rule added: User:alice allow READ topic orders",
        "access rule removed: User:alice allow READ topic orders",
    ]
    assert (len(lines), lines[-1]) == (23, "5 more access rules were added with these")


ALTER_CLUSTER = Acl(
    ResourceType.CLUSTER, "kafka-cluster", PatternType.LITERAL, ADMIN, "*", AclOperation.ALTER, Permission.ALLOW
)


@pytest.mark.parametrize(
    ("settings", "rules", "warning"),
    [
        ({"super_users": ADMIN}, (), ""),
        ({}, (ALTER_CLUSTER,), ""),
        ({}, (), "clients can't change the rules"),
        ({}, (ALTER_CLUSTER._replace(permission=Permission.DENY),), "clients can't change the rules"),
        ({"allow_everyone_if_no_acl_found": True}, (), "everybody may change the rules"),
        ({"super_users": "User:a,User:b"}, (), "one user 'User:a,User:b'"),
        ({"super_users": "User:*"}, (), "a user of that name and not everybody"),
    ],
)
def test_the_start_says_who_can_change_rules(
    settings: dict[str, Any], rules: tuple[Acl, ...], warning: str, caplog: pytest.LogCaptureFixture
) -> None:
    authorizer_of(None, *rules, **settings).log_state()
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == bool(warning)
    assert warning in "".join(warnings)


async def test_very_many_rules_are_made_and_deleted_with_rounds_of_the_loop_between() -> None:
    """20,000 rules had the network thread for half a second, and as many filters about one topic for minutes."""
    authorizer = authorizer_of(Store())
    rules = [READ_ORDERS._replace(principal=f"User:{number}") for number in range(2000)]
    filters = [
        AclFilter(ResourceType.TOPIC, "orders", PatternType.ANY, rule.principal, None, AclOperation.ANY, Permission.ANY)
        for rule in rules[:100:-20]
    ]
    rounds = [0]

    async def count() -> None:
        while True:
            rounds[0] += 1
            await asyncio.sleep(0)

    others = asyncio.ensure_future(count())
    assert await authorizer.create(rules) == [None] * 2000
    assert rounds[0] >= 2000 // 100
    assert list(authorizer.rules) == rules
    rounds[0] = 0
    assert await authorizer.delete(filters) == [[rule] for rule in rules[:100:-20]]
    assert rounds[0] >= len(filters) * 2000 // 1000, "a round for each 1,000 looks at a rule"
    assert len(authorizer.rules) == 2000 - len(filters)
    others.cancel()
