"""Classifies hosts as clients name them: addresses, and names of this machine. Pure functions; any thread."""

from __future__ import annotations

from ipaddress import ip_address


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
