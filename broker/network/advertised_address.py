"""Address that a client is told when the daemon runs in a container, found at start from the system's own files.

A client is told the address that it dialled: the local address of its connection. That holds between containers. It fails for
clients that come through a published port, since the address dialled was another one, which a plaintext request does not carry:

    another container ── 172.17.0.2:9092 ──────────────► told 172.17.0.2:9092            right
    the host ── localhost:9092 ──► gateway 172.17.0.1 ──► told localhost:9092             right where it is published as it is
    another machine ── host:9092 ──► NAT ──────────────► told 172.17.0.2:9092            wrong: advertised.listeners is needed

So, in a container only, who arrives from the default gateway's address is told `localhost`;
`container.gateway.localhost=false` switches that off, and a listener in `advertised.listeners` is not touched by it.
Who arrives from beyond the container's networks is warned about once.

In a container: `/.dockerenv` (Docker) or `/run/.containerenv` (Podman) is there, or the variable `container` is set
(Podman, LXC, systemd-nspawn). Not in Kubernetes (`KUBERNETES_SERVICE_HOST`): pods reach each other's addresses, so what
was dialled is right, and a client that arrives from the gateway there is on the node's own network.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ipaddress  # at run time where it is used: a start outside of a container does without

    Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_MARKS = (".dockerenv", "run/.containerenv")
_VARIABLE = "container"
_KUBERNETES = "KUBERNETES_SERVICE_HOST"
_IN_USE, _GATEWAY = 1, 2  # flags of a route

HINT = "in a container: another published port or another machine needs advertised.listeners"


@dataclass(frozen=True, slots=True)
class ContainerNetwork:
    """The routes of the container that the daemon runs in."""

    gateways: frozenset[str]
    """Addresses of the default gateway."""
    networks: tuple[Network, ...]
    """Networks that are reached without a gateway."""

    def is_beyond(self, host: str) -> bool:
        """True if a peer is outside of the container's networks, so that it may not reach our address."""
        import ipaddress

        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return False
        return not address.is_loopback and not any(address in network for network in self.networks)


def plain_host(host: str) -> str:
    """An IPv4 address without the `::ffff:` that a socket for both kinds puts before it, and without a zone."""
    host = host.partition("%")[0]
    return host[7:] if host.startswith("::ffff:") and "." in host else host


def container_network(environment: Mapping[str, str], root: Path = Path("/")) -> ContainerNetwork | None:
    """None outside of a container. Reads four small files of the system below `root`; those that are not there say nothing."""
    if environment.get(_KUBERNETES):
        return None
    if not environment.get(_VARIABLE) and not any((root / mark).exists() for mark in _MARKS):
        return None
    gateways: set[str] = set()
    networks: list[Network] = []
    for network, gateway in (
        *_routes_v4(_lines(root / "proc/net/route")),
        *_routes_v6(_lines(root / "proc/net/ipv6_route")),
    ):
        if gateway is None:
            networks.append(network)
        elif network.prefixlen == 0:
            gateways.add(gateway)
    return ContainerNetwork(frozenset(gateways), tuple(networks))


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return []


def _routes_v4(lines: list[str]) -> Iterator[tuple[Network, str | None]]:
    """Interface, destination, gateway, flags, …, mask (eighth): hexadecimal, addresses in the machine's byte order."""
    import ipaddress

    for line in lines[1:]:
        fields = line.split()
        try:
            destination, gateway, flags, mask = (int(fields[at], 16) for at in (1, 2, 3, 7))
            network = ipaddress.IPv4Network((_text_v4(destination), _text_v4(mask)), strict=False)
            hop = _text_v4(gateway)
        except (ValueError, IndexError, struct.error):
            continue
        if flags & _IN_USE:
            yield network, hop if flags & _GATEWAY else None


def _text_v4(value: int) -> str:
    return socket.inet_ntoa(struct.pack("=I", value))


def _routes_v6(lines: list[str]) -> Iterator[tuple[Network, str | None]]:
    """Destination, prefix length, source, its length, next hop, metric, …, flags (ninth), interface: all hexadecimal."""
    import ipaddress

    for line in lines:
        fields = line.split()
        try:
            destination = ipaddress.IPv6Address(bytes.fromhex(fields[0]))
            network = ipaddress.IPv6Network((destination, int(fields[1], 16)), strict=False)
            hop, flags, interface = ipaddress.IPv6Address(bytes.fromhex(fields[4])), int(fields[8], 16), fields[9]
        except (ValueError, IndexError):
            continue
        if flags & _IN_USE and interface != "lo":
            yield network, str(hop) if flags & _GATEWAY else None
