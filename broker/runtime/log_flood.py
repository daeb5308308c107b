"""Limits the rate of log lines: an attack must neither fill the disk with them nor hide among them.

A filter on the handler, so for every logger, lets so many lines of a kind through in `WINDOW_S` seconds. A kind is a place in the
source. Omitted lines are counted, and reported with an example in one line when the window is over. Lines that clients cause are
those of `tidelog.broker`; lines of the storage and at DEBUG, which somebody has asked for, may be more. The audit log has its own
bounds (`requests/audit_log.py`).
"""

from __future__ import annotations

import logging
import threading

WINDOW_S = 10.0
MOST = 20
"""Lines of a kind in a window, of INFO and above, from loggers whose lines clients can cause."""
MOST_OF_OTHERS = 1000
"""Lines of a kind in a window from storage and cleaner, which log each partition at a start, and of DEBUG."""
MAX_EXAMPLE = 249
"""Length in characters of the example shown for suppressed lines."""
UNBOUNDED = ("tidelog.audit", __name__)
_CLIENTS = "tidelog.broker."

_Place = tuple[str, int]


class _Kind:
    __slots__ = ("began", "example", "left_out", "level", "logger", "passed")

    def __init__(self, record: logging.LogRecord) -> None:
        self.began = record.created
        self.logger = record.name
        self.level = record.levelno
        self.passed = self.left_out = 0
        self.example = ""


class FloodFilter(logging.Filter):
    """Logging filter that limits lines of each kind. Safe from any thread.

    Attributes:
        left_out: lines that were not written, in all.
        kinds: what came of each place in the source within its window. Under the lock.
    """

    def __init__(self) -> None:
        super().__init__()
        self.left_out = 0
        self._lock = threading.Lock()
        self.kinds: dict[_Place, _Kind] = {}
        self._looked_s = 0.0

    @property
    def pending(self) -> bool:
        """True if suppressed lines have not been reported yet."""
        with self._lock:
            return any(kind.left_out for kind in self.kinds.values())

    def filter(self, record: logging.LogRecord) -> bool:
        """True if the line is to be written. Also reports windows that have ended."""
        if record.name in UNBOUNDED:
            return True
        if not self._looked_s <= record.created < self._looked_s + 1:
            self.flush(record.created)
        most = MOST if record.name.startswith(_CLIENTS) and record.levelno >= logging.INFO else MOST_OF_OTHERS
        place = record.pathname, record.lineno
        with self._lock:
            kind = self.kinds.get(place)
            if kind is None:
                kind = self.kinds[place] = _Kind(record)
            if kind.passed < most:
                kind.passed += 1
                return True
            kind.left_out += 1
            self.left_out += 1
            if not kind.example:
                kind.example = _text_of(record)
        return False

    def flush(self, now_s: float) -> None:
        """Report lines suppressed in windows that have ended. `now_s`: seconds since 1970."""
        with self._lock:
            over = [(place, kind) for place, kind in self.kinds.items() if not 0 <= now_s - kind.began < WINDOW_S]
            for place, _ in over:
                del self.kinds[place]
            self._looked_s = now_s
        for _, kind in over:
            if kind.left_out:
                # By a logger that passes: this filter is on its way too.
                logging.getLogger(__name__).log(
                    kind.level, "%d more lines of %s in %d s, such as: %s",
                    kind.left_out, kind.logger.removeprefix("tidelog."), WINDOW_S, kind.example,
                )  # fmt: skip


def _text_of(record: logging.LogRecord) -> str:
    try:
        text = record.getMessage()
    except Exception:  # a message whose arguments do not fit is logging's to report
        text = str(record.msg)
    return text if len(text) <= MAX_EXAMPLE else f"{text[:MAX_EXAMPLE]}…"


FLOOD = FloodFilter()
"""The filter of this process, as its log handler is the process's (`logging.py`)."""
