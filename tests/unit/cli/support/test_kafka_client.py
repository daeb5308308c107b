"""Where commands look for a daemon, and the one line that they print when something is wrong."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest
from support.patience import PATIENCE_S
from tidelog.cli.support import kafka_client
from tidelog.cli.support.kafka_client import (
    KafkaClient,
    KafkaFailure,
    bootstrap_of,
    check,
    failure,
    pairs_of,
    patiently,
    read_security,
)
from tidelog.clients.kafka.conversations import CoordinatorKind
from tidelog.protocol.api_keys import ApiKey
from tidelog.protocol.client_security import ClientSecurity
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.headers import response_header_bytes
from tidelog.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from tidelog.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from tidelog.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tidelog.protocol.messages.sasl_handshake import SaslHandshakeResponse
from tidelog.protocol.schema import encode


@pytest.mark.parametrize(
    ("variable", "given", "expected"),
    [
        (None, None, "127.0.0.1:9092"),
        (None, "broker:1234", "broker:1234"),
        ("PLAINTEXT://127.0.0.1:19092", None, "127.0.0.1:19092"),
        ("INSIDE://10.0.0.1:1,OUTSIDE://10.0.0.2:2", None, "10.0.0.1:1"),
        ("PLAINTEXT://0.0.0.0:9092", None, "127.0.0.1:9092"),
        ("PLAINTEXT://[::]:9092", None, "[::1]:9092"),
        ("PLAINTEXT://10.0.0.1:1", "other:2", "other:2"),
    ],
)
def test_the_option_beats_the_variable_beats_the_default(
    monkeypatch: pytest.MonkeyPatch, variable: str | None, given: str | None, expected: str
) -> None:
    monkeypatch.delenv("TIDELOG_LISTENERS", raising=False)
    if variable is not None:
        monkeypatch.setenv("TIDELOG_LISTENERS", variable)
    assert bootstrap_of(given) == expected


def test_what_is_no_address_is_told_with_its_origin(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KafkaFailure, match="--bootstrap-server: 'nonsense'"):
        bootstrap_of("nonsense")
    monkeypatch.setenv("TIDELOG_LISTENERS", "PLAINTEXT://x")
    with pytest.raises(KafkaFailure, match="TIDELOG_LISTENERS"):
        bootstrap_of(None)


def test_a_failure_has_what_the_daemon_said_and_what_to_do() -> None:
    assert str(failure("topic x", ErrorCode.INVALID_CONFIG, "retention.ms is -9")) == (
        "topic x: retention.ms is -9 (`tidelog settings` lists names and ranges)"
    )
    assert ErrorCode.REQUEST_TIMED_OUT.text in str(failure("topic x", ErrorCode.REQUEST_TIMED_OUT))
    assert str(failure("topic x", 12345)) == "topic x: error 12345"
    check("topic x", 0)
    with pytest.raises(KafkaFailure) as caught:
        check("topic x", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert caught.value.code == "UNKNOWN_TOPIC_OR_PARTITION"


def test_what_passes_is_asked_again_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_client.time, "sleep", lambda _: None)
    answers = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NONE]

    def attempt() -> str:
        check("group g", answers.pop(0))
        return "done"

    assert patiently(attempt) == "done"
    answers[:] = [ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.NONE]
    with pytest.raises(KafkaFailure, match="tidelog groups list"):
        patiently(attempt)
    answers[:] = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 3
    with pytest.raises(KafkaFailure):
        patiently(attempt, -1)
    assert len(answers) == 2


def test_pairs() -> None:
    assert pairs_of(["a=1", " b = x=y ", "c="], "--config") == {"a": "1", "b": "x=y", "c": ""}
    for wrong in ("a", "=1"):
        with pytest.raises(KafkaFailure, match="--config takes NAME=VALUE"):
            pairs_of([wrong], "--config")


def test_a_file_of_client_settings_is_read_and_named_where_it_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.username=alice\nsasl.password=a=b\n")
    found = read_security(str(file))
    assert (found.protocol, found.user, found.password) == ("SASL_SSL", "alice", "a=b")
    file.write_text("security.protocol=TLS\n")
    with pytest.raises(KafkaFailure, match=r"client.properties: security.protocol=TLS"):
        read_security(str(file))
    with pytest.raises(KafkaFailure, match="can't be read: No such file"):
        read_security(str(tmp_path / "none"))


@contextmanager
def listening(*answers: bytes) -> Iterator[str]:
    """HOST:PORT of somebody who says one of these after each request, and then ends the connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            one, _ = server.accept()
            with one:
                for answer in answers:
                    (size,) = struct.unpack(">i", one.recv(4, socket.MSG_WAITALL))
                    one.recv(size, socket.MSG_WAITALL)
                    one.sendall(answer)
                one.recv(1)  # of the request that gets no answer
                one.shutdown(socket.SHUT_WR)
                while one.recv(1 << 16):  # what is unread when a socket is closed resets the connection
                    pass

        thread = Thread(target=serve, daemon=True)
        thread.start()
        yield "{}:{}".format(*server.getsockname())
        thread.join(PATIENCE_S)


def versions(*keys: ApiVersion, error_code: int = 0) -> bytes:
    answer = ApiVersionsResponse(error_code=error_code, api_keys=list(keys))
    body = response_header_bytes(ApiKey.API_VERSIONS, 0, 1) + encode(answer, 0)
    return struct.pack(">i", len(body)) + body


def refused_coordinators(key: str, version: int) -> bytes:
    answer = FindCoordinatorResponse(error_code=30)
    if key:
        answer = FindCoordinatorResponse(coordinators=[Coordinator(key=key, error_code=30)])
    body = response_header_bytes(ApiKey.FIND_COORDINATOR, version, 2) + encode(answer, version)
    return struct.pack(">i", len(body)) + body


def finding(low: int, high: int) -> ApiVersion:
    return ApiVersion(api_key=ApiKey.FIND_COORDINATOR, min_version=low, max_version=high)


METADATA = ApiVersion(api_key=ApiKey.METADATA, min_version=0, max_version=5)
SASL = ApiVersion(api_key=ApiKey.SASL_HANDSHAKE, min_version=0, max_version=1)


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ([], "broke off while it answered API_VERSIONS: the connection was closed; .* needs --command-config FILE"),
        (
            [b"HTTP"],
            "an answer of 1,213,486,160 bytes: this is no Kafka listener; a listener that asks for TLS or SASL",
        ),
        ([versions(METADATA)], "broke off while it answered METADATA: the connection was closed$"),
        ([versions()], r"the daemon at 127\.0\.0\.1:\d+ does not answer METADATA as this version asks it"),
        ([versions(error_code=42)], r"^127\.0\.0\.1:\d+: it does not list its API versions: INVALID_REQUEST: "),
        ([versions(METADATA), b"\0\0\0\x03"], "an answer of 3 bytes: this is no Kafka listener$"),
        ([versions(METADATA), b"\0\0\0\x06\0\0\0\x02\xff\xff"], "^METADATA version 5: "),
        ([versions(METADATA), b"\0\0\0\x08\0\0\0\x09\0\0\0\0"], "^METADATA version 5: answer 9 came for request 2"),
    ],
)
def test_what_fails_is_one_line_with_what_to_do(answers: list[bytes], message: str) -> None:
    def ask() -> None:
        with KafkaClient(bootstrap) as client:
            client.ask(MetadataRequest(topics=[]), MetadataResponse)

    with listening(*answers) as bootstrap, pytest.raises(KafkaFailure, match=message):
        ask()


def test_who_is_not_there_and_who_lets_nobody_in() -> None:
    with pytest.raises(
        KafkaFailure, match=r"no daemon answers at 127\.0\.0\.1:1 \(Connection refused\): start one with"
    ):
        KafkaClient("127.0.0.1:1").__enter__()
    refused = encode(SaslHandshakeResponse(error_code=33, mechanisms=["A", "B"]), 1)
    security = ClientSecurity("SASL_PLAINTEXT", "PLAIN", "alice", "pencil")
    with (
        listening(versions(SASL), struct.pack(">ii", 4 + len(refused), 2) + refused) as bootstrap,
        pytest.raises(KafkaFailure, match=r"sasl\.mechanism=PLAIN: offered: A, B") as caught,
    ):
        KafkaClient(bootstrap, security).__enter__()
    assert caught.value.code == "UNSUPPORTED_SASL_MECHANISM"
    with (
        listening(versions(SASL)) as bootstrap,
        pytest.raises(KafkaFailure, match=r"SASL_HANDSHAKE: the connection was closed$"),
    ):
        KafkaClient(bootstrap, security).__enter__()
    with (
        listening() as bootstrap,
        pytest.raises(KafkaFailure, match=r"^127\.0\.0\.1 speaks no TLS that this client does"),
    ):
        KafkaClient(bootstrap, ClientSecurity("SSL")).__enter__()


@pytest.mark.parametrize(
    ("listed", "answers", "kind", "message"),
    [
        # Version 6, the newest that is declared, and not only those that the pipeline knows.
        (finding(6, 9), [refused_coordinators("b", 6)], CoordinatorKind.GROUP, "^group b: not allowed on this group$"),
        (
            finding(0, 3),
            [refused_coordinators("", 3)],
            CoordinatorKind.TRANSACTION,
            "^transactional id a: not allowed on this group$",
        ),
        (finding(0, 0), [], CoordinatorKind.TRANSACTION, "does not answer FIND_COORDINATOR as this version asks it"),
    ],
)
def test_coordinators_are_looked_for_in_the_newest_version(
    listed: ApiVersion, answers: list[bytes], kind: CoordinatorKind, message: str
) -> None:
    def ask() -> None:
        with KafkaClient(bootstrap) as client:
            client.ask_coordinator(kind, ["a", "b"], MetadataRequest(topics=[]), MetadataResponse)

    with listening(versions(listed), *answers) as bootstrap, pytest.raises(KafkaFailure, match=message):
        ask()
