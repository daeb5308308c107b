"""The daemon's own log lines: to stderr, plain or one JSON object a line (`logging.format`)."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime


class PlainFormatter(logging.Formatter):
    """`2026-01-31T12:00:00.123Z INFO storage.log_manager: text`, times in UTC."""

    def format(self, record: logging.LogRecord) -> str:
        line = f"{_time(record)} {record.levelname} {_place(record)}: {record.getMessage()}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, and exception where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": _time(record),
            "level": record.levelname,
            "logger": _place(record),
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=False)


def set_up_logging(level: str, style: str, audit_level: str | None = None) -> None:
    """Sends this package's log lines to stderr. `style` is "plain" or "json". `audit_level` is the audit log's own."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if style == "json" else PlainFormatter())
    root = logging.getLogger("tidelog")
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    root.propagate = False
    logging.getLogger("tidelog.audit").setLevel(audit_level.upper() if audit_level else logging.NOTSET)


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


def _place(record: logging.LogRecord) -> str:
    return record.name.removeprefix("tidelog.")
