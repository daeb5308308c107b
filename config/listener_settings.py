"""Settings of single listeners: their names, their effective values, and checks that they fit together.

Names are `listener.name.<name>.<setting>` for one listener, and `listener.name.<name>.<mechanism>.<setting>` for one mechanism of
it, as in Kafka. Names of listeners and mechanisms are in lower case there. Where a listener has no setting of its own, the
broker's setting of that name holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from .listener import MESSAGE_SET_SCHEMES, Listener, ListenerLimits
from .setting import Setting, Value
from .table.limits import LIMIT_ROWS
from .table.security import MECHANISMS, SECURITY_ROWS

PREFIX = "listener.name."

LIMITS = ("max.connections", "max.connection.creation.rate")
"""Limits that a listener may have beside the broker's, which holds as well."""

PER_LISTENER: dict[str, Setting] = {
    row.name: row
    for row in (*SECURITY_ROWS, *LIMIT_ROWS)
    if row.name.startswith(("ssl.", "sasl.")) or row.name in ("connections.max.reauth.ms", *LIMITS)
}
"""Settings that a listener may have of its own."""

_MECHANISMS = {mechanism.lower() for mechanism in MECHANISMS}
_PER_MECHANISM = frozenset(
    name for name in PER_LISTENER if name.startswith(("sasl.jaas.", "sasl.oauthbearer.", "connections."))
)
"""Settings that a mechanism of a listener may have of its own."""


class ListenerSetting(NamedTuple):
    """Parts of the name of a listener's setting. `mechanism` is "" if the setting is for all mechanisms."""

    listener: str
    mechanism: str
    setting: str


def split_name(name: str) -> ListenerSetting | None:
    """The parts of `listener.name.…`, or None where that is not such a name, or ends in none that a listener may have.

    Names of listeners may have dots in them: the shortest one counts that leaves a setting.
    """
    if not name.startswith(PREFIX):
        return None
    rest = name[len(PREFIX) :]
    dot = rest.find(".")
    while dot > 0:
        head, setting = rest[:dot], rest[dot + 1 :]
        if setting in PER_LISTENER:
            listener, _, mechanism = head.rpartition(".")
            if listener and mechanism in _MECHANISMS and setting in _PER_MECHANISM:
                return ListenerSetting(listener, mechanism, setting)
            return ListenerSetting(head, "", setting)
        dot = rest.find(".", dot + 1)
    return None


def listener_row(name: str) -> Setting | None:
    """The row of a listener's setting, under its whole name; None where it is none."""
    parts = split_name(name)
    if parts is None:
        return None
    row = PER_LISTENER[parts.setting]
    if parts.setting in LIMITS:
        return replace(row, name=name, default=None, doc=f"{parts.setting} of the listener {parts.listener} alone.")
    return replace(row, name=name)


def whole_name(listener: str, setting: str, mechanism: str = "") -> str:
    """The name that `split_name` takes apart."""
    middle = f"{mechanism.lower()}." if mechanism else ""
    return f"{PREFIX}{listener.lower()}.{middle}{setting}"


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
    if "oauthbearer" in asks:
        yield from _token_problems("http.authentication=oauthbearer", value)
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
    if "OAUTHBEARER" in value("sasl.enabled.mechanisms"):
        yield from _token_problems(f"listeners: {listener} offers OAUTHBEARER, which", value)


def _token_problems(who: str, value: Callable[..., Any]) -> Iterator[str]:
    """What the check of tokens lacks. `who` is the beginning of each sentence."""
    prefix = "sasl.oauthbearer."
    if not value(keys := f"{prefix}jwks.endpoint.url", "OAUTHBEARER"):
        yield f"{who} needs the public keys that tokens are signed with: set {keys}"
        return
    for what in ("audience", "issuer"):
        expected, lifted = f"{prefix}expected.{what}", f"{prefix}allow.unverified.{what}"
        if not value(expected, "OAUTHBEARER") and not value(lifted, "OAUTHBEARER"):
            yield f"{who} needs the {what} that tokens must name: set {expected}, or {lifted}=true to let in tokens of any {what}"


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
            "PEM files: see docs/how-to/tls-and-users.md#a-java-key-store"
        )
