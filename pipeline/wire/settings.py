"""Settings of a client: addresses, name, times and sizes. Names in messages are Kafka's, as users write them behind `kafka.`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from difflib import get_close_matches

from ...clients.kafka.connection import Address, ConnectionSettings
from ...protocol.client_security import NAMES as SECURITY_NAMES
from ...protocol.client_security import ClientSecurity, ClientSecurityError, security_of
from ..exceptions import OptionError

DEFAULT_PORT = 9092

#: Settings of Kafka's clients that mean nothing to this one; taken, so that options need not be rewritten.
IGNORED = frozenset(
    {
        "allow.auto.create.topics", "auto.commit.interval.ms", "auto.include.jmx.reporter", "client.dns.lookup",
        "client.rack", "connections.max.idle.ms", "enable.metrics.push", "exclude.internal.topics",
        "group.instance.id", "group.protocol", "group.remote.assignor", "heartbeat.interval.ms",
        "interceptor.classes", "max.poll.interval.ms", "max.poll.records", "metadata.max.age.ms",
        "metadata.recovery.rebootstrap.trigger.ms", "metadata.recovery.strategy", "metric.reporters",
        "metrics.num.samples", "metrics.recording.level", "metrics.sample.window.ms", "partition.assignment.strategy",
        "reconnect.backoff.max.ms", "reconnect.backoff.ms", "sasl.login.connect.timeout.ms",
        "sasl.login.read.timeout.ms", "sasl.login.refresh.buffer.seconds", "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.window.factor", "sasl.login.refresh.window.jitter", "sasl.login.retry.backoff.max.ms",
        "sasl.login.retry.backoff.ms", "sasl.oauthbearer.clock.skew.seconds", "sasl.oauthbearer.expected.audience",
        "sasl.oauthbearer.expected.issuer", "sasl.oauthbearer.jwt.validator.class", "sasl.oauthbearer.scope.claim.name",
        "sasl.oauthbearer.sub.claim.name", "security.providers", "session.timeout.ms",
        "socket.connection.setup.timeout.max.ms",
        "ssl.keymanager.algorithm", "ssl.keystore.password", "ssl.protocol", "ssl.provider",
        "ssl.secure.random.implementation", "ssl.trustmanager.algorithm", "ssl.truststore.password",
    }
)  # fmt: skip
#: Settings that contradict how the source works, and what to use for them. Spark's own source refuses the same.
REFUSED = {
    "auto.offset.reset": "set startingOffsets",
    "enable.auto.commit": "a query keeps its offsets in its checkpoint",
    "key.deserializer": "keys are bytes; cast them in Spark",
    "value.deserializer": "values are bytes; cast them in Spark",
    "sasl.client.callback.handler.class": "it names a Java class; give a user by kafka.sasl.jaas.config",
    "sasl.login.callback.handler.class": "it names a Java class; give a user or an issuer by kafka.sasl.jaas.config",
    "sasl.kerberos.service.name": "Kerberos is not spoken; PLAIN, SCRAM and OAUTHBEARER are",
    "ssl.cipher.suites": "TLS 1.2 and 1.3 are spoken, with the ciphers that OpenSSL is set up for",
    "ssl.enabled.protocols": "TLS 1.2 and 1.3 are spoken",
    "ssl.engine.factory.class": "it names a Java class; name PEM files",
    "ssl.keystore.key": "name a PEM file by kafka.ssl.keystore.location",
    "ssl.keystore.certificate.chain": "name a PEM file by kafka.ssl.keystore.location",
}
#: Kafka's own classes for OAUTHBEARER, which older clients have to name.
_LOGIN_HANDLERS = {"sasl.login.callback.handler.class": "OAuthBearerLoginCallbackHandler"}
#: Formats of keys and certificates.
_STORE_TYPES = ("ssl.truststore.type", "ssl.keystore.type")
_CLUSTER_CHECK = "metadata.cluster.check.enable"
_NUMBERS = {
    "request.timeout.ms": "request_timeout_ms",
    "default.api.timeout.ms": "api_timeout_ms",
    "retry.backoff.ms": "backoff_ms",
    "retry.backoff.max.ms": "max_backoff_ms",
    "socket.connection.setup.timeout.ms": "connect_timeout_ms",
    "receive.buffer.bytes": "receive_buffer_bytes",
    "send.buffer.bytes": "send_buffer_bytes",
    "fetch.max.bytes": "fetch_max_bytes",
    "max.partition.fetch.bytes": "fetch_max_bytes",
    "fetch.max.wait.ms": "fetch_wait_ms",
    "fetch.min.bytes": "fetch_min_bytes",
}


@dataclass(frozen=True, slots=True)
class ClientSettings(ConnectionSettings):
    """Pickled with each task. Times in milliseconds, sizes in bytes; a buffer size of −1 leaves it to the system.

    Attributes:
        api_timeout_ms: how long a call is tried again before its last error is raised.
        fetch_max_bytes: what one fetch asks for; a batch that is larger comes all the same.
        cluster_check: brokers are told which of them is meant, so that one that an address leads to by mistake says so.
    """

    bootstrap: tuple[Address, ...]
    _: KW_ONLY
    client_id: str = "tidelog-pipeline"
    software: str = "tidelog-pipeline"
    api_timeout_ms: int = 60_000
    backoff_ms: int = 100
    max_backoff_ms: int = 1_000
    fetch_max_bytes: int = 16 << 20
    fetch_wait_ms: int = 500
    fetch_min_bytes: int = 1
    cluster_check: bool = True

    @classmethod
    def parse(cls, bootstrap: str, options: Mapping[str, str] | None = None) -> ClientSettings:
        """`host:port,host:port` and settings by Kafka's names (without `kafka.`). OptionError."""
        found: dict[str, int | str | ClientSecurity] = {}
        secured: dict[str, str] = {}
        for name, text in (options or {}).items():
            if name in _LOGIN_HANDLERS and text.strip().endswith(f".{_LOGIN_HANDLERS[name]}"):
                continue  # Java's clients must set these; here they hold anyway
            if name in REFUSED:
                raise OptionError(f"kafka.{name} can't be set: {REFUSED[name]}")
            if name in _STORE_TYPES and text.upper() != "PEM":
                raise OptionError(
                    f"kafka.{name} is {text}; stores are PEM files here, and keytool and openssl make one of a Java key store"
                )
            if name in SECURITY_NAMES:
                secured[name] = text
            elif name == "client.id":
                found["client_id"] = text
            elif name == _CLUSTER_CHECK:
                found["cluster_check"] = _switch(name, text)
            elif name in _NUMBERS:
                found[_NUMBERS[name]] = _number(name, text)
            elif name not in IGNORED and name not in _STORE_TYPES:
                known = [
                    *_NUMBERS,
                    *SECURITY_NAMES,
                    *IGNORED,
                    _CLUSTER_CHECK,
                    "client.id",
                    "group.id",
                    "isolation.level",
                ]
                near = get_close_matches(name, known, 1)
                hint = f"; did you mean kafka.{near[0]}?" if near else ""
                raise OptionError(f"unknown option kafka.{name}{hint}")
        if secured:
            found["security"] = _security(secured)
        return cls(parse_addresses(bootstrap), **found)  # type: ignore[arg-type]


def _security(settings: Mapping[str, str]) -> ClientSecurity:
    """OptionError, in which no secret is."""
    if "security.protocol" not in settings:
        raise OptionError(f"kafka.{min(settings)} needs kafka.security.protocol: SSL, SASL_SSL or SASL_PLAINTEXT")
    try:
        return security_of(settings)
    except ClientSecurityError as error:
        raise OptionError(f"kafka.{error}" if str(error).startswith(SECURITY_NAMES) else str(error)) from None


def parse_addresses(text: str) -> tuple[Address, ...]:
    """`host:port, host, [::1]:port`; the port is 9092 where there is none. OptionError."""
    found = []
    for part in filter(None, (address.strip() for address in text.split(","))):
        host, colon, port = part.rpartition(":")
        if not colon or (part.startswith("[") and part.endswith("]")):
            host, port = part, str(DEFAULT_PORT)
        host = host.removeprefix("[").removesuffix("]")
        if not host or not port.isdecimal() or len(port) > 5 or not 0 < int(port) < 65536:
            raise OptionError(f"bootstrap.servers: {part[:300]} is no host:port")
        found.append((host, int(port)))
    if not found:
        raise OptionError("bootstrap.servers names no broker; it takes host:port,host:port")
    return tuple(found)


def _switch(name: str, text: str) -> bool:
    value = {"true": True, "false": False}.get(text.strip().lower())
    if value is None:
        raise OptionError(f"kafka.{name} is {text!r}; it can be true or false")
    return value


def _number(name: str, text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise OptionError(f"kafka.{name} is {text!r}, which is no number") from None
    least = -1 if name.endswith("buffer.bytes") else 0 if name == "fetch.max.wait.ms" else 1
    if not least <= value < 1 << 31:
        raise OptionError(f"kafka.{name} is {value}; it can be {least} to {(1 << 31) - 1}")
    return value
