"""What each path needs, as a table; and that what is open is what docs and routes say."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.guesses import guesses, run_at_once
from support.tokens import key_set, private_key, public_jwk, token_of
from tidelog.broker.http.authentication import ASSETS, SIGNED_OUT, HttpGate
from tidelog.broker.http.console.routes import ROUTES
from tidelog.broker.http.user import SUBJECT, USER, HttpUser, Role
from tidelog.broker.http.users import NotLetInError
from tidelog.config.broker_config import BrokerConfig, broker_config
from tidelog.config.exceptions import ConfigError
from tidelog.config.setting import Value

ADMIN, READER = HttpUser("alice", Role.ADMIN), HttpUser("bob", Role.READ)


class Users:
    """Takes the header for the user's name."""

    challenges = (("WWW-Authenticate", "Basic"),)

    def identify(self, authorization: str | None, peer: str, subject: str | None, wait: Any) -> HttpUser:
        if authorization is None and subject is not None:
            return HttpUser(subject, Role.READ, by_certificate=True)
        for user in (ADMIN, READER):
            if user.name == authorization:
                return user
        raise NotLetInError("401 Unauthorized", "who are you?", self.challenges)


def gate(**settings: Any) -> HttpGate:
    return HttpGate(BrokerConfig(**settings), Users())  # type: ignore[arg-type]


def asked(made: HttpGate, path: str, user: str | None = None, method: str = "GET", **more: Any) -> str:
    environ = {"PATH_INFO": path, "REQUEST_METHOD": method, "REMOTE_ADDR": "10.0.0.1", **more}
    if user is not None:
        environ["HTTP_AUTHORIZATION"] = user
    try:
        made.admit(environ)
    except NotLetInError as error:
        return error.status[:3]
    found = environ.get(USER)
    return "open" if found is None else found.name


@pytest.mark.parametrize(
    ("path", "method", "nobody", "reader", "admin"),
    [
        ("/health/live", "GET", "open", "open", "open"), ("/health/ready", "HEAD", "open", "open", "open"),
        ("/health/live", "POST", "401", "bob", "alice"), ("/health", "GET", "401", "bob", "alice"),
        ("/metrics", "GET", "401", "bob", "alice"), ("/console.css", "GET", "open", "open", "open"),
        ("/console.css", "POST", "401", "bob", "alice"), ("/", "GET", "401", "bob", "alice"),
        ("/why/t", "GET", "401", "bob", "alice"), ("/clean/t", "POST", "401", "403", "alice"),
        ("/clean/t/1", "GET", "401", "bob", "alice"), ("/actions/clean", "POST", "401", "bob", "alice"),
        ("/nothing", "GET", "401", "bob", "alice"),
        ("", "GET", "401", "bob", "alice"), ("//metrics", "GET", "401", "bob", "alice"),
        ("/health/live/../../topics", "GET", "401", "bob", "alice"), ("/metrics", "BREW", "401", "bob", "alice"),
    ],
)  # fmt: skip
def test_what_a_path_needs(path: str, method: str, nobody: str, reader: str, admin: str) -> None:
    made = gate()
    given = [asked(made, path, user, method) for user in (None, "mallory", "bob", "alice")]
    assert given == [nobody, nobody, reader, admin]


def test_switches() -> None:
    assert asked(gate(http_health_open=False), "/health/ready") == "401"
    assert asked(gate(http_metrics_open=True), "/metrics") == "open"
    assert asked(gate(http_metrics_open=True), "/health") == "401"


def test_only_what_is_the_same_everywhere_is_open_of_the_console() -> None:
    assert set(ASSETS) == {route.path for route in ROUTES if route.is_same}
    assert all(route.name.startswith("assets.") for route in ROUTES if route.is_same)


def test_signing_out_refuses_the_password_of_who_leaves_and_no_other() -> None:
    made = gate()
    assert asked(made, "/sign-out") == "401"
    assert asked(made, "/sign-out", "bob", QUERY_STRING="user=bob") == "401"
    assert asked(made, "/sign-out", "bob") == "401"
    assert asked(made, "/sign-out", "alice", QUERY_STRING="user=bob") == "alice"
    with pytest.raises(NotLetInError, match=SIGNED_OUT):
        made.admit({"PATH_INFO": "/sign-out", "HTTP_AUTHORIZATION": "bob"})


def test_who_has_a_certificate_stays_in() -> None:
    assert asked(gate(), "/", None, **{SUBJECT: "CN=dora"}) == "CN=dora"
    assert asked(gate(), "/sign-out", None, **{SUBJECT: "CN=dora"}) == "CN=dora"


def test_what_tokens_and_certificates_need_is_read_at_the_start(tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    settings: dict[str, Value] = {
        "http.listener": "https://127.0.0.1:0", "ssl.keystore.location": "/x.pem", "http.users.read": ("*",),
        "http.authentication": ("oauthbearer", "certificate"), "ssl.client.auth": "requested",
        "ssl.truststore.location": "/ca.pem", "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        "listener.name.http.ssl.principal.mapping.rules": "RULE:^CN=([a-z]+)$/$1/",
        "sasl.oauthbearer.allow.unverified.audience": True, "sasl.oauthbearer.allow.unverified.issuer": True,
    }  # fmt: skip
    with pytest.raises(ConfigError, match=r"of http: .*keys\.json can't be read"):
        HttpGate.of(broker_config(settings), lambda: None, guesses(), run_at_once)
    keys.write_bytes(key_set(public_jwk(private_key())))
    users = HttpGate.of(broker_config(settings), lambda: None, guesses(), run_at_once).users
    assert users.identify(None, "10.0.0.1", "CN=dora").name == "dora"
    assert users.identify(f"Bearer {token_of(aud=None)}", "10.0.0.1").name == "alice"
    settings["listener.name.http.ssl.principal.mapping.rules"] = "RULE:("
    with pytest.raises(ConfigError, match=r"ssl\.principal\.mapping\.rules of http"):
        HttpGate.of(broker_config(settings), lambda: None, guesses(), run_at_once)


def test_the_body_of_a_refused_request_is_not_read() -> None:
    body = io.BytesIO(b"x" * 20)
    assert asked(gate(), "/clean/t", None, "POST", CONTENT_LENGTH="20", **{"wsgi.input": body}) == "401"
    assert asked(gate(), "/clean/t", "bob", "POST", CONTENT_LENGTH="20", **{"wsgi.input": body}) == "403"
    assert body.tell() == 0


def test_passwords_in_the_clear_beyond_this_machine_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    for host, protocol in (("127.0.0.1", "PLAINTEXT"), ("0.0.0.0", "SSL"), ("10.0.0.1", "PLAINTEXT")):
        config: Any = SimpleNamespace(
            http_listener=SimpleNamespace(host=host, port=9404, security_protocol=protocol),
            http_tokens_file=None, http_health_open=True, http_metrics_open=False, http_authentication=("basic",),
            http_users_read=(), http_users_admin=("a",), connection_failed_authentication_delay_ms=1,
        )  # fmt: skip
        HttpGate.of(config, lambda: None, guesses(), run_at_once)
    (record,) = caplog.records
    assert "http.listener=https://10.0.0.1:9404" in record.getMessage()
