"""The group APIs from wire to wire, in every version: what a request says reaches the coordinator, and what it answers
can be encoded. (One module for all eleven: they share one apis, and each handler is a translation.)"""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from support.groups import Groups, run_callbacks, subscription
from support.nodes import made
from support.permissions import EVERYTHING
from tidelog.broker.apis import offset_fetch as offset_fetch_module
from tidelog.broker.apis.delete_groups import delete_groups
from tidelog.broker.apis.describe_groups import describe_groups
from tidelog.broker.apis.find_coordinator import find_coordinator
from tidelog.broker.apis.heartbeat import heartbeat
from tidelog.broker.apis.join_group import join_group
from tidelog.broker.apis.leave_group import leave_group
from tidelog.broker.apis.list_groups import list_groups
from tidelog.broker.apis.offset_commit import offset_commit
from tidelog.broker.apis.offset_delete import offset_delete
from tidelog.broker.apis.offset_fetch import offset_fetch
from tidelog.broker.apis.sync_group import sync_group
from tidelog.broker.groups.offset_commits import CommitRequest, OffsetToCommit
from tidelog.broker.metadata.features import Features
from tidelog.broker.network.outbound import received
from tidelog.broker.requests.registry import load_apis
from tidelog.broker.runtime.cooperative import ChunkedResult
from tidelog.broker.security.acl.model import ResourceType
from tidelog.protocol.api_keys import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from tidelog.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from tidelog.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from tidelog.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from tidelog.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tidelog.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tidelog.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from tidelog.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from tidelog.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tidelog.protocol.schema import decode, encode
from tidelog.storage.exceptions import KafkaStorageError

TOPICS = {"t": b"t" * 16, "u": b"u" * 16}


class Partitions:
    """Topics t and u with two partitions each."""

    def get(self, topic: str, index: int) -> Any:
        if topic in TOPICS and index in (0, 1):
            return SimpleNamespace(log=SimpleNamespace(topic_id=UUID(bytes=TOPICS[topic])))
        return None

    def name_of(self, topic_id: bytes) -> str | None:
        return next((name for name, known in TOPICS.items() if known == topic_id), None)


class GroupApis:
    def __init__(self, **options: Any) -> None:
        self.harness = Groups(**options)
        self.broker = SimpleNamespace(
            authorizer=None, groups=self.harness.groups, partitions=Partitions(), logs=SimpleNamespace(node_id=7)
        )

    def ask(self, handler: Any, request: Any, response: type, version: int) -> Any:
        """Through the wire both ways. A future where the answer is not there yet."""
        decoded, _ = decode(type(request), version, encode(request, version))
        context = SimpleNamespace(
            services=self.broker,
            api_version=version,
            **EVERYTHING,
            client_id="client",
            client_host="/10.0.0.1",
            local_address=("broker.example", 9092),
        )
        answer = handler(decoded, context)
        if isinstance(answer, ChunkedResult):
            answer = received(answer)
        if asyncio.iscoroutine(answer):
            task = self.harness.loop.create_task(answer)
            run_callbacks(self.harness.loop)
            if not task.done():
                return task
            answer = task.result()
        return decode(response, version, encode(answer, version))[0]

    def finish(self, task: Any, response: type, version: int) -> Any:
        run_callbacks(self.harness.loop)
        return decode(response, version, encode(task.result(), version))[0]

    def close(self) -> None:
        self.harness.close()


@pytest.fixture
def apis():
    made = GroupApis()
    yield made
    made.close()


def versions(key: ApiKey) -> range:
    entry = load_apis()[key]
    return range(entry.min_version, entry.max_version + 1)


def test_the_versions_are_those_of_kafka_4_4_and_all_before_it():
    expected = {
        ApiKey.OFFSET_COMMIT: (0, 10),
        ApiKey.OFFSET_FETCH: (0, 10),
        ApiKey.FIND_COORDINATOR: (0, 6),
        ApiKey.JOIN_GROUP: (0, 9),
        ApiKey.HEARTBEAT: (0, 4),
        ApiKey.LEAVE_GROUP: (0, 5),
        ApiKey.SYNC_GROUP: (0, 5),
        ApiKey.DESCRIBE_GROUPS: (0, 6),
        ApiKey.LIST_GROUPS: (0, 5),
        ApiKey.DELETE_GROUPS: (0, 3),
        ApiKey.OFFSET_DELETE: (0, 0),
    }
    found = {key: (load_apis()[key].min_version, load_apis()[key].max_version) for key in expected}
    assert found == expected


# -- FindCoordinator


@pytest.mark.parametrize("version", versions(ApiKey.FIND_COORDINATOR))
def test_find_coordinator_of_a_group(version):
    apis = GroupApis(exists=False)
    for _ in range(2):
        request = (
            FindCoordinatorRequest(coordinator_keys=["g", "h"]) if version >= 4 else FindCoordinatorRequest(key="g")
        )
        answer = apis.ask(find_coordinator, request, FindCoordinatorResponse, version)
        found = answer.coordinators if version >= 4 else [answer]
        assert [(c.error_code, c.node_id, c.host, c.port) for c in found] == [
            (0, 7, "broker.example", 9092) for _ in found
        ]
        if version >= 4:
            assert [c.key for c in found] == ["g", "h"]
    assert apis.harness.log.made == 1
    apis.close()


@pytest.mark.parametrize("version", range(1, 7))
@pytest.mark.parametrize(
    ("key_type", "code"),
    [
        (2, ErrorCode.INVALID_REQUEST),
        (9, ErrorCode.INVALID_REQUEST),
    ],
)
def test_find_coordinator_of_what_is_not_served(apis, version, key_type, code):
    apis.broker.features = Features({"share.version": 0})
    request = FindCoordinatorRequest(key_type=key_type)
    if version >= 4:
        request.coordinator_keys = ["x"]
    else:
        request.key = "x"
    answer = apis.ask(find_coordinator, request, FindCoordinatorResponse, version)
    (found,) = answer.coordinators if version >= 4 else [answer]
    assert (found.error_code, found.node_id, found.host, found.port) == (code, -1, "", -1)
    assert found.error_message


@pytest.mark.parametrize("version", range(1, 7))
def test_find_coordinator_of_a_transactional_id(version):
    apis = GroupApis()
    asked = []

    async def ensure_topic():
        asked.append(1)
        apis.broker.transactions.get().is_open = True

    apis.broker.transactions = made(SimpleNamespace(is_open=False, ensure_topic=ensure_topic))
    for _ in range(2):
        request = FindCoordinatorRequest(key_type=1, **({"coordinator_keys": ["x"]} if version >= 4 else {"key": "x"}))
        answer = apis.ask(find_coordinator, request, FindCoordinatorResponse, version)
        (found,) = answer.coordinators if version >= 4 else [answer]
        assert (found.error_code, found.node_id, found.host, found.port) == (0, 7, "broker.example", 9092)
    assert asked == [1]
    apis.close()


def test_find_coordinator_when_the_topic_cannot_be_made(caplog):
    apis = GroupApis(exists=False)

    async def ensure_topic():
        raise OSError(28, "disk full", "/data/__consumer_offsets-0")

    apis.harness.log.ensure_topic = ensure_topic
    answer = apis.ask(find_coordinator, FindCoordinatorRequest(key="g"), FindCoordinatorResponse, 3)
    told = "the disk under the log failed: No space left on device"
    assert (answer.error_code, answer.error_message) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, told)
    apis.close()


# -- the group protocol


def join(apis, version, member_id="", instance=None):
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription("t"))],
    )
    if version >= 5:
        request.group_instance_id = instance
    return apis.ask(join_group, request, JoinGroupResponse, version)


@pytest.mark.parametrize("version", versions(ApiKey.JOIN_GROUP))
def test_a_members_life(apis, version):
    """One member through all APIs; each API's version rises with JoinGroup's, as clients' do."""
    first = join(apis, version)
    if version >= 4:
        assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
        assert first.member_id.startswith("client-")
        first = join(apis, version, first.member_id)
    apis.harness.time.advance(3000)
    joined = apis.finish(first, JoinGroupResponse, version)
    assert (joined.error_code, joined.generation_id, joined.protocol_name) == (0, 1, "range")
    assert joined.protocol_type == ("consumer" if version >= 7 else None)
    assert joined.leader == joined.member_id
    assert [(m.member_id, m.metadata) for m in joined.members] == [(joined.member_id, subscription("t"))]

    sync_version = max(0, min(5, version - 2))
    request = SyncGroupRequest(
        group_id="g",
        generation_id=1,
        member_id=joined.member_id,
        assignments=[SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"mine")],
    )
    if sync_version >= 5:
        refused = apis.ask(sync_group, request, SyncGroupResponse, 5)
        assert refused.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        request.protocol_type, request.protocol_name = "consumer", "range"
    synced = apis.ask(sync_group, request, SyncGroupResponse, sync_version)
    assert (synced.error_code, synced.assignment) == (0, b"mine")
    assert synced.protocol_name == ("range" if sync_version >= 5 else None)

    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=joined.member_id)
    assert apis.ask(heartbeat, beat, HeartbeatResponse, max(0, min(4, version - 2))).error_code == 0
    beat.generation_id = 9
    answer = apis.ask(heartbeat, beat, HeartbeatResponse, max(0, min(4, version - 2)))
    assert answer.error_code == ErrorCode.ILLEGAL_GENERATION

    leave_version = max(0, min(5, version - 2))
    for expected in (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID):
        bye = LeaveGroupRequest(group_id="g")
        if leave_version >= 3:
            bye.members = [MemberIdentity(member_id=joined.member_id)]
        else:
            bye.member_id = joined.member_id
        left = apis.ask(leave_group, bye, LeaveGroupResponse, leave_version)
        if leave_version >= 3:
            assert left.error_code == 0
            assert [(m.member_id, m.error_code) for m in left.members] == [(joined.member_id, expected)]
        else:
            assert left.error_code == expected
    assert apis.harness.state("g") == "Empty"


@pytest.mark.parametrize("version", versions(ApiKey.JOIN_GROUP))
def test_a_refused_join_can_be_encoded(apis, version):
    answer = join(apis, version, "nobody")
    assert (answer.error_code, answer.generation_id, answer.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, -1, "nobody")
    assert answer.protocol_name == (None if version >= 7 else "")


def test_static_members_on_the_wire(apis):
    first = join(apis, 9, instance="one")
    apis.harness.time.advance(3000)
    joined = apis.finish(first, JoinGroupResponse, 9)
    assert joined.member_id == "one-id1"
    assert joined.members[0].group_instance_id == "one"
    request = SyncGroupRequest(
        group_id="g", generation_id=1, member_id="one-id1", protocol_type="consumer", protocol_name="range"
    )
    request.group_instance_id = "one"
    assert apis.ask(sync_group, request, SyncGroupResponse, 5).error_code == 0
    again = join(apis, 9, instance="one")
    assert (again.error_code, again.skip_assignment) == (0, True)
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id="one-id1", group_instance_id="one")
    assert apis.ask(heartbeat, beat, HeartbeatResponse, 4).error_code == ErrorCode.FENCED_INSTANCE_ID
    bye = LeaveGroupRequest(group_id="g", members=[MemberIdentity(group_instance_id="one")])
    (left,) = apis.ask(leave_group, bye, LeaveGroupResponse, 5).members
    assert (left.error_code, left.group_instance_id) == (0, "one")


@pytest.mark.parametrize("version", range(3, 6))
def test_very_many_members_leave_at_once_and_are_answered_in_turns(apis, version, monkeypatch):
    """In parts, others would see a group of which some have left."""
    join(apis, 9, instance="one")
    apis.harness.time.advance(3000)
    turns, calls = [], []

    async def next_turn():
        turns.append(1)

    leave = type(apis.broker.groups).leave
    monkeypatch.setattr(
        type(apis.broker.groups),
        "leave",
        lambda self, group, members: calls.append(len(members)) or leave(self, group, members),
    )
    monkeypatch.setitem(EVERYTHING, "next_turn", next_turn)
    names = [MemberIdentity(member_id=f"m{number}") for number in range(1000)]
    answer = apis.ask(leave_group, LeaveGroupRequest(group_id="g", members=names), LeaveGroupResponse, version)
    assert calls == [1000]
    assert len(turns) >= 2 * 1000 // 100 - 2
    assert [row.member_id for row in answer.members] == [name.member_id for name in names]
    assert {row.error_code for row in answer.members} == {ErrorCode.UNKNOWN_MEMBER_ID}
    few = LeaveGroupRequest(group_id="g", members=names[:40])
    turns.clear()
    assert apis.ask(leave_group, few, LeaveGroupResponse, version).members == answer.members[:40]
    assert turns == []


# -- offsets


def commit(apis, version, *offsets, **fields):
    topics = []
    for topic, partition, offset in offsets:
        entry = OffsetCommitRequestTopic(
            partitions=[
                OffsetCommitRequestPartition(
                    partition_index=partition, committed_offset=offset, committed_metadata=f"at {offset}"
                )
            ]
        )
        if version >= 6:
            entry.partitions[0].committed_leader_epoch = 4
        if version >= 10:
            entry.topic_id = TOPICS.get(topic, topic.encode() * 16)
        else:
            entry.name = topic
        topics.append(entry)
    answer = apis.ask(
        offset_commit, OffsetCommitRequest(group_id="g", topics=topics, **fields), OffsetCommitResponse, version
    )
    if not isinstance(answer, OffsetCommitResponse):
        return answer
    assert [t.topic_id if version >= 10 else t.name for t in answer.topics] == [
        t.topic_id if version >= 10 else t.name for t in topics
    ]
    return [partition.error_code for topic in answer.topics for partition in topic.partitions]


def fetch(apis, version, topics=("t", "u", "x")):
    """{(topic, partition): (offset, epoch, metadata, error)}"""
    by_id = {topic_id: name for name, topic_id in TOPICS.items()} | {b"x" * 16: "x"}
    if version >= 8:
        wanted = None
        if topics is not None:
            wanted = [OffsetFetchRequestTopics(partition_indexes=[0, 1]) for _ in topics]
            for entry, name in zip(wanted, topics, strict=True):
                if version >= 10:
                    entry.topic_id = TOPICS.get(name, name.encode() * 16)
                else:
                    entry.name = name
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=wanted)])
    else:
        wanted = None if topics is None else [OffsetFetchRequestTopic(name=t, partition_indexes=[0, 1]) for t in topics]
        request = OffsetFetchRequest(group_id="g", topics=wanted)
    answer = apis.ask(offset_fetch, request, OffsetFetchResponse, version)
    if version >= 8:
        (answer,) = answer.groups
        assert answer.group_id == "g"
    return answer.error_code, {
        (by_id[topic.topic_id] if version >= 10 else topic.name, p.partition_index): (
            p.committed_offset,
            p.committed_leader_epoch,
            p.metadata,
            p.error_code,
        )
        for topic in answer.topics
        for p in topic.partitions
    }


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_COMMIT))
def test_offset_commit(apis, version):
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    codes = commit(apis, version, ("t", 0, 5), ("t", 2, 6), ("x", 0, 7), ("u", 1, 8))
    assert codes == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, unknown, 0]
    epoch = 4 if version >= 6 else -1
    assert fetch(apis, 9)[1] == {
        ("t", 0): (5, epoch, "at 5", 0),
        ("t", 1): (-1, -1, "", 0),
        ("u", 0): (-1, -1, "", 0),
        ("u", 1): (8, epoch, "at 8", 0),
        ("x", 0): (-1, -1, "", 0),
        ("x", 1): (-1, -1, "", 0),
    }


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_COMMIT))
def test_offset_commit_to_a_group_that_is_not_there(apis, version):
    codes = commit(apis, version, ("t", 0, 5), ("t", 2, 5), generation_id_or_member_epoch=3, member_id="m")
    if version == 0:  # made for ZooKeeper: it knows no generations, and says of no group that it is not there
        assert codes == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        return
    expected = ErrorCode.GROUP_ID_NOT_FOUND if version >= 9 else ErrorCode.ILLEGAL_GENERATION
    assert codes == [expected, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_offset_commit_of_unknown_topics_only_makes_no_group(apis):
    assert commit(apis, 9, ("x", 0, 5)) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert apis.harness.groups.group_count == 0


def test_very_many_offsets_are_committed_in_pieces(apis, monkeypatch):
    """100,000 of one request held the loop for half a second, and were refused then: they are no batch."""
    turns = []

    async def next_turn():
        turns.append(len(apis.harness.log.records))
        apis.harness.log.failure = KafkaStorageError("full") if turns.count(1400) == 1 else None

    monkeypatch.setitem(EVERYTHING, "next_turn", next_turn)
    rows = [("t", number % 2, number) for number in range(1_000)] + [("x", 0, 1)]
    assert commit(apis, 9, *rows) == [0] * 1_000 + [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert [len(batch.records) for part in apis.harness.log.batches for batch in part] == [400, 400, 200]
    assert [fetch(apis, 9)[1]["t", part][0] for part in (0, 1)] == [998, 999]
    assert turns.index(400) < turns.index(800), "others have their turn between the pieces"
    # What is not durable is waited for, all pieces together; one that cannot be written fails alone.
    apis.harness.log.durable = False
    task = commit(apis, 9, *rows)
    run_callbacks(apis.harness.loop)
    assert not task.done()
    assert len(apis.harness.log.unsynced) == 2
    apis.harness.log.sync()
    answer = apis.finish(task, OffsetCommitResponse, 9)
    codes = [partition.error_code for topic in answer.topics for partition in topic.partitions]
    failed = [ErrorCode.NOT_COORDINATOR] * 400
    assert codes == [0] * 400 + failed + [0] * 200 + [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


@pytest.mark.parametrize("version", [2, 3, 4])
def test_offset_commit_with_a_retention_time(apis, version):
    assert commit(apis, version, ("t", 0, 5), retention_time_ms=1000) == [0]
    apis.harness.time.advance(600_000)
    assert fetch(apis, 9)[1]["t", 0][0] == -1


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_FETCH))
def test_offset_fetch(apis, version):
    commit(apis, 9, ("t", 0, 5), ("u", 1, 8))
    epoch = 4 if version >= 5 else -1
    none = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if version == 0 else 0  # as ZooKeeper's offsets were answered
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else none
    assert fetch(apis, version) == (
        0,
        {
            ("t", 0): (5, epoch, "at 5", 0),
            ("t", 1): (-1, -1, "", none),
            ("u", 0): (-1, -1, "", none),
            ("u", 1): (8, epoch, "at 8", 0),
            ("x", 0): (-1, -1, "", unknown),
            ("x", 1): (-1, -1, "", unknown),
        },
    )
    if version >= 2:
        assert fetch(apis, version, None) == (0, {("t", 0): (5, epoch, "at 5", 0), ("u", 1): (8, epoch, "at 8", 0)})


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_FETCH))
def test_offset_fetch_while_loading(version):
    apis = GroupApis(load=False)
    error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    if version <= 1:
        assert fetch(apis, version, ("t",)) == (0, {("t", 0): (-1, -1, "", error), ("t", 1): (-1, -1, "", error)})
    else:
        assert fetch(apis, version) == (error, {})
    apis.close()


def large_fetch(version, partitions):
    """Three topics, each with partitions 0, 1 and very many that are not there."""
    names = ("t", "u", "x")
    indexes = list(range(partitions))
    if version < 8:
        return OffsetFetchRequest(
            group_id="g", topics=[OffsetFetchRequestTopic(name=name, partition_indexes=indexes) for name in names]
        )
    topics = [OffsetFetchRequestTopics(partition_indexes=indexes) for _ in names]
    for topic, name in zip(topics, names, strict=True):
        if version >= 10:
            topic.topic_id = TOPICS.get(name, name.encode() * 16)
        else:
            topic.name = name
    group = OffsetFetchRequestGroup(group_id="g", topics=topics)
    return OffsetFetchRequest(groups=[group, OffsetFetchRequestGroup(group_id="h", topics=topics[:1])])


@pytest.mark.parametrize("load", [True, False])
@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_FETCH))
def test_offset_fetch_of_very_many_partitions_is_answered_in_turns_and_as_a_whole(version, load, monkeypatch):
    apis = GroupApis(load=load)
    turns = []

    async def next_turn():
        turns.append(1)

    if load:
        commit(apis, 9, ("t", 0, 5), ("u", 1, 8))
    monkeypatch.setitem(EVERYTHING, "next_turn", next_turn)
    request = large_fetch(version, 1000)
    answer = apis.ask(offset_fetch, request, OffsetFetchResponse, version)
    assert len(turns) >= (3 if version < 8 else 4) * 1000 // 100 - 2
    monkeypatch.setattr(offset_fetch_module, "SLICE_UNITS", 1 << 30)
    assert apis.ask(offset_fetch, request, OffsetFetchResponse, version) == answer
    apis.close()


@pytest.mark.parametrize("others", [0, 3])
@pytest.mark.parametrize("version", range(2, 11))
def test_all_that_a_group_has_is_answered_in_turns_and_as_a_whole(version, others, monkeypatch):
    """Of 10,000 partitions it held the loop for 20 ms."""
    apis = GroupApis()
    partitions, by_number = 700, Partitions.get
    monkeypatch.setattr(Partitions, "get", lambda self, topic, index: by_number(self, topic, index % 2))
    for first in range(0, partitions, 100):
        commit(apis, 9, *((topic, index, index) for topic in "tu" for index in range(first, first + 100)))
    turns = []

    async def next_turn():
        turns.append(1)
        if len(turns) == 1:  # the last one goes while others have their turn, and one comes
            apis.ask(offset_delete, delete_request("u", partitions - 1), OffsetDeleteResponse, 0)
            commit(apis, 9, ("t", partitions, 1))

    monkeypatch.setitem(EVERYTHING, "next_turn", next_turn)
    if version < 8:
        request = OffsetFetchRequest(group_id="g", topics=None)
    else:
        names = ["g", *(f"h{number}" for number in range(others))]
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=name, topics=None) for name in names])
    answer = apis.ask(offset_fetch, request, OffsetFetchResponse, version)
    assert len(turns) >= 2 * partitions // 100 - 1
    found = answer if version < 8 else answer.groups[0]
    assert found.error_code == 0
    names = {topic.topic_id if version >= 10 else topic.name: topic.partitions for topic in found.topics}
    assert len(names) == len(found.topics) == 2
    offsets = [{part.partition_index: part.committed_offset for part in parts} for parts in names.values()]
    assert offsets == [{number: number for number in range(partitions - which)} for which in (0, 1)]
    if version >= 8:
        assert [group.group_id for group in answer.groups] == [group.group_id for group in request.groups]
        assert [len(group.topics) for group in answer.groups[1:]] == [0] * others
    apis.close()


def test_of_very_many_groups_no_more_are_looked_at_than_are_answered(apis, monkeypatch):
    """To count those of 100,000 groups held the loop for 20 ms before the first was answered."""
    asked = []
    monkeypatch.setattr(offset_fetch_module, "_units", lambda topics: asked.append(topics) or 1)
    groups = [OffsetFetchRequestGroup(group_id=str(number), topics=[]) for number in range(1000)]
    assert offset_fetch_module._is_long(groups, apis.harness.groups)
    assert len(asked) <= offset_fetch_module.SLICE_UNITS // 3 + 1


def test_an_offset_of_a_topic_that_was_made_anew_does_not_count(apis):
    commit(apis, 9, ("t", 0, 5))
    TOPICS["t"], old = b"T" * 16, TOPICS["t"]
    try:
        assert fetch(apis, 10, ("t",))[1]["t", 0][0] == -1
    finally:
        TOPICS["t"] = old


def test_offset_fetch_of_several_groups(apis):
    commit(apis, 9, ("t", 0, 5))
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=g, topics=None) for g in ("g", "h")])
    answer = apis.ask(offset_fetch, request, OffsetFetchResponse, 9)
    assert [(group.group_id, len(group.topics)) for group in answer.groups] == [("g", 1), ("h", 0)]


def test_answers_that_wait_for_durability(apis):
    commit(apis, 9, ("t", 0, 4), ("u", 0, 4))
    apis.harness.log.durable = False
    committing = commit(apis, 9, ("t", 0, 5), ("t", 2, 5))
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
    fetching = apis.ask(offset_fetch, request, OffsetFetchResponse, 9)
    apis.harness.log.sync()
    committed = apis.finish(committing, OffsetCommitResponse, 9)
    assert [p.error_code for t in committed.topics for p in t.partitions] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    (group,) = apis.finish(fetching, OffsetFetchResponse, 9).groups
    assert group.topics[0].partitions[0].committed_offset == 5
    deleting = apis.ask(offset_delete, delete_request("t", 0, 1), OffsetDeleteResponse, 0)
    apis.harness.log.sync()
    assert apis.finish(deleting, OffsetDeleteResponse, 0).error_code == 0
    removing = apis.ask(delete_groups, DeleteGroupsRequest(groups_names=["g"]), DeleteGroupsResponse, 2)
    apis.harness.log.sync()
    assert apis.finish(removing, DeleteGroupsResponse, 2).results[0].error_code == 0


def delete_request(topic, *partitions):
    return OffsetDeleteRequest(
        group_id="g",
        topics=[
            OffsetDeleteRequestTopic(
                name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=p) for p in partitions]
            )
        ],
    )


def test_offset_delete(apis):
    missing = apis.ask(offset_delete, delete_request("t", 0), OffsetDeleteResponse, 0)
    assert (missing.error_code, list(missing.topics)) == (ErrorCode.GROUP_ID_NOT_FOUND, [])
    commit(apis, 9, ("t", 0, 5), ("t", 1, 6))
    answer = apis.ask(offset_delete, delete_request("t", 0, 2), OffsetDeleteResponse, 0)
    (topic,) = answer.topics
    assert [(p.partition_index, p.error_code) for p in topic.partitions] == [
        (0, 0),
        (2, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert fetch(apis, 9, None)[1] == {("t", 1): (6, 4, "at 6", 0)}


# -- administration


@pytest.mark.parametrize("version", versions(ApiKey.LIST_GROUPS))
def test_list_groups(apis, version):
    commit(apis, 9, ("t", 0, 5))
    apis.harness.stable("alice", group_id="busy")
    answer = apis.ask(list_groups, ListGroupsRequest(), ListGroupsResponse, version)
    seen = sorted((g.group_id, g.protocol_type, g.group_state, g.group_type) for g in answer.groups)
    expected = [("busy", "consumer", "Stable", "classic"), ("g", "", "Empty", "classic")]
    keep_state, keep_type = version >= 4, version >= 5
    assert seen == [(g, p, s if keep_state else "", t if keep_type else "") for g, p, s, t in expected]
    if version >= 4:
        answer = apis.ask(list_groups, ListGroupsRequest(states_filter=["Empty"]), ListGroupsResponse, version)
        assert [g.group_id for g in answer.groups] == ["g"]
    if version >= 5:
        answer = apis.ask(list_groups, ListGroupsRequest(types_filter=["consumer"]), ListGroupsResponse, version)
        assert list(answer.groups) == []


@pytest.mark.parametrize("sees_all", [True, False])
def test_very_many_groups_are_listed_in_turns(apis, sees_all, monkeypatch):
    """Of 20,000 the list took 25 ms of the loop, and several times that where each is asked for."""
    turns = []

    async def next_turn():
        turns.append(1)

    def allows(_operation, kind, name, **_):
        return sees_all or (kind is ResourceType.GROUP and name != "g7")

    monkeypatch.setitem(EVERYTHING, "next_turn", next_turn)
    monkeypatch.setitem(EVERYTHING, "allows", allows)
    for number in range(2_000):
        apis.harness.groups.commit_offsets(CommitRequest(f"g{number}", [OffsetToCommit("t", 0, 5)]))
    answer = apis.ask(list_groups, ListGroupsRequest(), ListGroupsResponse, 5)
    assert len({group.group_id for group in answer.groups}) == len(answer.groups) == 2_000 - (not sees_all)
    assert len(turns) >= (2_000 // 400 if sees_all else 2_000 // 100) - 1
    turns.clear()
    assert apis.ask(list_groups, ListGroupsRequest(states_filter=["Stable"]), ListGroupsResponse, 5).groups == []
    assert turns == []


def test_list_groups_while_loading():
    apis = GroupApis(load=False)
    answer = apis.ask(list_groups, ListGroupsRequest(), ListGroupsResponse, 5)
    assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    apis.close()


@pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_GROUPS))
def test_describe_groups(apis, version):
    apis.harness.stable("alice", group_id="busy", group_instance_id="one")
    answer = apis.ask(describe_groups, DescribeGroupsRequest(groups=["busy", "none"]), DescribeGroupsResponse, version)
    busy, none = answer.groups
    assert (busy.error_code, busy.group_state, busy.protocol_type, busy.protocol_data) == (
        0,
        "Stable",
        "consumer",
        "range",
    )
    (member,) = busy.members
    assert (member.client_id, member.client_host, member.member_assignment) == ("alice", "/127.0.0.1", b"alice")
    assert member.group_instance_id == ("one" if version >= 4 else None)
    assert busy.authorized_operations == -0x8000_0000
    assert (none.group_id, none.group_state) == ("none", "Dead")
    if version >= 6:
        assert (none.error_code, none.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group none not found.")
    else:
        assert none.error_code == 0


@pytest.mark.parametrize("names", [3, 1000])
def test_a_group_that_is_named_over_and_over_is_told_once(apis, names):
    """A request may have 100,000 names; a group with megabytes of metadata was told as often."""
    apis.harness.stable("alice", group_id="g")
    request = DescribeGroupsRequest(groups=[*["g"] * names, "none"])
    answer = apis.ask(describe_groups, request, DescribeGroupsResponse, 5)
    assert [(group.group_id, len(group.members)) for group in answer.groups] == [("g", 1), ("none", 0)]


@pytest.mark.parametrize("version", range(8, 11))
def test_of_a_group_that_is_named_over_and_over_all_is_told_once(apis, version, monkeypatch):
    async def next_turn():
        turns.append(1)

    turns = []
    monkeypatch.setitem(EVERYTHING, "next_turn", next_turn)
    commit(apis, 9, ("t", 0, 5), ("t", 1, 6))
    commit(apis, 9, ("u", 0, 7))
    some = OffsetFetchRequestTopics(name="t", partition_indexes=[0])
    some.topic_id = TOPICS["t"]
    groups = [
        *(OffsetFetchRequestGroup(group_id="g", topics=None) for _ in range(500)),
        OffsetFetchRequestGroup(group_id="h", topics=[some]),
    ]
    answer = apis.ask(offset_fetch, OffsetFetchRequest(groups=groups), OffsetFetchResponse, version)
    assert [group.group_id for group in answer.groups] == ["g", "h"]
    assert sum(len(topic.partitions) for topic in answer.groups[0].topics) == 3
    assert len(turns) >= 500 // 50


@pytest.mark.parametrize("version", range(3, 7))
def test_describe_groups_with_operations(apis, version):
    commit(apis, 9, ("t", 0, 5))
    request = DescribeGroupsRequest(groups=["g"], include_authorized_operations=True)
    (group,) = apis.ask(describe_groups, request, DescribeGroupsResponse, version).groups
    assert {bit for bit in range(32) if group.authorized_operations >> bit & 1} == {3, 6, 8, 10, 11}


@pytest.mark.parametrize("version", versions(ApiKey.DELETE_GROUPS))
def test_delete_groups(apis, version):
    commit(apis, 9, ("t", 0, 5))
    apis.harness.stable("alice", group_id="busy")
    request = DeleteGroupsRequest(groups_names=["g", "busy", "none", "g"])
    answer = apis.ask(delete_groups, request, DeleteGroupsResponse, version)
    assert [(r.group_id, r.error_code) for r in answer.results] == [
        ("g", 0),
        ("busy", ErrorCode.NON_EMPTY_GROUP),
        ("none", ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    said = [r.error_message for r in answer.results]
    assert said == ([None, "the group has members", "there is no such group"] if version >= 3 else [None] * 3)
