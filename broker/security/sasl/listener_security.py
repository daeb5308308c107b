"""Security of one listener, from the settings: its TLS context, its SASL mechanisms, their users."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ....config.exceptions import ConfigError
from ....config.listener import MESSAGE_SET_SCHEMES
from ....config.listener_settings import HTTP
from ....protocol.errors import ErrorCode, ProtocolError
from ....protocol.jaas import users_of
from ..principal import MappingRule, parse_rules
from ..tls import TlsListener
from .disguise import Disguise
from .mechanism import Exchange, Refusal
from .plain import PlainExchange
from .scram import ScramExchange

if TYPE_CHECKING:
    import ssl

    from ....config.broker_config import BrokerConfig
    from ....config.listener import Listener
    from ..credentials import Users
    from .login_attempts import Attempt, Guesses
    from .tokens import TokenVerifier


class Client(Protocol):
    """Interface of a connection for its authentication. Loop thread."""

    peer_host: str
    principal: str

    @property
    def user(self) -> str:
        """Name of the user in `principal`."""

    @property
    def muted_ms(self) -> int:
        """Milliseconds for which nothing that it sends is looked at."""

    def authenticated_as(self, principal: str) -> str | None:
        """The client has proved who it is; returns why it is refused all the same."""

    def start_deadline(self, milliseconds: int, reason: str) -> None:
        """Closes the connection after so long, for `reason`, unless `clear_deadline` comes before."""

    def limit_requests(self, most: int) -> None:
        """Closes the connection over a request that announces more than `most` bytes, as long as nobody has authenticated."""

    def clear_deadline(self) -> None:
        """Cancel the deadline: what `start_deadline` waited for has happened."""

    def close_after_sending(self) -> None:
        """Handles no further request, and closes when the last answer has gone out."""


class SaslCommons(NamedTuple):
    """Objects shared by all SASL listeners, so that an unknown user has the same salt on each."""

    users: Users
    disguise: Disguise
    guesses: Guesses

    @classmethod
    def of(cls, users: Users, secret: bytes, guesses: Guesses) -> SaslCommons:
        """Make them; `secret` as `MetadataStore.secret` keeps it."""
        return cls(users, Disguise(secret, users.shapes), guesses)


class ListenerSecurity:
    """Security of one listener. Dynamic settings take effect with the next connection. Loop thread."""

    def __init__(self, listener: Listener, config: BrokerConfig, commons: SaslCommons | None) -> None:
        """Reads files. Raises `ConfigError` with one clear line that names the setting. `commons`: for listeners with
        SASL.
        """
        name = listener.name
        self.name = name
        self._config = config
        self._commons = commons
        self.sasl = listener.security_protocol.startswith("SASL_")
        self.tls = TlsListener(name, config) if listener.security_protocol.endswith("SSL") else None
        self.failures = 0
        self.successes = 0
        self.turned_away = 0
        self.mapping_rules = mapping_rules(name, config)
        self.mechanisms: tuple[str, ...] = config.of_listener(name, "sasl.enabled.mechanisms") if self.sasl else ()
        if self.sasl and name in MESSAGE_SET_SCHEMES:
            self.mechanisms = ("PLAIN",)  # AUTHENTICATE, in other words
        self._listed = self._users_listed(config)
        self.tokens = (
            token_verifier(name, config, "sasl.enabled.mechanisms") if "OAUTHBEARER" in self.mechanisms else None
        )

    @property
    def tls_context(self) -> ssl.SSLContext:
        assert self.tls is not None
        return self.tls.context

    @property
    def handshake_timeout_ms(self) -> int:
        return int(self._of("ssl.handshake.timeout.ms"))

    @property
    def failure_delay_ms(self) -> int:
        return self._config.connection_failed_authentication_delay_ms

    @property
    def max_receive_bytes(self) -> int:
        return int(self._of("sasl.server.max.receive.size"))

    def max_reauth_ms(self, mechanism: str) -> int:
        """Maximum lifetime of a session, ms; 0: unlimited."""
        return max(0, int(self._of("connections.max.reauth.ms", mechanism)))

    def check(self, config: BrokerConfig) -> None:
        """Raise `ProtocolError` INVALID_CONFIG if changed settings give no TLS context, or have an unreadable list of
        users.
        """
        try:
            self._users_listed(config)
            if self.tls is not None and self.tls.is_changed(config):
                self.tls.try_settings(config)
        except ConfigError as error:
            raise ProtocolError(ErrorCode.INVALID_CONFIG, str(error)) from None

    def use(self, config: BrokerConfig) -> None:
        """Apply a changed configuration. Certificates follow by `TlsListener.renew`."""
        self._config = config
        self._listed = self._users_listed(config)

    def expect(self, connection: Client) -> None:
        """Start the limits of a client that has not authenticated: on its time, without what it is made to wait for a rate of new
        connections, and on the bytes of its requests.
        """
        connection.limit_requests(self.max_receive_bytes)
        limit = self._config.sasl_authentication_timeout_ms
        connection.start_deadline(
            limit + connection.muted_ms, f"no authentication within {limit} ms (sasl.authentication.timeout.ms)"
        )

    def attempt(self, peer: str, known: str | None = None) -> Attempt:
        """Begin an authentication, as `Attempts.attempt`."""
        assert self._commons is not None
        return self._commons.guesses.attempts.attempt(peer, known)

    def exchange(self, mechanism: str, peer: str, attempt: Attempt) -> Exchange:
        """Begin an authentication by an offered mechanism, for a client at that address."""
        if mechanism not in self.mechanisms or self._commons is None:
            raise Refusal(f"{mechanism} is not offered")
        users, disguise, guesses = self._commons
        if mechanism == "PLAIN":
            return PlainExchange(self._listed[mechanism], users, guesses.checks, peer, attempt.claims, attempt.failed)
        if mechanism.startswith("SCRAM-"):
            return ScramExchange(mechanism, users, disguise, partial(secrets.token_urlsafe, 24), attempt.claims)
        assert self.tokens is not None
        from .oauthbearer import OAuthExchange

        return OAuthExchange(self.tokens, attempt.claims)

    def _users_listed(self, config: BrokerConfig) -> dict[str, Mapping[str, str]]:
        """Mechanism → user → password, from the settings. ConfigError."""
        try:
            return {
                mechanism: users_of(config.of_listener(self.name, "sasl.jaas.config", mechanism), mechanism)
                for mechanism in self.mechanisms
            }
        except ValueError as error:
            raise ConfigError([f"listener {self.name}: {error}"]) from None

    def _of(self, setting: str, mechanism: str = "") -> Any:
        return self._config.of_listener(self.name, setting, mechanism)


def mapping_rules(listener: str, config: BrokerConfig) -> tuple[MappingRule, ...]:
    """Rules that map certificate subjects of a listener's clients to users. Raises `ConfigError`."""
    try:
        return parse_rules(config.of_listener(listener, "ssl.principal.mapping.rules"))
    except ValueError as error:
        raise ConfigError([f"ssl.principal.mapping.rules of {listener}: {error}"]) from None


def token_verifier(listener: str, config: BrokerConfig, setting: str) -> TokenVerifier:
    """Token verifier of a listener, for the setting `setting`. Raises `ConfigError`.

    Its libraries are an extra, and imported for those who use them.
    """
    try:
        from .oauthbearer import verifier_of
    except ImportError as error:
        raise ConfigError(
            [
                f"{setting} of {listener} has OAUTHBEARER, whose libraries are not installed ({error.name}): "
                "pip install 'tidelog[oauth]'"
            ]
        ) from None

    def value(name: str) -> Any:
        whole = config.of_listener(listener, name, "OAUTHBEARER")
        # The setting for all listeners is about SASL, and usually has users of PLAIN.
        is_sasls = listener == HTTP and name == "sasl.jaas.config" and whole == config.sasl_jaas_config
        return None if is_sasls else whole

    return verifier_of(listener, value)
