"""A request that names nothing, or nothing that its client may use, does nothing: where there was nothing yet, there is nothing.

The broker is new: no topic of its own has been made. What test_permissions.py asks of a broker that has everything begins here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from support.inside import services_of, set_authorizer
from support.permission_case import TOPICS, Fields, made
from support.permissions import Rule, Rules, nothing
from support.wire_client import WireClient
from tidelog.broker.requests.error_responses import response_class
from tidelog.broker.requests.registry import load_apis, loaded
from tidelog.broker.security.acl.model import AclOperation, ResourceType
from tidelog.protocol.api_keys import ApiKey
from tidelog.storage.log.partition_metadata import encode_uuid
from tidelog.testing import Broker

EMPTY = {
    (ApiKey.FIND_COORDINATOR, True): [{"key_type": kind} for kind in range(4)],
    (ApiKey.PRODUCE, False): [{"acks": 1}],  # else there is no answer to wait for
    (ApiKey.PRODUCE, True): [{"acks": 1}],
}
"""API and whether the version is above 0 → its requests, where they are other than the defaults."""


class World:
    """One broker with two topics and nothing else."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.services = services_of(broker)
        for name in TOPICS:
            broker.create_topic(name)

    def ask(self, key: ApiKey, version: int, fields: Fields, rule: Rule) -> None:
        """Sends it under `rule`; an answer or the connection's end is waited for."""
        registration = loaded(load_apis()[key])
        set_authorizer(self.broker, Rules(rule, TOPICS))
        try:
            end = contextlib.suppress(EOFError, ConnectionError)
            with WireClient((self.broker.host, self.broker.port)) as client, end:
                client.ask(made(registration.request, fields), version, response_class(registration))
        finally:
            set_authorizer(self.broker, None)

    def state(self) -> Any:
        services = self.services
        groups = sorted(group.group_id for group in services.groups.list_groups((), ()))
        return [topic.name for topic in services.topics.all()], groups, services.metadata.changes


@pytest.fixture
def world() -> Iterator[World]:
    with Broker() as broker:
        yield World(broker)


def versions(key: int) -> range:
    return range(load_apis()[key].min_version, load_apis()[key].max_version + 1)


def test_who_may_do_nothing_and_names_nothing_changes_nothing(world: World) -> None:
    before = world.state()
    for key in load_apis():
        for version in versions(key):
            for fields in EMPTY.get((ApiKey(key), version > 0), [{}]):
                world.ask(ApiKey(key), version, fields, nothing)
                assert world.state() == before, (ApiKey(key).label, version, fields)


def everything(operation: AclOperation, resource_type: ResourceType, name: str) -> bool:
    return True


def test_a_search_for_no_coordinator_makes_none_whoever_asks(world: World) -> None:
    before = world.state()
    for version in versions(ApiKey.FIND_COORDINATOR)[4:]:
        for kind in range(3):
            world.ask(ApiKey.FIND_COORDINATOR, version, {"key_type": kind, "coordinator_keys": []}, everything)
            assert world.state() == before, (version, kind)


def test_a_key_of_share_groups_that_is_none_makes_no_topic(world: World) -> None:
    before = world.state()
    for keys in (["group"], ["a:b:c", ""]):
        world.ask(ApiKey.FIND_COORDINATOR, 6, {"key_type": 2, "coordinator_keys": keys}, everything)
        assert world.state() == before
    good = f"g:{encode_uuid(UUID(int=7))}:0"
    world.ask(ApiKey.FIND_COORDINATOR, 6, {"key_type": 2, "coordinator_keys": ["a", good]}, everything)
    assert world.state() != before, "one that is a key makes it"


def groups_alone(operation: AclOperation, resource_type: ResourceType, name: str) -> bool:
    return resource_type is ResourceType.GROUP


def _commit(topics: list[str]) -> Fields:
    parts = [{"partition_index": 0, "committed_offset": 1}]
    return {"group_id": "g", "topics": [{"name": name, "partitions": parts} for name in topics]}


def _share(topics: list[str]) -> Fields:
    parts = [{"partition_index": 0, "start_offset": 0}]
    return {"group_id": "g", "topics": [{"topic_name": name, "partitions": parts} for name in topics]}


@pytest.mark.parametrize(
    ("key", "version", "fields"),
    [
        (ApiKey.OFFSET_COMMIT, 0, _commit),
        (ApiKey.OFFSET_COMMIT, 9, _commit),
        (ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, _share),
    ],
)
@pytest.mark.parametrize("topics", [[], ["unknown"], list(TOPICS)], ids=["none", "unknown", "denied"])
def test_who_may_use_a_group_and_none_of_the_topics_makes_neither_group_nor_topic(
    world: World, key: ApiKey, version: int, fields: Any, topics: list[str]
) -> None:
    if version or key is not ApiKey.OFFSET_COMMIT:  # version 0 makes the groups' topic itself, the others find it
        world.ask(ApiKey.FIND_COORDINATOR, 3, {"key": "g"}, everything)
        assert len(world.services.topics.all()) == 3
    before = world.state()
    world.ask(key, version, fields(topics), everything if topics == ["unknown"] else groups_alone)
    assert world.state() == before
