"""Requests with as many names as they may have, over a socket: others are served in between, on every API there is."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.inside import services_of
from support.many_names import crowded, held, is_in_turns
from support.patience import PATIENCE_S, until
from support.wire_client import WireClient, request_frame
from tidelog.broker.groups.offset_commits import CommitRequest, OffsetToCommit
from tidelog.broker.requests.registry import load_apis, loaded
from tidelog.broker.runtime.cooperative import CHUNK_UNITS, SLICE_UNITS
from tidelog.protocol.api_keys import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.headers import response_header_bytes
from tidelog.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from tidelog.protocol.messages.fetch import FetchPartition as FetchRequestPartition
from tidelog.protocol.messages.fetch import FetchRequest, FetchResponse, FetchTopic
from tidelog.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from tidelog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tidelog.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tidelog.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tidelog.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from tidelog.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tidelog.protocol.primitives import unsigned_varint
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.record_batch import Record
from tidelog.protocol.schema import decode, encode
from tidelog.testing import Broker

ASKED_BY_EVERYBODY = (
    ApiKey.METADATA, ApiKey.LIST_OFFSETS, ApiKey.OFFSET_FETCH, ApiKey.OFFSET_COMMIT, ApiKey.FIND_COORDINATOR,
    ApiKey.DESCRIBE_GROUPS, ApiKey.CONSUMER_GROUP_DESCRIBE, ApiKey.SHARE_GROUP_DESCRIBE, ApiKey.STREAMS_GROUP_DESCRIBE,
    ApiKey.DESCRIBE_CONFIGS, ApiKey.OFFSET_FOR_LEADER_EPOCH, ApiKey.DESCRIBE_TOPIC_PARTITIONS,
)  # fmt: skip


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    yield from running_broker()


@pytest.fixture(scope="module")
def wide_broker() -> Iterator[Broker]:
    """For the widest requests and topics: what they leave to be done delays nobody's answer but their own."""
    yield from running_broker()


def running_broker() -> Iterator[Broker]:
    with Broker(settings={"auto.create.topics.enable": False}) as running:
        running.create_topic("x", 3)
        yield running


def client_of(broker: Broker) -> WireClient:
    host, _, port = broker.bootstrap_servers.rpartition(":")
    return WireClient((host, int(port)))


def loop_of(broker: Broker) -> asyncio.AbstractEventLoop:
    services: Any = services_of(broker)
    return services.loop


def answer_to(client: WireClient, frame: bytes) -> bytes:
    client.send(frame)
    return client.receive()


@pytest.mark.parametrize("key", ASKED_BY_EVERYBODY, ids=lambda key: key.name)
def test_the_loop_is_not_held(wide_broker: Broker, key: ApiKey) -> None:
    api = loaded(load_apis()[key])
    assert api.many_names
    _, request = next(crowded(api.request, api.max_version, min(25_000, api.request.MOST_ELEMENTS)))
    frame = request_frame(request, api.max_version)
    with client_of(wide_broker) as client:
        found = held(loop_of(wide_broker), lambda: answer_to(client, frame))
    assert is_in_turns(found), found


PARTS = 3_000
IN_TURNS = (
    (ApiKey.LIST_OFFSETS, "topics"), (ApiKey.LIST_OFFSETS, "topics.partitions"),
    (ApiKey.OFFSET_FETCH, "groups"), (ApiKey.OFFSET_FETCH, "groups.topics"),
    (ApiKey.OFFSET_FETCH, "groups.topics.partition_indexes"),
    (ApiKey.DELETE_RECORDS, "topics"), (ApiKey.DELETE_RECORDS, "topics.partitions"),
    (ApiKey.OFFSET_DELETE, "topics"), (ApiKey.OFFSET_DELETE, "topics.partitions"),
    (ApiKey.DESCRIBE_PRODUCERS, "topics"), (ApiKey.DESCRIBE_PRODUCERS, "topics.partition_indexes"),
    (ApiKey.ELECT_LEADERS, "topic_partitions"), (ApiKey.ELECT_LEADERS, "topic_partitions.partitions"),
    (ApiKey.ALTER_PARTITION_REASSIGNMENTS, "topics"), (ApiKey.ALTER_PARTITION_REASSIGNMENTS, "topics.partitions"),
    (ApiKey.ALTER_REPLICA_LOG_DIRS, "dirs.topics"), (ApiKey.ALTER_REPLICA_LOG_DIRS, "dirs.topics.partitions"),
    (ApiKey.DESCRIBE_TRANSACTIONS, "transactional_ids"), (ApiKey.ADD_PARTITIONS_TO_TXN, "transactions"),
    (ApiKey.WRITE_TXN_MARKERS, "markers"), (ApiKey.WRITE_TXN_MARKERS, "markers.topics.partition_indexes"),
    (ApiKey.ALTER_CLIENT_QUOTAS, "entries"), (ApiKey.ALTER_CONFIGS, "resources"), (ApiKey.INCREMENTAL_ALTER_CONFIGS, "resources"),
    (ApiKey.DESCRIBE_QUORUM, "topics"), (ApiKey.DESCRIBE_QUORUM, "topics.partitions"),
    (ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, "users"), (ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, "groups"),
    (ApiKey.INITIALIZE_SHARE_GROUP_STATE, "topics"), (ApiKey.INITIALIZE_SHARE_GROUP_STATE, "topics.partitions"),
    (ApiKey.READ_SHARE_GROUP_STATE, "topics.partitions"), (ApiKey.WRITE_SHARE_GROUP_STATE, "topics.partitions"),
    (ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, "topics"), (ApiKey.DELETE_SHARE_GROUP_STATE, "topics"),
    (ApiKey.LEAVE_GROUP, "members"), (ApiKey.SYNC_GROUP, "assignments"),
    (ApiKey.ALTER_SHARE_GROUP_OFFSETS, "topics"), (ApiKey.ALTER_SHARE_GROUP_OFFSETS, "topics.partitions"),
    (ApiKey.SHARE_FETCH, "topics"), (ApiKey.SHARE_FETCH, "topics.partitions"),
)  # fmt: skip


@pytest.mark.parametrize(("key", "array"), IN_TURNS, ids=lambda value: getattr(value, "name", value))
def test_others_are_let_in_after_every_hundredth_part(wide_broker: Broker, key: ApiKey, array: str) -> None:
    """By the number of turns, not by time."""
    api = loaded(load_apis()[key])
    frame = request_frame(dict(crowded(api.request, api.max_version, PARTS))[array], api.max_version)
    services: Any = services_of(wide_broker)
    with client_of(wide_broker) as client:
        before = services.socket_server.fair_queue.taken
        assert answer_to(client, frame)
        parts = min(PARTS, api.request.MOST_ELEMENTS)
        assert services.socket_server.fair_queue.taken - before >= parts // SLICE_UNITS - 2


def test_the_loop_is_not_held_where_descriptions_of_topologies_are_asked_for(wide_broker: Broker) -> None:
    names = [f"g{number}" for number in range(StreamsGroupDescribeRequest.MOST_ELEMENTS)]
    request = StreamsGroupDescribeRequest(group_ids=names, include_topology_description=True)
    with client_of(wide_broker) as client:
        found = held(loop_of(wide_broker), lambda: answer_to(client, request_frame(request, 1)))
    assert is_in_turns(found), found


def test_deleting_very_many_groups_does_not_hold_the_loop(wide_broker: Broker) -> None:
    """Groups that are there: a record is written for each, some fifty microseconds."""
    services: Any = services_of(wide_broker)
    names = [f"deleted{number}" for number in range(DeleteGroupsRequest.MOST_ELEMENTS)]
    frame = request_frame(DeleteGroupsRequest(groups_names=names), 3)

    def make() -> None:
        for name in names:
            offset = OffsetToCommit("x", 0, 1, -1, "", None)
            services.groups.commit_offsets(CommitRequest(name, [offset]))

    answers: list[bytes] = []
    with client_of(wide_broker) as client:
        asyncio.run_coroutine_threadsafe(services.groups.ensure_topic(), services.loop).result()
        for _ in range(3):
            asyncio.run_coroutine_threadsafe(_called(make), services.loop).result()
            found = held(services.loop, lambda: answers.append(answer_to(client, frame)), lambda _found: True)
            if is_in_turns(found):
                break
    answer, _ = decode(DeleteGroupsResponse, 3, answers[-1], len(response_header_bytes(ApiKey.DELETE_GROUPS, 3, 7)))
    assert [(result.group_id, result.error_code) for result in answer.results] == [(name, 0) for name in names]
    assert is_in_turns(found), found


async def _called(function: Callable[[], None]) -> None:
    function()


WAITS_FOR_THE_DISK = (
    ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT, ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.LEAVE_GROUP,
    ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.SHARE_GROUP_HEARTBEAT, ApiKey.STREAMS_GROUP_HEARTBEAT,
    ApiKey.INITIALIZE_SHARE_GROUP_STATE, ApiKey.WRITE_SHARE_GROUP_STATE, ApiKey.DELETE_SHARE_GROUP_STATE,
    ApiKey.UPDATE_FEATURES, ApiKey.SHARE_ACKNOWLEDGE, ApiKey.ALTER_SHARE_GROUP_OFFSETS,
)  # fmt: skip


def test_who_looks_does_not_wait_for_commits_that_wait_for_the_disk(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    services: Any = services_of(broker)
    written: list[asyncio.Future[list[ErrorCode]]] = []

    def commit(_groups: Any, _request: Any) -> asyncio.Future[list[ErrorCode]]:
        written.append(services.loop.create_future())
        return written[-1]

    monkeypatch.setattr(type(services.groups), "commit_offsets", commit)
    parts = [OffsetCommitRequestPartition(partition_index=number, committed_offset=1) for number in range(3_000)]
    commits = OffsetCommitRequest(group_id="g", topics=[OffsetCommitRequestTopic(name="x", partitions=parts)])
    names = [MetadataRequestTopic(name=f"{'n' * 20}{number}") for number in range(500)]
    looks = MetadataRequest(topics=names, allow_auto_topic_creation=False)
    with client_of(broker) as writer, client_of(broker) as reader:
        writer.send(request_frame(commits, 9))
        until(lambda: bool(written), "the commit is written")
        assert len(answer_to(reader, request_frame(looks, 12))) > 500 * 20
        services.loop.call_soon_threadsafe(written[0].set_result, [ErrorCode.NONE] * 3)
        answer, _ = decode(OffsetCommitResponse, 9, writer.receive(), len(response_header_bytes(commits.API_KEY, 9, 7)))
    codes = [part.error_code for part in answer.topics[0].partitions]
    assert codes == [0] * 3 + [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2_997


@pytest.mark.parametrize("key", WAITS_FOR_THE_DISK, ids=lambda key: key.name)
def test_what_waits_for_the_disk_counts_as_a_change(key: ApiKey) -> None:
    registration = loaded(load_apis()[key])
    assert (registration.many_names, registration.is_change) == (True, True)


@pytest.mark.parametrize(("topics", "version"), [(1, 3), (30_000, 13)])
def test_produce_and_fetch_of_very_many_partitions_do_not_hold_the_loop(
    wide_broker: Broker, topics: int, version: int
) -> None:
    """Whatever the answer, one comes for each partition; a fetch waits as any other does, and is answered at its time."""
    each = 60_000 if topics == 1 else 1
    names = [("x" if topics == 1 else f"x{number}", number.to_bytes(16, "big")) for number in range(topics)]
    fetches = [
        FetchTopic(
            topic=name,
            topic_id=topic_id,
            partitions=[FetchRequestPartition(partition=index, fetch_offset=0) for index in range(each)],
        )
        for name, topic_id in names
    ]
    produces = [
        TopicProduceData(
            name=name, topic_id=topic_id, partition_data=[PartitionProduceData(index=index) for index in range(each)]
        )
        for name, topic_id in names
    ]
    fetch = FetchRequest(max_wait_ms=1, min_bytes=1, max_bytes=1000, session_epoch=-1, topics=fetches)
    produce = ProduceRequest(acks=1, timeout_ms=1, topic_data=produces)
    for request, kind in ((fetch, FetchResponse), (produce, ProduceResponse)):
        frame = request_frame(request, version)
        services: Any = services_of(wide_broker)
        turns = services.socket_server.fair_queue.taken
        bodies: list[bytes] = []
        with client_of(wide_broker) as client:

            def ask(client: WireClient = client, frame: bytes = frame, bodies: list[bytes] = bodies) -> None:
                bodies.append(answer_to(client, frame))

            found = held(services.loop, ask)
        header = len(response_header_bytes(request.API_KEY, version, 7))
        answer: Any = decode(kind, version, bodies[0], header)[0]
        rows = [topic.partitions if kind is FetchResponse else topic.partition_responses for topic in answer.responses]
        assert [len(of) for of in rows] == [each] * topics
        assert services.socket_server.fair_queue.taken - turns >= len(bodies) * (topics * each // CHUNK_UNITS)
        assert is_in_turns(found), (kind, found)


def test_what_many_partitions_hold_is_written_and_read(wide_broker: Broker) -> None:
    """The first and the last of a thousand: both in the log, and each answered in its place."""
    wide_broker.create_topic("wide", 900)
    batch = bytes(build_batch([Record(0, 1, None, b"v")]))
    parts = [PartitionProduceData(index=index, records=batch) for index in range(900)]
    produce = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name="wide", partition_data=parts)])
    wanted = [FetchRequestPartition(partition=index, fetch_offset=0, partition_max_bytes=1) for index in range(900)]
    fetch = FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=1 << 20,
        session_epoch=0,
        topics=[FetchTopic(topic="wide", partitions=wanted)],
    )
    with client_of(wide_broker) as client:
        answer = client.ask(produce, 9, ProduceResponse)
        (topic,) = answer.responses
        assert [(row.index, row.error_code, row.base_offset) for row in topic.partition_responses] == [
            (index, 0, 0) for index in range(900)
        ]
        fetched = client.ask(fetch, 12, FetchResponse)
        rows = [row for of in fetched.responses for row in of.partitions]
        assert sorted(row.partition_index for row in rows) == list(range(900))
        assert fetched.session_id
        assert [row.partition_index for row in rows if row.records] == [0]
        # In its session a request names nothing, and all of them are looked at.
        again = FetchRequest(
            max_wait_ms=500, min_bytes=1, max_bytes=1 << 20, session_id=fetched.session_id, session_epoch=1, topics=[]
        )
        rows = [row for of in client.ask(again, 12, FetchResponse).responses for row in of.partitions]
        assert [row.partition_index for row in rows if row.records]


def test_a_fetch_of_many_partitions_is_woken_by_what_comes_or_by_a_stop(broker: Broker) -> None:
    broker.create_topic("quiet", 500)
    wanted = [FetchRequestPartition(partition=index, fetch_offset=0) for index in range(500)]
    fetch = FetchRequest(
        max_wait_ms=60_000, min_bytes=1, max_bytes=1 << 20, session_epoch=-1,
        topics=[FetchTopic(topic="quiet", partitions=wanted)],
    )  # fmt: skip
    services: Any = services_of(broker)
    part = PartitionProduceData(index=400, records=bytes(build_batch([Record(0, 1, None, b"v")])))
    with client_of(broker) as waiting, client_of(broker) as writing:
        waiting.send(request_frame(fetch, 12))
        until(lambda: services.purgatory.waiting, "the fetch")
        held = services.fetch_sessions.partition_count
        writing.ask(
            ProduceRequest(acks=1, timeout_ms=1, topic_data=[TopicProduceData(name="quiet", partition_data=[part])]),
            9, ProduceResponse,
        )  # fmt: skip
        answer = decode(FetchResponse, 12, waiting.receive(), len(response_header_bytes(ApiKey.FETCH, 12, 7)))[0]
        assert [row.partition_index for of in answer.responses for row in of.partitions if row.records] == [400]
        assert services.fetch_sessions.partition_count == held - 500
        assert services.purgatory.waiting == 0
        fetch.min_bytes = 1 << 19
        waiting.send(request_frame(fetch, 12))
        until(lambda: services.purgatory.waiting, "the fetch")
        services.loop.call_soon_threadsafe(services.purgatory.expire_all)  # as a stop does, which nobody waits out
        answer = decode(FetchResponse, 12, waiting.receive(), len(response_header_bytes(ApiKey.FETCH, 12, 7)))[0]
        assert [row.partition_index for of in answer.responses for row in of.partitions if row.records] == [400]


@pytest.mark.parametrize("key", [ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.HEARTBEAT], ids=lambda key: key.name)
def test_tagged_fields_without_end_are_refused_before_they_are_read(broker: Broker, key: ApiKey) -> None:
    """Kafka 4.4 has the same bound on them: the connection is closed."""
    version = load_apis()[key].max_version
    header = struct.pack(">hhihB", key, version, 7, -1, 0)
    for tags in (10_001, 8_000_000):
        body = _bare_body(key, version) + unsigned_varint(tags) + bytes(2 * tags)
        frame = struct.pack(">i", len(header + body)) + header + body

        def refused(frame: bytes = frame) -> None:
            with client_of(broker) as client, pytest.raises((EOFError, OSError)):
                answer_to(client, frame)

        most_s = glance_s(frame)
        found = held(loop_of(broker), refused, lambda found, most_s=most_s: found.parts[0] < most_s)
        assert found.parts[0] < most_s, (found, most_s)
    with client_of(broker) as client:
        body = _bare_body(key, version) + unsigned_varint(9_999) + bytes(2 * 9_999)
        client.send(struct.pack(">i", len(header + body)) + header + body)
        assert client.receive()


def glance_s(data: bytes) -> float:
    """A third of the CPU seconds that a sum of all its bytes takes, or a millisecond: so that the machine's speed is in it.

    Of 16 MB with as many tags as fit: 30 ms; they are refused after 5 ms, and were read in 170 ms and more.
    """
    began = time.thread_time()
    sum(data)
    return max(0.001, (time.thread_time() - began) / 3)


def _bare_body(key: ApiKey, version: int) -> bytes:
    """The smallest request, without its tagged fields."""
    request = loaded(load_apis()[key]).request()
    if isinstance(request, FetchRequest):
        request.session_epoch = -1
    if isinstance(request, ProduceRequest):
        request.acks = 1
    body = encode(request, version)
    assert body.endswith(b"\0")
    return body[:-1]


def test_a_member_joins_with_no_more_protocols_than_are_handled_in_one_piece(broker: Broker) -> None:
    for count, is_well in ((100, True), (101, False)):
        protocols = [JoinGroupRequestProtocol(name=str(number), metadata=b"") for number in range(count)]
        request = JoinGroupRequest(group_id="many", session_timeout_ms=30_000, protocol_type="p", protocols=protocols)
        with client_of(broker) as client:
            client.send(request_frame(request, 5))
            if is_well:
                assert client.receive()
            else:
                with pytest.raises(EOFError):
                    client.receive()


def test_a_member_that_waits_for_its_leader_does_not_hold_the_lane_of_long_requests() -> None:
    """Whoever sends very many assignments and is not the leader waits for the leader's: minutes, maybe."""

    def join(member: WireClient, member_id: str) -> None:
        protocols = [JoinGroupRequestProtocol(name="range", metadata=b"")]
        times = {"session_timeout_ms": 30_000, "rebalance_timeout_ms": 60_000}
        request = JoinGroupRequest(
            group_id="g", member_id=member_id, protocol_type="consumer", protocols=protocols, **times
        )
        member.send(request_frame(request, 3))

    def joined(member: WireClient) -> JoinGroupResponse:
        header = len(response_header_bytes(ApiKey.JOIN_GROUP, 3, 7))
        answer, _ = decode(JoinGroupResponse, 3, member.receive(), header)
        assert answer.error_code == 0
        return answer

    def sync(member: WireClient, as_joined: JoinGroupResponse, given: dict[str, bytes]) -> None:
        assignments = [SyncGroupRequestAssignment(member_id=each, assignment=what) for each, what in given.items()]
        request = SyncGroupRequest(
            group_id="g", generation_id=as_joined.generation_id, member_id=as_joined.member_id, assignments=assignments
        )
        member.send(request_frame(request, 3))

    def assigned(member: WireClient) -> bytes:
        header = len(response_header_bytes(ApiKey.SYNC_GROUP, 3, 7))
        answer, _ = decode(SyncGroupResponse, 3, member.receive(), header)
        assert answer.error_code == 0
        return bytes(answer.assignment)

    names = [MetadataRequestTopic(name=f"{'n' * 20}{number}") for number in range(1_000)]
    looks = request_frame(MetadataRequest(topics=names, allow_auto_topic_creation=False), 12)
    settings = {"auto.create.topics.enable": False, "group.initial.rebalance.delay.ms": 0}
    with Broker(settings=settings) as broker, client_of(broker) as leader, client_of(broker) as other:
        services: Any = services_of(broker)
        leader.ask(FindCoordinatorRequest(key="g"), 3, FindCoordinatorResponse)  # makes the topic
        join(leader, "")
        first = joined(leader)
        join(other, "")
        beat = HeartbeatRequest(group_id="g", generation_id=first.generation_id, member_id=first.member_id)
        begun = ErrorCode.REBALANCE_IN_PROGRESS
        until(lambda: leader.ask(beat, 3, HeartbeatResponse).error_code == begun, "the other's join")
        join(leader, first.member_id)
        own, others = joined(leader), joined(other)
        assert own.leader == own.member_id
        very_many = {others.member_id: b"", **{f"m{number}": b"" for number in range(3_000)}}
        taken = services.long_requests.taken
        sync(other, others, very_many)
        until(lambda: services.long_requests.taken > taken, "its turn")
        with client_of(broker) as looking:
            assert len(answer_to(looking, looks)) > 1_000 * 20
        other.socket.setblocking(False)
        with pytest.raises(BlockingIOError):
            other.socket.recv(1, socket.MSG_PEEK)
        other.socket.settimeout(PATIENCE_S)
        sync(leader, own, {others.member_id: b"the other's", own.member_id: b"the leader's"})
        assert (assigned(leader), assigned(other)) == (b"the leader's", b"the other's")


def test_every_api_that_takes_names_says_what_bounds_them() -> None:
    """Either it takes turns, or it may have few: whoever adds one decides."""
    forgotten = []
    for key, registration in load_apis().items():
        api = loaded(registration)
        if api.raw or api.many_names or api.request.MOST_ELEMENTS <= 50_000:
            continue
        if any(True for _ in crowded(api.request, api.max_version, 1)):
            forgotten.append(ApiKey(key).name)
    assert forgotten == []


def test_another_client_is_served_in_between(broker: Broker) -> None:
    """By the order of answers, not by time."""
    names = [MetadataRequestTopic(name=f"n{number}") for number in range(99_000)]
    large = request_frame(MetadataRequest(topics=names, allow_auto_topic_creation=False), 12)
    with client_of(broker) as heavy, client_of(broker) as light:
        light.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
        services: Any = services_of(broker)
        requests, turns = services.long_requests, services.socket_server.fair_queue.taken
        taken = requests.taken
        heavy.send(large)
        until(lambda: requests.taken != taken, "its turn")
        served = 0
        heavy.socket.setblocking(False)
        while True:
            light.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
            try:
                heavy.socket.recv(1, socket.MSG_PEEK)
                break
            except BlockingIOError:
                served += 1
        assert served >= 1
        assert services.socket_server.fair_queue.taken - turns >= 99_000 // CHUNK_UNITS - 2
        heavy.socket.settimeout(PATIENCE_S)
        assert len(heavy.receive()) > 99_000 * 30


def test_those_with_many_names_wait_for_each_other_and_are_answered(broker: Broker) -> None:
    """Several at once, of several connections, with requests behind them: each gets its own answer, in order."""
    # Who sends a second one has to fit into the buffers of the sockets, as nobody reads before all have sent.
    requests = {30_000: 1, 500: 2, 2_000: 1, 10_000: 1, 700: 2}
    services: Any = services_of(broker)
    taken = services.long_requests.taken
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(client_of(broker)) for _ in requests]
        for client, (size, times) in zip(clients, requests.items(), strict=True):
            names = [MetadataRequestTopic(name=f"{'n' * 20}{number}") for number in range(size)]
            request = MetadataRequest(topics=names, allow_auto_topic_creation=False)
            client.send(request_frame(request, 12) * times + request_frame(ApiVersionsRequest(), 0))
        for client, (size, times) in zip(clients, requests.items(), strict=True):
            for _ in range(times):
                body = client.receive()
                answer, _ = decode(MetadataResponse, 12, body, len(response_header_bytes(ApiKey.METADATA, 12, 7)))
                assert len(answer.topics) == size
            assert len(client.receive()) < 1000
    assert services.long_requests.taken - taken == sum(requests.values())
    assert len(services.long_requests) == 0


def test_who_leaves_while_waiting_keeps_nobody(broker: Broker) -> None:
    names = [MetadataRequestTopic(name=f"n{number}") for number in range(20_000)]
    frame = request_frame(MetadataRequest(topics=names, allow_auto_topic_creation=False), 12)
    for _ in range(5):
        with client_of(broker) as leaving:
            leaving.send(frame)
    with client_of(broker) as client:
        client.send(frame)
        assert len(client.receive()) > 20_000 * 30
