"""Every API asks what it declares, of every part of a request, and who is denied changes nothing and learns nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.inside import services_of, set_authorizer
from support.logs import batch
from support.patience import until
from support.permission_case import GROUPS, NEW_TOPICS, OPEN, TOPICS, TRANSACTIONS, Case, Fields, Ids, made
from support.permission_cases import CASES
from support.permissions import Rule, Rules, nothing
from support.wire_client import WireClient
from tidelog.broker.requests.access import DENIED, Consequence
from tidelog.broker.requests.context import EVERY_NAME
from tidelog.broker.requests.error_responses import response_class
from tidelog.broker.requests.registry import load_apis, loaded
from tidelog.broker.runtime.logging import levels
from tidelog.broker.security.acl.model import CLUSTER_NAME, AclOperation, ResourceType
from tidelog.protocol.api_keys import ApiKey
from tidelog.protocol.schema import Struct, encode
from tidelog.storage.log.partition_metadata import encode_uuid
from tidelog.testing import Broker

MADE = (*NEW_TOPICS, "application-store-changelog")
"""Topics that requests make where they may: not there before each of them."""
DOOMED = "gone-0"
"""There before each request, for those that delete it."""
#: No timer of the broker's own writes while a test looks whether something changed.
SETTINGS = {
    **{
        f"group.{kind}.{most}session.timeout.ms": 3_600_000
        for kind in ("consumer", "share", "streams")
        for most in ("max.", "")
    },
    "group.share.max.record.lock.duration.ms": 3_600_000,
    "group.share.record.lock.duration.ms": 3_600_000,
    "group.streams.initial.rebalance.delay.ms": 0,
    "log.retention.ms": -1,  # the records are as old as can be, and a slow run lasts until retention's first round
}
DENIALS = {int(code) for code in DENIED.values()}


class Guarded:
    """One broker with two of everything, and what is asked of it under rules."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.services = services_of(broker)
        self.client = WireClient((broker.host, broker.port))
        for name in TOPICS:
            broker.create_topic(name)
        self.ids = {name: self.services.topics.get(name).topic_id.bytes for name in TOPICS}  # type: ignore[union-attr]
        self.batch = bytes(batch("secret"))
        find = loaded(load_apis()[ApiKey.FIND_COORDINATOR]).request
        for kind in (0, 1, 2):
            self._do(made(find, {"key_type": kind, "coordinator_keys": [f"g:{encode_uuid(UUID(int=7))}:0"]}), 6)
        for key in (ApiKey.PRODUCE, ApiKey.OFFSET_COMMIT):
            assert not codes_in(self.ask(next(case for case in CASES if case.key is key), case_version(key, 9))[0])
        commit = next(case for case in CASES if case.key is ApiKey.OFFSET_COMMIT)
        for group in GROUPS:
            self._do(made(loaded(load_apis()[ApiKey.OFFSET_COMMIT]).request, {
                **commit.fields(TOPICS, self.ids, b""), "group_id": group}), 9)  # fmt: skip
        init = loaded(load_apis()[ApiKey.INIT_PRODUCER_ID]).request
        for one in (*TRANSACTIONS, OPEN):
            producer = self._do(made(init, {"transactional_id": one, "transaction_timeout_ms": 900_000}), 4)
            add = {
                "v3_and_below_transactional_id": one, "v3_and_below_producer_id": producer.producer_id,
                "v3_and_below_topics": [{"name": name, "partitions": [0]} for name in TOPICS],
            }  # fmt: skip
            self._do(made(loaded(load_apis()[ApiKey.ADD_PARTITIONS_TO_TXN]).request, add), 3)
        for key in (ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.SHARE_GROUP_HEARTBEAT, ApiKey.STREAMS_GROUP_HEARTBEAT):
            case = next(case for case in CASES if case.key is key)
            for topics in (TOPICS, TOPICS[:1]):
                assert not codes_in(self.ask(case, case_version(key), names=topics)[0])
        for epoch in (0, -1):
            beat = {"group_id": "idle", "member_id": "m", "member_epoch": epoch, "subscribed_topic_names": list(TOPICS)}
            self._do(made(loaded(load_apis()[ApiKey.SHARE_GROUP_HEARTBEAT]).request, beat), 1)

    def _do(self, request: Any, version: int) -> Any:
        answer = self._send(request, version)
        assert not codes_in(answer), answer
        return answer

    def _send(self, request: Any, version: int) -> Any:
        return self.client.ask(request, version, response_class(loaded(load_apis()[request.API_KEY])))

    def prepare(self) -> None:
        """Topics are there, or not, as each request finds them, whatever was asked before."""
        if self.services.topics.get(DOOMED) is None:
            self.broker.create_topic(DOOMED)
        for name in MADE:
            if self.services.topics.get(name) is not None:
                self.broker.delete_topic(name)

    def ask(
        self, case: Case, version: int, rule: Rule | None = None, names: tuple[str, ...] | None = None
    ) -> tuple[Any, Rules]:
        """The answer under `rule` (None: without an authorizer), and the authorizer."""
        self.prepare()
        ids = {**self.ids, **{name: self.ids.get(name, bytes(15) + b"\1") for name in names or ()}}
        fields = case.fields(names or case.names, ids, self.batch)
        if case.after is not None:
            key, before = case.after
            request = made(loaded(load_apis()[key]).request, before(TOPICS, self.ids, self.batch))
            self._do(request, case_version(key))
        rules = Rules(rule or nothing, TOPICS)
        set_authorizer(self.broker, None if rule is None else rules)
        try:
            return self._send(made(loaded(load_apis()[case.key]).request, fields), version), rules
        finally:
            set_authorizer(self.broker, None)

    def state(self) -> Any:
        """All that a request could have changed."""
        services = self.services
        logs = {(log.topic, log.partition): (log.log_end_offset, log.log_start_offset) for log in services.logs.logs()}
        groups = sorted((group.group_id, group.state_name) for group in services.groups.list_groups((), ()))
        rest = {"groups": groups, "metadata": services.metadata.changes, "sessions": len(services.fetch_sessions)}
        return {*logs.items(), *levels(), *((what, str(value)) for what, value in rest.items())}


def case_version(key: ApiKey, most: int = 99) -> int:
    return min(load_apis()[key].max_version, most)


def versions(case: Case) -> range:
    registration = load_apis()[case.key]
    return range(max(case.first, registration.min_version), min(case.last, registration.max_version) + 1)


def name_of(case: Case) -> str:
    return f"{case.key.label}-{CASES.index(case)}"


def codes_in(struct: Any) -> set[int]:
    found = {
        value for field in struct.FIELDS if field.name.endswith("error_code") and (value := getattr(struct, field.name))
    }
    for field in struct.FIELDS:
        value = getattr(struct, field.name)
        for inner in value if isinstance(value, list | tuple) else (value,):
            if isinstance(inner, Struct):
                found |= codes_in(inner)
    return found


def about(struct: Any, names: set[Any]) -> list[Any]:
    """The parts of an answer that are named so."""
    if any(isinstance(value := getattr(struct, field.name), str | bytes) and value in names for field in struct.FIELDS):
        return [struct]
    found = []
    for field in struct.FIELDS:
        value = getattr(struct, field.name)
        for inner in value if isinstance(value, list | tuple) else (value,):
            if isinstance(inner, Struct):
                found += about(inner, names)
    return found


@pytest.fixture(scope="module")
def guarded() -> Iterator[Guarded]:
    with Broker(settings=SETTINGS) as broker:
        world = Guarded(broker)
        yield world
        world.client.socket.close()


def everything(operation: AclOperation, resource_type: ResourceType, name: str) -> bool:
    return True


def test_no_api_is_without_a_case() -> None:
    assert {case.key for case in CASES} == set(load_apis())


ELSEWHERE = {
    (ApiKey.STREAMS_GROUP_HEARTBEAT, AclOperation.CREATE): "test_what_streams_make_is_decided_over_one_by_one",
}
"""Parts that no answer names."""


def test_no_kind_of_part_is_without_a_case_that_allows_one_and_denies_another() -> None:
    for key, registration in load_apis().items():
        for ask in loaded(registration).requires:
            is_hidden = ask.consequence is Consequence.HIDDEN
            if (ask.consequence is Consequence.PART or is_hidden) and (key, ask.operation) not in ELSEWHERE:
                assert any(
                    (case.key, case.ask, case.is_hidden) == (key, (ask.operation, ask.resource_type), is_hidden)
                    for case in CASES
                ), (ApiKey(key).name, ask)
    assert all(name in globals() for name in ELSEWHERE.values())


@pytest.mark.parametrize("key", sorted({case.key for case in CASES}), ids=lambda key: key.label)
def test_what_is_asked_is_what_is_declared(guarded: Guarded, key: ApiKey) -> None:
    declared = {(ask.operation, ask.resource_type) for ask in loaded(load_apis()[key]).requires}
    tells = any(field.name.endswith("authorized_operations") for field in _all_fields(response_class(load_apis()[key])))
    asked: set[tuple[AclOperation, ResourceType]] = set()
    for case in (case for case in CASES if case.key is key):
        version = versions(case)[-1]
        rules: list[Rule] = [nothing]
        rules += [
            lambda operation, kind, name, left=left: (operation, kind) != left  # type: ignore[misc]
            for left in sorted(declared, reverse=True)
        ]
        rules += [lambda operation, kind, name: kind is not ResourceType.CLUSTER, everything]  # what is made comes last
        for rule in rules:
            asked |= {(one.operation, one.resource_type) for one in guarded.ask(case, version, rule)[1].asked}
    assert declared <= asked
    assert tells or asked <= declared


def _all_fields(cls: Any) -> list[Any]:
    found = list(cls.FIELDS)
    for field in cls.FIELDS:
        if isinstance(field.element, type) and issubclass(field.element, Struct):
            found += _all_fields(field.element)
    return found


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_who_is_denied_changes_nothing_and_learns_nothing(guarded: Guarded, case: Case) -> None:
    asks = loaded(load_apis()[case.key]).requires
    for version in versions(case):
        guarded.prepare()
        before = guarded.state()
        answer, rules = guarded.ask(case, version, nothing)
        assert guarded.state() ^ before == set() or not asks
        if not asks:
            assert not rules.asked
            continue
        assert rules.asked
        if case.is_hidden:
            assert not about(answer, {*case.names, *TOPICS})
        else:
            assert codes_in(answer) & DENIALS, answer
        assert b"secret" not in repr(answer).encode()
        if not case.by_id and case.names:
            ghosts = tuple(re.sub(r"\w", "z", name[:-1]) + name[-1] for name in case.names)
            other, _ = guarded.ask(case, version, nothing, ghosts)
            told = encode(other, version)
            for ghost, name in zip(ghosts, case.names, strict=True):
                told = told.replace(ghost.encode(), name.encode())
            assert told == encode(answer, version)


@pytest.mark.parametrize("case", [case for case in CASES if case.ask is not None], ids=name_of)
def test_each_part_is_decided_over_alone(guarded: Guarded, case: Case) -> None:
    assert case.ask is not None
    operation, kind = case.ask
    allowed, denied = case.names
    resource = case.denies or (CLUSTER_NAME if kind is ResourceType.CLUSTER else denied)

    def rule(asked: AclOperation, asked_kind: ResourceType, name: str) -> bool:
        if asked_kind is ResourceType.CLUSTER and case.ask is not None:
            return False  # or it would be enough
        return (asked, asked_kind, name) != (operation, kind, resource)

    for version in versions(case):
        answer, _ = guarded.ask(case, version, rule)
        known = {
            allowed: {allowed, guarded.ids.get(allowed, allowed)},
            denied: {denied, guarded.ids.get(denied, denied)},
        }
        rows = about(answer, known[denied])
        if case.is_hidden:
            assert not rows
            assert about(answer, known[allowed])
            continue
        assert rows
        assert all(DENIED[kind] in codes_in(row) for row in rows), rows
        rows = about(answer, known[allowed])
        assert rows
        assert not any(codes_in(row) & DENIALS for row in rows), rows


def test_what_streams_make_is_decided_over_one_by_one(guarded: Guarded) -> None:
    case = next(case for case in CASES if case.key is ApiKey.STREAMS_GROUP_HEARTBEAT)
    made_here = ("made-by-streams-changelog", "kept-by-streams-changelog")

    def fields(names: Sequence[str], ids: Ids, batch: bytes) -> Fields:
        values: Any = case.fields(names, ids, batch)
        (part,) = values["topology"]["subtopologies"]
        changelogs = [{"name": name, "replication_factor": 1} for name in made_here]
        topology = {**values["topology"], "subtopologies": [{**part, "state_changelog_topics": changelogs}]}
        return {**values, "group_id": "makes-topics", "topology": topology}

    answer, rules = guarded.ask(
        case._replace(fields=fields),
        case_version(case.key),
        lambda operation, kind, name: (
            kind is not ResourceType.CLUSTER and (operation, name) != (AclOperation.CREATE, made_here[1])
        ),
    )
    assert not codes_in(answer)
    assert {one.name for one in rules.asked if one.operation is AclOperation.CREATE} >= set(made_here)
    until(lambda: guarded.services.topics.get(made_here[0]) is not None, f"{made_here[0]} is made")
    assert guarded.services.topics.get(made_here[1]) is None
    assert made_here[1] in repr(answer.status)
    guarded.broker.delete_topic(made_here[0])


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_each_question_alone_refuses(guarded: Guarded, case: Case) -> None:
    """With everything allowed but one operation, an answer says so wherever that was asked and nothing else sufficed."""
    asks = loaded(load_apis()[case.key]).requires
    version = versions(case)[-1]
    for ask in asks:
        if ask.consequence not in (Consequence.REQUEST, Consequence.PART):
            continue

        def rule(operation: AclOperation, kind: ResourceType, name: str, ask: Any = ask) -> bool:
            is_enough = any(
                (one.operation, one.resource_type) == (operation, kind) and one.consequence is Consequence.NEXT
                for one in asks
            )
            return not is_enough and (operation, kind) != (ask.operation, ask.resource_type)

        answer, rules = guarded.ask(case, version, rule)
        was_asked = any((one.operation, one.resource_type) == (ask.operation, ask.resource_type) for one in rules.asked)
        if was_asked and not case.is_hidden:
            code = ask.code
            shares = {one.consequence for one in asks if (one.operation, one.resource_type) == ask[:2]}
            if Consequence.HIDDEN not in shares or code in codes_in(answer):
                assert code in codes_in(answer), (ask, answer)


READS = {
    ApiKey.LIST_OFFSETS, ApiKey.METADATA, ApiKey.OFFSET_FOR_LEADER_EPOCH, ApiKey.DESCRIBE_GROUPS, ApiKey.DESCRIBE_CONFIGS,
    ApiKey.DESCRIBE_PRODUCERS, ApiKey.DESCRIBE_TRANSACTIONS, ApiKey.DESCRIBE_TOPIC_PARTITIONS, ApiKey.FIND_COORDINATOR,
}  # fmt: skip
READERS = [
    case
    for case in CASES
    if case.key in READS
    and case.ask
    and case.ask[0] is not AclOperation.CREATE
    and case.ask[1] is not ResourceType.CLUSTER
    and not case.is_hidden
    and not case.by_id
]


@pytest.mark.parametrize("case", READERS, ids=name_of)
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_an_answer_is_the_answers_to_its_parts(guarded: Guarded, case: Case, data: st.DataObject) -> None:
    known = (*case.names, "zzzzz")
    names = tuple(data.draw(st.lists(st.sampled_from(known), min_size=1, max_size=3, unique=True)))
    denied = data.draw(st.sets(st.tuples(st.sampled_from(sorted(AclOperation)), st.sampled_from(known))))

    def rule(operation: AclOperation, kind: ResourceType, name: str) -> bool:
        return kind is not ResourceType.CLUSTER and (operation, name) not in denied

    version = data.draw(st.sampled_from(versions(case)))
    together, _ = guarded.ask(case, version, rule, names)
    for name in names:
        alone, _ = guarded.ask(case, version, rule, (name,))
        assert repr(about(together, {name})) == repr(about(alone, {name}))
        assert about(alone, {name})


def test_everything_is_in_the_set_of_every_name() -> None:
    assert "anything" in EVERY_NAME
