"""Share groups over the wire, on a daemon whose clock the tests move: sessions, locks, what a member's end and a restart do.

What Kafka's own share consumer makes of it is in tests/compat.
"""

from __future__ import annotations

import asyncio
import gc
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from support.inside import in_loop, services_of
from support.patience import PATIENCE_S, until
from support.share_client import ACCEPT, REJECT, RELEASE, RENEW, ShareClient
from support.wire_client import WireClient
from tidelog.broker.groups.store.group import GroupType
from tidelog.broker.runtime.cooperative import SLICE_UNITS
from tidelog.broker.share import fetch as share_fetch
from tidelog.broker.share.coordinator import ShareCoordinator
from tidelog.broker.share.log_spans import read_spans
from tidelog.broker.share.manager import SharePartitions
from tidelog.broker.share.sessions import MemberKey, TopicIdPartition
from tidelog.cli.groups import describe as describe_groups
from tidelog.cli.groups import picture
from tidelog.cli.support.kafka_client import KafkaClient
from tidelog.protocol.errors import ErrorCode, ProtocolError
from tidelog.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from tidelog.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
)
from tidelog.protocol.messages.alter_share_group_offsets import RequestPartition as AlterPartition
from tidelog.protocol.messages.alter_share_group_offsets import RequestTopic as AlterTopic
from tidelog.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from tidelog.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from tidelog.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
)
from tidelog.protocol.messages.delete_share_group_offsets import RequestTopic as DeleteTopic
from tidelog.protocol.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    DeleteStateData,
)
from tidelog.protocol.messages.delete_share_group_state import PartitionData as DeletePartition
from tidelog.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    RequestGroup,
)
from tidelog.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from tidelog.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tidelog.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tidelog.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeStateData,
)
from tidelog.protocol.messages.initialize_share_group_state import PartitionData as InitializePartition
from tidelog.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tidelog.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tidelog.protocol.messages.read_share_group_state import PartitionData as ReadPartition
from tidelog.protocol.messages.read_share_group_state import PartitionData as SummaryPartition
from tidelog.protocol.messages.read_share_group_state import (
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadStateData,
    StateBatch,
)
from tidelog.protocol.messages.read_share_group_state_summary import (
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryData,
)
from tidelog.protocol.messages.share_acknowledge import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from tidelog.protocol.messages.share_fetch import AcknowledgementBatch, ForgottenTopic, ShareFetchRequest
from tidelog.protocol.messages.share_group_describe import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from tidelog.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse
from tidelog.protocol.messages.write_share_group_state import PartitionData as WritePartition
from tidelog.protocol.messages.write_share_group_state import (
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStateData,
)
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.record_batch import Record
from tidelog.storage.log.unified_log import UnifiedLog
from tidelog.testing import Broker

TOPIC = "orders"
LOCK_MS = 20_000


class World:
    """A broker with one topic of one partition, and members of the group `g`, which begins at the earliest offset."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.clients: list[Any] = []
        broker.create_topic(TOPIC)
        self.admin = self.opened(WireClient(self.address))
        found = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
        assert self.admin.ask(found, 6, FindCoordinatorResponse).coordinators[0].error_code == 0
        self.configure("g", "share.auto.offset.reset", "earliest")
        self.configure("g", "share.record.lock.duration.ms", str(LOCK_MS))

    @property
    def address(self) -> tuple[str, int]:
        host, port = self.broker.bootstrap_servers.rsplit(":", 1)
        return host, int(port)

    def opened(self, client: Any) -> Any:
        self.clients.append(client)
        return client

    def close(self) -> None:
        for client in self.clients:
            client.__exit__(None, None, None)

    def member(self, name: str, group: str = "g") -> ShareClient:
        client: ShareClient = self.opened(ShareClient(self.address, group, name))
        assert client.join(TOPIC).error_code == 0
        if not client.partitions:  # assignments are made once in a second
            self.broker.clock.advance(seconds=1)
            client.heartbeat()
        assert client.partitions
        return client

    def configure(self, group: str, name: str, value: str) -> None:
        change = AlterableConfig(name=name, config_operation=0, value=value)
        resource = AlterConfigsResource(resource_type=32, resource_name=group, configs=[change])
        answer = self.admin.ask(
            IncrementalAlterConfigsRequest(resources=[resource]), 1, IncrementalAlterConfigsResponse
        )
        assert answer.responses[0].error_code == 0, answer.responses[0].error_message

    def produce(
        self,
        *values: str,
        days_ago: int = 0,
        transactional_id: str | None = None,
        topic: str = TOPIC,
        partition: int = 0,
        **batch_fields: Any,
    ) -> None:
        """One batch."""
        now_ms = int(self.broker.clock.now.timestamp() * 1000) - days_ago * 86_400_000
        batch = build_batch([Record(i, now_ms, None, v.encode()) for i, v in enumerate(values)], **batch_fields)
        request = ProduceRequest(
            transactional_id=transactional_id,
            acks=-1,
            timeout_ms=1000,
            topic_data=[
                TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=batch)])
            ],
        )
        answer = self.admin.ask(request, 9, ProduceResponse)
        assert answer.responses[0].partition_responses[0].error_code == 0

    def offsets(self, group: str = "g") -> list[tuple[int, int]]:
        """(start offset, lag) of the topic's partitions."""
        request = DescribeShareGroupOffsetsRequest(groups=[RequestGroup(group_id=group, topics=None)])
        (row,) = self.admin.ask(request, 1, DescribeShareGroupOffsetsResponse).groups
        assert row.error_code == 0
        return [(part.start_offset, part.lag) for topic in row.topics for part in topic.partitions]


@pytest.fixture
def world() -> Iterator[World]:
    with Broker({"offsets.topic.num.partitions": 2, "share.coordinator.state.topic.num.partitions": 2}) as broker:
        world = World(broker)
        yield world
        world.close()


def test_who_is_behind_does_not_wait_for_what_cannot_come_into_the_answer(world: World) -> None:
    """An answer ends with its segment."""
    world.produce("a", "b")
    world.broker.clean(TOPIC)  # rolls
    world.produce("c")
    member = world.member("m")
    member.fetch(max_wait_ms=600_000, min_bytes=1 << 19)  # of a clock that nobody moves
    assert member.values == {0: [b"a", b"b"]}


def test_a_member_reads_and_acknowledges(world: World) -> None:
    world.produce("a", "b", "c")
    world.produce("d")
    ann = world.member("ann")
    assert ann.partitions == (0,), "with the answer to the first heartbeat"
    ann.fetch()
    assert (ann.got, ann.values) == ({0: [(0, 3, 1)]}, {0: [b"a", b"b", b"c", b"d"]})
    assert ann.acknowledge(0, 1, ACCEPT) == 0
    assert ann.acknowledge(2, 3, REJECT, RELEASE) == 0
    assert world.offsets() == [(2, 1)]
    ann.fetch()
    assert (ann.got, ann.values) == ({0: [(3, 3, 2)]}, {0: [b"d"]})
    assert ann.acknowledge(3, 3, ACCEPT) == 0
    assert ann.acknowledge(3, 3, ACCEPT) == 0, "what is done with is passed over"
    ann.fetch()
    assert ann.got == {}


def test_acknowledgements_ride_on_a_fetch(world: World) -> None:
    world.produce("a", "b")
    ann = world.member("ann")
    ann.fetch()
    world.produce("c")
    ann.fetch((0, 1, ACCEPT))
    assert (ann.got, ann.acknowledge_errors) == ({0: [(2, 2, 1)]}, {0: 0})
    ann.fetch((7, 9, ACCEPT))
    assert ann.acknowledge_errors == {0: ErrorCode.INVALID_REQUEST}


def test_nobody_gets_what_another_has_until_its_time_is_over(world: World) -> None:
    world.produce("a")
    ann, bob = world.member("ann"), world.member("bob")
    ann.fetch()
    bob.fetch()
    assert (ann.got, bob.got) == ({0: [(0, 0, 1)]}, {})
    world.broker.clock.advance(milliseconds=LOCK_MS / 2)
    bob.fetch()
    assert bob.got == {}
    world.broker.clock.advance(milliseconds=LOCK_MS / 2)
    bob.fetch()
    assert bob.got == {0: [(0, 0, 2)]}
    assert ann.acknowledge(0, 0, ACCEPT) == ErrorCode.INVALID_RECORD_STATE


def test_a_member_may_ask_for_more_time(world: World) -> None:
    world.produce("a")
    ann, bob = world.member("ann"), world.member("bob")
    ann.fetch()
    world.broker.clock.advance(milliseconds=LOCK_MS / 2)
    assert ann.acknowledge(0, 0, RENEW) == 0
    world.broker.clock.advance(milliseconds=LOCK_MS * 3 / 4)
    bob.fetch()
    assert bob.got == {}
    assert ann.acknowledge(0, 0, ACCEPT) == 0
    world.configure("g", "share.renew.acknowledge.enable", "false")
    world.produce("b")
    ann.fetch()
    assert ann.acknowledge(1, 1, RENEW) == ErrorCode.INVALID_RECORD_STATE
    answer = ann.fetch((1, 1, RENEW), is_renew_ack=True)
    assert answer.error_code == ErrorCode.INVALID_REQUEST, "it would fetch"


@pytest.mark.parametrize("end", ["close", "disconnect", "leave", "expire"])
def test_what_a_member_has_when_it_goes_others_may_have(world: World, end: str) -> None:
    world.produce("a", "b")
    ann, bob = world.member("ann"), world.member("bob")
    ann.fetch()
    assert ann.got == {0: [(0, 1, 1)]}
    bob.fetch()
    if end == "close":
        assert ann.fetch((0, 0, ACCEPT), epoch=-1).error_code == 0
        assert ann.fetch().error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
        assert bob.fetch(max_wait_ms=30_000).error_code == 0
        assert bob.got == {0: [(1, 1, 2)]}
        return
    if end == "disconnect":
        ann.wire.socket.close()
        assert bob.fetch(max_wait_ms=30_000).error_code == 0
    elif end == "leave":
        assert ann.heartbeat(-1).error_code == 0
        bob.fetch()
    else:
        world.configure("g", "share.record.lock.duration.ms", "60000")
        assert ann.acknowledge(0, 1, RENEW) == 0
        for _ in range(5):
            world.broker.clock.advance(seconds=10)
            assert bob.heartbeat().error_code == 0
        bob.fetch()
        assert ann.heartbeat().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert bob.got == {0: [(0, 1, 2)]}


def test_a_fetch_waits_for_records(world: World) -> None:
    ann = world.member("ann")
    ann.fetch()

    produced = threading.Timer(0.1, world.produce, ("late",))
    produced.start()
    ann.fetch(max_wait_ms=60_000)
    produced.join()
    assert ann.values == {0: [b"late"]}


WIDE = 250
"""Partitions of a topic, more than are gone through at once."""


@pytest.fixture
def wide(world: World) -> Callable[[str], ShareClient]:
    """Makes members of `g` that read all partitions of the topic `wide`."""
    world.broker.create_topic("wide", WIDE)

    def member(name: str) -> ShareClient:
        client: ShareClient = world.opened(ShareClient(world.address, "g", name))
        assert client.join("wide").error_code == 0
        client.partitions = tuple(range(WIDE))
        return client

    return member


def turns_of(world: World) -> int:
    services: Any = services_of(world.broker)
    taken: int = services.socket_server.fair_queue.taken
    return taken


def test_others_have_their_turn_while_very_many_partitions_are_fetched_and_acknowledged(
    world: World, wide: Callable[[str], ShareClient]
) -> None:
    ann, bob = wide("ann"), wide("bob")
    for partition in range(WIDE):
        world.produce(f"{partition}", topic="wide", partition=partition)
    turns = turns_of(world)
    ann.fetch(max_records=200)
    assert turns_of(world) - turns >= 5 * (WIDE // SLICE_UNITS)
    assert {partition: lots for partition, lots in ann.got.items() if lots != [(0, 0, 1)]} == {}
    assert len(ann.got) == 200, "no more than it asked for"
    bob.fetch()
    assert sorted([*ann.got, *bob.got]) == list(range(WIDE)), "no record is had by two"
    batch = AcknowledgementBatch(first_offset=0, last_offset=0, acknowledge_types=[ACCEPT])
    parts = [AcknowledgePartition(partition_index=each, acknowledgement_batches=[batch]) for each in range(3_000)]
    request = ShareAcknowledgeRequest(
        group_id="g",
        member_id="ann",
        share_session_epoch=ann.session_epoch,
        topics=[AcknowledgeTopic(topic_id=ann.topic_id, partitions=parts)],
    )
    turns = turns_of(world)
    (topic,) = ann.wire.ask(request, 2, ShareAcknowledgeResponse).responses
    assert turns_of(world) - turns >= 2 * 3_000 // SLICE_UNITS - 2
    codes = {row.partition_index: row.error_code for row in topic.partitions}
    assert sorted(codes) == list(range(3_000))
    assert [each for each in range(WIDE) if codes[each] == 0] == sorted(ann.got), "and what bob has is not for ann"
    assert {codes[each] for each in range(WIDE, 3_000)} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    ann.session_epoch += 1
    ann.fetch()
    assert ann.got == {}, "ann's are done with, and bob has the others"


def test_others_have_their_turn_while_the_sessions_of_a_lost_connection_end(
    world: World, wide: Callable[[str], ShareClient]
) -> None:
    ann, bob = wide("ann"), wide("bob")
    for partition in range(WIDE):
        world.produce(f"{partition}", topic="wide", partition=partition)
    ann.fetch(max_records=WIDE)
    services: Any = services_of(world.broker)
    shares, loop = services.share.get(), services.loop
    seen: list[int] = []

    def look() -> None:
        seen.append(shares.in_flight_records)
        if seen[-1]:
            loop.call_soon(look)

    loop.call_soon_threadsafe(look)
    ann.wire.socket.close()
    until(lambda: bool(seen) and seen[-1] == 0, "what ann had is given back")
    assert len(set(seen)) >= 1 + WIDE // SLICE_UNITS, "in one piece"
    bob.fetch(max_records=WIDE)
    assert len(bob.got) == WIDE


def test_a_fetch_of_very_many_partitions_waits_for_records_or_its_time(
    world: World, wide: Callable[[str], ShareClient]
) -> None:
    ann = wide("ann")
    ann.fetch()
    services: Any = services_of(world.broker)
    waiting = threading.Thread(target=ann.fetch, kwargs={"max_wait_ms": 60_000})
    waiting.start()
    until(lambda: services.purgatory.waiting == 1, "a fetch that waits")
    world.produce("late", topic="wide", partition=WIDE - 1)
    waiting.join()
    assert ann.values == {WIDE - 1: [b"late"]}
    waiting = threading.Thread(target=ann.fetch, kwargs={"max_wait_ms": 10_000, "min_bytes": 1 << 20})
    waiting.start()
    until(lambda: services.purgatory.waiting == 1, "a fetch that waits")
    world.produce("too little", topic="wide", partition=3)
    world.broker.clock.advance(seconds=10)  # before the lock of the other ends
    waiting.join()
    assert ann.values == {3: [b"too little"]}


def test_a_fetch_of_very_many_partitions_ends_with_the_topic_or_the_daemon(
    world: World, wide: Callable[[str], ShareClient]
) -> None:
    ann = wide("ann")
    ann.fetch()
    services: Any = services_of(world.broker)
    answers: list[Any] = []
    waiting = threading.Thread(target=lambda: answers.append(ann.fetch(max_wait_ms=60_000)))
    waiting.start()
    until(lambda: services.purgatory.waiting == 1, "a fetch that waits")
    services.loop.call_soon_threadsafe(services.purgatory.expire_all)  # as a stop does
    waiting.join()
    waiting = threading.Thread(target=lambda: answers.append(ann.fetch(max_wait_ms=60_000)))
    waiting.start()
    until(lambda: services.purgatory.waiting == 1, "a fetch that waits")
    world.broker.delete_topic("wide")
    waiting.join()
    assert [answer.error_code for answer in answers] == [0, 0]
    assert services.purgatory.waiting == 0
    rows = [row for topic in ann.fetch(max_wait_ms=60_000).responses for row in topic.partitions]
    assert [row.error_code for row in rows] == [ErrorCode.UNKNOWN_TOPIC_ID] * WIDE


def test_all_share_sessions_have_no_more_partitions_than_the_limit(
    world: World, wide: Callable[[str], ShareClient]
) -> None:
    ann, bob, cat = wide("ann"), wide("bob"), wide("cat")
    services: Any = services_of(world.broker)
    sessions = services.share.get().sessions
    sessions.max_partitions = WIDE + 10
    bob.partitions = cat.partitions = tuple(range(1_000, 1_010))  # none of them is there
    assert (ann.fetch().error_code, bob.fetch().error_code) == (0, 0)
    assert cat.fetch().error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert bob.fetch((0, 0, ACCEPT), partition=2_000).error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert ann.fetch(max_wait_ms=60_000).error_code == 0, "there is no room for it to wait"
    ann.fetch(epoch=-1)
    assert cat.fetch().error_code == 0
    assert sessions.partition_count == 20
    for client in (bob, cat):
        client.wire.socket.close()
    until(lambda: sessions.partition_count == 0, "lost connections end their sessions")


def test_a_share_fetch_that_waits_keeps_neither_its_names_nor_the_lane_of_long_requests(
    world: World, wide: Callable[[str], ShareClient]
) -> None:
    ann, bob = wide("ann"), wide("bob")
    ann.partitions = bob.partitions = tuple(range(3_000))
    services: Any = services_of(world.broker)
    waiting = threading.Thread(target=ann.fetch, kwargs={"max_wait_ms": 60_000, "min_bytes": 1})
    waiting.start()
    until(lambda: services.purgatory.waiting == 1, "a fetch that waits")
    services.share.get().sessions.max_partitions = 5_000
    refused = threading.Thread(target=bob.fetch, kwargs={"max_wait_ms": 60_000})
    refused.start()
    try:
        until(lambda: services.purgatory.waiting == 2, "one that waits to come again")
        assert services.long_requests.taken == 2
        gc.collect()
        found = gc.get_objects()
        requests = [each for each in found if type(each) is ShareFetchRequest]
        assert sum(bool(each.topics) for each in requests) == 2, "what the clients sent, not what the daemon read"
        assert 3_000 <= sum(type(each) is TopicIdPartition for each in found) < 4_000, "those of one session"
        third = services.long_requests.try_acquire()
        assert third is not None, "another one would be in work"
        services.loop.call_soon_threadsafe(third.release)
    finally:
        services.loop.call_soon_threadsafe(services.purgatory.expire_all)
        waiting.join()
        refused.join()


def test_starts_of_very_many_partitions_are_set_in_turns(world: World) -> None:
    world.broker.create_topic("wide", WIDE)
    turns = turns_of(world)
    parts = [AlterPartition(partition_index=each, start_offset=7) for each in range(WIDE + 1)]
    request = AlterShareGroupOffsetsRequest(group_id="h", topics=[AlterTopic(topic_name="wide", partitions=parts)])
    (topic,) = world.admin.ask(request, 0, AlterShareGroupOffsetsResponse).responses
    codes = {row.partition_index: row.error_code for row in topic.partitions}
    assert codes == {**dict.fromkeys(range(WIDE), 0), WIDE: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert turns_of(world) - turns >= 3 * (WIDE // SLICE_UNITS) - 1
    assert world.offsets("h") == [(7, 0)] * WIDE


def test_a_restart_keeps_what_was_acknowledged_and_no_more(world: World) -> None:
    world.produce("a", "b", "c", "d")
    ann = world.member("ann")
    ann.fetch()
    assert ann.acknowledge(0, 0, ACCEPT) == 0
    assert ann.acknowledge(2, 2, RELEASE) == 0
    ann.wire.socket.close()
    world.broker.restart()
    with ShareClient(world.address, "g", "ann") as again:
        again.topic_id, again.partitions, again.session_epoch = ann.topic_id, (0,), 0
        again.fetch()
        assert again.got == {0: [(1, 3, 2)]}, "its session ended in order: what it had was given back"
        again.member_epoch = ann.member_epoch
        assert again.heartbeat().error_code == 0, "members are known"


def test_sessions_have_epochs_and_a_limit() -> None:
    with Broker({"group.share.max.share.sessions": 1, "group.share.max.size": 1}) as broker:
        world = World(broker)
        ann = world.member("ann")
        assert ann.fetch().error_code == 0
        assert ann.fetch(epoch=7).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
        assert ann.acknowledge(0, 0, ACCEPT, epoch=0) == ErrorCode.INVALID_SHARE_SESSION_EPOCH
        assert ann.acknowledge(0, 0, ACCEPT, epoch=9) == ErrorCode.INVALID_SHARE_SESSION_EPOCH
        with ShareClient(world.address, "g", "bob") as bob:
            assert bob.join(TOPIC).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
            assert bob.acknowledge(0, 0, ACCEPT, epoch=1) == ErrorCode.SHARE_SESSION_NOT_FOUND
            assert bob.fetch().error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
            bob.member = ""
            assert bob.fetch().error_code == ErrorCode.INVALID_REQUEST
            assert bob.acknowledge(0, 0, ACCEPT) == ErrorCode.INVALID_REQUEST
        world.close()


def test_where_a_group_begins(world: World) -> None:
    world.produce("old", days_ago=1)
    late = world.member("late", "l")
    late.fetch()
    world.configure("d", "share.auto.offset.reset", "by_duration:PT1H")
    by_time = world.member("dora", "d")
    by_time.fetch()
    world.produce("new")
    late.fetch()
    by_time.fetch()
    assert (late.values, by_time.values) == ({0: [b"new"]}, {0: [b"new"]}), "the first is a day old"


def test_what_was_released_while_the_disk_was_full_is_given_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The group's last session ended, and the group began at the log's end: nothing was kept that said where it was."""
    ann = world.member("ann", "l")
    ann.fetch()
    world.produce("a", "b")
    ann.fetch()
    assert ann.got == {0: [(0, 1, 1)]}
    with monkeypatch.context() as patch:

        def is_full(*_: Any) -> None:
            raise ProtocolError(ErrorCode.UNKNOWN_SERVER_ERROR, "the disk is full")

        patch.setattr(ShareCoordinator, "write", is_full)
        assert ann.fetch(epoch=-1).error_code == 0
    bob = world.member("bob", "l")
    bob.fetch()
    assert bob.got == {0: [(0, 1, 2)]}
    assert bob.acknowledge(0, 1, RELEASE) == 0
    bob.fetch(epoch=-1)
    assert not services_of(world.broker).share.get().partition_count, "it is kept"


def add_to_transaction(world: World, producer: Any) -> None:
    """Partition 0 is one of the transaction `tx`'s."""
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="tx",
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=TOPIC, partitions=[0])],
    )
    world.admin.ask(request, 3, AddPartitionsToTxnResponse)


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_aborted_records_are_for_nobody_who_reads_what_is_committed(world: World, isolation: str) -> None:
    world.configure("g", "share.isolation.level", isolation)
    found = FindCoordinatorRequest(key_type=1, coordinator_keys=["tx"])
    assert world.admin.ask(found, 6, FindCoordinatorResponse).coordinators[0].error_code == 0
    begun = InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=60_000)
    producer = world.admin.ask(begun, 4, InitProducerIdResponse)
    ann = world.member("ann")
    for sequence, (value, is_committed) in enumerate((("lost", False), ("kept", True))):
        add_to_transaction(world, producer)
        world.produce(
            value,
            transactional_id="tx",
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        ann.fetch()
        read = [] if isolation == "read_committed" else [value.encode()]
        assert ann.values.get(0, []) == read, "while it is open"
        end = EndTxnRequest(
            transactional_id="tx", producer_id=producer.producer_id, producer_epoch=producer.producer_epoch,
            committed=is_committed,
        )  # fmt: skip
        assert world.admin.ask(end, 3, EndTxnResponse).error_code == 0
    ann.fetch(max_wait_ms=30_000)
    if isolation == "read_committed":
        assert ann.values == {0: [b"kept"]}
        assert all(first > 0 for lots in ann.got.values() for first, _, _ in lots), "the aborted one is not acquired"


def test_records_that_the_log_drops_nobody_waits_for(world: World) -> None:
    world.produce("a", "b")
    world.produce("c")
    ann = world.member("ann")
    ann.fetch(max_records=1)
    assert ann.got == {0: [(0, 1, 1)]}
    rows = [DeleteRecordsTopic(name=TOPIC, partitions=[DeleteRecordsPartition(partition_index=0, offset=1)])]
    world.admin.ask(DeleteRecordsRequest(topics=rows, timeout_ms=1000), 2, DeleteRecordsResponse)
    assert ann.acknowledge(0, 1, RELEASE) == 0
    ann.fetch()
    assert ann.got == {0: [(1, 1, 2), (2, 2, 1)]}


def test_a_members_epoch_is_watched(world: World) -> None:
    ann = world.member("ann")
    assert ann.heartbeat(ann.member_epoch + 1).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert ann.heartbeat(-2).error_code == ErrorCode.INVALID_REQUEST
    assert ann.heartbeat(0).error_code == ErrorCode.INVALID_REQUEST, "it must say what it reads"
    with ShareClient(world.address, "nobody", "x") as other:
        assert other.heartbeat(3).error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert other.heartbeat(-1).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def describe(world: World, group: str = "g") -> Any:
    (row,) = world.admin.ask(ShareGroupDescribeRequest(group_ids=[group]), 1, ShareGroupDescribeResponse).groups
    return row


def alter(world: World, start: int, partition: int = 0) -> Any:
    part = AlterPartition(partition_index=partition, start_offset=start)
    request = AlterShareGroupOffsetsRequest(group_id="g", topics=[AlterTopic(topic_name=TOPIC, partitions=[part])])
    return world.admin.ask(request, 0, AlterShareGroupOffsetsResponse)


def delete_offsets(world: World, *topics: str) -> Any:
    request = DeleteShareGroupOffsetsRequest(group_id="g", topics=[DeleteTopic(topic_name=topic) for topic in topics])
    return world.admin.ask(request, 0, DeleteShareGroupOffsetsResponse)


def test_administration(world: World) -> None:
    world.produce("a", "b", "c")
    assert describe(world).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    ann = world.member("ann")
    ann.fetch()
    assert ann.acknowledge(0, 2, ACCEPT) == 0
    row = describe(world)
    (member,) = row.members
    assert (row.group_state, row.assignor_name, member.member_id) == ("Stable", "simple", "ann")
    assert [(t.topic_name, list(t.partitions)) for t in member.assignment.topic_partitions] == [(TOPIC, [0])]
    listed = world.admin.ask(ListGroupsRequest(types_filter=["Share"]), 5, ListGroupsResponse).groups
    assert [(g.group_id, g.group_type, g.group_state) for g in listed] == [("g", "share", "Stable")]
    with KafkaClient("{}:{}".format(*world.address)) as client:
        (shown,) = describe_groups(client, ["g"])
    (part,) = shown["partitions"]
    assert (shown["type"], shown["members"][0]["member"]) == ("share", "ann")
    assert (part["committed"], part["end"], part["lag"], part["member"]) == (0, 3, 0, "ann")
    assert picture(shown)[0].startswith("g  share  Stable  1 member  lag 0")
    assert alter(world, 1).error_code == ErrorCode.NON_EMPTY_GROUP
    assert delete_offsets(world, TOPIC).error_code == ErrorCode.NON_EMPTY_GROUP
    ann.fetch(epoch=-1)
    ann.heartbeat(-1)
    assert world.offsets() == [(0, 0)]
    answer = alter(world, 1)
    assert (answer.error_code, answer.responses[0].partitions[0].error_code) == (0, 0)
    assert alter(world, 1, partition=9).responses[0].partitions[0].error_code == 3
    assert world.offsets() == [(1, 2)]
    ann.session_epoch = ann.member_epoch = 0
    ann.join(TOPIC)
    ann.fetch()
    assert ann.got == {0: [(1, 2, 1)]}
    ann.fetch(epoch=-1)
    ann.heartbeat(-1)
    rows = delete_offsets(world, TOPIC, "nothing").responses
    assert [(one.topic_name, one.error_code) for one in rows] == [(TOPIC, 0), ("nothing", 3)]
    assert world.offsets() == []
    deleted = world.admin.ask(DeleteGroupsRequest(groups_names=["g"]), 2, DeleteGroupsResponse).results
    assert deleted[0].error_code == 0
    assert describe(world).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert delete_offsets(world, TOPIC).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def delete_group(world: World) -> int:
    answer = world.admin.ask(DeleteGroupsRequest(groups_names=["g"]), 2, DeleteGroupsResponse)
    return int(answer.results[0].error_code)


def reads_anew(world: World, member: ShareClient) -> None:
    """The member, which has joined, is given all records for the first time."""
    if not member.partitions:  # assignments are made once in a second
        world.broker.clock.advance(seconds=1)
        member.heartbeat()
    rows = [row for topic in member.fetch().responses for row in topic.partitions]
    assert [(row.error_code, row.error_message) for row in rows] == [(0, None)]
    assert member.got == {0: [(0, 1, 1)]}


def test_a_group_that_is_joined_while_it_is_deleted_is_made_anew(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its kept state was gone, but not what the group said of it: each fetch was UNKNOWN_SERVER_ERROR from then on."""
    world.produce("a", "b")
    ann = world.member("ann")
    ann.fetch()
    ann.fetch(epoch=-1)
    ann.heartbeat(-1)
    services: Any = services_of(world.broker)
    groups, syncs, deleted, joined = services.share.get().groups, [], [], []
    delete = ShareCoordinator.delete_all

    def delete_and_wait(self: ShareCoordinator, *arguments: Any) -> Any:
        yield from delete(self, *arguments)
        syncs.append(services.loop.create_future())
        return syncs

    monkeypatch.setattr(ShareCoordinator, "delete_all", delete_and_wait)
    deleting = threading.Thread(target=lambda: deleted.append(delete_group(world)))
    deleting.start()
    until(lambda: syncs, "a deletion that waits for the disk")
    bob = world.opened(ShareClient(world.address, "g", "bob"))
    joining = threading.Thread(target=lambda: joined.append(bob.join(TOPIC).error_code))
    joining.start()
    until(lambda: joined or groups._preparing, "a member that is there, or that waits")
    services.loop.call_soon_threadsafe(syncs[0].set_result, None)
    deleting.join()
    joining.join()
    assert (deleted, joined) == ([0], [0])
    reads_anew(world, bob)


def test_a_group_whose_deletion_was_broken_off_is_made_anew(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.produce("a", "b")
    ann = world.member("ann")
    ann.fetch()
    ann.fetch(epoch=-1)
    ann.heartbeat(-1)
    delete = ShareCoordinator.delete_all

    def delete_and_fail(self: ShareCoordinator, *arguments: Any) -> Any:
        yield from delete(self, *arguments)
        raise ProtocolError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    with monkeypatch.context() as patches:
        patches.setattr(ShareCoordinator, "delete_all", delete_and_fail)
        assert delete_group(world) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    bob = world.opened(ShareClient(world.address, "g", "bob"))
    assert bob.join(TOPIC).error_code == 0
    reads_anew(world, bob)


def test_who_is_no_member_brings_back_nothing_that_was_deleted(world: World) -> None:
    world.produce("a")
    ann = world.member("ann")
    ann.fetch(epoch=-1)
    ann.heartbeat(-1)
    assert delete_offsets(world, TOPIC).error_code == 0
    cat = world.opened(ShareClient(world.address, "g", "cat"))
    assert cat.heartbeat(5, [TOPIC]).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.offsets() == []


def test_a_topic_that_goes_takes_its_state_along(world: World) -> None:
    world.produce("a")
    ann = world.member("ann")
    ann.fetch()
    world.broker.delete_topic(TOPIC)
    assert ann.fetch().responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert world.offsets() == []
    world.broker.create_topic(TOPIC, partitions=3)
    world.broker.clock.advance(seconds=1)
    (assigned,) = ann.heartbeat().assignment.topic_partitions
    assert (list(assigned.partitions), assigned.topic_id != ann.topic_id) == ([0, 1, 2], True)


def test_share_groups_can_be_turned_off(world: World) -> None:
    off = FeatureUpdateKey(feature="share.version", max_version_level=0, upgrade_type=2)
    answer = world.admin.ask(UpdateFeaturesRequest(feature_updates=[off]), 1, UpdateFeaturesResponse)
    assert answer.error_code == 0, answer.error_message
    unsupported = ErrorCode.UNSUPPORTED_VERSION
    with ShareClient(world.address, "g", "ann") as ann:
        assert ann.join(TOPIC).error_code == unsupported
        assert ann.fetch().error_code == unsupported
        assert ann.acknowledge(0, 0, ACCEPT) == unsupported
    assert describe(world).error_code == unsupported
    assert alter(world, 0).error_code == unsupported
    assert delete_offsets(world, TOPIC).error_code == unsupported
    request = DescribeShareGroupOffsetsRequest(groups=[RequestGroup(group_id="g", topics=None)])
    assert world.admin.ask(request, 1, DescribeShareGroupOffsetsResponse).groups[0].error_code == unsupported


def test_who_looks_after_a_share_partition(world: World) -> None:
    keys = ["g:AQIDBAUGBwgJCgsMDQ4PEA:0", "g:0"]
    request = FindCoordinatorRequest(key_type=2, coordinator_keys=keys)
    rows = world.admin.ask(request, 6, FindCoordinatorResponse).coordinators
    assert [row.error_code for row in rows] == [0, ErrorCode.INVALID_REQUEST]
    assert rows[0].port == world.address[1]


def test_the_persisters_own_requests(world: World) -> None:
    """As brokers of a cluster would send them."""
    with ShareClient(world.address, "g", "ann") as ann:
        ann.join(TOPIC)
        topic_id = ann.topic_id
    ask: Callable[..., Any] = world.admin.ask

    def data(cls: Any, part: Any, **fields: Any) -> list[Any]:
        return [cls(topic_id=topic_id, partitions=[part(partition=0, **fields)])]

    def row(answer: Any) -> Any:
        return answer.results[0].partitions[0]

    initialize = InitializeShareGroupStateRequest(
        group_id="p", topics=data(InitializeStateData, InitializePartition, state_epoch=1, start_offset=3)
    )
    assert row(ask(initialize, 0, InitializeShareGroupStateResponse)).error_code == 0
    batch = StateBatch(first_offset=3, last_offset=4, delivery_state=2, delivery_count=1)
    write = WriteShareGroupStateRequest(
        group_id="p",
        topics=data(
            WriteStateData, WritePartition, state_epoch=1, leader_epoch=0, start_offset=3, delivery_complete_count=2,
            state_batches=[batch],
        ),
    )  # fmt: skip
    assert row(ask(write, 1, WriteShareGroupStateResponse)).error_code == 0
    batch.delivery_state = 9
    assert row(ask(write, 1, WriteShareGroupStateResponse)).error_code == ErrorCode.INVALID_REQUEST
    read = ReadShareGroupStateRequest(group_id="p", topics=data(ReadStateData, ReadPartition, leader_epoch=4))
    state = row(ask(read, 0, ReadShareGroupStateResponse))
    assert (state.error_code, state.state_epoch, state.start_offset) == (0, 1, 3)
    assert [(b.first_offset, b.last_offset, b.delivery_state) for b in state.state_batches] == [(3, 4, 2)]
    summary = ReadShareGroupStateSummaryRequest(
        group_id="p", topics=data(ReadStateSummaryData, SummaryPartition, leader_epoch=4)
    )
    found = row(ask(summary, 1, ReadShareGroupStateSummaryResponse))
    assert (found.leader_epoch, found.start_offset, found.delivery_complete_count) == (4, 3, 2)
    delete = DeleteShareGroupStateRequest(group_id="p", topics=data(DeleteStateData, DeletePartition))
    assert row(ask(delete, 0, DeleteShareGroupStateResponse)).error_code == 0
    assert row(ask(summary, 1, ReadShareGroupStateSummaryResponse)).start_offset == -1
    assert row(ask(read, 0, ReadShareGroupStateResponse)).error_code == ErrorCode.INVALID_REQUEST


def test_records_of_a_member_whose_partitions_are_given_back_in_turns_outlive_the_groups_last_other_session(
    world: World,
) -> None:
    """A connection with many partitions ends, and in the midst of that the other member's session: what was not given back
    yet was forgotten, and the group began at the log's end."""
    world.broker.create_topic("wide", WIDE)

    def member(name: str, partitions: tuple[int, ...]) -> ShareClient:
        client: ShareClient = world.opened(ShareClient(world.address, "l", name))
        assert client.join("wide").error_code == 0
        client.partitions = partitions
        return client

    ann, bob = member("ann", tuple(range(WIDE))), member("bob", (0,))
    ann.fetch()
    for partition in range(WIDE):
        world.produce(f"{partition}", topic="wide", partition=partition)
    ann.fetch(max_records=WIDE)
    assert len(ann.got) == WIDE
    bob.fetch()
    services: Any = services_of(world.broker)
    shares, loop = services.share.get(), services.loop
    left: list[int] = []

    def look() -> None:
        if shares.sessions.get(MemberKey("l", "ann")) is not None:
            loop.call_soon(look)
            return
        left.append(shares.in_flight_records)
        shares.end_session(MemberKey("l", "bob"))

    loop.call_soon_threadsafe(look)
    ann.wire.socket.close()
    until(lambda: bool(left), "bob's session ends in the midst of it")
    cat = member("cat", tuple(range(WIDE)))
    found: set[int] = set()
    for _ in range(2):
        cat.fetch(max_records=WIDE)
        found |= cat.got.keys()
    assert len(found) == WIDE, f"{left} were in flight"


def test_records_of_a_partition_that_a_member_asks_for_no_more_outlive_the_groups_last_session(world: World) -> None:
    ann = world.member("ann", "l")
    ann.fetch()
    world.produce("a", "b")
    ann.fetch()
    assert ann.got == {0: [(0, 1, 1)]}
    ann.fetch(forgotten_topics_data=[ForgottenTopic(topic_id=ann.topic_id, partitions=[0])])
    assert ann.fetch(epoch=-1).error_code == 0
    bob = world.member("bob", "l")
    bob.fetch()
    assert [lot[:2] for lot in bob.got.get(0, [])] == [(0, 1)]


def test_a_partition_whose_state_is_anothers_watches_its_locks_no_more(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time its locks ended, it was told so, was let go of, and set the timer again for the same locks: without end."""
    calls: list[object] = []
    expire_locks = SharePartitions.expire_locks

    def counted(self: SharePartitions, held: Any) -> None:
        calls.append(held)
        expire_locks(self, held)

    monkeypatch.setattr(SharePartitions, "expire_locks", counted)
    world.produce("a", "b", "c")
    ann = world.member("ann")
    ann.fetch()
    assert ann.got == {0: [(0, 2, 1)]}
    anew = InitializePartition(partition=0, state_epoch=100, start_offset=1)
    request = InitializeShareGroupStateRequest(
        group_id="g", topics=[InitializeStateData(topic_id=ann.topic_id, partitions=[anew])]
    )
    answer = world.admin.ask(request, 0, InitializeShareGroupStateResponse)
    assert answer.results[0].partitions[0].error_code == 0
    threading.Thread(target=lambda: world.broker.clock.advance(milliseconds=LOCK_MS + 1), daemon=True).start()
    until(lambda: bool(calls), "the locks end")
    found = []
    for _ in range(2):
        ann.fetch()
        found += ann.got.get(0, [])
    assert found == [(1, 2, 1)]
    assert len(calls) == 1


def test_offsets_that_are_set_while_a_partition_is_loaded_count(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first offset was looked up by time meanwhile, and the state of before went with it."""
    world.configure("g", "share.auto.offset.reset", "by_duration:PT1H")
    world.produce("a", "b")
    world.produce("c")
    begun, goes_on = threading.Event(), threading.Event()
    look_up = UnifiedLog.lookup_by_timestamp

    def slow(self: UnifiedLog, *arguments: Any, **more: Any) -> Any:
        begun.set()
        assert goes_on.wait(PATIENCE_S)
        return look_up(self, *arguments, **more)

    monkeypatch.setattr(UnifiedLog, "lookup_by_timestamp", slow)
    ann = world.member("ann")

    def ask() -> None:
        with suppress(OSError, EOFError, AssertionError):
            ann.fetch()

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    assert begun.wait(PATIENCE_S)
    other = world.opened(ShareClient(world.address, "g", "ann"))
    other.topic_id = ann.topic_id
    assert other.heartbeat(-1).error_code == 0
    ann.wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
    ann.wire.socket.close()
    shares = services_of(world.broker).share.get()
    until(lambda: shares.sessions.get(MemberKey("g", "ann")) is None, "ann's session ends")
    assert alter(world, 2).responses[0].partitions[0].error_code == 0
    goes_on.set()
    thread.join(PATIENCE_S)
    bob = world.member("bob")
    bob.fetch()
    assert [lot[:2] for lot in bob.got[0]] == [(2, 2)]


def test_a_disk_that_fails_a_first_look_up_by_time_fails_its_own_partition_alone(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.configure("g", "share.auto.offset.reset", "by_duration:PT1H")
    world.broker.create_topic("two", 2)
    for partition in range(2):
        world.produce("a", topic="two", partition=partition)
    look_up = UnifiedLog.lookup_by_timestamp

    def fails(self: UnifiedLog, *arguments: Any, **more: Any) -> Any:
        if self.partition == 0:
            raise OSError(5, "Input/output error")
        return look_up(self, *arguments, **more)

    monkeypatch.setattr(UnifiedLog, "lookup_by_timestamp", fails)
    ann = world.opened(ShareClient(world.address, "g", "ann"))
    assert ann.join("two").error_code == 0
    ann.partitions = (0, 1)
    answer = ann.fetch()
    assert answer.error_code == 0
    rows = {row.partition_index: row.error_code for row in answer.responses[0].partitions}
    assert rows == {0: ErrorCode.KAFKA_STORAGE_ERROR, 1: ErrorCode.NONE}
    assert ann.values[1] == [b"a"]


def test_a_fetch_that_the_disk_failed_once_has_what_came_while_it_waited(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was told of the failure alone; the records that it had acquired by then were nobody's until their lock ended."""
    ann = world.member("ann")
    ann.fetch()
    read, has_failed = UnifiedLog.read, threading.Event()

    def fails_once(self: UnifiedLog, *arguments: Any, **more: Any) -> Any:
        if self.topic == TOPIC and not has_failed.is_set():
            has_failed.set()
            raise OSError(24, "Too many open files")
        return read(self, *arguments, **more)

    def produce() -> None:
        assert has_failed.wait(PATIENCE_S)
        world.produce("late")

    monkeypatch.setattr(UnifiedLog, "read", fails_once)
    produced = threading.Thread(target=produce)
    produced.start()
    answer = ann.fetch(max_wait_ms=60_000)
    produced.join()
    assert [row.error_code for topic in answer.responses for row in topic.partitions] == [ErrorCode.NONE]
    assert ann.values == {0: [b"late"]}


def test_a_fetch_looks_at_no_more_log_batches_than_it_gives_records_of(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looked at those of all partitions: a hundred with 2,000 batches of one record each held others up for 0.4 s."""
    world.broker.create_topic("ten", 10)
    for partition in range(10):
        for value in "ab":
            world.produce(f"{value}{partition}", topic="ten", partition=partition)
    looked_at: list[int] = []

    def noted(info: Any, *arguments: Any) -> Any:
        spans = read_spans(info, *arguments)
        looked_at.append(len(spans.spans))
        return spans

    monkeypatch.setattr(share_fetch, "read_spans", noted)
    ann = world.opened(ShareClient(world.address, "g", "ann"))
    assert ann.join("ten").error_code == 0
    ann.partitions = tuple(range(10))
    ann.fetch(max_records=2)
    assert (looked_at, len(ann.got)) == ([2], 1)
    monkeypatch.setattr(share_fetch, "MOST_SPANS", 3)
    given = list(ann.got)
    while len(given) < 10:  # the others' come with later fetches
        looked_at.clear()
        ann.fetch()
        assert sum(looked_at) == 2 * len(ann.got) <= 4
        given += ann.got
    assert sorted(given) == list(range(10))


def test_a_partition_whose_kept_state_a_power_cut_took_is_begun_anew(world: World) -> None:
    """The group's own record said that there is state, so that nobody made it again: each fetch was UNKNOWN_SERVER_ERROR."""
    world.produce("a", "b")
    ann = world.member("ann")
    ann.fetch()
    assert ann.acknowledge(0, 0, ACCEPT) == 0
    ann.fetch(epoch=-1)
    services: Any = services_of(world.broker)

    async def take() -> None:
        for shard in services.share.get().coordinator._runtime:
            shard.entries.clear()

    in_loop(world.broker, take)
    ann.session_epoch = 0
    ann.fetch()
    assert (ann.got, ann.values) == ({0: [(0, 1, 1)]}, {0: [b"a", b"b"]})
    assert ann.acknowledge(0, 1, ACCEPT) == 0
    assert world.offsets() == [(0, 0)]


def test_very_many_groups_forget_a_deleted_topic_in_rounds(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(30):
        parts = [AlterPartition(partition_index=0, start_offset=0)]
        request = AlterShareGroupOffsetsRequest(
            group_id=f"g{number}", topics=[AlterTopic(topic_name=TOPIC, partitions=parts)]
        )
        world.admin.ask(request, 0, AlterShareGroupOffsetsResponse)
    services: Any = services_of(world.broker)
    groups = services.share.get().groups
    left = []

    def keeping() -> int:
        ids = services.groups.ids_of_type(GroupType.SHARE)
        return sum(bool(groups.describe(group_id).initialized) for group_id in ids)

    async def forget() -> None:
        monkeypatch.setattr(services.topics, "by_id", lambda _: None)
        groups.forget_deleted_topics()
        while left[-1:] != [0]:
            left.append(keeping())
            await asyncio.sleep(0)
        monkeypatch.undo()

    in_loop(world.broker, forget)
    assert 15 < left[0] < 30
    assert len(set(left)) > 3


def test_a_long_stretch_of_aborted_records_is_passed_over_at_once(world: World) -> None:
    """A fetch that had passed over as many as may be in flight waited for news, though there were more behind them."""
    world.configure("g", "share.isolation.level", "read_committed")
    world.configure("g", "share.partition.max.record.locks", "100")
    world.admin.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=["tx"]), 6, FindCoordinatorResponse)
    begin = InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=60_000)
    producer = world.admin.ask(begin, 4, InitProducerIdResponse)
    mine = {"producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}
    sequence = 0
    for values in (*[["lost"] * 100] * 10, ["kept"]):
        if not sequence or values == ["kept"]:
            add_to_transaction(world, producer)
        world.produce(*values, transactional_id="tx", base_sequence=sequence, is_transactional=True, **mine)
        sequence += len(values)
        if sequence >= 1000:
            end = EndTxnRequest(transactional_id="tx", committed=values == ["kept"], **mine)
            assert world.admin.ask(end, 3, EndTxnResponse).error_code == 0
    ann = world.member("ann")
    for _ in range(20):
        ann.fetch(max_wait_ms=30_000)  # by a clock that nobody moves: it is answered at once, or never
        if ann.values.get(0) == [b"kept"]:
            return
    raise AssertionError(ann.values)
