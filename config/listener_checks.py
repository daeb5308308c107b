"""What the settings of listeners come to, and what in them does not fit together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from .listener import Listener, ListenerLimits
from .listener_settings import split_name, whole_name
from .setting import Value


def unknown_listener(setting: str, name: str, listeners: Sequence[Listener]) -> list[str]:
    """A sentence, where no listener has that name (small letters); nothing where one has."""
    there = [listener.name.lower() for listener in listeners]
    return [] if name in there else [f"{setting}: there is no listener {name}; there are {', '.join(there)}"]


def limits_of(own: Mapping[str, Value], listeners: Sequence[Listener]) -> dict[str, ListenerLimits]:
    """By a listener's name, its own limits of connections. `own`: settings of single listeners by their whole names."""
    found: dict[str, ListenerLimits] = {}
    names = {listener.name.lower(): listener.name for listener in listeners}
    for setting, value in own.items():
        parts = split_name(setting)
        if parts is None or parts.listener not in names or not isinstance(value, int):
            continue
        name = names[parts.listener]
        before = found.get(name, ListenerLimits())
        if parts.setting == "max.connections":
            found[name] = before._replace(connections=value)
        elif parts.setting == "max.connection.creation.rate":
            found[name] = before._replace(creation_rate=value)
    return found


def security_problems(
    listeners: Sequence[Listener], own: Mapping[str, Value], attributes: Mapping[str, Any]
) -> Iterator[str]:
    """What keeps listeners from speaking what they are to speak, as far as settings tell. `attributes`: the broker's values."""
    for listener in listeners:
        value = partial(_value, own, attributes, listener)
        if listener.security_protocol.endswith("SSL"):
            yield from _tls_problems(listener, value)


def _value(own: Mapping[str, Value], attributes: Mapping[str, Any], listener: Listener, setting: str) -> Any:
    """What `BrokerConfig.of_listener` will say."""
    name = whole_name(listener.name, setting)
    return own[name] if name in own else attributes[setting.replace(".", "_")]


def _tls_problems(listener: Listener, value: Callable[[str], Any]) -> Iterator[str]:
    whole = value("ssl.keystore.location")
    parts = [name for name in ("ssl.keystore.certificate.chain", "ssl.keystore.key") if value(name)]
    if not whole and len(parts) < 2:
        missing = "ssl.keystore.location" if not parts else "ssl.keystore.certificate.chain and ssl.keystore.key, both"
        yield f"listeners: {listener} speaks {listener.security_protocol}, which needs a certificate: set {missing}"
    if whole and parts:
        yield f"listeners: {listener} has two certificates, by ssl.keystore.location and by {parts[0]}: set one of them"
    authorities = [name for name in ("ssl.truststore.location", "ssl.truststore.certificates") if value(name)]
    if value("ssl.client.auth") != "none" and not authorities:
        yield (
            f"listeners: {listener} has ssl.client.auth={value('ssl.client.auth')}, which needs the authorities whose "
            "certificates are good: set ssl.truststore.location"
        )
    stores = (("ssl.keystore.type", bool(whole)), ("ssl.truststore.type", bool(authorities)))
    for name in (name for name, used in stores if used and value(name).upper() != "PEM"):
        yield (
            f"{name}={value(name)!r} is not read here; allowed: PEM. Java's keytool and then openssl pkcs12 turn a store into "
            "PEM files: see docs/SECURITY.md"
        )
