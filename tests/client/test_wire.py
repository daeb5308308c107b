"""What a connection is told and what ends it, by wire: addresses, versions, order, limits. One daemon for most of it."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest
from support.daemon import Daemon
from support.patience import until
from support.wire_client import WireClient, request_frame
from tidelog.broker.requests.dispatcher import response_frame
from tidelog.broker.runtime.exceptions import ConnectionAborted
from tidelog.protocol.api_keys import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from tidelog.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from tidelog.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from tidelog.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.record_batch import Record
from tidelog.protocol.schema import decode

CHECKPOINTS = {
    "cleaner-offset-checkpoint",
    "log-start-offset-checkpoint",
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    directory = tmp_path_factory.mktemp("wire") / "a"
    settings = {
        "listeners": "PLAINTEXT://0.0.0.0:0",
        "log.dirs": f"{directory},{directory.with_name('b')}",
        "max.connections": 3,
        "log.retention.ms": -1,  # some records are as old as can be
        "socket.request.max.bytes": 10_000,
    }
    with Daemon(directory, settings) as running:
        yield running


def dial(daemon: Daemon, host: str = "127.0.0.1") -> WireClient:
    return WireClient((host, daemon.address[1]))


def test_the_first_start_makes_every_file_in_each_directory(daemon: Daemon) -> None:
    for name in ("a", "b"):
        directory = daemon.directory.with_name(name)
        files = {path.name for path in directory.iterdir() if path.is_file()}
        assert files >= {*CHECKPOINTS, "meta.properties", ".lock"}
        for checkpoint in CHECKPOINTS:
            assert (directory / checkpoint).read_bytes() == b"0\n0\n"
    properties = [
        dict(line.split("=", 1) for line in (daemon.directory.with_name(name) / "meta.properties").read_text().split())
        for name in ("a", "b")
    ]
    assert properties[0]["cluster.id"] == properties[1]["cluster.id"]
    assert properties[0]["directory.id"] != properties[1]["directory.id"]


def told(client: WireClient) -> set[tuple[str, int]]:
    """The addresses of this node in every answer that has one."""
    brokers = client.ask(MetadataRequest(topics=[]), 12, MetadataResponse).brokers
    nodes = client.ask(DescribeClusterRequest(), 1, DescribeClusterResponse).brokers
    found = client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4, FindCoordinatorResponse)
    old = client.ask(FindCoordinatorRequest(key="g", key_type=0), 2, FindCoordinatorResponse)
    assert found.coordinators[0].error_code == old.error_code == ErrorCode.NONE
    return {(node.host, node.port) for node in (*brokers, *nodes, *found.coordinators, old)}


def test_a_client_is_told_the_address_that_it_dialled(daemon: Daemon) -> None:
    for host in ("127.0.0.1", "127.0.0.2"):
        with dial(daemon, host) as client:
            assert told(client) == {(host, daemon.address[1])}


def test_advertised_listeners_say_otherwise(daemon: Daemon) -> None:
    settings = {"advertised.listeners": "PLAINTEXT://broker.example:19092"}
    with Daemon(daemon.directory.with_name("advertised"), settings) as other, dial(other) as client:
        assert told(client) == {("broker.example", 19092)}


def test_api_versions(daemon: Daemon) -> None:
    with dial(daemon) as client:
        # A client of a newer Kafka opens with a version of its own: error 35 in a v0 body, and our range.
        client.send(struct.pack(">ihhihB", 11, ApiKey.API_VERSIONS, 6, 7, -1, 0))
        answer = client.receive()
        refused, end = decode(ApiVersionsResponse, 0, answer, 4)
        assert end == len(answer)
        assert refused.error_code == ErrorCode.UNSUPPORTED_VERSION
        ranges = {api.api_key: (api.min_version, api.max_version) for api in refused.api_keys}
        assert ranges == {ApiKey.API_VERSIONS: (0, 5)}
        request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
        listed = client.ask(request, 4, ApiVersionsResponse)
        assert listed.error_code == ErrorCode.NONE
        produce = next(api for api in listed.api_keys if api.api_key == ApiKey.PRODUCE)
        assert (produce.min_version, produce.max_version >= 12) == (0, True)
        assert {"metadata.version", "group.version", "transaction.version"} <= {
            f.name for f in listed.supported_features
        }


def test_a_client_that_means_another_node_is_told_to_begin_anew(daemon: Daemon) -> None:
    """KIP-1242: what Metadata names is what may be meant. The connection stays open, as Kafka's does."""
    position = len(daemon.stderr())
    with dial(daemon) as client:
        here = client.ask(MetadataRequest(topics=[]), 12, MetadataResponse)
        node = here.brokers[0].node_id

        def opened(cluster_id: str | None, node_id: int) -> ApiVersionsResponse:
            request = ApiVersionsRequest(
                client_software_name="test", client_software_version="1", cluster_id=cluster_id, node_id=node_id
            )
            return client.ask(request, 5, ApiVersionsResponse)

        assert opened(here.cluster_id, node).error_code == ErrorCode.NONE
        for cluster, other in ((here.cluster_id, node + 1), ("another", node)):
            assert opened(cluster, other) == ApiVersionsResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)
        assert opened(None, -1).api_keys
    until(lambda: daemon.stderr()[position:].count("REBOOTSTRAP_REQUIRED") == 2, "each is a line in the log")


def test_answers_come_in_the_order_of_requests(daemon: Daemon) -> None:
    """Also when one of them has to wait and those behind it need not."""
    with dial(daemon) as client:
        join = request_frame(FindCoordinatorRequest(key="g", key_type=0), 2, 0)
        client.send(join + b"".join(request_frame(ApiVersionsRequest(), 0, number) for number in range(1, 300)))
        assert [struct.unpack_from(">i", client.receive())[0] for _ in range(300)] == list(range(300))


def test_acks_0_has_no_answer_and_an_error_ends_the_connection(daemon: Daemon) -> None:
    data = [TopicProduceData(name="no-such-topic", partition_data=[PartitionProduceData(index=0, records=bytes(70))])]
    with dial(daemon) as client:
        request = ProduceRequest(acks=1, timeout_ms=1000, topic_data=data)
        answer = client.ask(request, 8, ProduceResponse)
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        client.send(request_frame(ProduceRequest(acks=0, timeout_ms=1000, topic_data=data), 8))
        assert client.is_closed_by_peer()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (struct.pack(">i", 10_001), "a request of 10001 bytes is announced; socket.request.max.bytes allows 10000"),
        (struct.pack(">i", 4) + bytes(4), "a request of 4 bytes is shorter than its header"),
    ],
)
def test_what_ends_a_connection_says_so_once_and_others_go_on(daemon: Daemon, data: bytes, said: str) -> None:
    position = len(daemon.stderr())
    with dial(daemon) as other, dial(daemon) as bad:
        other.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
        bad.send(data)
        assert bad.is_closed_by_peer()
        other.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
        lines = [line for line in daemon.stderr_lines_since(position) if str(bad.socket.getsockname()[1]) in line]
    assert len(lines) == 1
    assert said in lines[0]


def test_a_name_that_grows_beyond_a_string_when_it_is_said_again_ends_the_connection() -> None:
    """Bytes that are no UTF-8 are read as U+FFFD, which takes three."""
    name = (b"\xff" * 0x7FFF).decode("utf-8", "replace")
    with pytest.raises(ConnectionAborted, match=r"the answer to METADATA v1 can't be written: .*98301 bytes"):
        response_frame(ApiKey.METADATA, 1, 7, MetadataResponse(topics=[MetadataResponseTopic(name=name)]))


def test_produce_names_topics_by_their_ids_from_version_13_on(daemon: Daemon) -> None:
    with dial(daemon) as client:
        creation = CreateTopicsRequest(topics=[CreatableTopic(name="by-id", num_partitions=1, replication_factor=1)])
        known = client.ask(creation, 7, CreateTopicsResponse).topics[0].topic_id
        batch = build_batch([Record(0, 0, None, b"value", ())])
        data = [
            TopicProduceData(topic_id=topic_id, partition_data=[PartitionProduceData(index=0, records=records)])
            for topic_id, records in ((known, batch), (bytes(15) + b"x", batch), (known, b"no batch" * 10))
        ]
        answer = client.ask(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=data), 13, ProduceResponse)
        assert [topic.topic_id for topic in answer.responses] == [topic.topic_id for topic in data]
        rows = [topic.partition_responses[0] for topic in answer.responses]
        assert [(row.error_code, row.base_offset) for row in rows] == [
            (ErrorCode.NONE, 0),
            (ErrorCode.UNKNOWN_TOPIC_ID, -1),
            (ErrorCode.CORRUPT_MESSAGE, -1),
        ]


def test_what_is_not_supported_is_told_and_the_connection_goes_on(daemon: Daemon) -> None:
    refused = ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")
    correlation_id = struct.pack(">i", 7)
    with dial(daemon) as client:
        for key, version, body in (
            (999, 0, refused),  # no such API
            (ApiKey.ENVELOPE, 0, b"\0" + refused),  # none of ours: flexible, and nothing is known of its response
            (ApiKey.LIST_OFFSETS, 99, b"\0" + refused),  # its response has errors for partitions only
            (ApiKey.HEARTBEAT, 99, b"\0" + bytes(4) + refused + b"\0"),  # as in version 4
            (ApiKey.UNREGISTER_BROKER, 9, b"\0" + bytes(4) + refused),  # as in version 0, with a message
        ):
            client.send(struct.pack(">ihhih", 10, key, version, 7, -1))
            answer = client.receive()
            assert answer.startswith(correlation_id + body), key
        client.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)


def test_max_connections(daemon: Daemon) -> None:
    clients = [dial(daemon) for _ in range(3)]
    for client in clients:
        client.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
    with dial(daemon) as one_too_many:
        assert one_too_many.is_closed_by_peer()
    assert "refused: 3 connections are open (max.connections)" in daemon.stderr()
    for client in clients:
        client.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
        client.socket.close()

    def answered() -> bool:
        with dial(daemon) as again:
            again.send(request_frame(ApiVersionsRequest(), 0))
            try:
                return bool(again.receive())
            except (EOFError, ConnectionError):
                return False

    until(answered, "there is room again")
