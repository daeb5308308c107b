"""Certificates: what makes a context, what is said of what makes none, and that what is bad never replaces what is good."""

from __future__ import annotations

import os
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme
from tidelog.broker.security.tls import TlsError, TlsListener, expiry_s, make_context, openssl_name
from tidelog.config.broker_config import BrokerConfig, broker_config

CA = trustme.CA()
END = datetime(2050, 1, 2, 3, 4, 5, tzinfo=UTC)
SERVER = CA.issue_cert("localhost", not_after=END)
OTHER = CA.issue_cert("localhost", not_after=END + timedelta(days=1))
KEY = SERVER.private_key_pem.bytes().decode()
CHAIN = "".join(blob.bytes().decode() for blob in SERVER.cert_chain_pems)


def config(tmp_path: Path, **more: object) -> BrokerConfig:
    (tmp_path / "server.pem").write_text(KEY + CHAIN)
    (tmp_path / "ca.pem").write_bytes(CA.cert_pem.bytes())
    values = {
        "listeners": ("SSL://127.0.0.1:0",),
        "ssl.keystore.location": str(tmp_path / "server.pem"),
        "ssl.truststore.location": str(tmp_path / "ca.pem"),
    }
    return broker_config({**values, **{name.replace("_", "."): value for name, value in more.items()}})  # type: ignore[dict-item]


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> ssl.SSLObject:
    """A handshake in memory; the client's side. Raises what either side finds wrong."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    near = server.wrap_bio(to_server, to_client, server_side=True)
    far = client.wrap_bio(to_client, to_server, server_hostname="localhost")
    for side in (far, near) * 3:
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    return far


def client(**minimum: ssl.TLSVersion) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=CA.cert_pem.bytes().decode())
    for name, version in minimum.items():
        setattr(context, name, version)
    return context


def test_a_file_with_key_and_chain_is_a_context(tmp_path: Path) -> None:
    listener = TlsListener("SSL", config(tmp_path))
    far = shake_hands(listener.context, client())
    assert far.version() == "TLSv1.3"
    assert listener.not_after_s == int(END.timestamp())


def test_key_and_chain_may_be_in_the_settings_and_the_key_encrypted(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization

    key = serialization.load_pem_private_key(KEY.encode(), None)
    encrypted = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"geheim")
    ).decode()
    inline = {
        "ssl_keystore_location": None,
        "ssl_keystore_key": encrypted,
        "ssl_keystore_certificate_chain": CHAIN,
        "ssl_truststore_location": None,
        "ssl_truststore_certificates": CA.cert_pem.bytes().decode(),
        "ssl_client_auth": "required",
    }
    listener = TlsListener("SSL", config(tmp_path, **inline, ssl_key_password="geheim"))
    own = client()
    CA.issue_cert("alice").configure_cert(own)
    shake_hands(listener.context, own)
    with pytest.raises(TlsError, match=r"ssl\.key\.password is wrong, or missing") as caught:
        TlsListener("SSL", config(tmp_path, **inline, ssl_key_password="wrong"))
    assert "wrong," not in str(caught.value).partition("ssl.key.password")[0]
    with pytest.raises(TlsError, match=r"ssl\.key\.password is wrong, or missing"):
        TlsListener("SSL", config(tmp_path, **inline))


def test_only_the_versions_that_are_enabled_are_spoken(tmp_path: Path) -> None:
    older = TlsListener("SSL", config(tmp_path, ssl_enabled_protocols=("TLSv1.2",)))
    assert shake_hands(older.context, client()).version() == "TLSv1.2"
    newer = TlsListener("SSL", config(tmp_path, ssl_enabled_protocols=("TLSv1.3",)))
    with pytest.raises(ssl.SSLError):
        shake_hands(newer.context, client(maximum_version=ssl.TLSVersion.TLSv1_2))
    both = TlsListener("SSL", config(tmp_path))
    assert not both.context.options & ssl.OP_NO_TLSv1_2
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        ancient = client(minimum_version=ssl.TLSVersion.TLSv1, maximum_version=ssl.TLSVersion.TLSv1_1)
    with pytest.raises(ssl.SSLError):
        shake_hands(both.context, ancient)


def test_cipher_suites_by_standard_name(tmp_path: Path) -> None:
    suite = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
    rsa = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"
    one = config(tmp_path, ssl_cipher_suites=(suite, rsa, "TLS_AES_128_GCM_SHA256"), ssl_enabled_protocols=("TLSv1.2",))
    far = shake_hands(TlsListener("SSL", one).context, client())
    assert (far.cipher() or ("",))[0] in ("ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256")
    with pytest.raises(TlsError, match="OpenSSL knows no 'TLS_NO_WITH_SUCH'"):
        TlsListener("SSL", config(tmp_path, ssl_cipher_suites=("TLS_NO_WITH_SUCH",)))


@pytest.mark.parametrize(
    ("standard", "openssl"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
        ("TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256", "ECDHE-ECDSA-AES128-SHA256"),
        ("TLS_DHE_RSA_WITH_AES_128_GCM_SHA256", "DHE-RSA-AES128-GCM-SHA256"),
        ("TLS_RSA_WITH_AES_256_CBC_SHA", "AES256-SHA"),
        ("ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
    ],
)
def test_openssls_names(standard: str, openssl: str) -> None:
    assert openssl_name(standard) == openssl
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers(openssl + ":@SECLEVEL=0")
    assert openssl in {cipher["name"] for cipher in context.get_ciphers()}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", "must have the private key and the certificate chain as PEM"),
        (KEY, "must have the private key and the certificate chain as PEM"),
        (CHAIN, "must have the private key and the certificate chain as PEM"),
        ("\x00\x01 a JKS store", "must have the private key and the certificate chain as PEM"),
        (OTHER.private_key_pem.bytes().decode() + CHAIN, "the private key is not that of the first certificate"),
    ],
)
def test_what_is_no_key_store_is_said_with_its_name(tmp_path: Path, content: str, why: str) -> None:
    one = config(tmp_path)
    (tmp_path / "server.pem").write_text(content)
    with pytest.raises(TlsError, match=why) as caught:
        TlsListener("SSL", one)
    assert str(caught.value).startswith(f"ssl.keystore.location={tmp_path}/server.pem: ")


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(TlsError, match=r"ssl\.keystore\.location=/nowhere: can't be read: No such file"):
        TlsListener("SSL", config(tmp_path, ssl_keystore_location="/nowhere"))
    with pytest.raises(TlsError, match=r"ssl\.truststore\.location=/nowhere: can't be read: No such file"):
        TlsListener("SSL", config(tmp_path, ssl_truststore_location="/nowhere", ssl_client_auth="requested"))
    one = config(tmp_path, ssl_client_auth="required")
    (tmp_path / "ca.pem").write_text("no certificate")
    with pytest.raises(TlsError, match="it must have certificates of authorities, as PEM"):
        TlsListener("SSL", one)


def test_a_renewed_certificate_holds_and_a_broken_one_does_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    one = config(tmp_path)
    listener = TlsListener("SSL", one)
    first = listener.context
    assert not listener.renew(one)
    assert listener.context is first
    path = tmp_path / "server.pem"
    replacement = tmp_path / "new.pem"
    replacement.write_text(OTHER.private_key_pem.bytes().decode() + OTHER.cert_chain_pems[0].bytes().decode())
    os.replace(replacement, path)
    assert listener.renew(one)
    assert listener.not_after_s == int((END + timedelta(days=1)).timestamp())
    second = listener.context
    assert second is not first
    path.write_text("half a fi")
    assert not listener.renew(one)
    assert not listener.renew(one)
    assert listener.context is second
    assert caplog.text.count("certificates in use stay") == 1
    assert (listener.reloads, listener.failed_reloads) == (1, 1)


def test_other_settings_make_another_context(tmp_path: Path) -> None:
    listener = TlsListener("SSL", config(tmp_path))
    other = config(tmp_path, ssl_enabled_protocols=("TLSv1.2",))
    assert listener.is_changed(other)
    listener.try_settings(other)
    assert listener.renew(other)
    assert shake_hands(listener.context, client()).version() == "TLSv1.2"
    with pytest.raises(TlsError):
        listener.try_settings(config(tmp_path, ssl_keystore_location="/nowhere"))


def test_a_certificate_that_has_ended_is_known_for_it(caplog: pytest.LogCaptureFixture) -> None:
    past = datetime(2001, 1, 1, tzinfo=UTC)
    ended = CA.issue_cert("localhost", not_before=past - timedelta(days=1), not_after=past)
    values: dict[str, object] = {
        "ssl.keystore.location": None,
        "ssl.keystore.key": ended.private_key_pem.bytes().decode(),
        "ssl.keystore.certificate.chain": ended.cert_chain_pems[0].bytes().decode(),
        "ssl.key.password": None,
        "ssl.client.auth": "none",
        "ssl.enabled.protocols": ("TLSv1.3",),
        "ssl.cipher.suites": (),
    }
    make_context(values)
    assert expiry_s(values) == 0
    assert "not valid today" in caplog.text
