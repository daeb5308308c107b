from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from support.mock_time import MockTime
from tidelog.broker.security import audit
from tidelog.broker.security.acl import AclOperation, ResourceType
from tidelog.broker.security.audit import AuditLog
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
