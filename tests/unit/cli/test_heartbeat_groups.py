"""Groups of the newer protocols in the one shape that `tidelog groups describe` shows."""

from __future__ import annotations

from typing import Any

import pytest
from tidelog.cli.groups import ShownGroup, ShownMember, consumer_groups, streams_groups
from tidelog.cli.support.kafka_client import KafkaFailure
from tidelog.protocol.messages import consumer_group_describe as consumer
from tidelog.protocol.messages import streams_group_describe as streams
from tidelog.protocol.messages.streams_group_heartbeat import TaskIds, TopicInfo


class Client:
    """Gives one answer."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[Any] = []

    def ask_coordinator(self, _of: Any, _groups: Any, request: Any, _response: type) -> Any:
        self.asked.append(request)
        return self.answer


def test_a_streams_groups_partitions_are_those_of_its_active_tasks() -> None:
    subtopology = streams.DescribedSubtopology(
        subtopology_id="0", source_topics=["orders"], repartition_source_topics=[TopicInfo(name="by-account")]
    )
    member = streams.DescribedMember(
        member_id="m",
        client_id="c",
        client_host="/h",
        assignment=streams.Assignment(
            active_tasks=[TaskIds(subtopology_id="0", partitions=[1])],
            standby_tasks=[TaskIds(subtopology_id="0", partitions=[2])],
        ),
    )
    group = streams.DescribedStreamsGroup(
        group_id="app",
        group_state="Stable",
        topology=streams.DescribedTopology(subtopologies=[subtopology]),
        members=[member],
    )
    client: Any = Client(streams.StreamsGroupDescribeResponse(groups=[group]))
    shown = ShownMember("m", None, "c", "/h", (("orders", 1), ("by-account", 1)))
    assert streams_groups(client, ["app"]) == [ShownGroup("app", "streams", "Stable", "", (shown,))]
    assert client.asked[0].group_ids == ["app"]


def test_a_streams_group_without_a_topology() -> None:
    group = streams.DescribedStreamsGroup(group_id="app", group_state="Empty")
    client: Any = Client(streams.StreamsGroupDescribeResponse(groups=[group]))
    assert streams_groups(client, ["app"]) == [ShownGroup("app", "streams", "Empty", "", ())]


def test_a_consumer_group() -> None:
    member = consumer.Member(
        member_id="m",
        member_epoch=6,
        member_type=0,
        client_id="c",
        client_host="/h",
        assignment=consumer.Assignment(
            topic_partitions=[consumer.TopicPartitions(topic_name="orders", partitions=[0, 2])]
        ),
    )
    group = consumer.DescribedGroup(
        group_id="g",
        group_state="Stable",
        group_epoch=7,
        assignment_epoch=6,
        assignor_name="uniform",
        members=[member],
    )
    client: Any = Client(consumer.ConsumerGroupDescribeResponse(groups=[group]))
    shown = ShownMember("m", None, "c", "/h", (("orders", 0), ("orders", 2)), 6, "classic")
    assert consumer_groups(client, ["g"]) == [ShownGroup("g", "consumer", "Stable", "uniform", (shown,), 7, 6)]


def test_errors_are_told() -> None:
    answer = streams.StreamsGroupDescribeResponse(
        groups=[streams.DescribedStreamsGroup(group_id="app", error_code=69, error_message="gone")]
    )
    with pytest.raises(KafkaFailure, match="group app"):
        streams_groups(Client(answer), ["app"])  # type: ignore[arg-type]
