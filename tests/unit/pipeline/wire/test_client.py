"""The cluster: brokers that are down, leaders and coordinators that move, what is tried again and for how long."""

from __future__ import annotations

from typing import Any

import pytest
from support.fake_brokers import FakeBrokers, Handler
from tidelog.clients.kafka.conversations import CoordinatorKind
from tidelog.pipeline.exceptions import BrokerError, BrokerUnreachableError
from tidelog.pipeline.wire.client import KafkaClient, Leader, leaders
from tidelog.pipeline.wire.settings import ClientSettings
from tidelog.protocol.api_keys import ApiKey
from tidelog.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from tidelog.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tidelog.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

ONE, TWO = ("one", 9092), ("two", 9092)
BROKERS = [
    MetadataResponseBroker(node_id=1, host="one", port=9092),
    MetadataResponseBroker(node_id=2, host="two", port=9092),
]


class Clock:
    """Time passes by sleeping."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


def client(handlers: dict[Any, Handler], **options: Any) -> tuple[KafkaClient, FakeBrokers, Clock]:
    brokers, clock = FakeBrokers(handlers, **options), Clock()
    settings = ClientSettings((ONE, TWO), api_timeout_ms=3000)
    return KafkaClient(settings, connect=brokers.connect, clock=clock, sleep=clock.sleep), brokers, clock


def cluster(request: Any, version: int) -> MetadataResponse:
    assert isinstance(request, MetadataRequest)
    assert not request.allow_auto_topic_creation
    partitions = [MetadataResponsePartition(partition_index=0, leader_id=2, leader_epoch=5)]
    topics = [MetadataResponseTopic(name="t", partitions=partitions), MetadataResponseTopic(name="no", error_code=3)]
    return MetadataResponse(brokers=BROKERS, topics=topics)


def test_the_first_broker_that_answers_is_asked() -> None:
    one, brokers, _ = client({TWO: cluster})
    assert leaders(one.metadata(["t", "no"])) == {("t", 0): Leader(2, 5)}
    one.metadata(None)
    assert [address for address, _ in brokers.log] == [TWO, TWO]
    assert brokers.connects == 2  # the first was refused
    one.close()


def test_when_none_is_there_all_are_named_in_the_end() -> None:
    one, _, clock = client({})
    with pytest.raises(BrokerUnreachableError, match=r"one:9092: no connection .*; two:9092: no connection"):
        one.metadata(None)
    assert clock.pauses[:5] == [0.1, 0.2, 0.4, 0.8, 1.0]
    assert 2.0 < clock.now <= 3.0


def test_a_connection_that_broke_is_made_anew() -> None:
    answers = iter([None, cluster])
    one, brokers, clock = client({ONE: lambda *asked: (answer := next(answers)) and answer(*asked)})
    assert one.metadata(None).brokers == BROKERS
    assert brokers.connects == 2
    assert clock.pauses == [0.1]


def coordinated(node: dict[str, int], *, version: int = 4) -> tuple[KafkaClient, FakeBrokers, Clock]:
    """Node `node["is"]` coordinates; the others say that they don't."""

    def broker(me: int) -> Handler:
        def handle(request: Any, version: int) -> Any:
            if isinstance(request, FindCoordinatorRequest):
                where = BROKERS[node["said"] - 1]
                if version < 4:
                    assert request.key == "tx"
                    return FindCoordinatorResponse(node_id=where.node_id, host=where.host, port=where.port)
                found = Coordinator(key="tx", node_id=where.node_id, host=where.host, port=where.port)
                return FindCoordinatorResponse(coordinators=[found])
            node["said"] = node["is"]
            return InitProducerIdResponse(error_code=0 if me == node["is"] else 16, producer_id=me)

        return handle

    versions = {ApiKey.FIND_COORDINATOR: (0, version), ApiKey.INIT_PRODUCER_ID: (0, 4), ApiKey.METADATA: (0, 12)}
    return client({ONE: broker(1), TWO: broker(2)}, versions=versions)


def initialise(one: KafkaClient) -> int:
    request = InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=1000)
    kind = CoordinatorKind.TRANSACTION
    return one.request_coordinator("tx", kind, request, InitProducerIdResponse, up_to=4).producer_id


@pytest.mark.parametrize("version", [1, 3, 4])
def test_a_coordinator_is_looked_up_once_and_again_when_it_moved(version: int) -> None:
    node = {"said": 1, "is": 1}
    one, brokers, clock = coordinated(node, version=version)
    assert [initialise(one), initialise(one)] == [1, 1]
    assert len(brokers.log) == 3
    node["is"] = 2
    assert initialise(one) == 2
    assert clock.pauses == [0.1]


def test_what_does_not_pass_is_raised_at_once() -> None:
    def refuse(request: Any, version: int) -> Any:
        if isinstance(request, FindCoordinatorRequest):
            return FindCoordinatorResponse(coordinators=[Coordinator(key="tx", node_id=1, host="one", port=9092)])
        return InitProducerIdResponse(error_code=53)

    one, _, clock = client({ONE: refuse})
    with pytest.raises(BrokerError, match="INIT_PRODUCER_ID for tx: TRANSACTIONAL_ID_AUTHORIZATION_FAILED") as caught:
        initialise(one)
    assert (caught.value.code, caught.value.retriable, clock.pauses) == (53, False, [])


def test_a_coordinator_that_is_nobody_is_looked_for_again() -> None:
    one, brokers, clock = client(
        {ONE: lambda *_: FindCoordinatorResponse()}, versions={ApiKey.FIND_COORDINATOR: (0, 6)}
    )
    with pytest.raises(BrokerUnreachableError, match="the coordinator of tx is not named at the moment"):
        initialise(one)
    assert len(brokers.log) == len(clock.pauses) + 1 > 2


def test_a_broker_that_moved_is_found_by_new_metadata() -> None:
    where = {"port": 1}

    def handle(request: Any, version: int) -> Any:
        return MetadataResponse(brokers=[MetadataResponseBroker(node_id=7, host="new", port=where["port"])])

    one, _, clock = client({ONE: handle, ("new", 2): cluster})
    one.metadata([])
    where["port"] = 2
    assert one.retry(lambda: one.connection(7)).address == ("new", 2)
    assert clock.pauses == [0.1]


def named(cluster_id: str, *brokers: MetadataResponseBroker) -> Handler:
    """Answers metadata, and whatever else is asked with an id of this cluster."""

    def handle(request: Any, version: int) -> Any:
        if isinstance(request, MetadataRequest):
            return MetadataResponse(cluster_id=cluster_id, brokers=list(brokers))
        return InitProducerIdResponse(producer_id=len(cluster_id))

    return handle


def ask_node(one: KafkaClient, node_id: int) -> int:
    request = InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=1000)
    return one.request_from(node_id, request, InitProducerIdResponse, up_to=4).producer_id


def test_a_broker_that_metadata_have_named_is_told_that_it_is_meant() -> None:
    """KIP-1242. Bootstrap addresses may lead to any broker, so nobody is meant there."""
    one, brokers, _ = client({ONE: named("c", *BROKERS), TWO: named("c", *BROKERS)})
    brokers.identities = {ONE: ("c", 1), TWO: ("c", 2)}
    assert ask_node(one, 2) == 1
    assert [(address, version, asked.cluster_id, asked.node_id) for address, version, asked in brokers.openings] == [
        (ONE, 3, None, -1), (TWO, 5, "c", 2),
    ]  # fmt: skip


def test_an_address_that_leads_elsewhere_by_now_is_left_for_the_bootstrap_servers() -> None:
    moved = MetadataResponseBroker(node_id=2, host="three", port=9092)
    one, brokers, clock = client(
        {ONE: named("old", *BROKERS), TWO: named("old"), ("three", 9092): named("renewed", moved)}
    )
    brokers.identities = {TWO: ("another", 2), ("three", 9092): ("renewed", 2)}
    one.metadata(None)
    brokers.handlers[ONE] = named("renewed", moved)  # the cluster was made anew behind the same bootstrap address
    assert ask_node(one, 2) == len("renewed")
    assert [address for address, _, asked in brokers.openings if asked.cluster_id] == [TWO, ("three", 9092)]
    assert brokers.connects == 4, "the open connection to the old cluster is not asked again"
    assert clock.pauses == [0.1]


def test_when_it_stays_so_it_is_said() -> None:
    one, brokers, _ = client({ONE: named("c", *BROKERS), TWO: named("c")})
    brokers.identities = {TWO: ("another", 2)}
    with pytest.raises(BrokerUnreachableError, match="two:9092: it is not node 2 of cluster c any more"):
        ask_node(one, 2)


@pytest.mark.parametrize(
    ("options", "settings"),
    [({"versions": {ApiKey.API_VERSIONS: (0, 4)}}, {}), ({}, {"cluster_check": False})],
    ids=["a broker of before Kafka 4.4", "metadata.cluster.check.enable=false"],
)
def test_nobody_is_told_who_is_meant(options: dict[str, Any], settings: dict[str, Any]) -> None:
    known = {ApiKey.METADATA: (0, 12), ApiKey.INIT_PRODUCER_ID: (0, 4)}
    if "versions" in options:
        options = {"versions": known | options["versions"]}
    brokers = FakeBrokers({ONE: named("c", *BROKERS), TWO: named("c")}, **options)
    brokers.identities = {TWO: ("another", 2)}
    one = KafkaClient(ClientSettings((ONE, TWO), api_timeout_ms=3000, **settings), connect=brokers.connect)
    assert ask_node(one, 2) == 1
    assert {version for _, version, _ in brokers.openings} == {3}
