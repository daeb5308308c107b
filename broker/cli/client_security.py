"""How commands get in by a listener that asks for TLS or SASL: out of a properties file as Kafka's tools take it
(`--command-config`), with Kafka's own names.

    security.protocol=SASL_SSL
    sasl.mechanism=SCRAM-SHA-512
    sasl.jaas.config=….ScramLoginModule required username="alice" password="…";   (or sasl.username, sasl.password)
    ssl.truststore.location=ca.pem          ssl.keystore.location=alice.pem, where the listener wants a certificate
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ..security.credentials import HASHES, salted_password
from .kafka_client import KafkaFailure

if TYPE_CHECKING:
    import socket
    import ssl
    from pathlib import Path

_NAMES = (
    "security.protocol", "sasl.mechanism", "sasl.jaas.config", "sasl.username", "sasl.password", "ssl.truststore.location",
    "ssl.keystore.location", "ssl.key.password", "ssl.endpoint.identification.algorithm",
)  # fmt: skip
MAX_ITERATIONS = 1 << 20
"""A server that asks for more wants to keep a client busy."""


class ClientSecurity(NamedTuple):
    """What the file says. `ca`, `certificate`: PEM files; `check_name`: whether the certificate must name the host."""

    protocol: str = "PLAINTEXT"
    mechanism: str = ""
    user: str = ""
    password: str = ""
    ca: str | None = None
    certificate: str | None = None
    key_password: str | None = None
    check_name: bool = True

    def wrap(self, sock: socket.socket, host: str) -> socket.socket:
        """The connection by TLS, where the listener speaks it. KafkaFailure."""
        if not self.protocol.endswith("SSL"):
            return sock
        import ssl

        context = self._context(ssl)
        try:
            return context.wrap_socket(sock, server_hostname=host)
        except ssl.SSLCertVerificationError as error:
            raise KafkaFailure(
                f"the certificate of {host} is not good: {error.verify_message}; ssl.truststore.location names the authorities"
            ) from None
        except ssl.SSLError as error:
            raise KafkaFailure(f"{host} speaks no TLS that this client does: {error.reason or error}") from None

    def _context(self, ssl: object) -> ssl.SSLContext:
        import ssl as module

        try:
            context = module.create_default_context(cafile=self.ca)
        except (OSError, module.SSLError) as error:
            raise KafkaFailure(f"ssl.truststore.location={self.ca}: {getattr(error, 'strerror', error)}") from None
        context.check_hostname = self.check_name
        if self.certificate is not None:
            try:
                context.load_cert_chain(self.certificate, password=lambda: self.key_password or "")
            except (OSError, module.SSLError) as error:
                raise KafkaFailure(f"ssl.keystore.location={self.certificate}: {error}") from None
        return context

    def tokens(self) -> Callable[[bytes | None], bytes | None]:
        """The client's side of the mechanism: what the server said last (None: nothing yet) → what to say, or None: done.
        KafkaFailure where the server does not know the password either."""
        if self.mechanism == "PLAIN":
            answers = iter([f"\0{self.user}\0{self.password}".encode()])
            return lambda _said: next(answers, None)
        return _Scram(self.mechanism, self.user, self.password)

    def librdkafka(self) -> dict[str, str]:
        """The same as librdkafka's settings."""
        settings = {"security.protocol": self.protocol.lower()}
        if self.protocol.startswith("SASL"):
            settings |= {"sasl.mechanism": self.mechanism, "sasl.username": self.user, "sasl.password": self.password}
        if self.protocol.endswith("SSL"):
            if self.ca is not None:
                settings["ssl.ca.location"] = self.ca
            if self.certificate is not None:
                settings |= {"ssl.certificate.location": self.certificate, "ssl.key.location": self.certificate}
            if self.key_password is not None:
                settings["ssl.key.password"] = self.key_password
            settings["ssl.endpoint.identification.algorithm"] = "https" if self.check_name else "none"
        return settings


class _Scram:
    """RFC 5802's client. Called with each answer of the server's."""

    def __init__(self, mechanism: str, user: str, password: str) -> None:
        self._mechanism = mechanism
        self._hash = HASHES[mechanism]
        self._password = password
        name = user.replace("=", "=3D").replace(",", "=2C")
        self._nonce = secrets.token_urlsafe(24)
        self._bare = f"n={name},r={self._nonce}"
        self._signature: bytes | None = None

    def __call__(self, said: bytes | None) -> bytes | None:
        if said is None:
            return f"n,,{self._bare}".encode()
        fields = dict(part.partition("=")[::2] for part in said.decode("utf-8", "replace").split(","))
        if self._signature is not None:
            if not hmac.compare_digest(base64.b64decode(fields.get("v", "")), self._signature):
                raise KafkaFailure("the server does not know the password: it is not who it says it is")
            return None
        nonce, iterations = fields.get("r", ""), fields.get("i", "")
        if not nonce.startswith(self._nonce) or not iterations.isdecimal() or int(iterations) > MAX_ITERATIONS:
            raise KafkaFailure("the server's SCRAM message makes no sense")
        salt = base64.b64decode(fields.get("s", ""))
        salted = salted_password(self._mechanism, self._password, salt, int(iterations))
        client_key = hmac.digest(salted, b"Client Key", self._hash)
        final = f"c=biws,r={nonce}"
        text = f"{self._bare},{said.decode()},{final}".encode()
        signature = hmac.digest(hashlib.new(self._hash, client_key).digest(), text, self._hash)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self._signature = hmac.digest(hmac.digest(salted, b"Server Key", self._hash), text, self._hash)
        return f"{final},p={base64.b64encode(proof).decode()}".encode()


def read_security(file: Path) -> ClientSecurity:
    """What a file of client settings says. KafkaFailure naming what is wrong; other settings of clients are passed over."""
    from ...config.loader import parse_properties

    try:
        found = dict(parse_properties(file.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise KafkaFailure(f"{file}: can't be read: {getattr(error, 'strerror', None) or error}") from None
    try:
        return security_of(found)
    except ValueError as error:
        raise KafkaFailure(f"{file}: {error}") from None


def security_of(found: Mapping[str, str]) -> ClientSecurity:
    """The same out of names and values. ValueError."""
    from ..security.jaas import options_of

    values = {name: found.get(name, "").strip() for name in _NAMES}
    protocol = values["security.protocol"].upper() or "PLAINTEXT"
    if protocol not in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"):
        raise ValueError(f"security.protocol={protocol}; allowed: PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL")
    mechanism = values["sasl.mechanism"].upper()
    user, password = values["sasl.username"], found.get("sasl.password", "")
    if protocol.startswith("SASL"):
        if mechanism not in ("PLAIN", *HASHES):
            raise ValueError(f"sasl.mechanism={mechanism or '(missing)'}; commands know PLAIN, {', '.join(HASHES)}")
        if values["sasl.jaas.config"]:
            options = options_of(values["sasl.jaas.config"], mechanism)
            user, password = options.get("username", user), options.get("password", password)
        if not user:
            raise ValueError("who are you? set sasl.username and sasl.password, or sasl.jaas.config")
    return ClientSecurity(
        protocol,
        mechanism,
        user,
        password,
        values["ssl.truststore.location"] or None,
        values["ssl.keystore.location"] or None,
        found.get("ssl.key.password"),
        found.get("ssl.endpoint.identification.algorithm", "https").strip().lower() == "https",
    )
