"""Finds listeners without authentication that others can reach, for the start, `tidelog doctor` and `/health`.

Nothing is wrong with a daemon that has them, in a network of its own, so it is a note there and not a reason. The settings tell
if a listener authenticates. If others reach its address is not known (a container's port may be published or not), only that it
is not this machine's alone. With an authorizer a Kafka listener lets strangers do what rules allow `User:ANONYMOUS`, which
somebody has written: it is not told. HTTP is, since rules do not hold there.

`is_loopback` and `is_local_name` classify hosts as clients name them. Pure functions; any thread.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING, NamedTuple

from ...config.listener_settings import HTTP

if TYPE_CHECKING:
    from ...config.broker_config import BrokerConfig
    from ...config.listener import Listener


def is_address(host: str) -> bool:
    """True for an IP address, which no resolver can be made to turn into another."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def is_local_name(host: str) -> bool:
    """True for names that mean this machine by RFC 6761, whatever a resolver says."""
    return host == "localhost" or host.endswith(".localhost")


def is_loopback(address: str) -> bool:
    """True for a loopback address."""
    try:
        found = ip_address(address)
    except ValueError:
        return False
    mapped = getattr(found, "ipv4_mapped", None)
    return bool((mapped or found).is_loopback)


ADVICE = (
    "bind it to 127.0.0.1, or authenticate clients (SASL or certificates for Kafka's protocol, message.set.authentication, "
    "http.authentication): docs/how-to/tls-and-users.md"
)


class OpenListener(NamedTuple):
    """One listener open to everybody who reaches it."""

    address: str
    may: str
    """Rights of a client of this listener."""

    @property
    def text(self) -> str:
        return f"{self.address} has no authentication: whoever reaches it may {self.may}"


def open_listeners(config: BrokerConfig) -> list[OpenListener]:
    """Open listeners for Kafka clients, for message sets and for HTTP. Any thread."""
    found = []
    if not config.authorizer_class_name:
        found += [
            OpenListener(_address(listener, listener.name), "read and write everything")
            for listener in (*config.listeners, *config.message_set_listeners)
            if listener.security_protocol in ("PLAINTEXT", "SSL") and _is_open(listener, listener.name, config)
        ]
    http = config.http_listener
    if http is not None and not config.http_authentication and _is_open(http, HTTP, config):
        name = "https" if http.security_protocol == "SSL" else "http"
        found.append(OpenListener(_address(http, name), "read all records and metrics, and have topics cleaned"))
    return found


def _is_open(listener: Listener, name: str, config: BrokerConfig) -> bool:
    if listener.security_protocol == "SSL" and config.of_listener(name, "ssl.client.auth") == "required":
        return False
    return not is_this_machines(listener.host)


def is_this_machines(host: str) -> bool:
    """True if only this machine reaches the address that a listener is bound to. Names are not resolved."""
    if host in ("127.0.0.1", "::1"):
        return True

    return is_local_name(host.lower()) or is_loopback(host)


def _address(listener: Listener, name: str) -> str:
    host = listener.host or "0.0.0.0"  # noqa: S104 - what an empty host means
    return f"{name}://[{host}]:{listener.port}" if ":" in host else f"{name}://{host}:{listener.port}"
