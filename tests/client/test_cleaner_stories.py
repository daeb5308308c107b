"""Two stories that the reference document of log compaction tells, through a daemon's sockets, word by word, and one that it
leaves out, of transactions.

Each of the two is told by every protocol in `READERS`: a listener that speaks another one adds its reader there.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import NamedTuple, Protocol

import pytest
from kafka import TopicPartition
from support.clients.base import random_name
from support.clients.kafka_python import consumer, producer
from support.daemon import Daemon
from support.patience import PATIENCE_S, until
from support.wire_client import WireClient
from tidelog.clients.message_set_client import MessageSetClient
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tidelog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tidelog.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tidelog.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.memory_records import iterate_batches, iterate_records
from tidelog.protocol.records.record_batch import Record

BEGAN_MS = 1_700_000_000_000
"""The first record's time; each later one is a second younger. Long past, so that no rule about age holds anything."""
EARLIEST, LATEST = -2, -1


class Found(NamedTuple):
    offset: int
    key: bytes | None
    value: bytes | None


class Reader(Protocol):
    """How one protocol asks the two questions of the stories."""

    def read(self, daemon: Daemon, topic: str, offset: int) -> list[Found]:
        """One request's answer, without what lies before `offset`."""
        ...

    def offset_at(self, daemon: Daemon, topic: str, timestamp: int) -> int:
        """The offset of the first record of that time or a later one."""
        ...


class Kafka:
    """Fetch and ListOffsets in some versions."""

    def __init__(self, fetch: int, list_offsets: int) -> None:
        self.fetch = fetch
        self.list_offsets = list_offsets

    def read(self, daemon: Daemon, topic: str, offset: int) -> list[Found]:
        partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, topics=[FetchTopic(topic=topic, partitions=[partition])]
        )
        with dial(daemon) as client:
            answer = client.ask(request, self.fetch, FetchResponse).responses[0].partitions[0]
        assert answer.error_code == ErrorCode.NONE
        data = bytes(answer.records or b"")
        records = [record for head in iterate_batches(data) for record in iterate_records(data, head.position)]
        return [Found(one.offset, one.key, one.value) for one in records if one.offset >= offset]

    def offset_at(self, daemon: Daemon, topic: str, timestamp: int) -> int:
        asked = ListOffsetsTopic(
            name=topic, partitions=[ListOffsetsPartition(partition_index=0, timestamp=timestamp, max_num_offsets=1)]
        )
        with dial(daemon) as client:
            request = ListOffsetsRequest(replica_id=-1, topics=[asked])
            answer = client.ask(request, self.list_offsets, ListOffsetsResponse).topics[0].partitions[0]
        assert answer.error_code == ErrorCode.NONE
        return answer.offset


class MessageSets:
    """FETCH and OFFSETS of the message-set listener: what it sends is what the story calls a message set."""

    def read(self, daemon: Daemon, topic: str, offset: int) -> list[Found]:
        with MessageSetClient(*daemon.message_set_address) as client:
            found = client.fetch(topic, 0, offset, 1 << 20)
        return [Found(one.offset, one.key, one.value) for one in found.records]

    def offset_at(self, daemon: Daemon, topic: str, timestamp: int) -> int:
        with MessageSetClient(*daemon.message_set_address) as client:
            (offset,) = client.offsets(topic, 0, timestamp)
        return offset


READERS: dict[str, Reader] = {
    "Fetch 4, ListOffsets 1": Kafka(4, 1),
    "Fetch 12, ListOffsets 7": Kafka(12, 7),
    "message sets": MessageSets(),
}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    # No pass but those that are asked for.
    settings = {
        "log.cleaner.backoff.ms": 3_600_000,
        "log.cleaner.dedupe.buffer.size": 1 << 20,
        "message.set.listeners": "tcp://127.0.0.1:0",
    }
    with Daemon(tmp_path_factory.mktemp("stories") / "data", settings) as running:
        yield running


@pytest.fixture(params=READERS.values(), ids=READERS)
def reader(request: pytest.FixtureRequest) -> Reader:
    found: Reader = request.param
    return found


@contextmanager
def dial(daemon: Daemon) -> Iterator[WireClient]:
    host, port = daemon.address
    with WireClient((host, port)) as client:
        yield client


def make(daemon: Daemon) -> str:
    topic = random_name("story")
    configs = [
        CreatableTopicConfig(name="cleanup.policy", value="compact"),
        CreatableTopicConfig(name="segment.bytes", value="2000"),
    ]
    request = CreateTopicsRequest(
        topics=[CreatableTopic(name=topic, num_partitions=1, replication_factor=1, assignments=[], configs=configs)],
        timeout_ms=10_000,
    )
    with dial(daemon) as client:
        answer = client.ask(request, 2, CreateTopicsResponse)
    assert [one.error_code for one in answer.topics] == [ErrorCode.NONE]
    return topic


def produce(daemon: Daemon, topic: str, pairs: Sequence[tuple[str, str]], *, each: bool) -> None:
    """`each`: in a batch of its own, else all in one."""
    records = [
        Record(number, BEGAN_MS + number * 1000, key.encode(), value.encode())
        for number, (key, value) in enumerate(pairs)
    ]
    batches = [[Record(0, r.timestamp, r.key, r.value)] for r in records] if each else [records]
    with dial(daemon) as client:
        for batch in batches:
            data = PartitionProduceData(index=0, records=build_batch(batch))
            request = ProduceRequest(
                acks=1, timeout_ms=10_000, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
            )
            answer = client.ask(request, 8, ProduceResponse)
            assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE


def clean(daemon: Daemon, topic: str) -> dict[str, int]:
    """What was removed, by cause."""
    request = urllib.request.Request(
        f"http://{daemon.http}/clean/{topic}?wait=5",
        method="POST",
        data=b"",
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        state = json.load(answer)
    while state["state"] != "done":
        url = f"http://{daemon.http}/clean/{topic}/{state['request']}?wait=5"
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
            state = json.load(answer)
    assert state["errors"] == {}
    removed: dict[str, int] = state["removed"]
    return removed


@pytest.mark.parametrize("each", [True, False], ids=["a batch each", "all in one batch"])
def test_offsets_36_37_and_38_are_equivalent(daemon: Daemon, reader: Reader, each: bool) -> None:
    """ "A read beginning at any of these offsets would return a message set beginning with 38." """
    topic = make(daemon)
    pairs = [({36: "a", 37: "b"}.get(offset, f"k{offset}"), f"v{offset}") for offset in range(45)]
    produce(daemon, topic, [*pairs, ("a", "later"), ("b", "later")], each=each)
    assert [reader.read(daemon, topic, offset)[0].offset for offset in (36, 37, 38)] == [36, 37, 38]
    assert clean(daemon, topic)["superseded"] == 2

    for moment in ("now", "after a restart", "after kill -9"):
        told = [reader.read(daemon, topic, offset) for offset in (36, 37, 38)]
        assert {answer[0] for answer in told} == {Found(38, b"k38", b"v38")}, moment
        assert reader.read(daemon, topic, 35)[0] == Found(35, b"k35", b"v35")
        # What was there at those times is gone: the next record is what there is from then on.
        times = {offset: reader.offset_at(daemon, topic, BEGAN_MS + offset * 1000) for offset in (35, 36, 37, 38)}
        assert times == {35: 35, 36: 38, 37: 38, 38: 38}, moment
        assert (reader.offset_at(daemon, topic, EARLIEST), reader.offset_at(daemon, topic, LATEST)) == (0, 47)
        if moment == "now":
            daemon.restart()
        elif moment == "after a restart":
            daemon.kill()
            daemon.start()


def test_the_email_address_story(daemon: Daemon, reader: Reader) -> None:
    """ "We are guaranteed to retain at least the last update for each primary key (e.g. bill@gmail.com)." """
    topic = make(daemon)
    addresses = ["bill@microsoft.com", "bill@gatesfoundation.org", "bill@gmail.com"]
    told: list[tuple[str, str]] = []
    for address in addresses:  # "messages for other ids are omitted": there they are
        told += [("123", address), *((f"other-{other}", address) for other in range(20))]
    produce(daemon, topic, told, each=True)
    offsets = {address: 21 * number for number, address in enumerate(addresses)}

    def history() -> list[Found]:
        """As a consumer reads that restores its state off this topic: from the start to the end."""
        found: list[Found] = []
        position, end = reader.offset_at(daemon, topic, EARLIEST), reader.offset_at(daemon, topic, LATEST)
        while position < end:
            found += reader.read(daemon, topic, position)
            position = found[-1].offset + 1
        return found

    assert [one.value for one in history() if one.key == b"123"] == [address.encode() for address in addresses]
    assert clean(daemon, topic)["superseded"] == 42
    after = history()
    assert [one for one in after if one.key == b"123"] == [Found(42, b"123", b"bill@gmail.com")]
    # "The log contains a full snapshot of the final value for every key", not only of those that changed.
    assert {one.key: one.value for one in after} == {key.encode(): value.encode() for key, value in told}
    assert [one.offset for one in after] == list(range(42, 63))
    # Who asks for the time of an older address, or for its offset, gets what is there from then on.
    for address in addresses:
        assert reader.offset_at(daemon, topic, BEGAN_MS + offsets[address] * 1000) == 42
        assert reader.read(daemon, topic, offsets[address])[0] == Found(42, b"123", b"bill@gmail.com")


def decided(daemon: Daemon, topic: str) -> bool:
    """No transaction is open: consumers of committed data may read up to the end."""
    ends = []
    with dial(daemon) as client:
        for isolation in (0, 1):
            asked = ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition_index=0, timestamp=LATEST)])
            request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=[asked])
            ends.append(client.ask(request, 7, ListOffsetsResponse).topics[0].partitions[0].offset)
    return ends[0] == ends[1]


def test_what_a_transaction_writes_supersedes_nothing_until_it_is_committed(daemon: Daemon) -> None:
    """Clean while it is open, abort it, clean again: the old value is there; and once a later one is committed, it is not."""
    topic = make(daemon)
    produce(daemon, topic, [("k", "old"), ("other", "1")], each=True)

    def committed() -> dict[bytes, bytes]:
        found: dict[bytes, bytes] = {}
        with closing(consumer(daemon.bootstrap, isolation_level="read_committed")) as reader:
            partition = TopicPartition(topic, 0)
            reader.assign([partition])
            reader.seek_to_beginning(partition)
            end = reader.end_offsets([partition])[partition]
            while reader.position(partition) < end:
                for batch in reader.poll(1000).values():
                    found |= {message.key: message.value for message in batch}
        return found

    with closing(producer(daemon.bootstrap, transactional_id=random_name("transaction"))) as transactional:
        transactional.init_transactions()
        transactional.begin_transaction()
        transactional.send(topic, key=b"k", value=b"aborted").get(PATIENCE_S)
        assert clean(daemon, topic)["superseded"] == 0
        assert not decided(daemon, topic)
        transactional.abort_transaction()
        until(lambda: decided(daemon, topic), "the abort marker is written")
        removed = clean(daemon, topic)
        assert (removed["superseded"], removed["aborted"]) == (0, 1)
        assert committed() == {b"k": b"old", b"other": b"1"}
        transactional.begin_transaction()
        transactional.send(topic, key=b"k", value=b"new").get(PATIENCE_S)
        transactional.commit_transaction()
        until(lambda: decided(daemon, topic), "the commit marker is written")
        assert clean(daemon, topic)["superseded"] == 1
        assert committed() == {b"k": b"new", b"other": b"1"}
    daemon.kill()
    daemon.start()
    assert committed() == {b"k": b"new", b"other": b"1"}
