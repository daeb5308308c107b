"""Log lines as programs and people read them."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest
from tidelog.broker.logs import set_up_logging


@pytest.fixture(autouse=True)
def logger_as_before() -> Iterator[None]:
    root = logging.getLogger("tidelog")
    handlers, level, propagate = root.handlers[:], root.level, root.propagate
    yield
    root.handlers[:], root.propagate = handlers, propagate
    root.setLevel(level)


def test_json_is_one_object_a_line_whatever_the_text(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging("info", "json")
    log = logging.getLogger("tidelog.broker.connection")
    log.info('a %s of\ntwo lines and "quotes"', "text")
    log.debug("not told")
    try:
        raise ValueError("bad")
    except ValueError:
        log.exception("it failed")
    first, second = map(json.loads, capsys.readouterr().err.splitlines())
    assert (first["level"], first["logger"]) == ("INFO", "broker.connection")
    assert first["message"] == 'a text of\ntwo lines and "quotes"'
    assert first["time"].endswith("Z")
    assert "exception" not in first
    assert second["exception"].splitlines()[-1] == "ValueError: bad"


def test_the_audit_log_may_have_a_level_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    audit = logging.getLogger("tidelog.audit")
    for level, own, is_told in (
        ("warning", "INFO", True),
        ("info", "warning", False),
        ("info", None, True),
        ("error", None, False),
    ):
        set_up_logging(level, "plain", own)
        audit.info("done")
        assert bool(capsys.readouterr().err) == is_told, (level, own)
    audit.setLevel(logging.NOTSET)


def test_plain_lines_and_a_level_that_changes_while_it_runs(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging("warning", "plain")
    log = logging.getLogger("tidelog.storage.test_logs")
    log.info("not told")
    log.setLevel("DEBUG")
    log.debug("told")
    log.setLevel(logging.NOTSET)
    log.info("not told again")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("Z DEBUG storage.test_logs: told")
