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
from tidelog.broker.requests import audit_log as audit
from tidelog.broker.requests.audit_log import AuditLog, quoted
from tidelog.broker.runtime.logging import JsonFormatter, PlainFormatter
from tidelog.broker.security.acl.model import AclOperation, ResourceType
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


def test_refusals_that_were_counted_are_told_after_a_flood_of_others(caplog: pytest.LogCaptureFixture) -> None:
    """A flood that left no line for them when their minute was over made the log forget how many they were."""
    time = MockTime()
    log = AuditLog(time)
    for _ in range(1000):
        deny(log)
    time.advance(audit.QUIET_MS)
    for number in range(audit.DENIALS[0]):
        deny(log, f"guess-{number}")
    deny(log)
    assert (len(caplog.messages), log.left_out) == (1 + audit.DENIALS[0], 1)
    time.advance(3000)
    deny(log)
    assert caplog.messages[-1].endswith(
        "'orders' (Produce); 999 times more since the last such line; 1 lines before this were left out"
    )


def rules(count: int, first: str = "User:x") -> list[str]:
    return [f"created a rule: allow {first} from * to READ topic 't{number}' (literal)" for number in range(count)]


MALLORY = "created a rule: allow User:mallory from * to ALL cluster 'kafka-cluster' (literal)"


def test_no_rule_is_hidden_behind_others_however_many(caplog: pytest.LogCaptureFixture) -> None:
    """1,300 in one request hid the next: it was left out."""
    log = AuditLog(MockTime())
    acts = [*rules(1300), MALLORY]
    log.did(context("User:admin", ApiKey.CREATE_ACLS), acts)
    assert MALLORY in caplog.messages[-1]
    heads = [re.fullmatch(r"done: User:admin from 10\.0\.0\.7: (.*) \(CreateAcls\)", line) for line in caplog.messages]
    assert [act for head in heads if head for act in head[1].split("; ")] == acts, "each is there once"
    assert all(len(line) < audit.MAX_ACT + 100 for line in caplog.messages)
    assert len(caplog.messages) < audit.SINGLE + 40
    assert log.left_out == 0


@pytest.mark.parametrize("key", sorted(audit.RIGHTS), ids=lambda key: key.label)
def test_changes_of_rights_have_no_allowance(key: ApiKey, caplog: pytest.LogCaptureFixture) -> None:
    log = AuditLog(MockTime())
    for number in range(3000):
        log.did(context("User:admin", key), [f"change {number}"])
    assert len(caplog.messages) == 3000


def test_a_setting_is_not_hidden_behind_others_of_its_topic(caplog: pytest.LogCaptureFixture) -> None:
    """What is too long for a line goes on in the next."""
    settings_of_one = "changed topic 't': " + ", ".join(f"set a{number}=b" for number in range(5000)) + ", set evil=1"
    AuditLog(MockTime()).did(context(key=ApiKey.INCREMENTAL_ALTER_CONFIGS), ["one", settings_of_one, "two"])
    heads = [re.fullmatch(r"done: .*?: (.*) \(IncrementalAlterConfigs\)", line) for line in caplog.messages]
    first, *parts, last = [head[1] for head in heads if head]
    assert (first, last) == ("one", "two")
    assert "".join(part.strip("…") for part in parts) == settings_of_one
    assert all(len(part) <= audit.MAX_ACT for part in parts)


def test_what_is_done_very_often_hides_nothing_of_another_kind_or_user(caplog: pytest.LogCaptureFixture) -> None:
    time = MockTime()
    log = AuditLog(time)
    for number in range(500):
        deny(log, f"guess-{number}")
    caplog.clear()
    for number in range(2000):
        log.did(context(key=ApiKey.CREATE_TOPICS), [f"created topic 't{number}'"])
    assert (len(caplog.messages), log.left_out) == (audit.ACTS[0], 400 + 2000 - audit.ACTS[0])
    log.did(context(key=ApiKey.DELETE_TOPICS), ["deleted topic 'orders'"])
    log.did(context("User:bob", ApiKey.CREATE_TOPICS), ["created topic 'u'"])
    assert len(caplog.messages) == audit.ACTS[0] + 2
    time.advance(1000)
    log.did(context(key=ApiKey.CREATE_TOPICS), ["created topic 'v'"])
    assert caplog.messages[-1].endswith("created topic 'v' (CreateTopics); 1000 lines before this were left out")


def test_those_whose_acts_are_counted_have_a_bound(caplog: pytest.LogCaptureFixture) -> None:
    log = AuditLog(MockTime())
    for number in range(audit.MAX_ACTORS + 50):
        log.did(context(f"User:{number}", ApiKey.CREATE_TOPICS), ["created topic 't'"])
    assert len(log._acts) == audit.MAX_ACTORS


@given(
    st.lists(st.one_of(st.text("ab", max_size=30), st.integers(4000, 13_000).map(lambda size: "x" * size)), max_size=60)
)
def test_lines_are_bounded_and_leave_nothing_out(acts: list[str]) -> None:
    lines = list(audit.in_lines(acts))
    assert all(len(line) <= audit.MAX_ACT for line in lines)
    assert "".join(lines).replace("…", "").replace("; ", "") == "".join(acts)


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
