"""Two brokers with the same world and the same rules, asked the same as the same users: what differs in who may do what.

Every user has its rules before the first question, so that nothing has to be waited for between two of them.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from uuid import UUID

from support.logs import batch
from support.patience import until
from support.permission_case import GROUPS, TOPICS, TRANSACTIONS, Case, made
from support.permission_cases import CASES
from support.wire_client import WireClient
from tidelog.broker.requests.error_responses import response_class
from tidelog.broker.requests.registry import load_apis, loaded
from tidelog.broker.security.acl.model import CLUSTER_NAME, AclOperation, PatternType, Permission, ResourceType
from tidelog.protocol.api_keys import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from tidelog.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tidelog.protocol.schema import Struct
from tidelog.storage.log.partition_metadata import encode_uuid

T, G, X, C = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID, ResourceType.CLUSTER
O = AclOperation  # noqa: E741
NO_TOPIC = bytes(15) + b"\1"
"""No topic's id."""
GHOSTS = {T: "bravo-ghost", G: "group-ghost", X: "txn-ghost"}
"""Of each kind one that is not there; its name begins as one that is."""
THERE = {T: TOPICS, G: GROUPS, X: TRANSACTIONS, C: (CLUSTER_NAME,)}
OPERATIONS = {
    T: (O.READ, O.WRITE, O.CREATE, O.DELETE, O.ALTER, O.DESCRIBE, O.DESCRIBE_CONFIGS, O.ALTER_CONFIGS),
    G: (O.READ, O.DELETE, O.DESCRIBE, O.DESCRIBE_CONFIGS, O.ALTER_CONFIGS),
    X: (O.WRITE, O.DESCRIBE),
    C: (
        O.CREATE, O.ALTER, O.DESCRIBE, O.CLUSTER_ACTION, O.DESCRIBE_CONFIGS, O.ALTER_CONFIGS, O.IDEMPOTENT_WRITE,
    ),
}  # fmt: skip
"""What rules may say of each kind (KIP-11, KIP-497, KIP-599)."""
ROOT = "root"
"""The super user's name."""
PASSWORD = "known-to-both"


class RuleOf(NamedTuple):
    """A rule of a user."""

    kind: ResourceType
    name: str
    operation: AclOperation
    permission: Permission = Permission.ALLOW
    pattern: PatternType = PatternType.LITERAL
    host: str = "*"
    principal: str = ""
    """Empty: the user's own."""


def _deny(kind: ResourceType, name: str, operation: AclOperation, **more: Any) -> RuleOf:
    return RuleOf(kind, name, operation, Permission.DENY, **more)


ALL_OF_EVERYTHING = tuple(RuleOf(kind, CLUSTER_NAME if kind is C else "*", O.ALL) for kind in THERE)


def users(random_users: int, seed: int = 1) -> dict[str, tuple[RuleOf, ...]]:
    """Name → rules. One right alone, every right but one, those that Kafka's documents tell of, and `random_users` by chance."""
    found: dict[str, tuple[RuleOf, ...]] = {"nobody": (), ROOT: ()}
    for kind, operations in OPERATIONS.items():
        for operation in (*operations, O.ALL):
            found[f"only-{operation.name}-{kind.name}"] = (RuleOf(kind, THERE[kind][0], operation),)
            found[f"without-{operation.name}-{kind.name}"] = (
                *ALL_OF_EVERYTHING, _deny(kind, THERE[kind][0], operation),
            )  # fmt: skip
    for operation in OPERATIONS[T]:
        found[f"only-{operation.name}-ghost"] = (RuleOf(T, GHOSTS[T], operation),)
        found[f"without-{operation.name}-ghost"] = (*ALL_OF_EVERYTHING, _deny(T, GHOSTS[T], operation))
    prefixed = PatternType.PREFIXED
    found |= {
        "everything": ALL_OF_EVERYTHING,
        "from-elsewhere": tuple(rule._replace(host="10.1.2.3") for rule in ALL_OF_EVERYTHING),
        "denied-elsewhere": (
            *ALL_OF_EVERYTHING, *(_deny(rule.kind, rule.name, O.ALL, host="10.1.2.3") for rule in ALL_OF_EVERYTHING),
        ),
        "from-here": tuple(rule._replace(host="127.0.0.1") for rule in ALL_OF_EVERYTHING),
        "prefixed": (
            RuleOf(T, "al", O.ALL, pattern=prefixed), RuleOf(G, "group-", O.READ, pattern=prefixed),
            RuleOf(X, "txn", O.WRITE, pattern=prefixed), _deny(T, "alpha-", O.ALL, pattern=prefixed),
        ),
        "denied-prefix": (
            *ALL_OF_EVERYTHING, _deny(T, "br", O.READ, pattern=prefixed), _deny(G, "group", O.READ, pattern=prefixed),
        ),
        "denied-literal-in-prefix": (RuleOf(T, "b", O.ALL, pattern=prefixed), _deny(T, "bravo", O.WRITE), *ALL_OF_EVERYTHING[1:]),
        "star-that-is-prefixed": (RuleOf(T, "*", O.ALL, pattern=prefixed), *ALL_OF_EVERYTHING[1:]),
        "denied-by-star": (*ALL_OF_EVERYTHING, _deny(T, "*", O.DESCRIBE)),
        "reads-but-may-not-describe": (RuleOf(T, "alpha", O.READ), _deny(T, "alpha", O.DESCRIBE), RuleOf(G, "*", O.READ)),
        "writer": (RuleOf(T, "alpha", O.WRITE), RuleOf(X, "txn-a", O.WRITE)),
        "reader": (RuleOf(T, "alpha", O.READ), RuleOf(G, "group-a", O.READ)),
        "reader-of-what-is-not-there": (RuleOf(T, GHOSTS[T], O.READ), RuleOf(G, GHOSTS[G], O.READ)),
        "writes-somewhere-denied": (RuleOf(T, "alpha", O.WRITE), _deny(T, "al", O.WRITE, pattern=prefixed)),
        "writes-anywhere-denied": (RuleOf(T, "*", O.WRITE), _deny(T, "*", O.WRITE)),
        "writes-prefix-denied-part": (RuleOf(T, "br", O.WRITE, pattern=prefixed), _deny(T, "bravo", O.WRITE)),
        "writes-by-all": (RuleOf(T, "alpha", O.ALL),),
        "idempotent-denied": (RuleOf(T, "alpha", O.WRITE), _deny(C, CLUSTER_NAME, O.IDEMPOTENT_WRITE)),
        "creates-prefix": (RuleOf(T, "alpha-", O.CREATE, pattern=prefixed), RuleOf(T, "new-", O.CREATE, pattern=prefixed)),
        "creates-all-but": (RuleOf(C, CLUSTER_NAME, O.CREATE), _deny(T, "alpha-made", O.CREATE), _deny(T, "new-topic", O.CREATE)),
        "creates-and-describes": (RuleOf(C, CLUSTER_NAME, O.CREATE), RuleOf(T, "*", O.DESCRIBE)),
        "rules-of-user-star": (
            RuleOf(T, "shared-by-all", O.ALL, principal="User:*"), _deny(T, "kept-from-all", O.ALL, principal="User:*"),
            RuleOf(T, "kept-from-all", O.ALL),
        ),
    }  # fmt: skip
    chance = random.Random(seed)
    for number in range(random_users):
        rules = []
        for _ in range(chance.randint(2, 9)):
            kind = chance.choice((T, T, T, G, G, X, C))
            names = THERE[kind] if kind is C else (*THERE[kind], "*", GHOSTS[kind], THERE[kind][0][:2])
            rules.append(
                RuleOf(
                    kind,
                    chance.choice(names),
                    chance.choice((*OPERATIONS[kind], O.ALL)),
                    chance.choice((Permission.ALLOW, Permission.ALLOW, Permission.DENY)),
                    chance.choice((PatternType.LITERAL, PatternType.PREFIXED))
                    if kind is not C
                    else PatternType.LITERAL,
                    chance.choice(("*", "*", "127.0.0.1", "10.0.0.1")),
                )
            )
        found[f"random-{number}"] = tuple(rules)
    return found


class Peer:
    """One of the two brokers. `plain` is where everybody is a super user, `secured` where users have names."""

    def __init__(self, name: str, plain: str, secured: str) -> None:
        self.name = name
        self._plain, self._secured = _address(plain), _address(secured)
        self._clients: dict[str, WireClient] = {}
        self.ids: dict[str, bytes] = {}
        self.batch = bytes(batch("secret"))

    def close(self) -> None:
        for client in self._clients.values():
            client.socket.close()

    def client(self, user: str | None) -> WireClient:
        """A connection as this user; None is the super user without a name."""
        if (client := self._clients.get(user or "")) is None:
            client = WireClient(self._plain if user is None else self._secured, 10)
            self._clients[user or ""] = client
            if user is not None:
                client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1, SaslHandshakeResponse)
                token = f"\0{user}\0{PASSWORD}".encode()
                answer = client.ask(SaslAuthenticateRequest(auth_bytes=token), 1, SaslAuthenticateResponse)
                assert not answer.error_code, (self.name, user, answer)
        return client

    def versions(self) -> dict[int, tuple[int, int]]:
        answer = self.client(None).ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
        return {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}

    def ask(self, user: str | None, key: ApiKey, fields: Mapping[str, Any], version: int) -> Any:
        """The answer; None where the connection was closed instead."""
        registration = loaded(load_apis()[key])
        try:
            return self.client(user).ask(made(registration.request, fields), version, response_class(registration))
        except (EOFError, ConnectionError):
            self._clients.pop(user or "").socket.close()
            return None

    def told(self, user: str | None, case: Case, names: tuple[str, ...], version: int) -> Any:
        """The outline of the answer to a case."""
        ids = {**self.ids, **{name: self.ids.get(name, NO_TOPIC) for name in names}}
        if case.after is not None:
            key, before = case.after
            self.ask(None, key, before(TOPICS, ids, self.batch), 1)
        answer = self.ask(user, case.key, case.fields(names, ids, self.batch), version)
        return outline(answer, {topic_id: name for name, topic_id in self.ids.items()})

    def make_topic(self, name: str) -> bytes:
        """Makes a topic that is led before the return; its id."""
        topic = {"name": name, "num_partitions": 1, "replication_factor": 1}
        (row,) = self.ask(None, ApiKey.CREATE_TOPICS, {"topics": [topic], "timeout_ms": 10_000}, 7).topics
        assert not row.error_code, (self.name, row)
        until(lambda: name in self.topics(), f"{name} on {self.name}")
        return bytes(row.topic_id)

    def topics(self) -> dict[str, bytes]:
        """Name → id of all that are led."""
        rows = self.ask(None, ApiKey.METADATA, {"topics": None}, 12).topics
        return {
            row.name: row.topic_id
            for row in rows
            if not row.error_code and not any(partition.error_code for partition in row.partitions)
        }

    def make_world(self, rules: Mapping[str, tuple[RuleOf, ...]]) -> None:
        """All that the cases ask about, and the rules of all users."""
        for name in TOPICS:
            self.ids[name] = self.make_topic(name)
        share = f"shared:{encode_uuid(UUID(bytes=self.ids['alpha']))}:0"
        for kind, key in ((0, GROUPS[0]), (1, TRANSACTIONS[0]), (2, share)):
            asked = {"key_type": kind, "coordinator_keys": [key]}
            self._until_done(ApiKey.FIND_COORDINATOR, asked, 6, lambda answer: answer.coordinators[0].error_code)
        for group in GROUPS:
            part = {"partition_index": 0, "committed_offset": 0}
            commit = {
                "group_id": group, "generation_id_or_member_epoch": -1,
                "topics": [{"name": name, "partitions": [part]} for name in TOPICS],
            }  # fmt: skip
            self._until_done(ApiKey.OFFSET_COMMIT, commit, 8, lambda answer: answer.topics[0].partitions[0].error_code)
        for one in TRANSACTIONS:
            init = {"transactional_id": one, "transaction_timeout_ms": 60_000}
            self._until_done(ApiKey.INIT_PRODUCER_ID, init, 4, lambda answer: answer.error_code)
        for key in (ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.SHARE_GROUP_HEARTBEAT, ApiKey.STREAMS_GROUP_HEARTBEAT):
            case = next(case for case in CASES if case.key is key)
            fields = case.fields(TOPICS, self.ids, self.batch)
            self._until_done(key, fields, load_apis()[key].max_version, lambda answer: answer.error_code)
        for epoch in (0, -1):
            beat = {"group_id": "idle", "member_id": "m", "member_epoch": epoch, "subscribed_topic_names": list(TOPICS)}
            self._until_done(ApiKey.SHARE_GROUP_HEARTBEAT, beat, 1, lambda answer: answer.error_code)
        until(self._is_shared_out, "the share group has its partitions")
        case = next(case for case in CASES if case.key is ApiKey.SHARE_FETCH)
        until(lambda: "NONE" in repr(self.told(None, case, TOPICS, 1)), f"share fetch on {self.name}")
        creations = [_creation(user, rule) for user, own in rules.items() for rule in own]
        answer = self.ask(None, ApiKey.CREATE_ACLS, {"creations": creations}, 3)
        assert not any(row.error_code for row in answer.results), self.name
        count = len({tuple(creation.items()) for creation in creations})
        until(lambda: self._count_rules() == count, f"rules on {self.name}")

    def _until_done(self, key: ApiKey, fields: Mapping[str, Any], version: int, code: Callable[[Any], int]) -> None:
        until(lambda: not code(self.ask(None, key, fields, version)), f"{key.label} on {self.name}")

    def _is_shared_out(self) -> bool:
        beat = {"group_id": "shared", "member_id": "m", "subscribed_topic_names": list(TOPICS)}
        self.ask(None, ApiKey.SHARE_GROUP_HEARTBEAT, beat, 1)
        (group,) = self.ask(None, ApiKey.SHARE_GROUP_DESCRIBE, {"group_ids": ["shared"]}, 1).groups
        return any(len(member.assignment.topic_partitions) == len(TOPICS) for member in group.members)

    def _count_rules(self) -> int:
        wanted = {
            "resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1, "principal_filter": None,
            "host_filter": None, "operation": 1, "permission_type": 1,
        }  # fmt: skip
        return sum(len(row.acls) for row in self.ask(None, ApiKey.DESCRIBE_ACLS, wanted, 3).resources)


def _creation(user: str, rule: RuleOf) -> dict[str, Any]:
    return {
        "resource_type": int(rule.kind),
        "resource_name": rule.name,
        "resource_pattern_type": int(rule.pattern),
        "principal": rule.principal or f"User:{user}",
        "host": rule.host,
        "operation": int(rule.operation),
        "permission_type": int(rule.permission),
    }


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


_TOLD = re.compile(r"^(name|topic|topic_name|resource_name|group_id|transactional_id|key|user)$")
_NUMBERS = re.compile(r"(error_code|authorized_operations|partition|index)$")
_UNTOLD = frozenset(
    {
        "configs",
        "api_keys",
        "supported_features",
        "finalized_features",
        "nodes",
        "assignment",
        "target_assignment",
        "acquired_records",
    }
)
"""Not about rights, or, as what members are assigned, done by each broker in its own time."""


def outline(answer: Any, names: Mapping[bytes, str]) -> Any:
    """What an answer says about which part was done, refused or left out: codes, names and rights; no order, no texts.

    Where the whole is refused, its parts say nothing more. An id beside its name says nothing either.
    """
    if answer is None:
        return "closed"
    told: dict[str, Any] = {}
    for field in answer.FIELDS:
        value = getattr(answer, field.name)
        if field.name in _UNTOLD:
            continue
        if isinstance(value, Struct):
            told[field.name] = outline(value, names)
        elif isinstance(value, list | tuple) and value and isinstance(value[0], Struct):
            told[field.name] = sorted((outline(one, names) for one in value), key=repr)
        elif isinstance(value, bytes) and field.name == "topic_id":
            told[field.name] = names.get(value)
        elif isinstance(value, int) and not isinstance(value, bool) and _NUMBERS.search(field.name):
            told[field.name] = ErrorCode(value).name if field.name.endswith("error_code") else value
        elif (value is None or isinstance(value, str)) and _TOLD.search(field.name):
            told[field.name] = value
    if told.get("name") or told.get("topic_name"):
        told.pop("topic_id", None)
    if told.get("error_code", "NONE") != "NONE":
        return {name: value for name, value in told.items() if not isinstance(value, list | dict)}
    return told
