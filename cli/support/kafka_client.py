"""How commands ask a daemon over Kafka's protocol: where it is, one request at a time, and what went wrong in one line.

Our own declared messages over a blocking socket: administration works from the base install, and as well against Apache
Kafka. Records go through librdkafka instead (`produce.py`, `consume.py`).
"""

from __future__ import annotations

import argparse
import os
import socket
import struct
import time
from collections.abc import Callable, Iterable
from enum import IntEnum
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

    from ...protocol.client_security import ClientSecurity
    from ...protocol.schema import ApiMessage

    ResponseT = TypeVar("ResponseT", bound=ApiMessage)

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
VARIABLE = "TIDELOG_LISTENERS"
CONFIG_VARIABLE = "TIDELOG_COMMAND_CONFIG"
TIMEOUT_S = 60.0
MAX_ANSWER_BYTES = 256 << 20
#: A coordinator that is loading, or a topic in the making, is asked again for so long.
PATIENCE_S = 15.0
_RETRY_S = 0.1

_HINTS = {
    "UNKNOWN_TOPIC_OR_PARTITION": "`tidelog topics list` shows the topics",
    "TOPIC_ALREADY_EXISTS": "`tidelog topics alter` changes it",
    "INVALID_CONFIG": "`tidelog settings` lists names and ranges",
    "GROUP_ID_NOT_FOUND": "`tidelog groups list` shows the groups",
    "NON_EMPTY_GROUP": "stop its members first (`tidelog groups describe` names them)",
    "UNKNOWN_MEMBER_ID": "the group has members: stop them first (`tidelog groups describe` names them)",
    "TRANSACTIONAL_ID_NOT_FOUND": "`tidelog transactions list` shows them",
}
#: From this version on, FindCoordinator asks for several keys.
_MANY_COORDINATORS_FROM = 4
_PASSING = {"COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "CONCURRENT_TRANSACTIONS"}


class Coordinated(IntEnum):
    """What a coordinator is of, by FindCoordinator's numbers."""

    GROUP = 0
    TRANSACTION = 1

    @property
    def label(self) -> str:
        """As messages have it."""
        return "group" if self is Coordinated.GROUP else "transactional id"


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
    """How to get in, as --command-config or its variable says; None: nothing is asked for. KafkaFailure."""
    file = options.command_config or os.environ.get(CONFIG_VARIABLE)
    if not file:
        return None
    return read_security(file)


def read_security(file: str) -> ClientSecurity:
    """What a file of client settings says. KafkaFailure naming what is wrong; other settings of clients are passed over."""
    from ...protocol import client_security

    found = read_properties(file)
    try:
        return client_security.security_of(found)
    except client_security.ClientSecurityError as error:
        raise KafkaFailure(f"{file}: {error}") from None


def read_properties(file: str) -> dict[str, str]:
    """Names and values of a properties file. KafkaFailure."""
    from pathlib import Path

    from ...config.loader import parse_properties

    try:
        return dict(parse_properties(Path(file).read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise KafkaFailure(f"{file}: can't be read: {getattr(error, 'strerror', None) or error}") from None


def client_of(options: argparse.Namespace) -> KafkaClient:
    """The daemon that the arguments name, to be opened by `with`. KafkaFailure."""
    return KafkaClient(bootstrap_of(options.bootstrap_server), security_of(options))


def failure(what: str, code: int, message: str | None = None) -> KafkaFailure:
    """What an error code of an answer means, with what to do."""
    from ...protocol.errors import ErrorCode

    known = next((one for one in ErrorCode if one == code), None)
    name = known.name if known is not None else f"error {code}"
    text = f"{what}: {message or (known.text if known is not None else name)}"
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
        self._socket: socket.socket | None = None
        self._versions: dict[int, tuple[int, int]] = {}
        self._number = 0
        #: Whose coordinator has been looked for.
        self._found: set[tuple[Coordinated, str]] = set()

    def __enter__(self) -> Self:
        from ...protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

        host, _, port = self.bootstrap.rpartition(":")
        try:
            self._socket = socket.create_connection((host.strip("[]"), int(port)), timeout=TIMEOUT_S)
        except OSError as error:
            reason = error.strerror or str(error)
            raise KafkaFailure(
                f"no daemon answers at {self.bootstrap} ({reason}): start one with `tidelog serve`, or say where it is with "
                f"--bootstrap-server HOST:PORT or {VARIABLE}"
            ) from None
        try:
            if self._security is not None:
                self._secure(self._security, host.strip("[]"))
            answer = self._exchange(ApiVersionsRequest(), 0, ApiVersionsResponse)
            self._versions = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
            if self._security is not None and self._security.has_sasl:
                self._authenticate(self._security)
        except BaseException:
            self._socket.close()
            raise
        return self

    def _secure(self, security: ClientSecurity, host: str) -> None:
        from ...protocol.client_security import ClientSecurityError, tls_failure

        if not security.has_tls:
            return
        try:
            context = security.tls_context()
        except ClientSecurityError as error:
            raise KafkaFailure(str(error)) from None
        assert self._socket is not None
        try:
            self._socket = context.wrap_socket(self._socket, server_hostname=host)
        except OSError as error:
            raise KafkaFailure(str(tls_failure(host, error))) from None

    def _authenticate(self, security: ClientSecurity) -> None:
        from ...protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
        from ...protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

        hello = self._exchange(SaslHandshakeRequest(mechanism=security.mechanism), 1, SaslHandshakeResponse)
        if hello.error_code:
            offered = ", ".join(hello.mechanisms) or "none"
            raise failure(
                f"{self.bootstrap}, sasl.mechanism={security.mechanism}", hello.error_code, f"offered: {offered}"
            )
        tokens = security.tokens()
        said: bytes | None = None
        while (token := self._token(tokens, said)) is not None:
            answer = self._exchange(SaslAuthenticateRequest(auth_bytes=token), 1, SaslAuthenticateResponse)
            check(f"{self.bootstrap}, {security.who}", answer.error_code, answer.error_message)
            said = answer.auth_bytes

    @staticmethod
    def _token(tokens: Callable[[bytes | None], bytes | None], said: bytes | None) -> bytes | None:
        from ...protocol.client_security import ClientSecurityError

        try:
            return tokens(said)
        except ClientSecurityError as error:
            raise KafkaFailure(str(error)) from None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._socket is not None:
            self._socket.close()

    def version(self, request: ApiMessage | type[ApiMessage], most: int | None = None) -> int:
        """The newest version that both know of a request, at most `most`. KafkaFailure when there is none."""
        key = request.API_KEY
        low, high = self._versions.get(key, (0, -1))
        own_low, own_high = request.VERSIONS
        version = min(high, own_high if most is None else min(own_high, most))
        if version < max(low, own_low):
            raise KafkaFailure(f"the daemon at {self.bootstrap} does not answer {key.name} as this version asks it")
        return version

    def ask(self, request: ApiMessage, response: type[ResponseT], most: int | None = None) -> ResponseT:
        """The answer in the newest version that both know, at most `most`. KafkaFailure."""
        return self._exchange(request, self.version(request, most), response)

    def ask_coordinator(
        self,
        of: Coordinated,
        keys: Iterable[str],
        request: ApiMessage,
        response: type[ResponseT],
        most: int | None = None,
    ) -> ResponseT:
        """As `ask`, of who coordinates these groups or transactional ids. KafkaFailure."""
        self._find_coordinator(of, keys)
        return self.ask(request, response, most)

    def _find_coordinator(self, of: Coordinated, keys: Iterable[str]) -> None:
        """Has the broker be ready to be asked about these keys, once for each. A new one has made no topic for what it
        coordinates: looking for the coordinator is what makes it. Here and in a Kafka of one node that is the broker itself;
        one of several answers NOT_COORDINATOR where it is another."""
        from ...protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

        missing = [key for key in keys if (of, key) not in self._found]
        if not missing:
            return
        is_many = self.version(FindCoordinatorRequest) >= _MANY_COORDINATORS_FROM
        if is_many:
            requests = [FindCoordinatorRequest(key_type=of, coordinator_keys=missing)]
        else:
            requests = [FindCoordinatorRequest(key_type=of, key=key) for key in missing]

        def attempt() -> None:
            for key, request in zip([None] if is_many else missing, requests, strict=True):
                answer = self.ask(request, FindCoordinatorResponse)
                for one in answer.coordinators:
                    check(f"{of.label} {one.key}", one.error_code)
                if key is not None:
                    check(f"{of.label} {key}", answer.error_code)

        patiently(attempt)
        self._found.update((of, key) for key in missing)

    def _exchange(self, request: ApiMessage, version: int, response: type[ResponseT]) -> ResponseT:
        from ...protocol.errors import ProtocolError
        from ...protocol.headers import response_header_bytes
        from ...protocol.schema import decode, encode

        self._number += 1
        client = b"tidelog"
        header = struct.pack(">hhih", request.API_KEY, version, self._number, len(client)) + client
        if request.FLEXIBLE_FROM is not None and version >= request.FLEXIBLE_FROM:
            header += b"\0"
        try:
            body = header + encode(request, version)
            answer = self._round_trip(struct.pack(">i", len(body)) + body)
            before = response_header_bytes(request.API_KEY, version, self._number)
            return decode(response, version, answer, len(before))[0]
        except ProtocolError as error:
            raise KafkaFailure(f"{request.API_KEY.name} version {version}: {error}") from None
        except (OSError, EOFError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            hint = ""
            if not self._versions and self._security is None:
                hint = "; a listener that asks for TLS or SASL needs --command-config FILE"
            raise KafkaFailure(
                f"{self.bootstrap} broke off while it answered {request.API_KEY.name}: {reason}{hint}"
            ) from None

    def _round_trip(self, frame: bytes) -> bytes:
        assert self._socket is not None
        self._socket.sendall(frame)
        (size,) = struct.unpack(">i", self._receive(4))
        if not 0 <= size <= MAX_ANSWER_BYTES:
            raise EOFError(f"an answer of {size} bytes: this is no Kafka listener")
        return self._receive(size)

    def _receive(self, count: int) -> bytes:
        assert self._socket is not None
        data = bytearray()
        while len(data) < count:
            chunk = self._socket.recv(min(count - len(data), 1 << 20))
            if not chunk:
                raise EOFError("the connection was closed")
            data += chunk
        return bytes(data)


def patiently(attempt: Any, patience_s: float = PATIENCE_S) -> Any:
    """What `attempt` returns; while it fails for something that passes, it is called again."""
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
