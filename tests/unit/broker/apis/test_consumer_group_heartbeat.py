"""ConsumerGroupHeartbeat and -Describe from wire to wire, in every version."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from support.groups import run_callbacks
from support.heartbeat_groups import Consumers, Image
from support.permissions import EVERYTHING
from tidelog.broker.apis.consumer_group_describe import consumer_group_describe
from tidelog.broker.apis.consumer_group_heartbeat import consumer_group_heartbeat
from tidelog.broker.groups.store import member_memory
from tidelog.broker.groups.store.member_memory import GROUP_BYTES
from tidelog.config.broker_config import BrokerConfig
from tidelog.protocol.errors import ErrorCode as E
from tidelog.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from tidelog.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from tidelog.protocol.schema import decode, encode
from tidelog.storage.exceptions import KafkaStorageError


class Wire:
    """Requests through their bytes, to the handlers, and back."""

    def __init__(self, version: int) -> None:
        self.image = Image(t=2)
        self.consumers = Consumers(self.image)
        self.level = 1
        self.version = version
        broker = SimpleNamespace(
            authorizer=None,
            groups=self.consumers.harness.groups,
            config=BrokerConfig(),
            features=SimpleNamespace(level=lambda name: self.level if name == "group.version" else 0),
            topics=SimpleNamespace(by_id=self.image.by_id),
        )
        self.context = SimpleNamespace(
            services=broker, api_version=version, client_id=None, client_host="/h", **EVERYTHING
        )

    def beat(self, **fields):
        request = ConsumerGroupHeartbeatRequest(**{"group_id": "g", "member_id": "m", **fields})
        asked, _ = decode(ConsumerGroupHeartbeatRequest, self.version, encode(request, self.version))
        answer = consumer_group_heartbeat(asked, self.context)
        if asyncio.iscoroutine(answer):
            task = self.consumers.harness.loop.create_task(answer)
            run_callbacks(self.consumers.harness.loop)
            self.consumers.harness.log.sync(self.failure)
            run_callbacks(self.consumers.harness.loop)
            answer = task.result()
        return decode(ConsumerGroupHeartbeatResponse, self.version, encode(answer, self.version))[0]

    failure = None

    def describe(self, *groups, **fields):
        request = ConsumerGroupDescribeRequest(group_ids=list(groups), **fields)
        asked, _ = decode(ConsumerGroupDescribeRequest, self.version, encode(request, self.version))
        answer = consumer_group_describe(asked, self.context)
        return decode(ConsumerGroupDescribeResponse, self.version, encode(answer, self.version))[0].groups


JOIN = {"rebalance_timeout_ms": 1_000, "subscribed_topic_names": ["t"], "topic_partitions": []}


@pytest.fixture(params=[0, 1])
def wire(request):
    made = Wire(request.param)
    yield made
    made.consumers.close()


def test_join_stay_and_leave(wire):
    first = wire.beat(member_id="" if wire.version == 0 else "m", **JOIN)
    assert (first.error_code, first.member_epoch, first.heartbeat_interval_ms) == (E.NONE, 2, 5_000)
    assert first.member_id == ("member1" if wire.version == 0 else "m")
    (given,) = first.assignment.topic_partitions
    assert (given.topic_id, given.partitions) == (wire.image.id("t"), [0, 1])
    owned = [TopicPartitions(topic_id=given.topic_id, partitions=[0, 1])]
    again = wire.beat(member_id=first.member_id, member_epoch=2, topic_partitions=owned)
    assert (again.error_code, again.assignment) == (E.NONE, None)
    assert wire.beat(member_id=first.member_id, member_epoch=-1).member_epoch == -1


def test_errors_have_their_messages(wire):
    refused = wire.beat(member_epoch=3)
    assert (refused.error_code, refused.error_message) == (E.GROUP_ID_NOT_FOUND, "Group g not found.")
    assert wire.beat(member_epoch=-3).error_code == E.INVALID_REQUEST
    assert wire.beat(group_id="", **JOIN).error_code == E.INVALID_REQUEST


def test_a_feature_that_is_off(wire):
    wire.level = 0
    assert wire.beat(**JOIN).error_code == E.UNSUPPORTED_VERSION
    assert [group.error_code for group in wire.describe("g")] == [E.UNSUPPORTED_VERSION]
    wire.level = 1
    wire.context.services.config = BrokerConfig(group_coordinator_rebalance_protocols=("classic",))
    assert wire.beat(**JOIN).error_code == E.UNSUPPORTED_VERSION


def test_the_answer_waits_until_it_is_durable(wire):
    wire.consumers.harness.log.durable = False
    assert wire.beat(**JOIN).error_code == E.NONE
    wire.failure = KafkaStorageError("gone")
    assert wire.beat(**{**JOIN, "member_id": "n"}).error_code == E.NOT_COORDINATOR


def test_describe(wire):
    wire.beat(**JOIN, instance_id="i", rack_id="r")
    wire.image.put("gone", 1)
    first, missing = wire.describe("g", "x", include_authorized_operations=True)
    assert (first.error_code, first.group_state, first.group_epoch, first.assignment_epoch) == (E.NONE, "Stable", 2, 2)
    assert (first.assignor_name, first.authorized_operations) == ("uniform", 3400)
    (member,) = first.members
    assert (member.member_id, member.instance_id, member.rack_id, member.member_epoch) == ("m", "i", "r", 2)
    assert (member.client_id, member.client_host, member.subscribed_topic_names) == ("", "/h", ["t"])
    assert (member.subscribed_topic_regex, member.member_type) == ("", -1 if wire.version == 0 else 1)
    for assignment in (member.assignment, member.target_assignment):
        (row,) = assignment.topic_partitions
        assert (row.topic_id, row.topic_name, row.partitions) == (wire.image.id("t"), "t", [0, 1])
    assert (missing.error_code, missing.error_message) == (E.GROUP_ID_NOT_FOUND, "Group x not found.")
    assert wire.describe("g")[0].authorized_operations == -0x8000_0000
    wire.image.remove("t")
    assert wire.describe("g")[0].members[0].assignment.topic_partitions == []


def test_long_names_of_members_take_a_bounded_room():
    """Each of four has up to 32 KB, and a member that reads nothing costs its client one request in a session."""
    wire = Wire(1)
    name = "x" * 30_000
    wire.context.client_id = name
    for number in range(500):
        asked = {**JOIN, "subscribed_topic_names": [], "rack_id": name, "instance_id": f"{name}{number}"}
        answer = wire.beat(member_id=f"{name}m{number}", member_epoch=0, **asked)
        if answer.error_code:
            break
    assert answer.error_code == E.GROUP_MAX_SIZE_REACHED
    group = wire.consumers.group
    assert GROUP_BYTES - 200_000 < group.member_bytes <= GROUP_BYTES
    assert wire.beat(member_id=f"{name}m0", member_epoch=group.members[f"{name}m0"].member_epoch).error_code == 0
    wire.consumers.time.advance(60_000)
    assert (group.member_bytes, len(group.members)) == (0, 0)
    wire.consumers.close()


def test_a_static_member_takes_its_own_place_in_a_full_room(monkeypatch):
    monkeypatch.setattr(member_memory, "GROUP_BYTES", 5_000)
    wire = Wire(1)
    names = [f"{number:0>100}" for number in range(30)]
    asked = {**JOIN, "subscribed_topic_names": names, "instance_id": "i"}
    assert wire.beat(member_id="m", member_epoch=0, **asked).error_code == 0
    other = {**asked, "instance_id": "other"}
    assert wire.beat(member_id="other", member_epoch=0, **other).error_code == E.GROUP_MAX_SIZE_REACHED
    assert wire.beat(member_id="m", member_epoch=-2, instance_id="i").error_code == 0
    assert wire.beat(member_id="n", member_epoch=0, **asked).error_code == 0
    assert list(wire.consumers.group.members) == ["n"]
    wire.consumers.close()


def test_members_that_read_nothing_take_a_bounded_room(monkeypatch):
    """They counted nothing: as many as could join within a session were taken."""
    monkeypatch.setattr(member_memory, "GROUP_BYTES", 10_000)
    wire = Wire(1)
    asked = {**JOIN, "subscribed_topic_names": []}
    codes = [wire.beat(member_id=f"m{number}", member_epoch=0, **asked).error_code for number in range(100)]
    assert codes.count(0) == len(wire.consumers.group.members) == 10_000 // member_memory.MEMBER_COST
    assert codes[-1] == E.GROUP_MAX_SIZE_REACHED
    # Who is there goes on, and who is not learns that.
    epoch = wire.consumers.group.members["m0"].member_epoch
    assert wire.beat(member_id="m0", member_epoch=epoch).error_code == 0
    assert wire.beat(member_id="m99", member_epoch=epoch).error_code == E.UNKNOWN_MEMBER_ID
    wire.consumers.close()
