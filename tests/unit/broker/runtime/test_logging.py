"""Log lines as programs and people read them."""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Iterator

import pytest
from tidelog.broker.runtime.log_flood import FLOOD, MOST
from tidelog.broker.runtime.logging import MAX_EXCEPTION, MAX_MESSAGE, log_uncaught, set_up_logging


@pytest.fixture(autouse=True)
def logger_as_before() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in ("tidelog", "asyncio")]
    before = [(logger, logger.handlers[:], logger.level, logger.propagate) for logger in loggers]
    hook = threading.excepthook
    FLOOD.flush(float("inf"))
    yield
    threading.excepthook = hook
    for logger, handlers, level, propagate in before:
        logger.handlers[:], logger.propagate = handlers, propagate
        logger.setLevel(level)


def test_json_is_one_object_a_line_whatever_the_text(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging("info", "json")
    log = logging.getLogger("tidelog.broker.network.connection")
    log.info('a %s of\ntwo lines and "quotes"', "text")
    log.debug("not told")
    try:
        raise ValueError("bad")
    except ValueError:
        log.exception("it failed")
    first, second = map(json.loads, capsys.readouterr().err.splitlines())
    assert (first["level"], first["logger"]) == ("INFO", "broker.network.connection")
    assert first["message"] == 'a text of\\ntwo lines and "quotes"', "as in a plain line"
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


LINE = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]{12}Z [A-Z]+ [\w.]+: ")
FORGED = "2026-11-22T13:00:00.000Z INFO audit: done: User:admin from 10.0.0.1: created a rule"
#: Ends of lines as readers of different kinds see them, and what speaks to a terminal or turns a text around.
ENDS = (
    *("\n", "\r", "\r\n", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"),
    *("\x1b[2J", "\x9b2J", "\x00", "\x7f", "\u202e", "\ud800"),
)


@pytest.mark.parametrize("style", ["plain", "json"])
@pytest.mark.parametrize("end", ENDS, ids=ascii)
def test_no_text_of_a_client_begins_a_line_or_speaks_to_a_terminal(
    style: str, end: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A name in a message, an exception as an argument, and an exception with its traceback."""
    set_up_logging("info", style)
    log = logging.getLogger("tidelog.broker.groups.offset_commits")
    name = f"x{end}{FORGED}"
    log.info("group %s: %s", name, ValueError(name))
    try:
        raise ValueError(name)
    except ValueError:
        log.exception("it failed")
    logging.getLogger("asyncio").error("Task %s was never retrieved", name)
    written = capsys.readouterr().err
    assert all(one == "\n" or one.isprintable() for one in written)
    lines = written.split("\n")[:-1]
    if style == "json":
        found = [json.loads(line) for line in lines]
        assert [one["message"].count(FORGED) for one in found] == [2, 0, 1]
        assert [one["message"].isprintable() for one in found] == [True] * 3
    else:
        begun = [line for line in lines if LINE.match(line)]
        assert [line.split(": ")[0].split()[1:] for line in begun] == [
            ["INFO", "broker.groups.offset_commits"], ["ERROR", "broker.groups.offset_commits"], ["ERROR", "asyncio"],
        ]  # fmt: skip
        assert all(line.startswith("  ") for line in lines if line not in begun)


@pytest.mark.parametrize("style", ["plain", "json"])
def test_a_line_has_a_bound_and_keeps_its_end(style: str, capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging("info", style)
    log = logging.getLogger("tidelog.broker.groups.offset_commits")
    log.info("group %s was made", "\x01" * 32_000)
    try:
        raise ValueError("\n".join(["y" * 90_000] * 3))
    except ValueError:
        log.exception("failed")
    written = capsys.readouterr().err
    message = written.split("\n")[0]
    assert len(message) < 2 * MAX_MESSAGE + 200  # JSON doubles backslashes
    assert "group \\x01" in message.replace("\\\\", "\\")
    assert "was made" in message
    assert len(written) - len(message) < MAX_EXCEPTION + 1000


def test_the_loggers_of_groups_are_limited_as_the_others_are(capsys: pytest.CaptureFixture[str]) -> None:
    """5,000 groups wrote 5,000 lines."""
    set_up_logging("info", "plain")
    log = logging.getLogger("tidelog.broker.groups.offset_commits")
    for number in range(5000):
        log.info("group %s was made", number)
    assert len(capsys.readouterr().err.splitlines()) == MOST
    FLOOD.flush(float("inf"))
    (told,) = capsys.readouterr().err.splitlines()
    assert f"{5000 - MOST} more lines of broker.groups.offset_commits in 10 s, such as: group {MOST} was made" in told


def test_what_ends_a_thread_is_told_in_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging("info", "plain")
    log_uncaught()

    def fail() -> None:
        raise ValueError(f"x\n{FORGED}")

    thread = threading.Thread(target=fail, name="worker")
    thread.start()
    thread.join()
    first, *rest = capsys.readouterr().err.splitlines()
    assert first.endswith("ERROR broker.runtime.logging: thread worker has ended")
    assert all(line.startswith("  ") for line in rest)
