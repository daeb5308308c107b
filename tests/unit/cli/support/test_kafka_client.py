"""Where commands look for a daemon, and the one line that they print when something is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from tidelog.cli.support import kafka_client
from tidelog.cli.support.kafka_client import (
    KafkaFailure,
    bootstrap_of,
    check,
    failure,
    pairs_of,
    patiently,
    read_security,
)
from tidelog.protocol.errors import ErrorCode


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
