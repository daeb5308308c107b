"""Data that pages are made from: the broker, its health, the loop's answers, and what the console itself remembers."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ....storage.log.record_counts import RecordCounts
from ...runtime.threads import shortened_switch_interval
from .access import FormTokens, Right, refusal
from .loop_calls import LoopCalls
from .page_request import NOT_FOUND, UNAVAILABLE, PageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ....storage.log.unified_log import UnifiedLog
    from ...monitoring.health import Health
    from ...monitoring.node_state import NodeState
    from ...requests.services import Services
    from .page_request import PageRequest
    from .samples import Samples

MAX_READERS = 2
"""Pages that read records, or count them, at a time: HTTP has eight threads, and probes need some."""
READER_TIMEOUT_S = 2.0


class ConsoleState:
    """State of one daemon's console. Any of HTTP's threads."""

    def __init__(self, node: NodeState, health: Health, samples: Samples | None = None) -> None:
        self.node = node
        self.health = health
        self.samples = samples
        self.calls = LoopCalls(node)
        self.tokens = FormTokens()
        self._counts = RecordCounts()
        self._acting = threading.Lock()
        self._counting = threading.Lock()
        self._readers = threading.BoundedSemaphore(MAX_READERS)

    @property
    def services(self) -> Services:
        """PageError before there are any."""
        if (services := self.node.services) is None:
            raise PageError(UNAVAILABLE, "The daemon is loading its logs, or stops.")
        return services

    @property
    def now_ms(self) -> int:
        return self.services.time.milliseconds()

    def may_act(self, request: PageRequest) -> bool:
        """True if pages offer actions to the sender of this request."""
        return refusal(request, Right.ACT, self.node.config) is None

    def logs(self) -> list[UnifiedLog]:
        """All logs, in the order of their topics and partitions."""
        return sorted(self.services.logs.logs(), key=lambda log: (log.topic, log.partition))

    def logs_of(self, topic: str) -> list[UnifiedLog]:
        """The partitions of a topic. PageError when there is none."""
        found = [log for log in self.services.logs.logs() if log.topic == topic]
        if not found:
            raise PageError(NOT_FOUND, f"There is no topic {topic[:249]}.")
        return sorted(found, key=lambda log: log.partition)

    def log_of(self, topic: str, partition: str) -> UnifiedLog:
        """Log of one partition. PageError if there is none."""
        for log in self.logs_of(topic):
            if str(log.partition) == partition:
                return log
        raise PageError(NOT_FOUND, f"The topic {topic[:249]} has no partition {partition[:20]}.")

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Held while records are read or counted: few at a time, and the interpreter is given back often. PageError."""
        if not self._readers.acquire(timeout=READER_TIMEOUT_S):
            raise PageError(UNAVAILABLE, f"{MAX_READERS} pages read records already. Load this one again in a moment.")
        try:
            with shortened_switch_interval():
                yield
        finally:
            self._readers.release()

    @contextmanager
    def counting(self) -> Iterator[RecordCounts]:
        """Held while lags are counted: one at a time. PageError."""
        if not self._counting.acquire(timeout=READER_TIMEOUT_S):
            raise PageError(UNAVAILABLE, "Another page counts lags already. Load this one again in a moment.")
        try:
            with self.reading():
                yield self._counts
        finally:
            self._counting.release()

    @contextmanager
    def acting(self) -> Iterator[None]:
        """Held by an action that is not the loop's to do: one at a time. PageError."""
        if not self._acting.acquire(timeout=READER_TIMEOUT_S):
            raise PageError(UNAVAILABLE, "Another action is under way. Try again in a moment.")
        try:
            yield
        finally:
            self._acting.release()
