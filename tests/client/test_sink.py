"""The sink's producer and committer against a broker in this process: order, faults, both versions of transactions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.committed import committed
from support.sink_parts import COMMITS, PREFIX, TOPIC, numbers, write, write_part
from tidelog.clients.kafka.conversations import CoordinatorKind
from tidelog.pipeline.exceptions import BrokerError, UnsupportedBrokerError
from tidelog.pipeline.sink.commit_log import CommitLog
from tidelog.pipeline.sink.commit_protocol import Committer, Outcome, Token
from tidelog.pipeline.sink.committer import (
    CommitReader,
    KafkaCluster,
    driver_id,
    read_commit_log,
    settle_all,
    task_id,
)
from tidelog.pipeline.sink.producer import (
    MOST_ENDS,
    DeliveryError,
    Producer,
    ProducerId,
    end_transaction,
    end_transactions,
    init_producer,
)
from tidelog.pipeline.wire.client import KafkaClient
from tidelog.pipeline.wire.settings import ClientSettings
from tidelog.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from tidelog.protocol.messages.list_transactions import ListTransactionsRequest
from tidelog.protocol.records.memory_records import iterate_batches
from tidelog.testing import Broker


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker({"request.timeout.ms": 30000}) as one:
        one.create_topic(TOPIC, 3)
        yield one


@pytest.fixture
def client(broker: Broker) -> Iterator[KafkaClient]:
    settings = ClientSettings.parse(broker.bootstrap_servers, {"retry.backoff.ms": "5", "retry.backoff.max.ms": "50"})
    with KafkaClient(settings) as one:
        yield one


def cluster(client: KafkaClient, run: str) -> KafkaCluster:
    return KafkaCluster(client, COMMITS, PREFIX, "q", run)


def found(broker: Broker) -> list[bytes]:
    return sorted((record.value for record in committed(broker.bootstrap_servers, TOPIC)), key=int)


def check_order(broker: Broker, count: int) -> None:
    by_partition: dict[int, list[int]] = {}
    for record in committed(broker.bootstrap_servers, TOPIC):
        by_partition.setdefault(record.partition, []).append(int(record.value))
    assert by_partition == {number: list(range(number, count, 3)) for number in range(3)}


def test_what_is_sent_is_there_in_order(broker: Broker, client: KafkaClient) -> None:
    write(client, None, numbers(0, 3000))
    check_order(broker, 3000)


@pytest.mark.parametrize("code", ["NOT_LEADER_OR_FOLLOWER", "REQUEST_TIMED_OUT", None])
def test_trouble_on_the_way_leaves_nothing_twice_or_out_of_order(
    broker: Broker, client: KafkaClient, code: str | None
) -> None:
    """None: the connection breaks off."""
    if code is None:
        fault = broker.faults.disconnect("Produce", times=3)
    else:
        fault = broker.faults.error("Produce", code, times=3)
    write(client, None, numbers(0, 3000))
    assert fault.hits == 3
    check_order(broker, 3000)


def test_what_is_refused_is_told(broker: Broker, client: KafkaClient) -> None:
    broker.faults.error("Produce", "TOPIC_AUTHORIZATION_FAILED", times=1)
    with pytest.raises(DeliveryError, match=r"rows-\d: \d+ records were refused: TOPIC_AUTHORIZATION_FAILED"):
        write(client, None, numbers(0, 10))
    with pytest.raises(DeliveryError, match="there is no topic nowhere; create it first"):
        Producer(client, ProducerId(1, 0)).partitions("nowhere")


@pytest.fixture(params=["v1", "v2"])
def version(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With version 1 the client knows nothing of the broker's feature."""
    if request.param == "v1":
        monkeypatch.setattr("tidelog.pipeline.sink.producer._TRANSACTION_VERSION", "of an old broker")
    return str(request.param)


def test_a_batch_is_there_when_all_its_parts_are_committed(broker: Broker, client: KafkaClient, version: str) -> None:
    for batch in range(6):
        parts = [write_part(client, "q", "r", batch, task, numbers(100 * batch + 50 * task, 50)) for task in range(2)]
        assert Committer(cluster(client, "r"), "r").commit(batch, parts)
    assert found(broker) == numbers(0, 600)


def test_a_batch_that_comes_again_is_aborted(broker: Broker, client: KafkaClient, version: str) -> None:
    for run, new in (("r", True), ("s", False)):
        parts = [write_part(client, "q", run, 7, task, numbers(50 * task, 50)) for task in range(2)]
        assert Committer(cluster(client, run), run).commit(7, parts) is new
    assert found(broker) == numbers(0, 100)


def test_a_token_is_carried_out_by_whoever_finds_it(broker: Broker, client: KafkaClient, version: str) -> None:
    """The first driver dies behind its token, and behind the end of one part."""
    parts = [write_part(client, "q", "r", 0, task, numbers(50 * task, 50)) for task in range(3)]
    first = cluster(client, "r")
    first.fence()
    first.write(Token(0, "r", tuple(parts)))
    assert first.end(parts[1], commit=True)
    view = first.read()
    assert [view.outcomes[part] for part in (parts[0], parts[2])] == [Outcome.OPEN] * 2
    assert settle_all(client, COMMITS) == {"q": 2 if view.outcomes[parts[1]] is Outcome.COMMITTED else 3}
    assert found(broker) == numbers(0, 150)
    assert settle_all(client, COMMITS) == {}
    again = [write_part(client, "q", "s", 0, task, numbers(50 * task, 50)) for task in range(3)]
    assert not Committer(cluster(client, "s"), "s").commit(0, again)
    assert found(broker) == numbers(0, 150)


def test_a_driver_that_was_replaced_writes_no_token(broker: Broker, client: KafkaClient) -> None:
    part = write_part(client, "q", "r", 0, 0, numbers(0, 50))
    old, new = cluster(client, "r"), cluster(client, "s")
    old.fence()
    new.fence()
    with pytest.raises((BrokerError, DeliveryError)):
        old.write(Token(0, "r", (part,)))
    assert new.read().token is None


def test_a_part_that_ran_out_is_written_again_and_no_other(broker: Broker, client: KafkaClient, version: str) -> None:
    parts = [write_part(client, "q", "r", 0, task, numbers(50 * task, 50)) for task in range(2)]
    first = cluster(client, "r")
    first.fence()
    first.write(Token(0, "r", tuple(parts)))
    assert first.end(parts[0], commit=True)
    init_producer(client, parts[1].transactional_id)  # what a time-out does, too
    assert not first.end(parts[1], commit=True)
    again = [write_part(client, "q", "s", 0, task, numbers(50 * task, 50)) for task in range(2)]
    assert Committer(cluster(client, "s"), "s").commit(0, again)
    assert found(broker) == numbers(0, 100)


def test_what_an_earlier_run_left_open_is_aborted(broker: Broker, client: KafkaClient) -> None:
    write_part(client, "q", "r", 0, 0, numbers(500, 50))
    left = write_part(client, "q-other", "r", 0, 0, [])  # a name that begins with the query's
    parts = [write_part(client, "q", "s", 0, 0, numbers(0, 50))]
    assert Committer(cluster(client, "s"), "s").commit(0, parts)
    assert found(broker) == numbers(0, 50)
    assert end_transaction(client, left.transactional_id, ProducerId(left.producer_id, left.epoch), commit=True)


@pytest.mark.parametrize(("won", "lost"), [(0, 1), (1, 0), (0, 3)])
def test_an_attempt_that_was_lost_is_aborted_with_its_batch_whatever_its_number(
    broker: Broker, client: KafkaClient, won: int, lost: int, version: str
) -> None:
    """A speculative copy on a node that died, say: nobody but the driver's commit can end what it has open."""
    for batch in range(2):
        winner = write_part(client, "q", "r", batch, 0, numbers(50 * batch, 50), attempt=won)
        write_part(client, "q", "r", batch, 0, numbers(50 * batch, 50), attempt=lost)
        assert Committer(cluster(client, "r"), "r").commit(batch, [winner])
        assert found(broker) == numbers(0, 50 * (batch + 1))


@pytest.mark.parametrize("newest", [2, 1, 0, None])
def test_looking_for_lost_attempts_asks_each_broker_once_and_a_new_one_for_this_query_alone(
    broker: Broker, client: KafkaClient, monkeypatch: pytest.MonkeyPatch, newest: int | None
) -> None:
    """`newest`: version of ListTransactions that the broker has; from 2 on (Kafka 4.1) it filters by itself."""
    others = [write_part(client, "others", "r", 0, task, []).transactional_id for task in range(3)]
    lost = [write_part(client, "q.1", "r", 0, task, [], attempt=1).transactional_id for task in range(2)]
    part = write_part(client, "q.1", "r", 0, 0, numbers(0, 5))
    told: list[list[str]] = []
    ask = client.request_from

    def older(node: int, request: Any, answer: Any, *, up_to: int, at_least: int = 0) -> Any:
        if not isinstance(request, ListTransactionsRequest):
            return ask(node, request, answer, up_to=up_to, at_least=at_least)
        if newest is None or at_least > newest:
            raise UnsupportedBrokerError("an older broker")
        result = ask(node, request, answer, up_to=min(up_to, newest), at_least=at_least)
        told.append(sorted(one.transactional_id for one in result.transaction_states))
        return result

    monkeypatch.setattr(client, "request_from", older)
    assert Committer(KafkaCluster(client, COMMITS, PREFIX, "q.1", "r"), "r").commit(0, [part])
    assert told == {2: [lost], 1: [sorted(others + lost)], 0: [sorted(others + lost)], None: []}[newest]


def test_the_commit_topic_is_read_on_from_where_it_was(
    broker: Broker, client: KafkaClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By one reader, and by a driver that is told where its query begins: fetches are counted by their first offset."""
    reader = CommitReader(COMMITS)
    for batch in range(4):
        parts = [write_part(client, "q", "r", batch, task, []) for task in range(3)]
        reader.read(client)
        starts = [reader.start_of("q", task) for task in range(3)]
        assert Committer(cluster(client, "r"), "r").commit(batch, parts)
    everything = read_commit_log(client, COMMITS)
    assert reader.read(client).view("q") == everything.view("q")
    offsets: list[int] = []
    feed = CommitLog.feed

    def counted(self: CommitLog, data: Any) -> int | None:
        offsets.extend(header.base_offset for header in iterate_batches(data))
        return feed(self, data)

    monkeypatch.setattr(CommitLog, "feed", counted)
    assert reader.read(client).view("q") == everything.view("q")
    assert offsets == []
    start = min(one for one in starts if one is not None)
    told = KafkaCluster(client, COMMITS, PREFIX, "q", "r", start=start)
    assert told.read() == everything.view("q")
    # A batch has three marks, their markers, a token and its marker: of the last two that is all, of those before nothing.
    assert 8 <= len(offsets) <= 16
    assert min(offsets) == start.offset


def test_a_commit_topic_that_was_made_anew_is_read_from_its_beginning(broker: Broker, client: KafkaClient) -> None:
    reader = CommitReader(COMMITS)
    assert Committer(cluster(client, "r"), "r").commit(0, [write_part(client, "q", "r", 0, 0, [])])
    assert reader.read(client).queries() == ["q"]
    start = reader.start_of("q", 0)
    client.request(DeleteTopicsRequest(topic_names=[COMMITS], timeout_ms=30_000), DeleteTopicsResponse, up_to=5)
    part = write_part(client, "other", "r", 0, 0, [])
    other = KafkaCluster(client, COMMITS, PREFIX, "other", "r")
    assert Committer(other, "r").commit(0, [part])
    assert reader.read(client).queries() == ["other"]
    told = KafkaCluster(client, COMMITS, PREFIX, "other", "r", start=start)
    assert told.read() == other.read()


def test_many_parts_are_ended_together_each_for_itself(broker: Broker, client: KafkaClient, version: str) -> None:
    """More than may be on their way; among them one that was lost, and one that is asked twice."""
    parts = [write_part(client, "q", "r", 0, task, []) for task in range(2 * MOST_ENDS + 5)]
    init_producer(client, parts[MOST_ENDS].transactional_id)
    named = [(part.transactional_id, ProducerId(part.producer_id, part.epoch)) for part in parts]
    assert end_transactions(client, named, commit=True) == [number != MOST_ENDS for number in range(len(parts))]
    assert end_transactions(client, [], commit=True) == []


def test_what_is_forgotten_leaves_no_token(broker: Broker, client: KafkaClient) -> None:
    parts = [write_part(client, "q", "r", 0, 0, numbers(0, 5))]
    one = cluster(client, "r")
    Committer(one, "r").commit(0, parts)
    one.forget([0])
    assert one.read().token is None
    assert read_commit_log(client, COMMITS).queries() == []


def test_ids_are_few_and_no_two_alive_are_equal() -> None:
    assert driver_id("p", "q") == "p-q"
    ids = {
        task_id("p", "q", "r", task, attempt, batch) for task in range(3) for attempt in range(2) for batch in range(9)
    }
    assert len(ids) == 3 * 2 * 4
    assert CoordinatorKind.TRANSACTION == 1
