"""The daemon on a directory that Apache Kafka wrote, by wire: every record, in both isolation levels, and what is told of
transactions, offsets and settings."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.daemon import Daemon
from support.kafka_sample import GOLDEN, PARTITIONS, SampleLog, copy_sample, sample_log
from support.wire_client import WireClient
from tidelog.broker.transactions.log import read_transaction_key, read_transaction_value
from tidelog.broker.transactions.states import TransactionState
from tidelog.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from tidelog.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from tidelog.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tidelog.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from tidelog.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tidelog.protocol.records.record_batch import BatchHeader, Record, iterate_batches, iterate_records
from tidelog.storage.io.filesystem import RealFileSystem
from tidelog.storage.log.partition_metadata import read_partition_metadata

UNCOMMITTED, COMMITTED = 0, 1
FETCH_VERSION = 11


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    directory = tmp_path_factory.mktemp("kafka") / "data"
    copy_sample(directory)
    # The sample's records are old: topics without a retention of their own would lose them, and its open transaction would be
    # aborted at the first look for those whose time is over.
    settings = {
        "log.retention.ms": -1, "log.cleaner.enable": "false",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 2**31 - 1,
    }  # fmt: skip
    with Daemon(directory, settings) as running:
        yield running


@pytest.fixture
def client(daemon: Daemon) -> Iterator[WireClient]:
    with WireClient(daemon.address) as connected:
        yield connected


def fetch(client: WireClient, topic: str, partition: int, offset: int, isolation: int, max_bytes: int) -> PartitionData:
    wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=max_bytes,
        isolation_level=isolation,
        session_epoch=-1,
        topics=[FetchTopic(topic=topic, partitions=[wanted])],
    )
    [answer] = client.ask(request, FETCH_VERSION, FetchResponse).responses
    [data] = answer.partitions
    assert data.error_code == 0
    return data


def read(
    client: WireClient, topic: str, partition: int, log: SampleLog, isolation: int, max_bytes: int
) -> list[Record]:
    """All records, filtered as consumers do it; what is told of aborted transactions is checked on the way."""
    records: list[Record] = []
    offset = log.start
    while True:
        data = fetch(client, topic, partition, offset, isolation, max_bytes)
        raw = bytes(data.records or b"")
        batches = list(iterate_batches(raw))
        assert (data.high_watermark, data.last_stable_offset, data.log_start_offset) == (
            log.end,
            log.last_stable_offset,
            log.start,
        )
        aborted = None
        if isolation == COMMITTED:
            aborted = [(one.producer_id, one.first_offset) for one in data.aborted_transactions or ()]
            if batches and topic != "compact-txn":  # cleaning keeps markers of transactions that its index has lost
                assert aborted == expected_aborted(log, offset, batches[-1].last_offset)
        else:
            assert data.aborted_transactions is None
        if not batches:
            return records
        records += kept(raw, batches, offset, aborted)
        offset = batches[-1].last_offset + 1


def expected_aborted(log: SampleLog, first: int, last: int) -> list[tuple[int, int]]:
    return [
        (one.producer_id, one.first_offset)
        for one in log.transactions
        if not one.is_committed and one.last_offset >= first and one.first_offset <= last
    ]


def kept(raw: bytes, batches: list[BatchHeader], offset: int, aborted: list[tuple[int, int]] | None) -> list[Record]:
    """From an aborted transaction's first offset to its marker, its producer's records don't count."""
    waiting = sorted(aborted or (), key=lambda one: one[1])
    leaving_out: set[int] = set()
    records: list[Record] = []
    for batch in batches:
        while waiting and waiting[0][1] <= batch.last_offset:
            leaving_out.add(waiting.pop(0)[0])
        if batch.is_control:
            leaving_out.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in leaving_out):
            records += [one for one in iterate_records(raw, batch.position) if one.offset >= offset]
    return records


@pytest.mark.parametrize(("topic", "partition"), PARTITIONS)
def test_every_record(client: WireClient, topic: str, partition: int) -> None:
    log = sample_log(topic, partition)
    for max_bytes in (1 if topic == "txn" else 4000, 1 << 20):
        assert read(client, topic, partition, log, UNCOMMITTED, max_bytes) == log.records
        assert read(client, topic, partition, log, COMMITTED, max_bytes) == log.committed


def test_the_sample_has_transactions() -> None:
    log = sample_log("txn", 0)
    assert (len(log.records), len(log.committed)) == (1160, 780)
    assert log.last_stable_offset < log.end
    assert {one.is_committed for one in log.transactions} == {True, False}


@pytest.mark.parametrize(("topic", "partition"), [("txn", 0), ("compact-txn", 0), ("deleted-records", 0)])
@pytest.mark.parametrize("isolation", [UNCOMMITTED, COMMITTED])
def test_offsets_by_isolation_level(client: WireClient, topic: str, partition: int, isolation: int) -> None:
    log = sample_log(topic, partition)
    limit = log.last_stable_offset if isolation == COMMITTED else log.end
    readable = [record for record in log.records if record.offset < limit]
    newest = max(readable, key=lambda record: record.timestamp)

    def ask(timestamp: int) -> tuple[int, int]:
        wanted = ListOffsetsTopic(
            name=topic, partitions=[ListOffsetsPartition(partition_index=partition, timestamp=timestamp)]
        )
        request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=[wanted])
        [answer] = client.ask(request, 7, ListOffsetsResponse).topics[0].partitions
        assert answer.error_code == 0
        return answer.offset, answer.timestamp

    assert ask(-1) == (limit, -1)
    assert ask(-2) == (log.start, -1)
    everything = [record for record in records_with_markers(topic, partition) if log.start <= record.offset < limit]
    assert ask(-3)[1] == max(record.timestamp for record in everything) >= newest.timestamp
    for record in readable[::97]:
        first = next(one for one in everything if one.timestamp >= record.timestamp)
        assert ask(record.timestamp) == (first.offset, first.timestamp)
    assert ask(max(record.timestamp for record in everything) + 1) == (-1, -1)


def records_with_markers(topic: str, partition: int) -> list[Record]:
    found: list[Record] = []
    for file in sorted((GOLDEN / f"{topic}-{partition}").glob("*.log")):
        data = file.read_bytes()
        for batch in iterate_batches(data):
            found += iterate_records(data, batch.position)
    return found


def test_ids_and_settings_are_kafkas(client: WireClient, daemon: Daemon) -> None:
    answer = client.ask(MetadataRequest(topics=None), 12, MetadataResponse)
    partitions: dict[str, int] = {}
    for topic in answer.topics:
        metadata = read_partition_metadata(RealFileSystem(), daemon.directory / f"{topic.name}-0")
        assert metadata is not None
        assert topic.topic_id == metadata.topic_id.bytes
        partitions[topic.name or ""] = len(topic.partitions)
    assert len(partitions) == 21
    assert partitions["mixed"] == 3
    wanted = {
        "compact-delete": {"cleanup.policy": "compact,delete"},
        "log-append-time": {"message.timestamp.type": "LogAppendTime"},
        "compact-tiny-retention": {"delete.retention.ms": "100", "cleanup.policy": "compact"},
        "broker-zstd": {"compression.type": "zstd"},
    }
    request = DescribeConfigsRequest(
        resources=[DescribeConfigsResource(resource_type=2, resource_name=name) for name in wanted]
    )
    for result in client.ask(request, 4, DescribeConfigsResponse).results:
        configs = {one.name: one.value for one in result.configs}
        assert wanted[result.resource_name].items() <= configs.items()


def test_kafkas_transactional_ids_are_known(client: WireClient) -> None:
    states: dict[str, TransactionState] = {}
    for path in sorted((GOLDEN / "__transaction_state-0").glob("*.log")):
        data = path.read_bytes()
        for batch in iterate_batches(data):
            for record in iterate_records(data, batch.position):
                name = read_transaction_key(record.key or b"")
                assert name is not None
                states[name] = read_transaction_value(name, record.value or b"").state
    answer = client.ask(ListTransactionsRequest(), 2, ListTransactionsResponse)
    assert answer.error_code == 0
    listed = {one.transactional_id: one.transaction_state for one in answer.transaction_states}
    assert listed == {name: state.label for name, state in states.items()}
    assert set(listed.values()) >= {"CompleteCommit"}


def test_the_metadata_version_is_kafkas(client: WireClient) -> None:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    features = client.ask(request, 3, ApiVersionsResponse).finalized_features
    assert {one.name: one.max_version_level for one in features} == {
        "metadata.version": 30,
        "transaction.version": 2,
        "group.version": 1,
        "share.version": 1,
        "streams.version": 1,
    }


def test_one_line_says_what_was_taken_over(daemon: Daemon) -> None:
    lines = [line for line in daemon.stderr().splitlines() if "taken over" in line]
    assert len(lines) == 1
    assert "21 topics with 23 partitions, 97 settings, 1 of brokers" in lines[0]


def test_a_restart_knows_it_all_still(daemon: Daemon) -> None:
    position = len(daemon.stderr())
    daemon.restart()
    assert not [line for line in daemon.stderr_lines_since(position) if "taken over" in line]
    with WireClient(daemon.address) as client:
        log = sample_log("txn", 0)
        assert read(client, "txn", 0, log, COMMITTED, 1 << 20) == log.committed
