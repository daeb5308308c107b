"""A look at the directories of `tidelog.testing`'s brokers, before they remove them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from support.left_behind import LeftBehind
from tidelog.storage.io.filesystem import RealFileSystem
from tidelog.testing import Broker, BrokerProcess


class _Left:
    """One broker's directories."""

    is_in_use = False

    def __init__(self, broker: Any) -> None:
        self._broker = broker
        self.damaged: str = getattr(broker, "damaged", "")

    def left(self) -> tuple[RealFileSystem, tuple[str, ...]]:
        named = self._broker.settings.get("log.dirs", str(self._broker.directory))
        return RealFileSystem(), tuple(part.strip() for part in named.split(","))


def watch_brokers(left_behind: LeftBehind) -> None:
    """Have each broker's directories looked at when it is closed."""
    for kind in (Broker, BrokerProcess):
        kind.close = _looking(kind.close, left_behind)  # type: ignore[method-assign]


def _looking(close: Callable[[Any], None], left_behind: LeftBehind) -> Callable[[Any], None]:
    def close_and_look(broker: Any) -> None:
        remove, broker._remove = broker._remove, lambda: None
        try:
            close(broker)
            if getattr(remove, "alive", True) and str(broker.directory) != ".":
                left_behind.look(_Left(broker))
        finally:
            remove()
            broker._remove = remove

    return close_and_look
