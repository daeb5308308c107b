"""Levels of this program's loggers, told and changed while it runs (KIP-412). Nothing is stored: a start has `logging.level` and
`logging.audit.level`.

Kafka's names for levels: TRACE is DEBUG here, WARN is WARNING, FATAL is CRITICAL. Loop thread.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from ...protocol.errors import ErrorCode, ProtocolError

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
