"""The daemon's own log lines: to stderr, plain or one JSON object a line (`logging.format`); and the levels of its loggers.

Text from clients gets into messages and exceptions. So both formats make sure, in one place, that a text can neither begin a line
nor send control characters to a terminal, and that no line is too long. Their number is limited by `log_flood.py`.

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
"""Maximum length of a message in characters: audit lines have 4096 for the act, beside names."""
MAX_EXCEPTION = 20_000
"""Maximum length of a traceback with the exception's text, in characters."""
_OTHER_LOGGERS = ("asyncio",)
"""Loggers of libraries whose lines would go to stderr unformatted."""


class PlainFormatter(logging.Formatter):
    """`2026-01-31T12:00:00.123Z INFO storage.log_manager: text`, times in UTC; lines of a traceback begin with two blanks."""

    def format(self, record: logging.LogRecord) -> str:
        line = f"{_time(record)} {record.levelname} {_place(record)}: {printable(record.getMessage(), MAX_MESSAGE)}"
        if not record.exc_info:
            return line
        return "\n".join([line, *(f"  {part}" for part in _traceback(self.formatException(record.exc_info)))])


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, and exception if there is one. Texts are escaped as in
    plain lines.
    """

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
    """`text` for a log line: everything that ends a line or changes how it looks is escaped as in Python (control
    characters, line separators, direction marks), and the middle is left out if it is longer than `most`. Backslashes
    stay as they are.
    """
    text = _cut(text, most)
    if text.isprintable():
        return text
    escaped = (
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text
    )
    return _cut("".join(escaped), most)


def _cut(text: str, most: int) -> str:
    """Shorten to `most` characters by leaving out the middle: the end often has the outcome, behind a long name."""
    if len(text) <= most:
        return text
    end = most // 4
    return f"{text[: most - end]}… ({len(text) - most} characters) …{text[-end:]}"


def _traceback(text: str) -> list[str]:
    """Lines of a traceback. Lines within the exception's text look like any other: the caller indents them, so that
    none can pass for a log line.
    """
    return [printable(line, MAX_MESSAGE) for line in _cut(text, MAX_EXCEPTION).split("\n")]


def set_up_logging(level: str, style: str, audit_level: str | None = None) -> None:
    """Send this package's log lines to stderr. `style` is "plain" or "json"; `audit_level` is the audit log's own
    level.
    """
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
    """Log exceptions that end a thread, which Python would write to stderr unformatted."""

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
    """Each existing logger of ours with its effective level, sorted by name; the root logger comes first."""
    names = {name for name, logger in logging.root.manager.loggerDict.items() if isinstance(logger, logging.Logger)}
    ours = sorted({ROOT, *(name for name in names if name.startswith(f"{ROOT}."))})
    return [(name, _NAMES.get(logging.getLogger(name).getEffectiveLevel(), "INFO")) for name in ours]


def check(name: str, level: str | None) -> None:
    """Raise `ProtocolError` unless the logger can have this level; None removes its own level."""
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
    """Set levels, all or none. Raises as `check`."""
    for name, level in wanted:
        check(name, level)
    for name, level in wanted:
        logging.getLogger(name).setLevel(logging.NOTSET if level is None else _LEVELS[level.upper()])
