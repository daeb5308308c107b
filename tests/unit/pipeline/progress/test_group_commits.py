"""A consumer group that follows a query: what is committed, whose group it is, and what brokers may do meanwhile."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from support.fake_brokers import FakeBrokers
from tidelog.clients.kafka.conversations import CoordinatorKind
from tidelog.pipeline.exceptions import BrokerError, OptionError
from tidelog.pipeline.planning.places import TopicPartition
from tidelog.pipeline.progress.group_commits import Commit, GroupCommits, commit_offsets
from tidelog.pipeline.progress.query_groups import MOST_GROUPS, REPEAT_S, QueryGroups
from tidelog.pipeline.wire.client import KafkaClient
from tidelog.pipeline.wire.settings import ClientSettings
from tidelog.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.protocol.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tidelog.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic, OffsetFetchResponse
from tidelog.testing import Broker

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
ONE = ("one", 9092)
SETTINGS = ClientSettings((ONE,), api_timeout_ms=2000)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as one:
        one.create_topic("t", 2)
        yield one


def committed(client: KafkaClient, group: str) -> dict[int, tuple[int, str | None]]:
    request = OffsetFetchRequest(
        group_id=group, topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1])], require_stable=True
    )
    answer = client.request_coordinator(group, CoordinatorKind.GROUP, request, OffsetFetchResponse, up_to=7)
    return {
        part.partition_index: (part.committed_offset, part.metadata) for one in answer.topics for part in one.partitions
    }


def test_a_group_has_what_was_put_last(broker: Broker) -> None:
    settings = ClientSettings.parse(broker.bootstrap_servers)
    commits = GroupCommits(settings)
    for offset in range(50):
        commits.put("etl", Commit({T0: offset, T1: 2 * offset}, f"batch {offset}"))
    commits.put("other", Commit({T0: 7}, ""))
    assert commits.flush()
    commits.put("etl", Commit({T1: 99}, "last"))
    assert commits.close()
    commits.put("etl", Commit({T1: 100}, "too late"))
    assert commits.flush()
    with KafkaClient(settings) as client:
        assert committed(client, "etl") == {0: (49, "batch 49"), 1: (99, "last")}
        assert committed(client, "other")[0] == (7, "")


def answering(*codes: int) -> tuple[KafkaClient, FakeBrokers]:
    """A coordinator that gives these codes to one commit after the other."""
    left = list(codes)

    def handle(request: Any, version: int) -> Any:
        if isinstance(request, FindCoordinatorRequest):
            return FindCoordinatorResponse(
                coordinators=[Coordinator(key=request.coordinator_keys[0], node_id=1, host=ONE[0], port=ONE[1])]
            )
        parts = [OffsetCommitResponsePartition(partition_index=0, error_code=0)]
        parts.append(OffsetCommitResponsePartition(partition_index=1, error_code=left.pop(0)))
        return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=parts)])

    brokers = FakeBrokers({ONE: handle})
    return KafkaClient(SETTINGS, connect=brokers.connect, sleep=lambda _: None), brokers


def test_a_coordinator_that_loads_or_moves_is_asked_again() -> None:
    client, brokers = answering(14, 16, 0)
    commit_offsets(client, "etl", Commit({T0: 1, T1: 2}, "n"))
    sent = [request for _, request in brokers.log if not isinstance(request, FindCoordinatorRequest)]
    assert len(sent) == 3
    assert {(r.group_id, r.generation_id_or_member_epoch, r.member_id) for r in sent} == {("etl", -1, "")}  # type: ignore[attr-defined]


@pytest.mark.parametrize("code", [22, 25, 113])
def test_a_group_with_members_is_not_ours(code: int) -> None:
    client, _ = answering(code)
    with pytest.raises(OptionError, match=r"group etl has members.*let the query have a group of its own"):
        commit_offsets(client, "etl", Commit({T1: 2}, ""))


def test_an_error_of_one_partition_is_no_success() -> None:
    client, _ = answering(3, 29)
    with pytest.raises(BrokerError):
        commit_offsets(client, "etl", Commit({T1: 2}, ""))  # an unknown topic may appear; what comes then is final


def test_what_fails_is_told_and_the_next_is_committed(caplog: pytest.LogCaptureFixture) -> None:
    done: list[tuple[str, Commit]] = []

    def commit(client: KafkaClient, group: str, commit: Commit) -> None:
        if group == "bad":
            raise BrokerError(1, "no such luck", retriable=False)
        done.append((group, commit))

    commits = GroupCommits(SETTINGS, commit)
    with caplog.at_level(logging.WARNING):
        commits.put("bad", Commit({T0: 1}, ""))
        commits.put("good", Commit({T0: 2}, ""))
        assert commits.close()
    assert done == [("good", Commit({T0: 2}, ""))]
    assert [record.getMessage() for record in caplog.records] == [
        "offsets of group bad were not committed: no such luck"
    ]


def test_nobody_waits_for_a_broker_that_hangs_and_the_newest_alone_waits_for_it() -> None:
    begun, go_on = threading.Event(), threading.Event()
    done: list[Commit] = []

    def commit(client: KafkaClient, group: str, commit: Commit) -> None:
        begun.set()
        go_on.wait()
        done.append(commit)

    commits = GroupCommits(SETTINGS, commit)
    commits.put("etl", Commit({T0: 0}, ""))
    assert begun.wait(60)
    for offset in range(1, 1000):
        commits.put("etl", Commit({T0: offset}, ""))
    assert not commits.flush(0.01)
    assert len(commits._waiting) == 1
    go_on.set()
    assert commits.close()
    assert done == [Commit({T0: 0}, ""), Commit({T0: 999}, "")]


class Sink(GroupCommits):
    """Keeps what is put."""

    def __init__(self) -> None:
        super().__init__(SETTINGS)
        self.found: list[tuple[str, dict[TopicPartition, int], str]] = []

    def put(self, group: str, commit: Commit) -> None:
        self.found.append((group, dict(commit.offsets), commit.note))


def progress(offset: int) -> dict[str, Any]:
    return {"sources": [{"endOffset": f'{{"t": {{"0": {offset}}}, "topic ids": {{"t": "x"}}}}'}]}


def test_each_query_has_its_group_and_what_stands_still_is_committed_hourly() -> None:
    sink, now = Sink(), [0.0]
    groups = QueryGroups(sink, "etl-{query}", lambda: now[0])
    groups.progressed("id-1", "orders", 0, progress(5))
    groups.progressed("id-1", "orders", 1, progress(5))
    groups.progressed("id-2", None, 0, progress(5))
    groups.progressed("id-2", None, 1, {"sources": [{"endOffset": "17"}]})
    groups.progressed("id-1", "orders", 2, progress(3))  # begun again from an older checkpoint: it is what is true
    now[0] = REPEAT_S
    groups.progressed("id-1", "orders", 3, progress(3))
    assert sink.found == [
        ("etl-orders", {T0: 5}, "spark orders batch 0"),
        ("etl-id-2", {T0: 5}, "spark id-2 batch 0"),
        ("etl-orders", {T0: 3}, "spark orders batch 2"),
        ("etl-orders", {T0: 3}, "spark orders batch 3"),
    ]


def test_two_queries_do_not_share_a_group(caplog: pytest.LogCaptureFixture) -> None:
    sink = Sink()
    groups = QueryGroups(sink, "etl")
    with caplog.at_level(logging.WARNING):
        for batch in range(3):
            groups.progressed("id-1", "a", batch, progress(batch))
            groups.progressed("id-2", "b", batch, progress(100 + batch))
    assert [offsets[T0] for _, offsets, _ in sink.found] == [0, 1, 2]
    (said,) = caplog.records
    assert said.getMessage() == (
        "query b is not committed: group etl follows query id-1; put {query} into the group's name"
    )
    groups.terminated("id-1")
    groups.progressed("id-2", "b", 3, progress(103))
    assert sink.found[-1] == ("etl", {T0: 103}, "spark b batch 3")


def test_queries_that_come_and_go_cost_no_memory() -> None:
    sink = Sink()
    groups = QueryGroups(sink, "{query}")
    for number in range(MOST_GROUPS + 100):
        groups.progressed(f"id-{number}", None, 0, progress(1))
    assert (len(groups._told), len(groups._owners)) == (MOST_GROUPS, MOST_GROUPS)
