"""Lines about clients that were refused or have failed, at a bounded rate: an attack must not fill the log, nor hide in it.

A filter on the loggers that clients drive lets `MOST` lines of a kind through in `WINDOW_S` seconds. A kind is a logger and
a message as it stands in the source. What is left out is counted and told in one line when the window is over.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

WINDOW_S = 10.0
MOST = 20
#: Loggers whose lines clients can cause at will.
LOGGERS = (
    "connection",
    "tls_connection",
    "dispatcher",
    "message_set_listener",
    "security.sasl",
    "security.message_set_gate",
)


class _Kind:
    __slots__ = ("began", "left_out", "level", "passed")

    def __init__(self, began: float, level: int) -> None:
        self.began = began
        self.level = level
        self.passed = self.left_out = 0


class FloodFilter(logging.Filter):
    """Loop thread: the lines of these loggers are written there.

    Attributes:
        left_out: lines that were not written, in all.
    """

    def __init__(self) -> None:
        super().__init__()
        self.left_out = 0
        self._kinds: dict[tuple[str, str], _Kind] = {}

    @property
    def pending(self) -> bool:
        """Whether there are lines of which nobody was told yet."""
        return any(kind.left_out for kind in self._kinds.values())

    def filter(self, record: logging.LogRecord) -> bool:
        key = record.name, str(record.msg)
        kind = self._kinds.get(key)
        if kind is None or record.created - kind.began >= WINDOW_S:
            if kind is not None:
                self._tell(key, kind)
            kind = self._kinds[key] = _Kind(record.created, record.levelno)
        if kind.passed < MOST:
            kind.passed += 1
            return True
        kind.left_out += 1
        self.left_out += 1
        return False

    def flush(self, now_s: float) -> None:
        """Tells what was left out in windows that are over. `now_s`: seconds since 1970."""
        for key, kind in list(self._kinds.items()):
            if now_s - kind.began >= WINDOW_S:
                del self._kinds[key]
                self._tell(key, kind)

    def _tell(self, key: tuple[str, str], kind: _Kind) -> None:
        if kind.left_out:
            name, message = key
            # Not by the logger itself, whose filter this is.
            logging.getLogger(__name__).log(
                kind.level, "%d more lines of %s in %d s: %s", kind.left_out, name.rpartition(".")[2], WINDOW_S, message
            )


FLOOD = FloodFilter()
"""The one of this process: loggers are the process's too."""


def install(names: Iterable[str] = LOGGERS) -> None:
    """Puts the filter on the loggers. Harmless when it is there."""
    package = __name__.rpartition(".")[0]
    for name in names:
        logging.getLogger(f"{package}.{name}").addFilter(FLOOD)
