"""The daemon's own log lines: to stderr, plain or one JSON object a line (`logging.format`); and the levels of its loggers.

What clients send gets into messages and into the texts of exceptions, so both formats see to it, in one place, that a text can
neither begin a line nor speak to a terminal, and that no line is longer than it may be. How many there are: `log_flood.py`.

Levels are told and changed while it runs (KIP-412). Nothing is stored: a start has `logging.level` and `logging.audit.level`.
Kafka's names for levels: TRACE is DEBUG here, WARN is WARNING, FATAL is CRITICAL. Levels: loop thread.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections.abc import Sequence
from datetime import UTC, datetime

from ...protocol.errors import ErrorCode, ProtocolError
from .log_flood import FLOOD

MAX_MESSAGE = 8000
"""Characters of a message: the audit log has acts of 4096 beside names."""
MAX_EXCEPTION = 20_000
"""Characters of a traceback with the exception's text."""
_OTHER_LOGGERS = ("asyncio",)
"""Loggers of libraries whose lines would go to stderr as they are."""


class PlainFormatter(logging.Formatter):
    """`2026-01-31T12:00:00.123Z INFO storage.log_manager: text`, times in UTC; lines of a traceback begin with two blanks."""

    def format(self, record: logging.LogRecord) -> str:
        line = f"{_time(record)} {record.levelname} {_place(record)}: {printable(record.getMessage(), MAX_MESSAGE)}"
        if not record.exc_info:
            return line
        return "\n".join([line, *(f"  {one}" for one in _traceback(self.formatException(record.exc_info)))])


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, and exception where there is one. Texts as in a plain line."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": _time(record),
            "level": record.levelname,
            "logger": _place(record),
            "message": printable(record.getMessage(), MAX_MESSAGE),
        }
        if record.exc_info:
            fields["exception"] = "\n".join(_traceback(self.formatException(record.exc_info)))
        return json.dumps(fields, ensure_ascii=False)


def printable(text: str, most: int) -> str:
    """The text with everything that ends a line or changes how one looks escaped as in Python (controls, separators of lines,
    marks of direction), and without its middle where it is longer than `most`. Backslashes stay: what they say has been said."""
    text = _cut(text, most)
    if text.isprintable():
        return text
    escaped = (one if one.isprintable() else one.encode("unicode_escape").decode("ascii") for one in text)
    return _cut("".join(escaped), most)


def _cut(text: str, most: int) -> str:
    """Keeps the end too, which says what became of what a long name stands before."""
    if len(text) <= most:
        return text
    end = most // 4
    return f"{text[: most - end]}… ({len(text) - most} characters) …{text[-end:]}"


def _traceback(text: str) -> list[str]:
    """Its lines. Those that an exception's text has made look as any other: who prints them must not let them begin a line."""
    return [printable(line, MAX_MESSAGE) for line in _cut(text, MAX_EXCEPTION).split("\n")]


def set_up_logging(level: str, style: str, audit_level: str | None = None) -> None:
    """Sends this package's log lines to stderr. `style` is "plain" or "json". `audit_level` is the audit log's own."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if style == "json" else PlainFormatter())
    handler.addFilter(FLOOD)
    for name in ("tidelog", *_OTHER_LOGGERS):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.propagate = False
    logging.getLogger("tidelog").setLevel(level.upper())
    logging.getLogger("tidelog.audit").setLevel(audit_level.upper() if audit_level else logging.NOTSET)


def log_uncaught() -> None:
    """Lets the log tell of exceptions that end a thread; Python would write them to stderr past its format."""

    def tell(failure: threading.ExceptHookArgs) -> None:
        if failure.exc_type is SystemExit or failure.exc_value is None:
            return
        name = failure.thread.name if failure.thread is not None else "?"
        caught = failure.exc_type, failure.exc_value, failure.exc_traceback
        logging.getLogger(__name__).error("thread %s has ended", name, exc_info=caught)

    threading.excepthook = tell


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


def _place(record: logging.LogRecord) -> str:
    return record.name.removeprefix("tidelog.")


ROOT = "tidelog"
_LEVELS = {
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
#: Has a level of its own to change before the first line of it is written.
AUDIT = logging.getLogger(f"{ROOT}.audit")
_NAMES = {level: name for name, level in _LEVELS.items() if name != "TRACE"}


def levels() -> list[tuple[str, str]]:
    """Every logger of ours that is there, with the level in force, by name; the first one is the root of all."""
    names = {name for name, logger in logging.root.manager.loggerDict.items() if isinstance(logger, logging.Logger)}
    ours = sorted({ROOT, *(name for name in names if name.startswith(f"{ROOT}."))})
    return [(name, _NAMES.get(logging.getLogger(name).getEffectiveLevel(), "INFO")) for name in ours]


def check(name: str, level: str | None) -> None:
    """Raises `ProtocolError` unless the logger can have this level; None takes away what it has of its own."""
    if name not in dict(levels()):
        raise ProtocolError(ErrorCode.INVALID_CONFIG, f"there is no logger {name}")
    if level is None:
        if name == ROOT:
            raise ProtocolError(
                ErrorCode.INVALID_REQUEST, f"{ROOT} is the root of all loggers: its level can't be taken away"
            )
    elif level.upper() not in _LEVELS:
        raise ProtocolError(ErrorCode.INVALID_CONFIG, f"there is no level {level}: {', '.join(_LEVELS)}")


def change(wanted: Sequence[tuple[str, str | None]]) -> None:
    """Sets levels, all or none. Raises as `check`."""
    for name, level in wanted:
        check(name, level)
    for name, level in wanted:
        logging.getLogger(name).setLevel(logging.NOTSET if level is None else _LEVELS[level.upper()])
