"""What a client's file says, and that a server that does not know the password is found out."""

from __future__ import annotations

from pathlib import Path

import pytest
from tidelog.broker.cli.client_security import ClientSecurity, read_security, security_of
from tidelog.broker.cli.kafka_client import KafkaFailure
from tidelog.broker.security.credentials import new_credential
from tidelog.broker.security.scram import ScramExchange

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


def test_a_file_of_kafkas_tools_is_understood(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "security.protocol=sasl_ssl\nsasl.mechanism=SCRAM-SHA-512\n"
        f'sasl.jaas.config={SCRAM} required username="alice" password="a=b;c";\n'
        "ssl.truststore.location=/ca.pem\nssl.keystore.location=/alice.pem\nssl.key.password=k\nretries=3\n"
        "ssl.endpoint.identification.algorithm=\n"
    )
    assert read_security(file) == ClientSecurity(
        "SASL_SSL", "SCRAM-SHA-512", "alice", "a=b;c", "/ca.pem", "/alice.pem", "k", check_name=False
    )
    assert read_security(file).librdkafka() == {
        "security.protocol": "sasl_ssl",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "alice",
        "sasl.password": "a=b;c",
        "ssl.ca.location": "/ca.pem",
        "ssl.certificate.location": "/alice.pem",
        "ssl.key.location": "/alice.pem",
        "ssl.key.password": "k",
        "ssl.endpoint.identification.algorithm": "none",
    }


def test_nothing_asked_for_is_plaintext() -> None:
    assert security_of({}) == ClientSecurity()
    assert security_of({}).librdkafka() == {"security.protocol": "plaintext"}


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"security.protocol": "TLS"}, "security.protocol=TLS; allowed: PLAINTEXT"),
        ({"security.protocol": "SASL_SSL"}, r"sasl.mechanism=\(missing\); commands know PLAIN"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}, "sasl.mechanism=GSSAPI"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}, "who are you"),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": "x"},
            "sasl.jaas.config is not",
        ),
    ],
)
def test_what_is_missing_is_named(settings: dict[str, str], why: str, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    with pytest.raises(KafkaFailure, match=why) as caught:
        read_security(file)
    assert str(caught.value).startswith(f"{file}: ")
    with pytest.raises(KafkaFailure, match="can't be read: No such file"):
        read_security(tmp_path / "none")


class Users:
    def of(self, name: str) -> object:
        return {"SCRAM-SHA-256": new_credential("SCRAM-SHA-256", "pencil", b"salt", 4096)}


def test_scram_convinces_both_sides() -> None:
    server = ScramExchange("SCRAM-SHA-256", Users(), b"d", lambda: "part")  # type: ignore[arg-type]
    tokens = ClientSecurity("SASL_SSL", "SCRAM-SHA-256", "a,l=ice", "pencil").tokens()
    first = tokens(None)
    assert first is not None
    second = tokens(server.step(first).reply)
    assert second is not None
    last = server.step(second)
    assert last.user == "a,l=ice"
    assert tokens(last.reply) is None


def test_a_server_that_does_not_know_the_password_is_found_out() -> None:
    tokens = ClientSecurity("SASL_SSL", "SCRAM-SHA-256", "alice", "pencil").tokens()
    first = tokens(None)
    assert first is not None
    nonce = first.decode().rpartition("r=")[2]
    assert tokens(f"r={nonce}x,s=c2FsdA==,i=4096".encode()) is not None
    with pytest.raises(KafkaFailure, match="does not know the password"):
        tokens(b"v=AAAA")


@pytest.mark.parametrize(
    "said", [b"r=other,s=AA==,i=4096", b"", b"r=NONCEx,s=AA==,i=9999999999", b"r=NONCEx,s=AA==,i=-1"]
)
def test_a_server_that_makes_no_sense_is_refused(said: bytes) -> None:
    tokens = ClientSecurity("SASL_SSL", "SCRAM-SHA-256", "alice", "pencil").tokens()
    nonce = str(tokens(None)).rpartition("r=")[2].rstrip("'")
    with pytest.raises(KafkaFailure, match="makes no sense"):
        tokens(said.replace(b"NONCE", nonce.encode()))


def test_plain_says_it_once() -> None:
    tokens = ClientSecurity("SASL_SSL", "PLAIN", "alice", "pencil").tokens()
    assert tokens(None) == b"\0alice\0pencil"
    assert tokens(b"") is None
