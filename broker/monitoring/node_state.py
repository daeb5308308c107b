"""NodeState: how far a node is, for whoever looks at it from outside: probes, scrapes, the console.

HTTP answers before there are logs, and until all else has stopped; so what serves it holds this and not the services.
"""

from __future__ import annotations

import asyncio
import logging
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...config.broker_config import BrokerConfig
    from ..message_set.listener import MessageSetListener
    from ..requests.services import Services
    from ..runtime.lazy import Lazy

log = logging.getLogger(__name__)

#: A recovery that takes longer than this says how far it is.
PROGRESS_INTERVAL_S = 5.0


class RecoveryProgress:
    """Bytes of segments that this start checks. Written by recovery threads, read by anyone."""

    __slots__ = ("_next_line", "done_bytes", "total_bytes")

    def __init__(self) -> None:
        self.done_bytes = 0
        self.total_bytes = 0
        self._next_line = monotonic() + PROGRESS_INTERVAL_S

    def update(self, done_bytes: int, total_bytes: int) -> None:
        """Called by the log manager now and then; logs a line every few seconds."""
        self.done_bytes, self.total_bytes = done_bytes, total_bytes
        if total_bytes and monotonic() >= self._next_line:
            self._next_line = monotonic() + PROGRESS_INTERVAL_S
            log.info("recovery: %d of %d MB checked", done_bytes // 1_000_000, total_bytes // 1_000_000)


class NodeState:
    """Written on the loop thread, read by any.

    Attributes:
        ready: True from the moment that listeners are bound until the stop begins; then `services` are there.
        stopping: True from the moment that the stop begins.
        services: None until the metadata are read.
        message_sets: handles the message-set protocol; to be made when there are `services`. Loop thread.
    """

    __slots__ = ("_config", "loop", "message_sets", "ready", "recovery", "services", "stopping")

    def __init__(
        self, config: BrokerConfig, loop: asyncio.AbstractEventLoop, message_sets: Lazy[MessageSetListener]
    ) -> None:
        self._config = config
        self.loop = loop
        self.message_sets = message_sets
        self.ready = False
        self.stopping = False
        self.recovery = RecoveryProgress()
        self.services: Services | None = None

    @property
    def config(self) -> BrokerConfig:
        """The configuration as it is now."""
        return self._config if self.services is None else self.services.config

    @property
    def partitions_remaining(self) -> int:
        """Partitions that this start has still to load."""
        return 0 if self.services is None else self.services.logs.partitions_remaining
