"""Exceptions of the pipeline for a connection's failures, with sentences that name the source's options (`kafka.…`)."""

from __future__ import annotations

from ...clients.kafka.connection import ConnectionLostError, Doing, Failure, TlsFailedError, TlsSettingsError, is_alert
from ...clients.kafka.conversations import ExchangeFailedError, SaslRefusedError
from ...clients.kafka.protocol import AnnouncedSizeError, NoCommonVersionError, WrongAnswerError, error_text
from ...protocol.client_security import ClientSecurityError, tls_failure
from ...protocol.errors import ERRORS, ProtocolError, UnsupportedFieldError
from ...protocol.oauth_token import TokenUnavailableError
from ..exceptions import AuthenticationError, BrokerError, BrokerUnreachableError, UnsupportedBrokerError

_ASKS_FOR_MORE = "; a listener with TLS or SASL needs kafka.security.protocol"


def explain(failure: Failure) -> Exception:
    """BrokerUnreachableError (which is retriable) for whatever happens to the network or to the bytes on it,
    UnsupportedBrokerError when the broker does not speak what is asked, and AuthenticationError when it lets nobody in like this.
    """
    broker = f"{failure.address[0]}:{failure.address[1]}"
    if isinstance(failure.fact, NoCommonVersionError):
        return UnsupportedBrokerError(f"{broker}: {failure.fact}")
    if isinstance(failure.fact, UnsupportedFieldError):
        return failure.fact  # the caller asked for what this version can't say: a mistake of ours
    refused = _refusal(failure, broker)
    if refused is not None:
        return AuthenticationError(refused)
    return BrokerUnreachableError(f"{broker}: {_what_broke(failure)}")


def _refusal(failure: Failure, broker: str) -> str | None:
    """Why trying again would not help; None where it may."""
    fact, security = failure.fact, failure.settings.security
    if isinstance(fact, SaslRefusedError):
        if fact.offered is not None:
            return f"{broker} does not take kafka.sasl.mechanism={security.mechanism}; it offers {fact.offered}"
        return f"{broker} does not let {security.who} in: {fact}"
    if isinstance(fact, TlsSettingsError):
        return f"kafka.{fact}"
    if isinstance(fact, ExchangeFailedError):
        return f"{broker}: {fact}"
    if isinstance(fact, ClientSecurityError) and not isinstance(fact, TokenUnavailableError):
        return str(fact)
    if isinstance(fact, TlsFailedError) and is_alert(fact.error):  # otherwise the broker went away: it may come back
        return str(tls_failure(failure.address[0], fact.error))
    if failure.doing is Doing.RECEIVE and not failure.is_known and isinstance(fact, OSError) and is_alert(fact):
        # TLS 1.3 tells so behind the handshake.
        return (
            f"{broker} does not take the client's certificate ({_reason(fact)}); kafka.ssl.keystore.location names one"
        )
    return None


def _what_broke(failure: Failure) -> str:
    fact, security = failure.fact, failure.settings.security
    if isinstance(fact, TlsFailedError):
        return f"no connection ({_reason(fact.error)})"
    if isinstance(fact, OSError):
        said = {Doing.CONNECT: "no connection", Doing.SEND: "the connection broke", Doing.RECEIVE: "no answer"}
        return f"{said[failure.doing]} ({_reason(fact)})"
    if isinstance(fact, EOFError):
        hint = "" if security.has_sasl or failure.is_known else _ASKS_FOR_MORE
        return f"the broker closed the connection before it answered{hint}"
    if isinstance(fact, AnnouncedSizeError):
        kind = "" if security.has_tls else " without TLS (kafka.security.protocol)"
        return f"{fact}; is this a Kafka listener{kind}?"
    if isinstance(fact, WrongAnswerError | ConnectionLostError | TokenUnavailableError):
        return str(fact)
    assert isinstance(fact, ProtocolError), fact
    if failure.api_name == "API_VERSIONS":
        return f"its answer is not Kafka's ({fact})"
    return f"an answer cannot be read ({fact})"


def check(code: int, about: str) -> None:
    """BrokerError, with `about` in front of what the code means, unless it is 0."""
    if code:
        retriable = code in ERRORS and ERRORS[code].retriable
        raise BrokerError(code, f"{about}: {error_text(code)}", retriable=retriable)


def _reason(error: OSError) -> str:
    return "timed out" if isinstance(error, TimeoutError) else error.strerror or str(error)
