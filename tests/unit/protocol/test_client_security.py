"""What a client's settings say, and that a server that does not know the password is found out."""

from __future__ import annotations

import hashlib
import ssl
from pathlib import Path

import pytest
from tidelog.broker.security.credentials import new_credential
from tidelog.broker.security.sasl.disguise import Disguise
from tidelog.broker.security.sasl.scram import ScramExchange
from tidelog.protocol.client_security import ClientSecurity, ClientSecurityError, security_of, tls_failure

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


def test_settings_of_kafkas_clients_are_understood() -> None:
    found = security_of(
        {
            "security.protocol": "sasl_ssl",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": f'{SCRAM} required username="alice" password="a=b;c";',
            "ssl.truststore.location": "/ca.pem",
            "ssl.keystore.location": "/alice.pem",
            "ssl.key.password": "k",
            "retries": "3",
            "ssl.endpoint.identification.algorithm": "",
        }
    )
    assert found == ClientSecurity(
        "SASL_SSL", "SCRAM-SHA-512", "alice", "a=b;c", "/ca.pem", "/alice.pem", "k", check_name=False
    )
    assert found.librdkafka() == {
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
    assert "a=b;c" not in repr(found)
    assert "'k'" not in repr(found)


def test_nothing_asked_for_is_plaintext() -> None:
    assert security_of({}) == ClientSecurity()
    assert security_of({}).librdkafka() == {"security.protocol": "plaintext"}
    assert not security_of({}).has_tls
    assert not security_of({}).has_sasl


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"security.protocol": "TLS"}, "security.protocol=TLS; allowed: PLAINTEXT"),
        ({"security.protocol": "SASL_SSL"}, r"sasl.mechanism=\(missing\); known: PLAIN"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}, "sasl.mechanism=GSSAPI"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}, "no user is given"),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": "x"},
            "sasl.jaas.config is not",
        ),
    ],
)
def test_what_is_missing_is_named(settings: dict[str, str], why: str) -> None:
    with pytest.raises(ClientSecurityError, match=why):
        security_of(settings)


def test_files_that_can_not_be_used_are_named(tmp_path: Path) -> None:
    with pytest.raises(ClientSecurityError, match=r"ssl.truststore.location=.*none.pem: No such file"):
        ClientSecurity("SSL", ca=str(tmp_path / "none.pem")).tls_context()
    (tmp_path / "no.pem").write_text("nothing")
    with pytest.raises(ClientSecurityError, match=r"ssl.truststore.location=.*no.pem: not a PEM file"):
        ClientSecurity("SSL", ca=str(tmp_path / "no.pem")).tls_context()
    with pytest.raises(ClientSecurityError, match=r"ssl.keystore.location=.*no.pem: not a PEM file"):
        ClientSecurity("SSL", certificate=str(tmp_path / "no.pem")).tls_context()
    assert not ClientSecurity("SSL", check_name=False).tls_context().check_hostname


def test_a_handshake_that_fails_is_told_with_its_cause() -> None:
    untrusted = ssl.SSLCertVerificationError()
    untrusted.verify_message = "self-signed certificate"
    assert "certificate of h is not good: self-signed" in str(tls_failure("h", untrusted))
    assert "speaks no TLS" in str(tls_failure("h", ConnectionResetError(104, "Connection reset by peer")))


class Users:
    def of(self, name: str) -> object:
        return {"SCRAM-SHA-256": new_credential("SCRAM-SHA-256", "pencil", b"salt", 4096)}


def test_scram_convinces_both_sides() -> None:
    server = ScramExchange("SCRAM-SHA-256", Users(), Disguise(b"d"), lambda: "part")  # type: ignore[arg-type]
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
    with pytest.raises(ClientSecurityError, match="does not know the password"):
        tokens(b"v=AAAA")


@pytest.mark.parametrize(
    "said",
    [
        b"r=other,s=AA==,i=4096",
        b"",
        b"r=NONCEx,s=AA==,i=9999999999",
        b"r=NONCEx,s=AA==,i=-1",
        b"r=NONCEx,s=AA==,i=0",
        b"r=NONCEx,s=!,i=4096",
        "r=NONCEx,s=AA==,i=٣".encode(),
        "r=NONCEx,s=ä===,i=4096".encode(),
    ],
)
def test_a_server_that_makes_no_sense_is_refused(said: bytes) -> None:
    tokens = ClientSecurity("SASL_SSL", "SCRAM-SHA-256", "alice", "pencil").tokens()
    nonce = str(tokens(None)).rpartition("r=")[2].rstrip("'")
    with pytest.raises(ClientSecurityError, match="makes no sense"):
        tokens(said.replace(b"NONCE", nonce.encode()))


@pytest.mark.parametrize("iterations", [1, 2, 4095, (1 << 20) + 1, 999_999_999])
@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_no_server_gets_a_proof_that_is_guessed_fast_nor_keeps_a_client_busy(
    mechanism: str, iterations: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    worked: list[object] = []
    monkeypatch.setattr(hashlib, "pbkdf2_hmac", lambda *work: worked.append(work))
    tokens = ClientSecurity("SASL_SSL", mechanism, "alice", "pencil").tokens()
    nonce = str(tokens(None)).rpartition("r=")[2].rstrip("'")
    with pytest.raises(ClientSecurityError, match=f"asks for {iterations} iterations of {mechanism}; from 4096"):
        tokens(f"r={nonce}x,s=AA==,i={iterations}".encode())
    assert not worked


def test_a_server_that_adds_nothing_to_the_nonce_is_refused() -> None:
    tokens = ClientSecurity("SASL_SSL", "SCRAM-SHA-256", "alice", "pencil").tokens()
    nonce = str(tokens(None)).rpartition("r=")[2].rstrip("'")
    with pytest.raises(ClientSecurityError, match="makes no sense"):
        tokens(f"r={nonce},s=AA==,i=4096".encode())


def test_plain_says_it_once() -> None:
    tokens = ClientSecurity("SASL_SSL", "PLAIN", "alice", "pencil").tokens()
    assert tokens(None) == b"\0alice\0pencil"
    assert tokens(b"") is None
