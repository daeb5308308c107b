"""What a member brings when it joins is bounded, by whichever protocol: it stays in memory for as long as the member does."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from support.inside import in_loop, services_of
from support.patience import until
from support.permission_case import made
from support.wire_client import WireClient, request_frame
from tidelog.broker.groups.store.member_memory import GROUP_BYTES, MEMBER_BYTES, MEMBER_COST, said_bytes
from tidelog.broker.requests.error_responses import response_class
from tidelog.broker.requests.registry import load_apis, loaded
from tidelog.protocol.api_keys import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.testing import Broker

MANY = [f"{number:0>200}" for number in range(MEMBER_BYTES // 200 + 1)]
"""Names of topics: more than a member may bring."""
JOINS = {
    ApiKey.JOIN_GROUP: {
        "group_id": "classic", "session_timeout_ms": 300_000, "rebalance_timeout_ms": 300_000, "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": bytes(MEMBER_BYTES)}],
    },
    ApiKey.CONSUMER_GROUP_HEARTBEAT: {
        "group_id": "consumer", "member_id": "m", "rebalance_timeout_ms": 1000, "subscribed_topic_names": MANY,
        "topic_partitions": [],
    },
    ApiKey.SHARE_GROUP_HEARTBEAT: {"group_id": "share", "member_id": "m", "subscribed_topic_names": MANY},
    ApiKey.STREAMS_GROUP_HEARTBEAT: {
        "group_id": "streams", "member_id": "m", "rebalance_timeout_ms": 1000, "process_id": "p",
        "topology": {"epoch": 1, "subtopologies": [{"subtopology_id": "0", "source_topics": MANY}]},
        "active_tasks": [], "standby_tasks": [], "warmup_tasks": [], "client_tags": [],
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"group.initial.rebalance.delay.ms": 0}) as one:
        with WireClient((one.host, one.port)) as client:
            find = loaded(load_apis()[ApiKey.FIND_COORDINATOR])
            client.ask(made(find.request, {"coordinator_keys": ["g"]}), 4, response_class(find))
        yield one


def ask(broker: Broker, key: ApiKey, fields: Any, version: int = 99) -> Any:
    registration = loaded(load_apis()[key])
    with WireClient((broker.host, broker.port)) as client:
        request = made(registration.request, fields)
        return client.ask(request, min(version, registration.max_version), response_class(registration))


@pytest.mark.parametrize("key", JOINS, ids=lambda key: key.label)
def test_a_member_that_brings_too_much_is_refused_and_leaves_nothing(broker: Broker, key: ApiKey) -> None:
    before = [group.group_id for group in services_of(broker).groups.list_groups((), ())]
    assert ask(broker, key, JOINS[key]).error_code == ErrorCode.INVALID_REQUEST
    assert [group.group_id for group in services_of(broker).groups.list_groups((), ())] == before


def test_a_group_takes_members_until_they_have_brought_what_it_may_have(broker: Broker) -> None:
    metadata = bytes(MEMBER_BYTES - MEMBER_COST - said_bytes("range"))
    fields = {**JOINS[ApiKey.JOIN_GROUP], "group_id": "full", "protocols": [{"name": "range", "metadata": metadata}]}
    frame = request_frame(made(loaded(load_apis()[ApiKey.JOIN_GROUP]).request, fields), 3)
    with contextlib.ExitStack() as clients:
        for _ in range(GROUP_BYTES // MEMBER_BYTES):
            clients.enter_context(WireClient((broker.host, broker.port))).send(frame)
        until(lambda: in_loop(broker, lambda: _bytes(broker)) == GROUP_BYTES, "all of them have joined")
        assert ask(broker, ApiKey.JOIN_GROUP, fields, 3).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


async def _bytes(broker: Broker) -> int:
    groups = (shard.groups.get("full") for shard in services_of(broker).groups.shards())
    return sum(group.member_bytes for group in groups if group is not None)
