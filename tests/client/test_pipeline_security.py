"""The pipeline's own client by TLS and SASL, against a daemon: what it reads, what it writes, and who is not let in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import trustme
from support.certificates import authority_in, write_identity
from support.inside import add_scram_user
from tidelog.pipeline.exceptions import AuthenticationError, BrokerUnreachableError
from tidelog.pipeline.planning.brokers import Brokers
from tidelog.pipeline.planning.places import TopicPartition
from tidelog.pipeline.planning.splits import FetchSplit
from tidelog.pipeline.reading.fetch_reader import read_fetched
from tidelog.pipeline.sink.producer import Producer, end_transaction, init_producer
from tidelog.pipeline.wire.client import KafkaClient
from tidelog.pipeline.wire.settings import ClientSettings
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.record_batch import Record
from tidelog.testing import Broker

SECRET = 'alice\'s "secret"'
MODULES = {"PLAIN": "plain.PlainLoginModule", "SCRAM-SHA-256": "scram.ScramLoginModule"}


class Secured(NamedTuple):
    broker: Broker
    folder: Path

    def settings(self, listener: str, **more: str) -> ClientSettings:
        given = {"security.protocol": listener, "default.api.timeout.ms": "2000"}
        if listener.endswith("SSL"):
            given["ssl.truststore.location"] = str(self.folder / "ca.pem")
        given |= {name.replace("_", "."): text for name, text in more.items()}
        return ClientSettings.parse(self.broker.listener(listener), given)

    def alice(self, listener: str, mechanism: str, password: str = SECRET) -> ClientSettings:
        module = f"org.apache.kafka.common.security.{MODULES.get(mechanism, MODULES['SCRAM-SHA-256'])}"
        quoted = password.replace('"', '\\"')
        jaas = f'{module} required username="alice" password="{quoted}";'
        return self.settings(listener, sasl_mechanism=mechanism, sasl_jaas_config=jaas)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("tls")
    authority = authority_in(folder)
    trustme.CA().cert_pem.write_to_path(folder / "other.pem")
    write_identity(authority, folder / "alice.pem", "alice@example.org")
    settings = {
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in ("PLAINTEXT", "SSL", "SASL_SSL", "SASL_PLAINTEXT")),
        "ssl.keystore.location": folder / "server.pem",
        "ssl.truststore.location": folder / "ca.pem",
        "listener.name.ssl.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.sasl_plaintext.connections.max.reauth.ms": "600000",
        "connection.failed.authentication.delay.ms": "1",
    }
    with Broker(settings) as broker:
        broker.create_topic("t")
        add_scram_user(broker, "alice", SECRET, ("SCRAM-SHA-256", "SCRAM-SHA-512"))
        yield Secured(broker, folder)


def round_trip(settings: ClientSettings, value: bytes) -> None:
    """A transaction by the sink's producer; read back by the source's reader."""
    with KafkaClient(settings) as client:
        producer = init_producer(client, "tx")
        sender = Producer(client, producer, transactional_id="tx")
        assert sender.partitions("t") == 1
        record = Record(0, 1_700_000_000_000, b"k", value)
        batch = build_batch(
            [record], producer_id=producer.id, producer_epoch=producer.epoch, base_sequence=0, is_transactional=True
        )
        sender.send("t", [(0, 1, bytearray(batch))])
        sender.flush()
        assert end_transaction(client, "tx", producer, commit=True)
        there = Brokers(client).bounds([TopicPartition("t", 0)], read_committed=True)[TopicPartition("t", 0)]
    split = FetchSplit("t", 0, there.end - 2, there.end)
    found = [part.rows for part in read_fetched(split, settings, read_committed=True)]
    assert found == [1]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("listener", ["SASL_SSL", "SASL_PLAINTEXT"])
def test_a_user_reads_and_writes_by_every_mechanism(secured: Secured, listener: str, mechanism: str) -> None:
    round_trip(secured.alice(listener, mechanism), b"x" * 300_000)


def test_a_certificate_is_shown_where_it_is_asked_for(secured: Secured) -> None:
    round_trip(secured.settings("SSL", ssl_keystore_location=str(secured.folder / "alice.pem")), b"y")
    with pytest.raises((AuthenticationError, BrokerUnreachableError), match=r"certificate|closed|broke"):
        round_trip(secured.settings("SSL"), b"y")


def test_sessions_that_end_are_renewed_on_the_same_connection(secured: Secured) -> None:
    with KafkaClient(secured.alice("SASL_PLAINTEXT", "SCRAM-SHA-256")) as client:
        client.metadata(["t"])
        connection = client.any_connection()
        session = connection.session
        assert session is not None  # the broker says how long
        connection.session = (session[0] - 600, session[1] - 600)
        client.metadata(["t"])
        assert client.any_connection() is connection
        assert connection.session is not None
        assert connection.session[0] > session[0]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_wrong_password_is_told_at_once_and_shown_to_nobody(secured: Secured, mechanism: str) -> None:
    with KafkaClient(secured.alice("SASL_SSL", mechanism, "a wrong one")) as client:
        with pytest.raises(AuthenticationError, match="does not let user 'alice' in") as caught:
            client.metadata(None)
        assert "a wrong one" not in str(caught.value)


def test_who_is_not_who_it_says_is_found_out(secured: Secured) -> None:
    others = secured.settings("SSL", ssl_truststore_location=str(secured.folder / "other.pem"))
    with (
        KafkaClient(others) as client,
        pytest.raises(AuthenticationError, match=r"certificate of 127\.0\.0\.1 is not good"),
    ):
        client.metadata(None)
    missing = secured.settings("SSL", ssl_truststore_location="/none.pem")
    with (
        KafkaClient(missing) as client,
        pytest.raises(AuthenticationError, match=r"kafka.ssl.truststore.*No such file"),
    ):
        client.metadata(None)


def test_a_listener_of_another_kind_is_told_apart(secured: Secured) -> None:
    """Each way to be wrong, within `default.api.timeout.ms`."""
    tls = ClientSettings.parse(secured.broker.listener("SASL_SSL"), {"default.api.timeout.ms": "1"})
    with KafkaClient(tls) as client, pytest.raises(BrokerUnreachableError, match=r"kafka\.security\.protocol"):
        client.metadata(None)
    sasl = ClientSettings.parse(secured.broker.listener("SASL_PLAINTEXT"), {"default.api.timeout.ms": "1"})
    with KafkaClient(sasl) as client, pytest.raises(BrokerUnreachableError, match=r"kafka\.security\.protocol"):
        client.metadata(None)
    given = {"security.protocol": "SSL", "ssl.truststore.location": str(secured.folder / "ca.pem")}
    plain = ClientSettings.parse(secured.broker.listener("PLAINTEXT"), {**given, "default.api.timeout.ms": "1"})
    with KafkaClient(plain) as client, pytest.raises((AuthenticationError, BrokerUnreachableError)):
        client.metadata(None)
