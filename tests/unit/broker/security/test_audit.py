from __future__ import annotations

import ast
import json
import logging
import re
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.mock_time import MockTime
from tidelog.broker.logs import JsonFormatter, PlainFormatter
from tidelog.broker.security import audit
from tidelog.broker.security.acl import AclOperation, ResourceType
from tidelog.broker.security.audit import AuditLog, quoted
from tidelog.protocol.api_keys import ApiKey


def context(principal: str = "User:alice", key: ApiKey = ApiKey.PRODUCE) -> Any:
    return SimpleNamespace(connection=SimpleNamespace(principal=principal, peer_host="10.0.0.7"), api_key=key)


def deny(log: AuditLog, name: str = "orders", **who: Any) -> None:
    log.denied(context(**who), AclOperation.WRITE, ResourceType.TOPIC, name)


@pytest.fixture(autouse=True)
def _at_info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger=audit.LOGGER)


def test_what_the_lines_say(caplog: pytest.LogCaptureFixture) -> None:
    log = AuditLog(MockTime())
    deny(log)
    log.did(context("User:admin", ApiKey.DELETE_TOPICS), ["deleted topic 'orders'"])
    assert caplog.messages == [
        "denied: User:alice from 10.0.0.7 may not WRITE topic 'orders' (Produce)",
        "done: User:admin from 10.0.0.7: deleted topic 'orders' (DeleteTopics)",
    ]
    assert log.denials == {ApiKey.PRODUCE: 1}


def test_a_refusal_is_written_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    time = MockTime()
    log = AuditLog(time)
    for _ in range(1000):
        deny(log)
    assert (len(caplog.messages), log.denials[ApiKey.PRODUCE], log.left_out) == (1, 1000, 0)
    time.advance(audit.QUIET_MS)
    deny(log)
    assert caplog.messages[1].endswith("(Produce); 999 times more since the last such line")
    deny(log, principal="User:bob")
    assert len(caplog.messages) == 3


def test_names_that_change_do_not_fill_the_disk(caplog: pytest.LogCaptureFixture) -> None:
    time = MockTime()
    log = AuditLog(time)
    for number in range(5000):
        deny(log, f"guess-{number}")
    assert len(caplog.messages) == audit.DENIALS[0]
    assert log.left_out == 5000 - audit.DENIALS[0]
    time.advance(3000)
    for number in range(100):
        deny(log, f"later-{number}")
    assert len(caplog.messages) == audit.DENIALS[0] + 3
    assert "; 4900 lines before this were left out" in caplog.messages[audit.DENIALS[0]]


def test_refusals_do_not_hide_acts(caplog: pytest.LogCaptureFixture) -> None:
    log = AuditLog(MockTime())
    for number in range(500):
        deny(log, f"guess-{number}")
    caplog.clear()
    log.did(context(), [f"deleted topic 't{number}'" for number in range(2000)])
    assert len(caplog.messages) == audit.ACTS[0]


def test_a_line_is_a_line_whatever_the_names_have(caplog: pytest.LogCaptureFixture) -> None:
    log = AuditLog(MockTime())
    deny(log, "a\nINFO done: User:admin", principal="User:e\x1b[31mve")
    deny(log, "x" * 30_000)
    assert caplog.messages[0] == (
        "denied: User:e\\x1b[31mve from 10.0.0.7 may not WRITE topic 'a\\nINFO done: User:admin' (Produce)"
    )
    assert len(caplog.messages[1]) < 400


@given(
    principal=st.text(max_size=600),
    name=st.text(st.characters() | st.sampled_from("'\\\n\r\x1b\x85\u2028\u202e\ud800 (), from:"), max_size=600),
)
@settings(max_examples=200)
def test_a_client_cannot_write_a_line_of_its_own(principal: str, name: str) -> None:
    """In both formats: one line for each refusal and act, nothing that a terminal obeys, and a name that can be read back."""
    caught = Caught()
    logger = logging.getLogger(audit.LOGGER)
    logger.addHandler(caught)
    try:
        log = AuditLog(MockTime())
        deny(log, name, principal=f"User:{principal}")
        log.did(context(f"User:{principal}"), [f"deleted topic {quoted(name)}"])
    finally:
        logger.removeHandler(caught)
    shown_name = name if len(name) <= audit.MAX_SHOWN else f"{name[: audit.MAX_SHOWN]}…"
    for record, pattern in zip(caught.records, (DENIED, DONE), strict=True):
        line = PlainFormatter().format(record)
        assert line.isprintable()
        assert len(line) < 12 * 2 * audit.MAX_SHOWN
        found = pattern.search(line)
        assert found is not None, line
        assert _read_back(found[1]) == shown_name
        as_json = JsonFormatter().format(record)
        assert as_json.isprintable()
        assert json.loads(as_json)["message"] in line


class Caught(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


QUOTED = r"'((?:[^'\\]|\\.)*)'"
DENIED = re.compile(rf" may not WRITE topic {QUOTED} \(Produce\)$")
DONE = re.compile(rf": deleted topic {QUOTED} \(Produce\)$")


def _read_back(text: str) -> str:
    found: str = ast.literal_eval(f"'{text}'")
    return found


def test_an_act_has_a_bound(caplog: pytest.LogCaptureFixture) -> None:
    AuditLog(MockTime()).did(context(key=ApiKey.CREATE_TOPICS), ["created topic 't' with " + "a=b, " * 100_000])
    (line,) = caplog.messages
    assert len(line) < audit.MAX_ACT + 100
    assert line.endswith("… (CreateTopics)")


def test_its_level_switches_it_off(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger=audit.LOGGER)
    log = AuditLog(MockTime())
    deny(log)
    log.did(context(), ["deleted topic 't'"])
    assert (caplog.messages, log.denials[ApiKey.PRODUCE]) == ([], 1)


def test_what_is_remembered_has_a_bound() -> None:
    time = MockTime()
    log = AuditLog(time)
    for number in range(audit.MAX_KNOWN + 50):
        time.advance(1000)
        deny(log, f"t{number}")
    assert len(log._known) == audit.MAX_KNOWN
    log = AuditLog(time)
    deny(log, "x" * 10_000_000)
    assert len(repr(log._known)) < 2000
