"""Effective settings of listeners, and checks that they fit together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from .listener import MESSAGE_SET_SCHEMES, Listener, ListenerLimits
from .listener_settings import ListenerSetting, split_name, whole_name
from .setting import Value

HTTP = "http"
"""Name of HTTP's listener in settings of single listeners."""


def securable_listeners(
    kafkas: Sequence[Listener], message_sets: Sequence[Listener], http: Listener | None, http_asks: Sequence[str] = ()
) -> tuple[Listener, ...]:
    """The listeners that may have settings of their own: Kafka's, and of the others those that ask for something.

    `http_asks`: http.authentication.
    """
    others = [listener for listener in message_sets if listener.security_protocol != "PLAINTEXT"]
    if http is not None and (http.security_protocol != "PLAINTEXT" or "oauthbearer" in http_asks):
        others.append(http)
    return (*kafkas, *{listener.name: listener for listener in others}.values())


def unknown_listener(setting: str, parts: ListenerSetting, listeners: Sequence[Listener]) -> list[str]:
    """A sentence, where no listener has that name (small letters), or it has no such setting; nothing where one has."""
    there = [listener.name.lower() for listener in listeners]
    if parts.listener not in there:
        return [f"{setting}: there is no listener {parts.listener}; there are {', '.join(there)}"]
    if parts.listener in MESSAGE_SET_SCHEMES and parts.setting == "sasl.enabled.mechanisms":
        return [f"{setting}: the message-set protocol has a mechanism of its own, message.set.authentication=plain"]
    if parts.listener == HTTP and there.count(HTTP) == 1 and listeners[-1].name == HTTP:
        if parts.setting.startswith("ssl.") and listeners[-1].security_protocol == "PLAINTEXT":
            return [f"{setting}: HTTP speaks no TLS; set http.listener to https://…"]
        if not parts.setting.startswith(("ssl.", *_OF_TOKENS)):
            return [f"{setting}: HTTP has settings of TLS (ssl.…) and of tokens (sasl.oauthbearer.…) of its own alone"]
    return []


_OF_TOKENS = ("sasl.oauthbearer.", "sasl.jaas.config")


def http_problems(own: Mapping[str, Value], attributes: Mapping[str, Any]) -> Iterator[str]:
    """Problems of the settings of HTTP's users: they contradict each other, and HTTP would be less safe than the user believes.

    `own`: settings of single listeners by their whole names; `attributes`: the broker's values.
    """
    asks, listener = attributes["http_authentication"], attributes["http_listener"]
    users = (*attributes["http_users_read"], *attributes["http_users_admin"])
    if asks and not users:
        yield "http.authentication: nobody would get in; set http.users.read or http.users.admin"
    if users and not asks:
        yield "http.users.read and http.users.admin mean nothing without http.authentication: set it to basic or bearer"
    if ("bearer" in asks) != bool(attributes["http_tokens_file"]):
        yield "http.authentication=bearer and http.tokens.file need each other: set both, or neither"
    if listener is None:
        return
    if "oauthbearer" not in asks and not any(listener.name.lower() == HTTP for listener in attributes["listeners"]):
        for name in own:
            if (parts := split_name(name)) and parts.listener == HTTP and parts.setting.startswith(_OF_TOKENS):
                yield f"{name} means nothing without http.authentication=oauthbearer"
    value = partial(_value, own, attributes, listener)
    keys = "sasl.oauthbearer.jwks.endpoint.url"
    if "oauthbearer" in asks and not value(keys, "OAUTHBEARER"):
        yield f"http.authentication=oauthbearer needs the public keys that tokens are signed with: set {keys}"
    if "certificate" in asks and (listener.security_protocol != "SSL" or value("ssl.client.auth") == "none"):
        yield (
            "http.authentication=certificate needs http.listener=https://… and listener.name.http.ssl.client.auth=requested, "
            "or required"
        )


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
    """Problems of listeners' security settings, as far as settings alone can tell. `attributes`: the broker's values."""
    for listener in listeners:
        value = partial(_value, own, attributes, listener)
        if listener.security_protocol.endswith("SSL"):
            yield from _tls_problems(listener, value)
        if listener.security_protocol.startswith("SASL_"):
            yield from _sasl_problems(listener, value)


def _value(
    own: Mapping[str, Value], attributes: Mapping[str, Any], listener: Listener, setting: str, mechanism: str = ""
) -> Any:
    """Value that `BrokerConfig.of_listener` will return."""
    names = [whole_name(listener.name, setting, prefix) for prefix in (mechanism, "")]
    return next((own[name] for name in names if name in own), attributes[setting.replace(".", "_")])


def _sasl_problems(listener: Listener, value: Callable[..., Any]) -> Iterator[str]:
    keys = "sasl.oauthbearer.jwks.endpoint.url"
    if "OAUTHBEARER" in value("sasl.enabled.mechanisms") and not value(keys, "OAUTHBEARER"):
        yield f"listeners: {listener} offers OAUTHBEARER, which needs the public keys that tokens are signed with: set {keys}"


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
