from __future__ import annotations

import dataclasses
import typing

import pytest
from tidelog.config.broker_config import BrokerConfig, broker_config
from tidelog.config.definitions import HONOURED_BROKER
from tidelog.config.exceptions import ConfigError
from tidelog.config.listener import Listener
from tidelog.config.setting import SettingType, Value

PYTHON_TYPES = {
    SettingType.BOOLEAN: bool,
    SettingType.STRING: str,
    SettingType.INT: int,
    SettingType.SHORT: int,
    SettingType.LONG: int,
    SettingType.DOUBLE: float,
    SettingType.LIST: tuple[str, ...],
    SettingType.PASSWORD: str,
}
MEANINGS = {
    "listeners",
    "advertised_listeners",
    "listener_security_protocol_map",
    "message_set_listeners",
    "http_listener",
    "log_dirs",
    "max_connections_per_ip_overrides",
}


def test_there_is_one_attribute_for_each_honoured_setting_and_of_its_type() -> None:
    hints = typing.get_type_hints(BrokerConfig)
    rows = {row.attribute: row for row in HONOURED_BROKER}
    more = {"listener_limits", "listener_values", "given", "origins", "notices"}
    assert rows.keys() | more == hints.keys()
    for attribute, row in rows.items():
        if attribute not in MEANINGS:
            expected = PYTHON_TYPES[row.type]
            assert hints[attribute] == (expected | None if row.default is None else expected), attribute


def test_what_is_not_named_has_its_default() -> None:
    config = BrokerConfig(num_partitions=3)
    assert (config.num_partitions, config.socket_request_max_bytes) == (3, 100 * 1024 * 1024)
    assert config.listeners == (Listener("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9092),)
    assert config.http_listener == Listener("http", "PLAINTEXT", "127.0.0.1", 9404)
    assert config.log_dirs == ("./data",)
    with pytest.raises(TypeError, match=r"num_partition$"):
        BrokerConfig(num_partition=3)


def test_it_does_not_change() -> None:
    config = BrokerConfig()
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.num_partitions = 2  # type: ignore[misc]
    assert dataclasses.replace(config, num_partitions=2) == BrokerConfig(num_partitions=2)


def test_controllers_listeners_are_left_out() -> None:
    config = broker_config(
        {
            "listeners": ("PLAINTEXT://:9092", "CONTROLLER://:9093"),
            "advertised.listeners": ("PLAINTEXT://here:9092", "CONTROLLER://here:9093"),
            "controller.listener.names": ("CONTROLLER",),
        }
    )
    assert [listener.name for listener in config.listeners + config.advertised_listeners] == ["PLAINTEXT"] * 2


def test_message_set_listeners_are_addresses_and_off_by_default() -> None:
    assert BrokerConfig().message_set_listeners == ()
    config = broker_config({"message.set.listeners": ("tcp://127.0.0.1:9093", "[::1]:0")})
    assert config.message_set_listeners == (
        Listener("tcp", "PLAINTEXT", "127.0.0.1", 9093),
        Listener("tcp", "PLAINTEXT", "::1", 0),
    )


def test_an_empty_http_listener_switches_it_off() -> None:
    assert broker_config({"http.listener": ""}).http_listener is None


@pytest.mark.parametrize(
    ("values", "node_id"), [({}, -1), ({"node.id": 3}, 3), ({"broker.id": 4}, 4), ({"node.id": 5, "broker.id": 5}, 5)]
)
def test_broker_id_is_another_name_of_node_id(values: dict[str, Value], node_id: int) -> None:
    assert broker_config(values).node_id == node_id


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"listeners": ("PLAINTEXT://a:1", "PLAINTEXT://b:2")}, "PLAINTEXT is there twice"),
        ({"listeners": ("SSL://a:1",)}, "SSL://a:1 speaks SSL, which needs a certificate: set ssl.keystore.location"),
        (
            {"listeners": ("SSL://a:1",), "ssl.keystore.key": "k"},
            "set ssl.keystore.certificate.chain and ssl.keystore.key, both",
        ),
        (
            {"listeners": ("SSL://a:1",), "ssl.keystore.key": "k", "ssl.keystore.location": "f"},
            "two certificates, by ssl.keystore.location and by ssl.keystore.key",
        ),
        (
            {"listeners": ("SSL://a:1",), "ssl.keystore.location": "f", "ssl.keystore.type": "JKS"},
            "ssl.keystore.type='JKS' is not read here; allowed: PEM",
        ),
        (
            {
                "listeners": ("SASL_SSL://a:1", "PLAINTEXT://a:2"),
                "ssl.keystore.location": "f",
                "listener.name.sasl_ssl.ssl.client.auth": "required",
            },
            "SASL_SSL://a:1 has ssl.client.auth=required, which needs the authorities",
        ),
        ({"listener.name.extrnal.ssl.client.auth": "required"}, "there is no listener extrnal; there are plaintext"),
        ({"listeners": ("a:1",)}, "is not NAME://HOST:PORT"),
        ({"listeners": ("C://a:1",), "controller.listener.names": ("C",)}, "none left for clients"),
        (
            {"listeners": ("A://h:1", "B://h:1"), "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT"},
            "same host and port",
        ),
        ({"listener.security.protocol.map": "A"}, "is not NAME:PROTOCOL"),
        ({"advertised.listeners": ("SSL://a:1",)}, "has a name that listeners does not have"),
        ({"advertised.listeners": ("PLAINTEXT://0.0.0.0:1",)}, "no address that a client could connect to"),
        ({"advertised.listeners": ("PLAINTEXT://a:0",)}, "no address that a client could connect to"),
        ({"http.listener": "9404"}, "http.listener: '9404' is not HOST:PORT"),
        ({"message.set.listeners": ("udp://h:1",)}, "message.set.listeners: 'udp://h:1' is not HOST:PORT"),
        (
            {"listeners": ("PLAINTEXT://h:1",), "message.set.listeners": ("tcp://h:1",)},
            "two of them have the same host and port",
        ),
        (
            {"listeners": ("PLAINTEXT://h:1",), "http.listener": "h:1"},
            "http.listener: two of them have the same host and port",
        ),
        ({"node.id": 1, "broker.id": 2}, "two names of one setting"),
        ({"log.dirs": ("/a", "/b", "/a")}, "names a directory twice"),
        ({"group.min.session.timeout.ms": 9, "group.max.session.timeout.ms": 8}, "is above"),
    ],
)
def test_what_does_not_fit_together_is_refused(values: dict[str, Value], problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        broker_config(values)
    assert problem in str(caught.value)
    assert len(caught.value.problems) == 1


def test_a_listener_has_settings_of_its_own_and_a_mechanism_of_it_too() -> None:
    config = broker_config(
        {
            "listeners": ("SSL://a:1", "OUTSIDE://a:2", "PLAINTEXT://a:3"),
            "listener.security.protocol.map": "OUTSIDE:SASL_SSL",
            "ssl.keystore.location": "all.pem",
            "listener.name.outside.ssl.keystore.location": "outside.pem",
            "connections.max.reauth.ms": 5,
            "listener.name.outside.connections.max.reauth.ms": 6,
            "listener.name.outside.plain.connections.max.reauth.ms": 7,
        }
    )
    assert config.of_listener("SSL", "ssl.keystore.location") == "all.pem"
    assert config.of_listener("OUTSIDE", "ssl.keystore.location") == "outside.pem"
    times = [config.of_listener("OUTSIDE", "connections.max.reauth.ms", mechanism) for mechanism in ("PLAIN", "X", "")]
    assert times == [7, 6, 6]
    assert config.of_listener("PLAINTEXT", "connections.max.reauth.ms") == 5


def test_settings_of_a_controllers_listener_are_left_out() -> None:
    config = broker_config(
        {
            "listeners": ("PLAINTEXT://a:1", "C://a:2"),
            "controller.listener.names": ("C",),
            "listener.name.c.ssl.client.auth": "required",
        }
    )
    assert config.listener_values == {}


BASIC: dict[str, Value] = {"http.authentication": ("basic",)}
PEM: dict[str, Value] = {"ssl.keystore.location": "/x.pem"}
OAUTH: dict[str, Value] = {
    "http.authentication": ("oauthbearer",), "http.users.read": ("a",), "http.listener": "127.0.0.1:0",
}  # fmt: skip
KEYS: dict[str, Value] = {"sasl.oauthbearer.jwks.endpoint.url": "file:///keys"}
SASL: dict[str, Value] = {
    "listeners": ("SASL_PLAINTEXT://127.0.0.1:0",), "sasl.enabled.mechanisms": ("OAUTHBEARER",), **KEYS,
}  # fmt: skip
EXPECTED: dict[str, Value] = {"sasl.oauthbearer.expected.audience": ("a",), "sasl.oauthbearer.expected.issuer": "i"}
HTTPS_KEYS: dict[str, Value] = {f"listener.name.http.{name}": value for name, value in KEYS.items()}
CERTIFICATE: dict[str, Value] = {"http.authentication": ("certificate",), "http.users.read": ("a",)}


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        (BASIC, "http.authentication: nobody would get in"),
        ({"http.users.read": ("a",)}, "mean nothing without http.authentication"),
        ({"http.users.admin": ("a",)}, "mean nothing without http.authentication"),
        ({"http.authentication": ("bearer",), "http.users.read": ("a",)}, "http.tokens.file need each other"),
        ({**BASIC, "http.users.read": ("a",), "http.tokens.file": "/t"}, "http.tokens.file need each other"),
        ({"http.listener": "https://127.0.0.1:0"}, "needs a certificate"),
        ({"message.set.listeners": ("tls://127.0.0.1:0",)}, "needs a certificate"),
        ({"http.listener": "ftp://127.0.0.1:0"}, "is not HOST:PORT"),
        ({"listener.name.http.ssl.client.auth": "none"}, "there is no listener http"),
        ({"listener.name.tls.ssl.client.auth": "none"}, "there is no listener tls"),
        (
            {"http.listener": "https://127.0.0.1:0", **PEM, "listener.name.http.max.connections": 5},
            "HTTP has settings of TLS",
        ),
        ({**OAUTH}, "oauthbearer needs the public keys"),
        *(
            (
                {**offered, name: EXPECTED[name]},
                f"needs the {other} that tokens must name: set .*, or .*allow.unverified",
            )
            for offered in ({**OAUTH, **KEYS}, SASL)
            for name, other in zip(EXPECTED, ("issuer", "audience"), strict=True)
        ),
        ({**OAUTH, **KEYS, "listener.name.http.ssl.client.auth": "none"}, "HTTP speaks no TLS"),
        (
            {**BASIC, "http.users.read": ("a",), "http.listener": "https://127.0.0.1:0", **PEM, **HTTPS_KEYS},
            "means nothing without http.authentication=oauthbearer",
        ),
        ({**CERTIFICATE, "http.listener": "127.0.0.1:0"}, "certificate needs http.listener=https"),
        ({**CERTIFICATE, "http.listener": "https://127.0.0.1:0", **PEM}, "certificate needs http.listener=https"),
        (
            {
                "message.set.listeners": ("tls://127.0.0.1:0",),
                **PEM,
                "listener.name.tls.sasl.enabled.mechanisms": ("PLAIN",),
            },
            "has a mechanism of its own",
        ),
    ],
)
def test_wishes_for_safety_that_would_not_be_fulfilled(values: dict[str, Value], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        broker_config(values)


@pytest.mark.parametrize("offered", [{**OAUTH, **KEYS}, SASL], ids=["http", "sasl"])
def test_audience_and_issuer_of_tokens_are_held_to_something_or_said_to_be_free(offered: dict[str, Value]) -> None:
    lifted: dict[str, Value] = {f"sasl.oauthbearer.allow.unverified.{what}": True for what in ("audience", "issuer")}
    for more in (EXPECTED, lifted):
        assert broker_config({**offered, **more}) is not None


def test_http_may_have_keys_and_rules_of_tokens_of_its_own() -> None:
    config = broker_config(
        {
            **OAUTH,
            **KEYS,
            "listener.name.http.sasl.oauthbearer.expected.audience": ("console",),
            "listener.name.http.oauthbearer.sasl.oauthbearer.expected.issuer": "i",
        }
    )
    assert config.of_listener("http", "sasl.oauthbearer.jwks.endpoint.url", "OAUTHBEARER") == "file:///keys"
    assert config.of_listener("http", "sasl.oauthbearer.expected.audience", "OAUTHBEARER") == ("console",)
    assert config.of_listener("http", "sasl.oauthbearer.expected.issuer", "OAUTHBEARER") == "i"
    assert [one.name for one in config.securable_listeners] == ["PLAINTEXT", "http"]


def test_what_the_other_listeners_ask_for() -> None:
    config = broker_config(
        {
            "http.listener": "https://127.0.0.1:0",
            "message.set.listeners": ("tcp://127.0.0.1:0", "tls://127.0.0.1:0"),
            "message.set.authentication": "plain",
            "listener.name.http.ssl.keystore.location": "/http.pem",
            "listener.name.tls.ssl.keystore.location": "/tls.pem",
        }
    )
    assert config.http_listener == Listener("http", "SSL", "127.0.0.1", 0)
    assert [(one.name, one.security_protocol) for one in config.message_set_listeners] == [
        ("tcp", "SASL_PLAINTEXT"), ("tls", "SASL_SSL"),
    ]  # fmt: skip
    assert [one.name for one in config.securable_listeners] == ["PLAINTEXT", "tcp", "tls", "http"]
    assert config.of_listener("http", "ssl.keystore.location") == "/http.pem"
