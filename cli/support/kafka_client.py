"""Kafka client of the commands: finds the daemon, sends one request at a time, and reports failures in one line.

Our own client (`clients/kafka`) and its declared messages: administration works from the base install, and as well against
Apache Kafka. Records go through the pipeline's client, or librdkafka (`own_client.py`, `rdkafka.py`).
"""

from __future__ import annotations

import argparse
import os
import struct
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from .output import plural

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

    from ...clients.kafka.connection import Connection, Failure
    from ...clients.kafka.conversations import CoordinatorKind
    from ...protocol.client_security import ClientSecurity
    from ...protocol.schema import ApiMessage

    ResponseT = TypeVar("ResponseT", bound=ApiMessage)

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
VARIABLE = "TIDELOG_LISTENERS"
CONFIG_VARIABLE = "TIDELOG_COMMAND_CONFIG"
TIMEOUT_MS = 60_000
MAX_ANSWER_BYTES = 256 << 20
#: A coordinator that is loading, or a topic in the making, is asked again for so long.
PATIENCE_S = 15.0
_RETRY_S = 0.1

_HINTS = {
    "UNKNOWN_TOPIC_OR_PARTITION": "`tidelog topics list` shows the topics",
    "TOPIC_ALREADY_EXISTS": "`tidelog topics alter` changes it",
    "INVALID_REPLICATION_FACTOR": "say 1, or leave it out",
    "INVALID_CONFIG": "`tidelog settings` lists names and ranges",
    "GROUP_ID_NOT_FOUND": "`tidelog groups list` shows the groups",
    "NON_EMPTY_GROUP": "stop its members first (`tidelog groups describe` names them)",
    "UNKNOWN_MEMBER_ID": "the group has members: stop them first (`tidelog groups describe` names them)",
    "TRANSACTIONAL_ID_NOT_FOUND": "`tidelog transactions list` shows them",
}
_PASSING = {"COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "CONCURRENT_TRANSACTIONS"}


class KafkaFailure(OSError):
    """The daemon did not answer, or refused: one line for people. `code` is Kafka's name of the error, "" where there is none."""

    def __init__(self, text: str, code: str = "") -> None:
        super().__init__(text)
        self.code = code


def add_bootstrap_argument(parser: argparse.ArgumentParser) -> None:
    """--bootstrap-server and --command-config, which `client_of` understands."""
    parser.add_argument(
        "--bootstrap-server",
        metavar="HOST:PORT",
        help=f"the daemon's Kafka listener (default: the first of {VARIABLE}, else {DEFAULT_BOOTSTRAP})",
    )
    parser.add_argument(
        "--command-config",
        metavar="FILE",
        help="client settings for a listener that asks for TLS or SASL, in Kafka's names: security.protocol, sasl.mechanism, "
        f"sasl.jaas.config, ssl.truststore.location … (default: {CONFIG_VARIABLE})",
    )


def add_json_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def add_actions(
    commands: Subparsers, name: str, summary: str, description: str | None
) -> Callable[[str, Any, str], argparse.ArgumentParser]:
    """A command with actions that ask a broker; what is returned adds one: (name, what runs it, summary)."""
    parser = commands.add_parser(name, help=summary, description=description)
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)

    def action(name: str, run: Any, summary: str) -> argparse.ArgumentParser:
        made = actions.add_parser(name, help=summary, description=summary)
        made.set_defaults(run=run)
        add_bootstrap_argument(made)
        add_json_argument(made)
        return made

    return action


def bootstrap_of(given: str | None) -> str:
    """HOST:PORT to connect to. KafkaFailure when it is none."""
    from ...config.listener import parse_address

    text = given if given is not None else os.environ.get(VARIABLE, DEFAULT_BOOTSTRAP)
    first = text.split(",")[0].strip().rpartition("://")[2]
    try:
        listener = parse_address(first, "bootstrap-server")
    except ValueError as error:
        raise KafkaFailure(f"{'--bootstrap-server' if given is not None else VARIABLE}: {error}") from None
    # An address that is bound to all interfaces is reached on the loopback one.
    host = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(listener.host, listener.host)  # noqa: S104 - not bound
    return f"[{host}]:{listener.port}" if ":" in host else f"{host}:{listener.port}"


def security_of(options: argparse.Namespace) -> ClientSecurity | None:
    """Client security from --command-config or its variable; None: plain connections without authentication. KafkaFailure."""
    file = options.command_config or os.environ.get(CONFIG_VARIABLE)
    if not file:
        return None
    return read_security(file)


def read_security(file: str) -> ClientSecurity:
    """Read client security from a file of client settings; other settings are ignored. KafkaFailure names the mistake."""
    from ...protocol import client_security

    found = read_properties(file)
    try:
        return client_security.security_of(found)
    except client_security.ClientSecurityError as error:
        raise KafkaFailure(f"{file}: {error}") from None


def read_properties(file: str) -> dict[str, str]:
    """Names and values of a properties file. KafkaFailure."""
    from pathlib import Path

    from ...config.loader import parse_properties, properties_text

    try:
        return dict(parse_properties(properties_text(Path(file).read_bytes())))
    except (OSError, ValueError) as error:
        raise KafkaFailure(f"{file}: can't be read: {getattr(error, 'strerror', None) or error}") from None


def client_of(options: argparse.Namespace) -> KafkaClient:
    """The daemon that the arguments name, to be opened by `with`. KafkaFailure."""
    return KafkaClient(bootstrap_of(options.bootstrap_server), security_of(options))


def failure(what: str, code: int, message: str | None = None, guess: str = "") -> KafkaFailure:
    """Exception for an error code of an answer: its meaning, and what to do, or `guess` (`; did you mean …?`) in its place."""
    from ...config.page import without_address
    from ...protocol.errors import ERRORS

    known = ERRORS.get(code)
    if message:  # the command line tells addresses in a line of their own
        message = without_address(message)
    name = known.name if known is not None else f"error {code}"
    text = f"{what}: {message or (known.text if known is not None else name)}"
    if guess:
        return KafkaFailure(text.rstrip(".") + guess, name)
    hint = _HINTS.get(name)
    return KafkaFailure(f"{text} ({hint})" if hint else text, name)


def check(what: str, code: int, message: str | None = None) -> None:
    """Raises `failure` unless the code is 0."""
    if code:
        raise failure(what, code, message)


class KafkaClient:
    """One connection, opened by `with`. Blocking; each wait has a limit."""

    def __init__(self, bootstrap: str, security: ClientSecurity | None = None) -> None:
        self.bootstrap = bootstrap
        self._security = security
        self._opened: Connection | None = None
        #: Keys whose coordinator has been looked for.
        self._found: set[tuple[CoordinatorKind, str]] = set()

    def __enter__(self) -> Self:
        from ...clients.kafka.connection import Connection, ConnectionSettings
        from ...protocol.client_security import ClientSecurity

        host, _, port = self.bootstrap.rpartition(":")
        settings = ConnectionSettings(
            request_timeout_ms=TIMEOUT_MS,
            connect_timeout_ms=TIMEOUT_MS,
            most_answer_bytes=MAX_ANSWER_BYTES,
            security=self._security or ClientSecurity(),
        )
        self._opened = Connection((host.strip("[]"), int(port)), settings, explain=self._explain)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._opened is not None:
            self._opened.close()

    @property
    def connection(self) -> Connection:
        """The connection, within `with`."""
        assert self._opened is not None
        return self._opened

    def version(self, request: ApiMessage | type[ApiMessage], most: int | None = None) -> int:
        """The newest version that both know of a request, at most `most`. KafkaFailure when there is none."""
        return self.connection.version_of(request if isinstance(request, type) else type(request), most)

    def ask(self, request: ApiMessage, response: type[ResponseT], most: int | None = None) -> ResponseT:
        """The answer in the newest version that both know, at most `most`. KafkaFailure."""
        try:
            return self.connection.request(request, response, up_to=most)
        except struct.error:  # of encoding, before anything was sent
            raise KafkaFailure(
                f"a number is too large or too small for Kafka's request {request.API_KEY.name}"
            ) from None

    def ask_coordinator(
        self,
        of: CoordinatorKind,
        keys: Iterable[str],
        request: ApiMessage,
        response: type[ResponseT],
        most: int | None = None,
    ) -> ResponseT:
        """Ask the coordinator of these groups or transactional ids, as `ask`. KafkaFailure."""
        self._find_coordinator(of, keys)
        return self.ask(request, response, most)

    def _find_coordinator(self, of: CoordinatorKind, keys: Iterable[str]) -> None:
        """Look for the coordinator of these keys, once for each. A new broker has no internal topic yet: looking for a
        coordinator creates it. Here and in a Kafka of one node that is the broker itself; one of several answers NOT_COORDINATOR
        where it is another.
        """
        from ...clients.kafka.conversations import find_coordinators
        from ...protocol.messages.find_coordinator import FindCoordinatorRequest

        missing = [key for key in keys if (of, key) not in self._found]
        if not missing:
            return
        version = self.version(FindCoordinatorRequest)

        def attempt() -> None:
            for found in self.connection.run(find_coordinators(of, missing, version)):
                check(f"{of.label} {found.key}", found.error_code)

        patiently(attempt)
        self._found.update((of, key) for key in missing)

    def _explain(self, met: Failure) -> KafkaFailure:
        from ...clients.kafka.connection import ConnectionLostError, Doing, TlsFailedError
        from ...clients.kafka.conversations import SaslRefusedError
        from ...clients.kafka.protocol import AnnouncedSizeError, NoCommonVersionError
        from ...protocol.client_security import ClientSecurityError, tls_failure
        from ...protocol.errors import ProtocolError

        fact, api_name, security = met.fact, met.api_name, met.settings.security
        if isinstance(fact, NoCommonVersionError):
            return KafkaFailure(
                f"the daemon at {self.bootstrap} does not answer {fact.api_name} as this version asks it"
            )
        if isinstance(fact, SaslRefusedError):
            what = security.who if fact.offered is None else f"sasl.mechanism={security.mechanism}"
            return failure(f"{self.bootstrap}, {what}", fact.code, fact.why)
        if isinstance(fact, ClientSecurityError):
            return KafkaFailure(str(fact))
        if isinstance(fact, TlsFailedError):
            return KafkaFailure(str(tls_failure(met.address[0], fact.error)))
        reason = getattr(fact, "strerror", None) or str(fact)
        if met.doing is Doing.CONNECT:
            return KafkaFailure(
                f"no daemon answers at {self.bootstrap} ({reason}): start one with `tidelog serve`, or say where it is with "
                f"--bootstrap-server HOST:PORT or {VARIABLE}"
            )
        if isinstance(fact, AnnouncedSizeError):
            reason = f"an answer of {plural(fact.size, 'byte')}: this is no Kafka listener"
        elif isinstance(fact, ProtocolError):
            return KafkaFailure(f"{api_name} version {met.version}: {fact}")
        elif isinstance(fact, ConnectionLostError):
            return KafkaFailure(f"{self.bootstrap}: {fact}")
        hint = ""
        if api_name == "API_VERSIONS" and self._security is None:
            hint = "; a listener that asks for TLS or SASL needs --command-config FILE"
        return KafkaFailure(f"{self.bootstrap} broke off while it answered {api_name}: {reason}{hint}")


def patiently(attempt: Any, patience_s: float = PATIENCE_S) -> Any:
    """Call `attempt` again while it fails with a transient error, for at most `patience_s`; returns what it returns."""
    deadline = time.monotonic() + patience_s
    while True:
        try:
            return attempt()
        except KafkaFailure as error:
            if error.code not in _PASSING or time.monotonic() > deadline:
                raise
        time.sleep(_RETRY_S)


def pairs_of(assignments: list[str], option: str) -> dict[str, str]:
    """NAME=VALUE arguments as a dict. KafkaFailure for one without `=`."""
    found = {}
    for text in assignments:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise KafkaFailure(f"{option} takes NAME=VALUE, not {text!r}")
        found[name.strip()] = value.strip()
    return found
