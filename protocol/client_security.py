"""TLS and SASL of a client: settings under the names that Kafka's clients have for them, TLS contexts and SASL tokens
made from them. Commands (`--command-config`) and the pipeline (`kafka.…` options) share it; their sockets are their
own.

    security.protocol=SASL_SSL
    sasl.mechanism=SCRAM-SHA-512
    sasl.jaas.config=….ScramLoginModule required username="alice" password="…";   (or sasl.username, sasl.password)
    ssl.truststore.location=ca.pem          ssl.keystore.location=alice.pem, where the listener wants a certificate
    sasl.mechanism=OAUTHBEARER              and what `oauth_token.py` says, for an issuer's tokens
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import ssl

    from .oauth_token import TokenSettings

HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""SCRAM's mechanisms and their hashes."""
NAMES = (
    "security.protocol", "sasl.mechanism", "sasl.jaas.config", "sasl.username", "sasl.password", "ssl.truststore.location",
    "ssl.keystore.location", "ssl.key.password", "ssl.endpoint.identification.algorithm", "https.ca.location",
    *(f"sasl.oauthbearer.{name}" for name in (
        "token.endpoint.url", "token", "client.credentials.client.id", "client.credentials.client.secret", "client.id",
        "client.secret", "scope", "header.urlencode", "extensions", "method", "grant.type", "config", "jwt.retriever.class",
        "assertion.algorithm", "assertion.claim.aud", "assertion.claim.exp.seconds", "assertion.claim.iss",
        "assertion.claim.jti.include", "assertion.claim.nbf.seconds", "assertion.claim.sub", "assertion.file",
        "assertion.private.key.file", "assertion.private.key.passphrase", "assertion.template.file",
    )),
)  # fmt: skip
_TOKENS = ("token", "token.endpoint.url")
MIN_ITERATIONS, MAX_ITERATIONS = 4096, 1 << 20
"""Accepted iteration counts of SCRAM's hash. A server that asks for fewer (RFC 7677, section 4) would get proofs from
which the password is guessed fast; one that asks for more, a second of work, would keep the client busy.
"""


class ClientSecurityError(ValueError):
    """A setting makes no sense, a file can't be used, or the server is not who it claims to be. One line for people."""


@dataclass(frozen=True, slots=True)
class ClientSecurity:
    """Security settings of a client; `repr` leaves passwords out. `ca`, `certificate`: PEM files; `check_name`: True if
    the certificate must name the host.
    """

    protocol: str = "PLAINTEXT"
    mechanism: str = ""
    user: str = ""
    password: str = field(default="", repr=False)
    ca: str | None = None
    certificate: str | None = None
    key_password: str | None = field(default=None, repr=False)
    check_name: bool = True
    oauth: TokenSettings | None = None

    @property
    def who(self) -> str:
        """The name under which the client authenticates, for messages."""
        return self.oauth.who if self.oauth is not None else f"user {self.user!r}"

    @property
    def has_tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def has_sasl(self) -> bool:
        return self.protocol.startswith("SASL")

    def tls_context(self) -> ssl.SSLContext:
        """Make a TLS context. Reads files; ClientSecurityError names the file that can't be used."""
        import ssl

        try:
            context = ssl.create_default_context(cafile=self.ca)
        except (OSError, ssl.SSLError) as error:
            raise ClientSecurityError(f"ssl.truststore.location={self.ca}: {_why_not_pem(error)}") from None
        context.check_hostname = self.check_name
        if self.certificate is not None:
            try:
                context.load_cert_chain(self.certificate, password=lambda: self.key_password or "")
            except (OSError, ssl.SSLError) as error:
                raise ClientSecurityError(f"ssl.keystore.location={self.certificate}: {_why_not_pem(error)}") from None
        return context

    def tokens(self) -> Callable[[bytes | None], bytes | None]:
        """The client's side of the SASL mechanism: a function from the server's last message (None: none yet) to the
        next one of the client (None: done). ClientSecurityError when the server does not know the password either, or
        there is no token. Blocks while a token is fetched.
        """
        if self.oauth is not None:
            from .oauth_token import BearerExchange

            return BearerExchange(self.oauth)
        if self.mechanism == "PLAIN":
            answers = iter([f"\0{self.user}\0{self.password}".encode()])
            return lambda _said: next(answers, None)
        return _Scram(self.mechanism, self.user, self.password)

    def librdkafka(self) -> dict[str, Any]:
        """The same as librdkafka's settings, as confluent-kafka takes them."""
        settings: dict[str, Any] = {"security.protocol": self.protocol.lower()}
        if self.has_sasl and self.oauth is not None:
            from .oauth_token import librdkafka_callback

            settings |= {"sasl.mechanism": self.mechanism, "oauth_cb": librdkafka_callback(self.oauth)}
        elif self.has_sasl:
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


_NO_SENSE = "the server's SCRAM message makes no sense"


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:  # binascii.Error is one; what is not ASCII is not one of those
        raise ClientSecurityError(_NO_SENSE) from None


def _whole(text: str) -> int:
    """The number in `text`; 0 for anything else, and for a number too long to be meant."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0


class _Scram:
    """SCRAM client (RFC 5802), called with each message of the server."""

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
            if not hmac.compare_digest(_decoded(fields.get("v", "")), self._signature):
                raise ClientSecurityError("the server's proof is wrong: it does not know the password")
            return None
        nonce, iterations = fields.get("r", ""), fields.get("i", "")
        # A server that adds nothing of its own to the nonce could have been answered before: proofs could be used again.
        if not nonce.startswith(self._nonce) or nonce == self._nonce or not _whole(iterations):
            raise ClientSecurityError(_NO_SENSE)
        if not MIN_ITERATIONS <= int(iterations) <= MAX_ITERATIONS:
            raise ClientSecurityError(
                f"the server asks for {int(iterations)} iterations of {self._mechanism}; from {MIN_ITERATIONS} to "
                f"{MAX_ITERATIONS} are accepted: with fewer the password could be guessed from "
                "the proof, more would keep this client busy"
            )
        salt = _decoded(fields.get("s", ""))
        salted = hashlib.pbkdf2_hmac(self._hash, self._password.encode(), salt, int(iterations))
        client_key = hmac.digest(salted, b"Client Key", self._hash)
        final = f"c=biws,r={nonce}"
        text = f"{self._bare},".encode() + said + f",{final}".encode()
        signature = hmac.digest(hashlib.new(self._hash, client_key).digest(), text, self._hash)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self._signature = hmac.digest(hmac.digest(salted, b"Server Key", self._hash), text, self._hash)
        return f"{final},p={base64.b64encode(proof).decode()}".encode()


def tls_failure(host: str, error: OSError) -> ClientSecurityError:
    """The error for a failed TLS handshake with `host`, in words."""
    import ssl

    if isinstance(error, ssl.SSLCertVerificationError):
        return ClientSecurityError(
            f"the certificate of {host} is not good: {error.verify_message}; ssl.truststore.location names the authorities"
        )
    reason = getattr(error, "reason", None) or error.strerror or str(error)
    return ClientSecurityError(f"{host} speaks no TLS that this client does: {reason}")


def _why_not_pem(error: OSError) -> str:
    import ssl

    if isinstance(error, ssl.SSLError):
        return f"not a PEM file that can be used ({error.reason or error})"
    return error.strerror or str(error)


def security_of(found: Mapping[str, str]) -> ClientSecurity:
    """Read the security settings among `found`; other settings are ignored. ClientSecurityError, which shows no secret."""
    from .jaas import options_of

    values = {name: found.get(name, "").strip() for name in NAMES}
    protocol = values["security.protocol"].upper() or "PLAINTEXT"
    if protocol not in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"):
        raise ClientSecurityError(f"security.protocol={protocol}; allowed: PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL")
    mechanism = values["sasl.mechanism"].upper()
    user, password = values["sasl.username"], found.get("sasl.password", "")
    oauth = None
    # By HTTP a token may be shown without SASL.
    has_token = mechanism == "OAUTHBEARER" and any(values[f"sasl.oauthbearer.{name}"] for name in _TOKENS)
    if protocol.startswith("SASL") or has_token:
        known = ("PLAIN", *HASHES, "OAUTHBEARER")
        if mechanism not in known:
            raise ClientSecurityError(f"sasl.mechanism={mechanism or '(missing)'}; known: {', '.join(known)}")
        options: Mapping[str, str] = {}
        if values["sasl.jaas.config"]:
            try:
                options = options_of(values["sasl.jaas.config"], mechanism)
            except ValueError as error:
                raise ClientSecurityError(str(error)) from None
        if mechanism == "OAUTHBEARER":
            from .oauth_token import settings_of

            user, password, oauth = "", "", settings_of(found, options)
        else:
            user, password = options.get("username", user), options.get("password", password)
        if not user and oauth is None:
            raise ClientSecurityError("no user is given: set sasl.username and sasl.password, or sasl.jaas.config")
    return ClientSecurity(
        protocol,
        mechanism,
        user,
        password,
        values["ssl.truststore.location"] or None,
        values["ssl.keystore.location"] or None,
        found.get("ssl.key.password"),
        found.get("ssl.endpoint.identification.algorithm", "https").strip().lower() == "https",
        oauth,
    )
