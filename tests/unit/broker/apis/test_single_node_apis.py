"""APIs that ask about other brokers, answered by one that has none: in every version, what there is to say."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from support.fake_logs import FakeLogs
from support.permissions import EVERYTHING
from support.topic_world import TopicWorld, topic_world
from tidelog.broker.requests.error_responses import response_class
from tidelog.broker.requests.registry import load_apis, loaded
from tidelog.protocol.api_keys import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.add_raft_voter import AddRaftVoterRequest
from tidelog.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tidelog.protocol.messages.describe_quorum import DescribeQuorumRequest, PartitionData, TopicData
from tidelog.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from tidelog.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from tidelog.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from tidelog.protocol.messages.unregister_broker import UnregisterBrokerRequest
from tidelog.protocol.messages.unregister_controller import UnregisterControllerRequest
from tidelog.protocol.schema import ApiMessage, decode, encode

NODE, CLUSTER = 4, "abc"


def ask(world: TopicWorld, request: ApiMessage, version: int) -> Any:
    """The answer of the registered handler, through the wire format of `version`."""
    registration = loaded(load_apis()[request.API_KEY])
    assert registration.min_version <= version <= registration.max_version
    context = SimpleNamespace(
        services=world, api_version=version, local_address=("10.1.2.3", 1234), listener="PLAINTEXT", **EVERYTHING
    )
    kind = response_class(registration)
    sent, _ = decode(type(request), version, encode(request, version))
    return decode(kind, version, encode(registration.handler(sent, context), version))[0]


def world_of(tmp_path: Path) -> Any:
    return topic_world(tmp_path, FakeLogs(node_id=NODE, cluster_id=CLUSTER))


@pytest.mark.parametrize("version", range(3))
async def test_no_election_is_needed(tmp_path: Path, version: int) -> None:
    async with world_of(tmp_path) as world:
        await world.topics.create("t", 2, {})
        wanted = [TopicPartitions(topic="t", partitions=[1, 2]), TopicPartitions(topic="no", partitions=[0])]
        answer = ask(world, ElectLeadersRequest(topic_partitions=wanted), version)
        codes = [
            (result.topic, partition.partition_id, partition.error_code)
            for result in answer.replica_election_results
            for partition in result.partition_result
        ]
        assert codes == [
            ("t", 1, ErrorCode.ELECTION_NOT_NEEDED),
            ("t", 2, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ("no", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ]
        assert answer.error_code == ErrorCode.NONE
        # Of all partitions, only those are told where something was done.
        assert ask(world, ElectLeadersRequest(topic_partitions=None), version).replica_election_results == []
        if version:
            unknown = ElectLeadersRequest(topic_partitions=None, election_type=2)
            assert ask(world, unknown, version).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", range(2))
async def test_partitions_can_be_given_to_this_node_alone(tmp_path: Path, version: int) -> None:
    async with world_of(tmp_path) as world:
        await world.topics.create("t", 1, {})

        def code(topic: str, partition: int, replicas: list[int] | None) -> ErrorCode:
            wanted = ReassignableTopic(
                name=topic, partitions=[ReassignablePartition(partition_index=partition, replicas=replicas)]
            )
            answer = ask(world, AlterPartitionReassignmentsRequest(topics=[wanted]), version)
            ((result,),) = [topic.partitions for topic in answer.responses]
            assert (result.error_message is None) == (result.error_code == ErrorCode.NONE)
            return ErrorCode(result.error_code)

        assert code("t", 0, [NODE]) is ErrorCode.NONE
        for replicas in ([], [NODE, NODE], [NODE, 5], [5]):
            assert code("t", 0, replicas) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert code("t", 0, None) is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        assert code("t", 1, [NODE]) is code("no", 0, None) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        listed = ask(world, ListPartitionReassignmentsRequest(), 0)
        assert (listed.error_code, listed.topics) == (ErrorCode.NONE, [])


@pytest.mark.parametrize("version", range(3))
async def test_the_quorum_is_this_node(tmp_path: Path, version: int) -> None:
    async with world_of(tmp_path) as world:
        world.logs.directories, world.logs.directory_ids = ["d"], {"d": UUID(int=9)}
        wanted = [TopicData(topic_name="__cluster_metadata", partitions=[PartitionData(partition_index=0)])]
        ends = []
        for name in ("t1", "t2"):
            answer = ask(world, DescribeQuorumRequest(topics=wanted), version)
            ((quorum,),) = [topic.partitions for topic in answer.topics]
            assert (answer.error_code, quorum.error_code, quorum.leader_id) == (0, 0, NODE)
            (voter,) = quorum.current_voters
            assert (voter.replica_id, voter.log_end_offset) == (NODE, quorum.high_watermark)
            assert (voter.last_fetch_timestamp > 0) == (version >= 1)
            assert (voter.replica_directory_id == UUID(int=9).bytes) == (version >= 2)
            reached = [(entry.name, entry.host, entry.port) for node in answer.nodes for entry in node.listeners]
            assert reached == ([("PLAINTEXT", "10.1.2.3", 1234)] if version >= 2 else [])
            ends.append(quorum.high_watermark)
            await world.topics.create(name, 1, {})
        assert ends[1] > ends[0]
        other = [TopicData(topic_name="t1", partitions=[PartitionData(partition_index=0)])]
        ((refused,),) = [t.partitions for t in ask(world, DescribeQuorumRequest(topics=other), version).topics]
        assert refused.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_brokers_and_voters_stay_as_they_are(tmp_path: Path) -> None:
    async with world_of(tmp_path) as world:
        assert ask(world, UnregisterBrokerRequest(broker_id=5), 0).error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
        assert ask(world, UnregisterBrokerRequest(broker_id=NODE), 0).error_code == ErrorCode.INVALID_REQUEST
        for node, code in ((5, ErrorCode.CONTROLLER_ID_NOT_REGISTERED), (NODE, ErrorCode.INVALID_REQUEST)):
            answer = ask(world, UnregisterControllerRequest(controller_id=node), 0)
            assert (answer.error_code, f"controller {node} is" in answer.error_message) == (code, True)
        for request, versions in ((AddRaftVoterRequest, (0, 1)), (RemoveRaftVoterRequest, (0,))):
            for version in versions:
                for cluster, code in (
                    (CLUSTER, ErrorCode.UNSUPPORTED_VERSION),
                    (None, ErrorCode.UNSUPPORTED_VERSION),
                    ("other", ErrorCode.INCONSISTENT_CLUSTER_ID),
                ):
                    answer = ask(world, request(cluster_id=cluster, voter_id=5), version)
                    assert (answer.error_code, bool(answer.error_message)) == (code, True)


def test_every_one_of_them_is_registered() -> None:
    keys = (ApiKey.ELECT_LEADERS, ApiKey.DESCRIBE_QUORUM, ApiKey.UNREGISTER_BROKER, ApiKey.ADD_RAFT_VOTER)
    assert set(keys) <= set(load_apis())
