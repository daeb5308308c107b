"""Clients that outlive a task: a Python worker of Spark runs one task after another, and reads each over the same connections.

Spark's executors have no Python but these workers, which share nothing: a pool for each of them is what can be had. It is of
use where Spark keeps its workers (`spark.python.worker.reuse`, its default); it ends them after a minute without work,
and their connections with them.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from .client import KafkaClient
from .settings import ClientSettings

#: Clients that wait for a task: a worker reads from few clusters, as few users.
MOST_IDLE = 4
#: Below ten minutes, behind which brokers close what is idle (connections.max.idle.ms), and routers often before.
IDLE_S = 120.0


class ClientPool:
    """Idle clients of this thread and process, by their settings; a client that is in use is not in it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._process = os.getpid()
        self._idle: list[tuple[float, KafkaClient]] = []

    @contextmanager
    def client(
        self, settings: ClientSettings, make: Callable[[ClientSettings], KafkaClient] = KafkaClient
    ) -> Iterator[KafkaClient]:
        """A client for one task, which must leave no answer on its way. Closed where the task fails or is not read to its end."""
        client = self._take(settings) or make(settings)
        try:
            yield client
        except BaseException:
            client.close()
            raise
        self._give_back(client)

    def close(self) -> None:
        """Close all that are idle."""
        while self._idle:
            self._idle.pop()[1].close()

    def __del__(self) -> None:
        self.close()

    # -- inside

    def _take(self, settings: ClientSettings) -> KafkaClient | None:
        if self._process != os.getpid():  # in a fork, sockets are the parent's, who goes on reading from them
            self._process = os.getpid()
            self.close()
        self._close_old()
        for number, (_, client) in enumerate(self._idle):
            if client.settings == settings:
                del self._idle[number]
                return client
        return None

    def _give_back(self, client: KafkaClient) -> None:
        self._idle.append((self._clock(), client))
        self._close_old()

    def _close_old(self) -> None:
        since = self._clock() - IDLE_S
        while self._idle and (self._idle[0][0] < since or len(self._idle) > MOST_IDLE):
            self._idle.pop(0)[1].close()


_pools = threading.local()


def pool() -> ClientPool:
    """The calling thread's."""
    found: ClientPool | None = getattr(_pools, "pool", None)
    if found is None:
        found = _pools.pool = ClientPool()
    return found
