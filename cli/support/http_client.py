"""HTTP requests of commands to a daemon: address, credentials, one request, and errors in one line.

The user is in the file of `--command-config`, which is the same as for commands that speak Kafka's protocol:

    sasl.username=alice   sasl.password=…      for http.authentication=basic
    http.token=…                               for http.authentication=bearer and oauthbearer, and before the others
    sasl.mechanism=OAUTHBEARER …               for http.authentication=oauthbearer: the token that Kafka's listeners are shown
    ssl.keystore.location=alice.pem            for http.authentication=certificate
    ssl.truststore.location=ca.pem             the authorities of an https:// listener, where they are not the system's
"""

from __future__ import annotations

import argparse
import base64
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import ssl

    from ...protocol.client_security import ClientSecurity

DEFAULT_ADDRESS = "127.0.0.1:9404"
VARIABLE = "TIDELOG_HTTP_LISTENER"
CONFIG_VARIABLE = "TIDELOG_COMMAND_CONFIG"
TIMEOUT_S = 30.0
_NOT_FOUND = 404
SETTING = "http.listener"
#: Addresses that are bound to all interfaces.
_EVERYWHERE = ("", "0.0.0.0", "::")  # noqa: S104 - not bound
MAX_ANSWER_BYTES = 64 << 20


class HttpFailure(OSError):
    """The daemon did not answer, or refused. `status` is HTTP's, 0 where there was no answer."""

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(text)
        self.status = status


def add_http_argument(parser: argparse.ArgumentParser) -> None:
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--http",
        metavar="HOST:PORT",
        help="the daemon's http.listener, with https:// before it where that speaks TLS "
        f"(default: {VARIABLE}, else {DEFAULT_ADDRESS})",
    )
    where.add_argument(
        "--bootstrap-server",
        metavar="HOST:PORT",
        help="the daemon's Kafka listener, which is asked for its http.listener",
    )
    parser.add_argument(
        "--command-config",
        metavar="FILE",
        help="client settings for a daemon that asks who its users are: sasl.username and sasl.password, http.token, "
        "sasl.mechanism=OAUTHBEARER with an issuer, or ssl.keystore.location; ssl.truststore.location … "
        f"(default: {CONFIG_VARIABLE})",
    )


@dataclass(frozen=True, slots=True)
class HttpDaemon:
    """Address and credentials of a daemon. `authorization`: the header; `tls`: None for plain http."""

    host: str
    port: int
    authorization: str | None = field(default=None, repr=False)
    tls: ssl.SSLContext | None = None

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'http' if self.tls is None else 'https'}://{host}:{self.port}"


def daemon_of(options: argparse.Namespace) -> HttpDaemon:
    """The daemon that a command's arguments speak of. HttpFailure; KafkaFailure where it is asked by its Kafka listener."""
    from ...protocol.client_security import ClientSecurityError
    from .kafka_client import KafkaFailure, read_properties, read_security

    host, port, by_tls = address_of(options.http) if options.bootstrap_server is None else _told_address(options)
    file = options.command_config or os.environ.get(CONFIG_VARIABLE)
    try:
        security = read_security(file) if file else None
        token = read_properties(file).get("http.token", "").strip() if file else ""
        return HttpDaemon(host, port, _authorization(security, token), _context(security) if by_tls else None)
    except (KafkaFailure, ClientSecurityError) as error:
        raise HttpFailure(str(error)) from None


def _authorization(security: ClientSecurity | None, token: str) -> str | None:
    if token:
        return f"Bearer {token}"
    if security is not None and security.oauth is not None:
        from ...protocol.oauth_token import CACHE

        return f"Bearer {CACHE.token(security.oauth).text}"
    if security is None or not security.user:
        return None
    return f"Basic {base64.b64encode(f'{security.user}:{security.password}'.encode()).decode()}"


def _context(security: ClientSecurity | None) -> ssl.SSLContext:
    from ...protocol.client_security import ClientSecurity

    return (security or ClientSecurity()).tls_context()


def _told_address(options: argparse.Namespace) -> tuple[str, int, bool]:
    """The address that the daemon's settings tell, as `address_of`. HttpFailure, KafkaFailure."""
    from ...config.listener import parse_address
    from ...protocol.messages.metadata import MetadataRequest, MetadataResponse
    from ..configs import RESOURCES, described
    from .kafka_client import client_of

    with client_of(options) as client:
        there = client.bootstrap
        brokers = client.ask(MetadataRequest(topics=[], allow_auto_topic_creation=False), MetadataResponse).brokers
        found = {}
        if brokers:
            (entries,) = described(client, [(RESOURCES["broker"], str(brokers[0].node_id))], [SETTING])
            found = {entry.name: entry.value or "" for entry in entries}
    if SETTING not in found:
        raise HttpFailure(f"{there} is no tidelog daemon: it has no setting {SETTING}")
    text = found[SETTING].strip()
    if not text:
        raise HttpFailure(f"the daemon at {there} has no {SETTING}, which this command needs: start it with one")
    try:
        listener = parse_address(text.rstrip("/"), "http", "https")
    except ValueError as error:
        raise HttpFailure(f"{SETTING} of {there}: {error}") from None
    kafka_host = there.rpartition(":")[0].strip("[]")
    host = kafka_host if listener.host in _EVERYWHERE else listener.host
    if _is_loopback(host) and not _is_loopback(kafka_host):
        # Here that address leads to another daemon, or to none.
        raise HttpFailure(
            f"{SETTING} of {there} is {text}, which is reached on that machine alone: run this there, or say by --http where a "
            "tunnel leads to it"
        )
    return host, listener.port, listener.security_protocol == "SSL"


@contextmanager
def naming_nearest(options: argparse.Namespace, name: str) -> Iterator[None]:
    """Adds the nearest topic's name to a failure that there is no topic `name`, as the daemon's Kafka listener knows it: of
    --bootstrap-server, else of TIDELOG_LISTENERS or the default. With --http nobody says where that is, and none is added."""
    try:
        yield
    except HttpFailure as error:
        if error.status != _NOT_FOUND or (options.http is not None and options.bootstrap_server is None):
            raise
        from .kafka_client import KafkaFailure, client_of
        from .missing import topic_names
        from .nearest import did_you_mean

        guess = ""
        with suppress(KafkaFailure), client_of(options) as client:
            guess = did_you_mean(name, topic_names(client))
        raise HttpFailure(f"{error}{guess}", error.status) from None


def _is_loopback(host: str) -> bool:
    import ipaddress

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def address_of(given: str | None) -> tuple[str, int, bool]:
    """Host and port to connect to, and whether by TLS. HttpFailure when it is none, or the environment says that there is no
    listener."""
    from ...config.listener import parse_address

    text = given if given is not None else os.environ.get(VARIABLE, DEFAULT_ADDRESS)
    if not text.strip():
        raise HttpFailure(f"{VARIABLE} is empty: that daemon has no http.listener; start it with one, or use --http")
    try:
        listener = parse_address(text.strip().rstrip("/"), "http", "https")
    except ValueError as error:
        raise HttpFailure(f"{'--http' if given is not None else VARIABLE}: {error}") from None
    # An address that is bound to all interfaces is reached on the loopback one.
    host = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(listener.host, listener.host)  # noqa: S104 - not bound
    return host, listener.port, listener.security_protocol == "SSL"


def ask(daemon: HttpDaemon, method: str, path: str) -> Any:
    """The JSON that the daemon answers with. HttpFailure with one clear line; a refusal has its status."""
    import http.client
    import json

    shown = daemon.url
    connection: http.client.HTTPConnection
    if daemon.tls is None:
        connection = http.client.HTTPConnection(daemon.host, daemon.port, timeout=TIMEOUT_S)
    else:
        connection = http.client.HTTPSConnection(daemon.host, daemon.port, timeout=TIMEOUT_S, context=daemon.tls)
    try:
        headers = {"Content-Type": "application/json"} if method == "POST" else {}
        if daemon.authorization is not None:
            headers["Authorization"] = daemon.authorization
        connection.request(method, path, body=b"{}" if method == "POST" else None, headers=headers)
        answer = connection.getresponse()
        body = answer.read(MAX_ANSWER_BYTES)
    except (OSError, http.client.HTTPException) as error:
        if daemon.tls is not None and isinstance(error, OSError) and getattr(error, "reason", None):
            from ...protocol.client_security import tls_failure

            raise HttpFailure(str(tls_failure(daemon.host, error))) from None
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise HttpFailure(
            f"no daemon answers at {shown} ({reason}): start one with `tidelog serve`, with http.listener set, "
            f"or say where it is with --http HOST:PORT or {VARIABLE}"
        ) from None
    finally:
        connection.close()
    if answer.status == 400 and b"speaks https" in body:
        raise HttpFailure(f"{shown} speaks TLS: use --http https://HOST:PORT")
    try:
        content = json.loads(body)
    except ValueError:
        raise HttpFailure(f"{shown} is no tidelog daemon of this version: {answer.status} without JSON") from None
    if answer.status >= 400:
        error_text = content.get("error") if isinstance(content, dict) else None
        if answer.status == 401:
            given = "" if daemon.authorization is None else f" ({error_text})"
            raise HttpFailure(
                f"{shown} needs a user{given}: --command-config FILE with sasl.username and sasl.password, or http.token",
                401,
            )
        raise HttpFailure(str(error_text or f"{shown} answered {answer.status}"), answer.status)
    return content
