"""The same requests as the same users to Apache Kafka with its StandardAuthorizer and to us, under the same rules: the same parts
are done, refused and left out, with the same codes. What differs on purpose stands here, and in docs/ACCESS_CONTROL.md.

Users have one right alone, every right but one, rules of all shapes, and rules by chance (`--rights-users`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from support.acl_peers import GHOSTS, NO_TOPIC, PASSWORD, ROOT, G, Peer, RuleOf, T, X, users
from support.daemon import Daemon
from support.kafka_broker import free_port, kafka
from support.patience import until
from support.permission_case import GROUPS, NEW_TOPICS, TOPICS, TRANSACTIONS, Case
from support.permission_cases import CASES
from tidelog.broker.requests.registry import load_apis
from tidelog.protocol.api_keys import ApiKey

SETTINGS: dict[str, str] = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:ANONYMOUS;User:{ROOT}",
    "node.id": "0",
    "auto.create.topics.enable": "true",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "sasl.enabled.mechanisms": "PLAIN",
    # Their records are years old: a retention that comes in the midst of it would take them.
    "log.retention.ms": "-1",
    # No member goes while others are asked about it.
    **{
        f"group.{kind}.{most}session.timeout.ms": "3600000"
        for kind in ("consumer", "share", "streams")
        for most in ("max.", "")
    },
}
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
ALONE = {ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.DELETE_TOPICS}
"""Asked otherwise: these users are authenticated, and what is deleted has to be there for each of them."""
NOT_IN_KAFKA = {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY}
"""Listed by Kafka where a plugin takes what clients push, by ours where `telemetry.enable` is set."""
GHOSTS_BESIDE = {TOPICS: GHOSTS[T], GROUPS: GHOSTS[G], TRANSACTIONS: GHOSTS[X]}
NO_GHOSTS = {ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE, ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS}
"""Kafka fails on an unknown id (UNKNOWN_SERVER_ERROR), or has no error for a topic that is not there."""


class Peers:
    """Both, and the users that both know."""

    def __init__(self, ours: Peer, theirs: Peer, rules: dict[str, tuple[RuleOf, ...]]) -> None:
        self.ours, self.theirs, self.rules = ours, theirs, rules
        self.both = (ours, theirs)

    def differences(self, case: Case, names: tuple[str, ...], version: int, each: int) -> list[tuple[str, Any, Any]]:
        """By users, of whom every `each`th is tried."""
        found = []
        for user in list(self.rules)[::each]:
            ours, theirs = (peer.told(user, case, names, version) for peer in self.both)
            if (
                case.key is ApiKey.SHARE_ACKNOWLEDGE
            ):  # of an offset that nobody has, by how far each has given records out
                ours, theirs = (
                    repr(told).replace("INVALID_REQUEST", "INVALID_RECORD_STATE") for told in (ours, theirs)
                )
            if ours != theirs:
                found.append((user, ours, theirs))
        return found


@pytest.fixture(scope="module")
def peers(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peers]:
    rules = users(pytestconfig.getoption("--rights-users"))
    jaas = f"{PLAIN_MODULE} " + " ".join(f'user_{name}="{PASSWORD}"' for name in rules) + ";"
    folder = tmp_path_factory.mktemp("rights")
    port, secured, controller = free_port(), f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    addresses = f"PLAINTEXT://127.0.0.1:{port},SECURED://{secured}"
    of_kafka = {
        **{name.replace(".", "_"): value for name, value in SETTINGS.items()},
        "port": str(port),
        "listeners": f"{addresses},CONTROLLER://{controller}",
        "advertised_listeners": addresses,
        "controller_quorum_voters": f"0@{controller}",
        "listener_security_protocol_map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURED:SASL_PLAINTEXT",
        "listener_name_secured_plain_sasl_jaas_config": jaas,
    }
    of_ours: dict[str, str | int] = {
        **SETTINGS,
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas,
        # As a Kafka without the plug-in for them.
        "group.streams.topology.descriptions.max.bytes": 0,
    }
    with ExitStack() as stack:
        bootstrap = stack.enter_context(kafka(folder / "kafka", is_new=True, **of_kafka))
        daemon = stack.enter_context(Daemon(folder / "ours", of_ours))
        ours = Peer("tidelog", daemon.bootstrap, daemon.ready_line.split("SASL_PLAINTEXT://")[1].split()[0])
        found = Peers(ours, Peer("Apache Kafka", bootstrap, secured), rules)
        for peer in found.both:
            stack.callback(peer.close)
            peer.make_world(rules)
        yield found


def test_kafka_has_all_that_is_compared(peers: Peers) -> None:
    ours, theirs = (peer.versions() for peer in peers.both)
    assert ours.keys() == theirs.keys() == load_apis().keys() - NOT_IN_KAFKA


@pytest.mark.parametrize("key", sorted(load_apis().keys() - ALONE - NOT_IN_KAFKA), ids=lambda key: ApiKey(key).label)
def test_the_same_parts_are_refused(peers: Peers, key: ApiKey) -> None:
    (first, last), (kafkas_first, kafkas_last) = (peer.versions()[key] for peer in peers.both)
    for case in (case for case in CASES if case.key is key and case.names != NEW_TOPICS):
        if case.key is ApiKey.PRODUCE and case.ask is None:
            continue  # a transactional id without a transaction: documented
        if case.key is ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS:  # Kafka never answers who may not ask for all users
            case = case._replace(fields=lambda names, ids, batch: {"users": [{"name": "alice"}]})
        names = case.names
        if names in GHOSTS_BESIDE and key not in NO_GHOSTS:
            names = (*names, GHOSTS_BESIDE[names])  # type: ignore[assignment]
        newest = min(case.last, last, kafkas_last)
        for version in sorted({max(case.first, first, kafkas_first), newest}):
            found = peers.differences(case, names, version, 1 if version == newest else 5)
            assert not found, f"{len(found)} users, the first: {found[0]}"


@pytest.mark.parametrize("is_by_id", [False, True], ids=["by-name", "by-id"])
def test_the_same_topics_are_deleted(peers: Peers, is_by_id: bool) -> None:
    """Two topics that are there, one that is not, for each user: rules are about the names."""
    ids: dict[Peer, dict[str, bytes]] = {peer: {} for peer in peers.both}
    doomed = ("alpha-by-id", "bravo-by-id") if is_by_id else ("alpha-by-name", "bravo-by-name")
    for user in peers.rules:
        answers = []
        for peer in peers.both:
            for name in doomed:
                if name not in ids[peer]:
                    ids[peer][name] = peer.make_topic(name)
            wanted = [
                {"name": None, "topic_id": ids[peer].get(name, NO_TOPIC)} if is_by_id else {"name": name}
                for name in (*doomed, GHOSTS[T])
            ]
            rows = peer.ask(user, ApiKey.DELETE_TOPICS, {"topics": wanted, "timeout_ms": 10_000}, 6).responses
            names = {topic_id: name for name, topic_id in ids[peer].items()}
            answers.append(
                sorted(
                    (repr((row.name, names.get(row.topic_id) if is_by_id else None)), row.error_code) for row in rows
                )
            )
            for row in rows:
                if not row.error_code:
                    del ids[peer][row.name]
                    until(lambda name=row.name, peer=peer: name not in peer.topics(), f"{row.name} is gone")  # type: ignore[misc]
        assert answers[0] == answers[1], user


def test_the_same_topics_are_made_by_being_asked_for(peers: Peers) -> None:
    """Kafka makes them later, and says until then that there is none."""
    wanted = {
        user: (f"new-{number}", f"alpha-{number}", f"bravo-ghost-{number}") for number, user in enumerate(peers.rules)
    }
    refused: list[dict[str, set[str]]] = []
    for peer in peers.both:
        refused.append({})
        for user, names in wanted.items():
            asked = {"topics": [{"name": name} for name in names], "allow_auto_topic_creation": True}
            rows = peer.ask(user, ApiKey.METADATA, asked, 12).topics
            refused[-1][user] = {row.name for row in rows if row.error_code == 29}
    assert refused[0] == refused[1]
    made = {name for user, names in wanted.items() for name in names if name not in refused[0][user]}
    everything = {name for names in wanted.values() for name in names}
    for peer in peers.both:
        until(lambda peer=peer: peer.topics().keys() & everything == made, f"topics on {peer.name}")  # type: ignore[misc]
