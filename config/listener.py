"""Listener addresses: `PLAINTEXT://127.0.0.1:9092`, `INTERNAL://[::1]:0`, `tcp://127.0.0.1:9093`, `127.0.0.1:9404`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

_ADDRESS = re.compile(
    r"(?:(?P<name>[A-Za-z0-9_.-]+)://)?(?:\[(?P<v6>[0-9A-Fa-f:.]+(?:%[A-Za-z0-9_.-]+)?)\]|(?P<host>[^\s:/\[\]]*)):(?P<port>\d{1,5})"
)
_NAME = re.compile(r"[A-Za-z0-9_.-]+")

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""Kafka's security protocols: in the clear or by TLS, without or with SASL."""


MESSAGE_SET_SCHEMES = ("tcp", "tls")
"""The names of message.set.listeners, in the clear and by TLS. Names of Kafka's listeners are in capitals."""


class Listener(NamedTuple):
    """An address to listen at, or to tell clients. `host` "" is every interface; `port` 0 is any free one."""

    name: str
    security_protocol: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


class ListenerLimits(NamedTuple):
    """Limits of one listener's connections, beside those of all listeners. None: no limit of its own.

    Attributes:
        connections: open at once.
        creation_rate: new ones a second.
    """

    connections: int | None = None
    creation_rate: int | None = None


def parse_protocol_map(text: str) -> dict[str, str]:
    """`NAME:PROTOCOL,…` as a dictionary with upper-case names. ValueError says what is wrong."""
    protocols: dict[str, str] = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        name, colon, protocol = (part.strip().upper() for part in pair.partition(":"))
        if not colon or not _NAME.fullmatch(name) or protocol not in PROTOCOLS:
            raise ValueError(f"{pair!r} is not NAME:PROTOCOL with a protocol of {', '.join(PROTOCOLS)}")
        protocols[name] = protocol
    return protocols


def parse_address_limits(text: str) -> dict[str, int]:
    """`ADDRESS:COUNT,…` as a dictionary; localhost is both of its addresses, and an IPv4 address in IPv6 is the former, as of a
    connection. ValueError says what is wrong.
    """
    from ipaddress import ip_address

    limits: dict[str, int] = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        host, _, count = pair.rpartition(":")
        if not host or not count.isdecimal():
            raise ValueError(f"{pair!r} is not ADDRESS:COUNT")
        if host.lower() == "localhost":
            limits.update({"127.0.0.1": int(count), "::1": int(count)})
            continue
        try:
            address = ip_address(host.strip("[]"))
        except ValueError:
            raise ValueError(f"{pair!r}: give an IP address, names are not looked up") from None
        limits[str(getattr(address, "ipv4_mapped", None) or address)] = int(count)
    return limits


def parse_listener(text: str, protocols: Mapping[str, str]) -> Listener:
    """Parse an address with a name; `protocols`: the protocol of each name. ValueError says what is wrong."""
    match = _ADDRESS.fullmatch(text)
    if match is None or match["name"] is None:
        raise ValueError(f"{text!r} is not NAME://HOST:PORT")
    name = match["name"].upper()
    if name not in protocols:
        raise ValueError(f"{text!r}: listener.security.protocol.map does not say what {name} speaks")
    return Listener(name, protocols[name], match["v6"] or match["host"] or "", _port(match["port"], text))


def parse_address(text: str, name: str, by_tls: str = "") -> Listener:
    """Parse HOST:PORT as a listener called `name`; the scheme `name` may stand before it. With the scheme `by_tls` the listener
    speaks SSL. ValueError says what is wrong.
    """
    match = _ADDRESS.fullmatch(text)
    scheme = "" if match is None else (match["name"] or name).lower()
    if match is None or scheme not in (name.lower(), by_tls or name.lower()):
        raise ValueError(f"{text!r} is not HOST:PORT")
    protocol = "SSL" if scheme == by_tls else "PLAINTEXT"
    return Listener(name, protocol, match["v6"] or match["host"] or "", _port(match["port"], text))


def parse_message_set_address(text: str, *, asks: bool) -> Listener:
    """Parse an entry of message.set.listeners: its scheme is the listener's name, `asks` decides its protocol. ValueError."""
    in_clear, with_tls = MESSAGE_SET_SCHEMES
    plain = parse_address(text, in_clear, with_tls)
    by_tls = plain.security_protocol == "SSL"
    protocol = ("SASL_SSL" if by_tls else "SASL_PLAINTEXT") if asks else plain.security_protocol
    return plain._replace(name=with_tls if by_tls else in_clear, security_protocol=protocol)


def _port(digits: str, text: str) -> int:
    port = int(digits)
    if port > 65535:
        raise ValueError(f"{text!r}: a port is 0 … 65535")
    return port
