"""Real clients over SASL_SSL and with certificates of their own: they get in and work, they are told why not, and they stay
in while sessions end, certificates are renewed and the daemon is started again."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import trustme
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.helpers import create_ssl_context
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from support.clients.base import random_name
from support.clients.programs import go_command, java_command, node_command, run_cases, tools_command
from support.daemon import Daemon
from support.patience import PATIENCE_S, until
from support.tokens import AUDIENCE, ISSUER, KeyServer, key_set, private_key, public_jwk, token_of

TEST_TIMEOUT_S = 900
PASSWORD = "alice's secret"
WAYS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "certificate")
NAMES = ("PLAINTEXT", "SASL_SSL", "SSL", "SHORT")
SESSION_MS = 2000


class Secured(NamedTuple):
    daemon: Daemon
    folder: Path
    authority: trustme.CA

    def address(self, listener: str) -> str:
        match = re.search(rf"\b{listener}://(\S+:\d+)", self.daemon.ready_line)
        assert match is not None, self.daemon.ready_line
        return match[1]

    def of(self, way: str) -> str:
        """Where that way leads in."""
        return self.address("SSL" if way == "certificate" else "SASL_SSL")

    def librdkafka(self, way: str, **more: object) -> dict[str, Any]:
        """Settings of confluent-kafka and kcat."""
        settings: dict[str, Any] = {
            "bootstrap.servers": self.of(way),
            "ssl.ca.location": str(self.folder / "ca.pem"),
            "security.protocol": "SSL" if way == "certificate" else "SASL_SSL",
        }
        if way == "certificate":
            own = str(self.folder / "alice.pem")
            settings |= {"ssl.certificate.location": own, "ssl.key.location": own}
        elif way != "OAUTHBEARER":
            settings |= {"sasl.mechanism": way, "sasl.username": "alice", "sasl.password": PASSWORD}
        return {**settings, **{name.replace("_", "."): value for name, value in more.items()}}

    def java(self, way: str, **more: str) -> dict[str, str]:
        """The environment of the Java program: a file of settings."""
        settings = {
            "security.protocol": "SSL" if way == "certificate" else "SASL_SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.folder / "ca.pem"),
        }
        if way == "certificate":
            settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self.folder / "alice.pem")}
        elif way != "OAUTHBEARER":
            kind = "plain.Plain" if way == "PLAIN" else "scram.Scram"
            settings["sasl.mechanism"] = way
            settings["sasl.jaas.config"] = (
                f'org.apache.kafka.common.security.{kind}LoginModule required username="alice" password="{PASSWORD}";'
            )
        settings |= {name.replace("_", "."): value for name, value in more.items()}
        path = self.folder / f"{random_name('client')}.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        return {"COMPAT_PROPERTIES": str(path)}

    def security(self, way: str, **more: str) -> dict[str, str]:
        """The environment of the Go and the Node program."""
        asked = {"ca": str(self.folder / "ca.pem")}
        if way == "certificate":
            asked["certificate"] = str(self.folder / "alice.pem")
        else:
            asked |= {"mechanism": way, "user": "alice", "password": PASSWORD}
        return {"COMPAT_SECURITY": json.dumps({**asked, **more})}

    def metric(self, name: str, listener: str) -> float:
        with urllib.request.urlopen(f"http://{self.daemon.http}/metrics", timeout=60) as answer:
            text = answer.read().decode()
        match = re.search(rf'^{name}{{listener="{listener}"}} (\S+)$', text, re.MULTILINE)
        assert match is not None, name
        return float(match[1])

    def again(self) -> float:
        """How often clients of SHORT have authenticated on connections on which they had done so before."""
        # In this order: a connection that comes meanwhile must not look like one.
        authenticated = self.metric("tidelog_authentications_total", "SHORT")
        return authenticated - self.metric("tidelog_listener_connections_accepted_total", "SHORT")

    def renew(self) -> None:
        """The listeners get a new certificate."""
        _write_identity(self.authority.issue_cert("localhost", "127.0.0.1"), self.folder / "server.pem")


def _write_identity(identity: trustme.LeafCert, path: Path) -> None:
    """Key and chain in one file, the key in the one form that Java reads."""
    key = load_pem_private_key(identity.private_key_pem.bytes(), None)
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    text += b"".join(blob.bytes() for blob in identity.cert_chain_pems)
    beside = path.with_suffix(".new")
    beside.write_bytes(text)
    beside.replace(path)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    trustme.CA().cert_pem.write_to_path(folder / "other-ca.pem")
    _write_identity(authority.issue_cert("alice@example.org", common_name="alice"), folder / "alice.pem")
    (folder / "keys.json").write_bytes(key_set(public_jwk(private_key())))
    settings: dict[str, str | int] = {
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in NAMES),
        "listener.security.protocol.map": "SHORT:SASL_SSL",
        "ssl.keystore.location": str(folder / "server.pem"),
        "ssl.truststore.location": str(folder / "ca.pem"),
        "ssl.files.check.interval.ms": 1000,
        "listener.name.ssl.ssl.client.auth": "required",
        "listener.name.short.connections.max.reauth.ms": SESSION_MS,
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": (folder / "keys.json").as_uri(),
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "group.initial.rebalance.delay.ms": 0,
    }
    one = Secured(Daemon(folder / "data", settings), folder, authority)
    one.renew()
    with one.daemon:
        # It is started again in one test, where its clients expect it.
        one.daemon.settings["listeners"] = ",".join(f"{name}://{one.address(name)}" for name in NAMES)
        admin = AdminClient({"bootstrap.servers": one.daemon.bootstrap})
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            wanted = UserScramCredentialUpsertion("alice", ScramCredentialInfo(mechanism, 4096), PASSWORD.encode())
            admin.alter_user_scram_credentials([wanted])["alice"].result(PATIENCE_S)
        yield one


def passed(results: Mapping[str, str], count: int) -> None:
    assert len(results) == count
    assert all(line.startswith("PASS ") for line in results.values()), results


def flushed(producer: Producer) -> None:
    assert producer.flush(60) == 0


# -- getting in, and working


@pytest.mark.parametrize("way", WAYS)
def test_librdkafka(secured: Secured, way: str) -> None:
    topic, group = random_name("secured"), random_name("group")
    admin = AdminClient(secured.librdkafka(way))
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(PATIENCE_S)
    producer = Producer(secured.librdkafka(way, transactional_id=random_name("t")))
    producer.init_transactions(30)
    for value, ends in ((b"kept", producer.commit_transaction), (b"aborted", producer.abort_transaction)):
        producer.begin_transaction()
        for number in range(100):
            producer.produce(topic, value * 100, str(number))
        ends(30)
    consumer = Consumer(secured.librdkafka(way, group_id=group, auto_offset_reset="earliest"))
    consumer.subscribe([topic])
    values = [message.value() for message in consumer.consume(100, 60)]
    consumer.close()
    assert values == [b"kept" * 100] * 100


@pytest.mark.parametrize("way", WAYS)
async def test_aiokafka(secured: Secured, way: str) -> None:
    own = str(secured.folder / "alice.pem") if way == "certificate" else None
    context = create_ssl_context(cafile=str(secured.folder / "ca.pem"), certfile=own)
    settings: dict[str, Any] = {
        "bootstrap_servers": secured.of(way),
        "security_protocol": "SSL" if own else "SASL_SSL",
        "ssl_context": context,
    }
    if not own:
        settings |= {"sasl_mechanism": way, "sasl_plain_username": "alice", "sasl_plain_password": PASSWORD}
    topic = random_name("secured")
    async with AIOKafkaProducer(transactional_id=random_name("t"), **settings) as producer, producer.transaction():
        for number in range(20):
            await producer.send_and_wait(topic, b"%d" % number)
    reading: dict[str, Any] = {"auto_offset_reset": "earliest", "isolation_level": "read_committed", **settings}
    async with AIOKafkaConsumer(topic, group_id=random_name("g"), **reading) as consumer:
        assert [(await consumer.getone()).value for _ in range(20)] == [b"%d" % number for number in range(20)]


@pytest.mark.parametrize("way", WAYS)
def test_kcat(secured: Secured, kcat_program: str, way: str) -> None:
    topic = random_name("secured")
    settings = secured.librdkafka(way)
    options = [part for name, value in settings.items() for part in ("-X", f"{name}={value}")]
    command = [kcat_program, *options, "-t", topic]
    subprocess.run([*command, "-P"], input="".join(f"{n}\n" for n in range(500)), text=True, check=True, timeout=60)
    read = subprocess.run([*command, "-C", "-e", "-q"], capture_output=True, text=True, check=True, timeout=60).stdout
    assert read == "".join(f"{n}\n" for n in range(500))


@pytest.mark.parametrize("way", WAYS)
def test_franz_go(secured: Secured, way: str) -> None:
    cases = ("roundtrip-lz4", "idempotence", "group", "admin")
    passed(run_cases(go_command(), secured.of(way), 100, *cases, environment=secured.security(way)), len(cases))


@pytest.mark.parametrize("way", WAYS)
def test_kafkajs(secured: Secured, way: str) -> None:
    names = ("roundtrip-gzip", "group-of-two", "transactions", "admin") if way in WAYS[2:] else ("roundtrip-gzip",)
    cases = [f"kafkajs-{name}" for name in names]
    passed(run_cases(node_command(), secured.of(way), 100, *cases, environment=secured.security(way)), len(cases))


@pytest.mark.parametrize("way", WAYS)
def test_java(secured: Secured, way: str) -> None:
    cases = ("roundtrip-zstd", "group", "transactions", "admin") if way in WAYS[2:] else ("roundtrip-zstd",)
    passed(run_cases(java_command(), secured.of(way), 100, *cases, environment=secured.java(way)), len(cases))


# -- being told why not


def first_error(settings: dict[str, Any], wanted: tuple[int, ...]) -> str:
    """What librdkafka calls its error callback with, of the errors that are `wanted`."""
    found: list[KafkaError] = []
    admin = AdminClient({**settings, "error_cb": found.append})

    def texts() -> list[str]:
        admin.poll(0.1)  # counts whatever it has called: other errors too, such as that no broker is there
        return [one.str() for one in found if one.code() in wanted]

    until(texts, "an error")
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=1)
    return texts()[0]


@pytest.mark.parametrize("way", WAYS[:3])
def test_librdkafka_is_told_that_the_password_is_wrong(secured: Secured, way: str) -> None:
    # Names of their own: clients come again on their own, and after ten times in a minute that user is turned away unheard.
    wrong = secured.librdkafka(way, sasl_username=f"guessed-{way}", sasl_password="wrong")
    assert "the user or the password is wrong" in first_error(wrong, (KafkaError._AUTHENTICATION,))


def test_librdkafka_is_told_that_it_does_not_know_the_authority(secured: Secured) -> None:
    other = secured.librdkafka("PLAIN", ssl_ca_location=str(secured.folder / "other-ca.pem"))
    assert "certificate verify failed" in first_error(other, (KafkaError._SSL,))


def test_librdkafka_is_told_why_its_token_is_not_good(secured: Secured) -> None:
    def expired(_: str) -> tuple[str, float]:
        return token_of(sub="late", exp=1), time.time() + 3600

    settings = secured.librdkafka("OAUTHBEARER", sasl_mechanism="OAUTHBEARER") | {"oauth_cb": expired}
    assert "the token has expired" in first_error(settings, (KafkaError._AUTHENTICATION,))


def refused(command: list[str], address: str, environment: Mapping[str, str], case: str) -> str:
    """What a program says when it is not let in; it must say it, and not hang."""
    (line,) = run_cases(command, address, 100, case, environment=environment).values()
    assert line.startswith("FAIL ")
    return line


def test_java_is_told(secured: Secured) -> None:
    jaas = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="guessed-java" password="wrong";'
    wrong = secured.java("SCRAM-SHA-512", sasl_jaas_config=jaas)
    address = secured.address("SASL_SSL")
    assert "the user or the password is wrong" in refused(java_command(), address, wrong, "admin")
    other = secured.java("SCRAM-SHA-512", ssl_truststore_location=str(secured.folder / "other-ca.pem"))
    assert "SslAuthenticationException" in refused(java_command(), address, other, "admin")


def test_franz_go_and_kafkajs_are_told(secured: Secured) -> None:
    address = secured.address("SASL_SSL")
    wrong = [secured.security("SCRAM-SHA-512", user=f"guessed-{name}", password="wrong") for name in ("go", "node")]
    other = secured.security("SCRAM-SHA-512", ca=str(secured.folder / "other-ca.pem"))
    assert "password is wrong" in refused(go_command(), address, wrong[0], "admin")
    assert "certificate signed by unknown authority" in refused(go_command(), address, other, "admin")
    assert "password is wrong" in refused(node_command(), address, wrong[1], "kafkajs-admin")
    assert "certificate" in refused(node_command(), address, other, "kafkajs-admin")


# -- staying in


def goes_on(secured: Secured, producer: Producer, topic: str, sessions: int) -> None:
    """Writes until the clients of SHORT have authenticated that often again; nothing may be lost on the way."""
    before = secured.again()
    lost: list[object] = []

    def more() -> bool:
        producer.produce(topic, b"x", on_delivery=lambda error, _: error and lost.append(error))
        producer.poll(0.05)
        return secured.again() >= before + sessions

    until(more, "sessions that went on", 90)
    flushed(producer)
    assert not lost


@pytest.mark.parametrize("way", ["SCRAM-SHA-512", "OAUTHBEARER"])
def test_librdkafka_authenticates_again_before_its_session_ends(secured: Secured, way: str) -> None:
    made = 0

    def fresh(_: str) -> tuple[str, float]:
        nonlocal made
        made += 1
        return token_of(jti=str(made)), time.time() + 3600

    errors: list[KafkaError] = []
    settings = {**secured.librdkafka(way), "bootstrap.servers": secured.address("SHORT"), "error_cb": errors.append}
    if way == "OAUTHBEARER":
        settings |= {"sasl.mechanism": way, "oauth_cb": fresh}
    goes_on(secured, Producer(settings), random_name("short"), 2)
    assert [one for one in errors if one.code() == KafkaError._AUTHENTICATION] == []


@pytest.mark.parametrize("way", ["SCRAM-SHA-512", "OAUTHBEARER"])
def test_java_authenticates_again_before_its_session_ends(secured: Secured, way: str) -> None:
    environment, command = secured.java(way), java_command()
    if way == "OAUTHBEARER":
        token = secured.folder / "token"
        token.write_text(token_of())
        prefix = "org.apache.kafka.common.security.oauthbearer."
        environment = secured.java(
            way,
            sasl_mechanism=way,
            sasl_jaas_config=f"{prefix}OAuthBearerLoginModule required;",
            sasl_oauthbearer_token_endpoint_url=token.as_uri(),
            sasl_login_callback_handler_class=f"{prefix}OAuthBearerLoginCallbackHandler",
        )
        # With the JSON library that this needs, which kafka-clients leaves to its user; and Kafka's list of what may be read.
        *head, path, _ = tools_command()
        classes = java_command()[java_command().index("-cp") + 1].split(":")[0]
        allowed = [f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.{kind}={token.as_uri()}" for kind in ("urls", "files")]
        command = [head[0], *allowed, *head[1:], f"{classes}:{path}", "Compat"]
    topic = random_name("short")
    before = secured.again()
    with subprocess.Popen(
        [*command, secured.address("SHORT"), "write", topic],
        stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={"PATH": "/usr/bin:/bin:/usr/local/bin", **environment},
    ) as program:  # fmt: skip
        assert program.stdin is not None
        assert program.stderr is not None
        lines = 0

        def more() -> bool:
            nonlocal lines
            assert program.poll() is None, program.stderr and program.stderr.read()[-2000:]
            program.stdin.write(f"0\tnone\t-\t-\t{b'x'.hex()}\t\n")  # type: ignore[union-attr]
            program.stdin.flush()  # type: ignore[union-attr]
            lines += 1
            return secured.again() >= before + 2

        try:
            until(more, "sessions that went on", 90)
            program.stdin.close()
            assert program.wait(60) == 0, program.stderr.read()[-2000:]
        finally:
            program.kill()
    consumer = Consumer(
        {"bootstrap.servers": secured.daemon.bootstrap, "group.id": topic, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    assert len(consumer.consume(lines, 60)) == lines
    consumer.close()


def test_clients_go_on_over_a_renewed_certificate_and_a_restart(secured: Secured) -> None:
    topic = random_name("stays")
    acknowledged: list[Any] = []

    def written(producer: Producer) -> None:
        wanted = len(acknowledged) + 1
        producer.produce(topic, b"x", on_delivery=lambda error, _: acknowledged.append(error))

        def is_acknowledged() -> bool:
            producer.poll(0.1)  # counts other events too
            return len(acknowledged) >= wanted

        until(is_acknowledged, "an acknowledgement")
        assert acknowledged[-1] is None

    running = Producer(secured.librdkafka("SCRAM-SHA-512"))
    written(running)
    renewals = secured.metric("tidelog_certificate_reloads_total", "SASL_SSL")
    secured.renew()
    until(lambda: secured.metric("tidelog_certificate_reloads_total", "SASL_SSL") > renewals, "a renewal")
    written(running)
    written(Producer(secured.librdkafka("certificate")))
    secured.daemon.restart()
    written(running)


@pytest.mark.parametrize("from_issuer", [True, False])
def test_our_own_commands_get_records_through_librdkafka_by_tokens(secured: Secured, from_issuer: bool) -> None:
    """`--command-config` as Kafka's clients have it: librdkafka is given tokens by the command."""
    topic, file, token = random_name("tokens"), secured.folder / "oauth.properties", secured.folder / "own token"
    token.write_text(token_of())
    answer = json.dumps({"access_token": token_of(), "expires_in": 3600}).encode()
    with KeyServer(answer) as issuer:
        settings = {
            "security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER",
            "ssl.truststore.location": str(secured.folder / "ca.pem"),
            "sasl.oauthbearer.token.endpoint.url": issuer.url if from_issuer else token.as_uri(),
            "sasl.oauthbearer.client.credentials.client.id": "me",
            "sasl.oauthbearer.client.credentials.client.secret": PASSWORD,
        }  # fmt: skip
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        server = ("--bootstrap-server", secured.address("SASL_SSL"), "--command-config", str(file))
        for arguments, given, wanted in (
            (("topics", "create", topic), b"", None),
            (("produce", topic), b"one\ntwo\n", b""),
            (("consume", topic, "--from-beginning", "--max-messages", "2"), b"", b"one\ntwo\n"),
        ):
            command = [sys.executable, "-m", "tidelog.broker", *arguments, *server]
            done = subprocess.run(command, input=given, capture_output=True, timeout=TEST_TIMEOUT_S, check=False)
            assert (done.returncode, done.stderr) == (0, b""), arguments
            assert wanted is None or done.stdout == wanted
        assert bool(issuer.requests) == from_issuer
