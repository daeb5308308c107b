"""Addresses and settings as users write them."""

from __future__ import annotations

import pytest
from tidelog.pipeline.exceptions import OptionError
from tidelog.pipeline.wire.settings import ClientSettings
from tidelog.protocol.client_security import ClientSecurity, security_of


def test_addresses_and_settings_are_read() -> None:
    found = ClientSettings.parse(
        "a:1, b , [::1]:3,[::2]",
        {"client.id": "me", "fetch.max.bytes": "5", "session.timeout.ms": "1", "security.protocol": "plaintext"},
    )
    assert found.bootstrap == (("a", 1), ("b", 9092), ("::1", 3), ("::2", 9092))
    assert (found.client_id, found.fetch_max_bytes, found.cluster_check) == ("me", 5, True)
    assert not ClientSettings.parse("a", {"metadata.cluster.check.enable": "False"}).cluster_check


@pytest.mark.parametrize(
    ("servers", "options", "message"),
    [
        ("", {}, "names no broker"),
        ("a:b", {}, "a:b is no host:port"),
        ("a:70000", {}, "no host:port"),
        ("a:" + "9" * 5000, {}, "no host:port"),
        ("a", {"fetch.max.byte": "5"}, "unknown option kafka.fetch.max.byte; did you mean kafka.fetch.max.bytes?"),
        ("a", {"xyzzy": "5"}, "unknown option kafka.xyzzy$"),
        ("a", {"request.timeout.ms": "soon"}, "kafka.request.timeout.ms is 'soon', which is no number"),
        ("a", {"request.timeout.ms": "0"}, "can be 1 to 2147483647"),
        (
            "a",
            {"metadata.cluster.check.enable": "no"},
            "kafka.metadata.cluster.check.enable is 'no'; it can be true or false",
        ),
        ("a", {"auto.offset.reset": "latest"}, "kafka.auto.offset.reset can't be set: set startingOffsets"),
        ("a", {"security.protocol": "TLS"}, "kafka.security.protocol=TLS; allowed"),
        ("a", {"sasl.mechanism": "PLAIN"}, "kafka.sasl.mechanism needs kafka.security.protocol: SSL"),
        ("a", {"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}, "known: PLAIN"),
        ("a", {"security.protocol": "SSL", "ssl.truststore.type": "JKS"}, "kafka.ssl.truststore.type is JKS; .* PEM"),
        ("a", {"sasl.client.callback.handler.class": "x"}, "names a Java class"),
        ("a", {"sasl.login.callback.handler.class": "x"}, "names a Java class"),
        (
            "a",
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"},
            "OAUTHBEARER needs sasl.oauthbearer.token",
        ),
        (
            "a",
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.token": "a b"},
            "^kafka.sasl.oauthbearer.token: that is no token",
        ),
        ("a", {"sasl.oauthbearer.tokn": "x"}, "did you mean kafka.sasl.oauthbearer.token"),
        ("a", {"sasl.jaas.confg": "x"}, "did you mean kafka.sasl.jaas.config"),
    ],
)
def test_mistakes_are_told(servers: str, options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        ClientSettings.parse(servers, options)


PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def test_security_is_read_and_shows_no_secret() -> None:
    given = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{PLAIN} required username="alice" password="open sesame";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/ca.pem",
        "ssl.key.password": "open sesame",
    }
    found = ClientSettings.parse("a", given)
    assert found.security == security_of(given)
    assert found.security.password == "open sesame"
    assert "sesame" not in repr(found)
    assert ClientSettings.parse("a").security == ClientSecurity()
    for broken in ("open sesame", f'{PLAIN} required password="open sesame"', f'{PLAIN} required "open sesame";'):
        with pytest.raises(OptionError) as caught:
            ClientSettings.parse("a", {**given, "sasl.jaas.config": broken})
        assert "sesame" not in str(caught.value)


def test_what_javas_clients_say_for_oauthbearer_is_understood() -> None:
    module = "org.apache.kafka.common.security.oauthbearer"
    given = {
        "security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER",
        "sasl.login.callback.handler.class": f"{module}.secured.OAuthBearerLoginCallbackHandler",
        "sasl.oauthbearer.token.endpoint.url": "https://issuer/token",
        "sasl.jaas.config": f'{module}.OAuthBearerLoginModule required clientId="etl" clientSecret="open sesame";',
        "sasl.login.refresh.buffer.seconds": "5", "sasl.oauthbearer.sub.claim.name": "sub",
    }  # fmt: skip
    found = ClientSettings.parse("a", given)
    assert found.security == security_of(given)
    assert found.security.oauth is not None
    assert (found.security.oauth.client_id, found.security.oauth.client_secret) == ("etl", "open sesame")
    assert "sesame" not in repr(found)
