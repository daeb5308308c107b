"""Life cycle of a broker for tests, in this process or in one of its own: start, stop, addresses."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

#: Tasks that become due when time is moved, and requested cleans, are done in this time or reported as stuck.
SETTLE_TIMEOUT_S = 60.0


class BrokerError(Exception):
    """The broker could not start, or could not do what was asked; says why."""


def setting_text(value: object) -> str:
    """A setting's value as text: lists joined by commas, truth as Kafka spells it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ",".join(map(str, value))
    return str(value)


def same_listeners(addresses: Sequence[str]) -> dict[str, str]:
    """Settings by which a broker listens where one did that told these `addresses`: at its ports, by its names."""
    names: dict[str, list[str]] = {"listeners": [], "message.set.listeners": [], "http.listener": []}
    for address in addresses:
        name, _, place = address.partition("://")
        if name in ("http", "https"):
            names["http.listener"].append(place)
        else:
            names["message.set.listeners" if name in ("tcp", "tls") else "listeners"].append(address)
    return {name: ",".join(found) for name, found in names.items() if found}


class BrokerLife(ABC):
    """Usable by `with`, `async with` and by hand. Construction does not start the broker."""

    _addresses: list[str]

    @abstractmethod
    def __init__(
        self, settings: Mapping[str, object] | None = None, *, directory: Path | str | None = None, seed: int = 0
    ) -> None: ...

    @abstractmethod
    def open(self) -> Self:
        """Starts it; returns when clients can connect. BrokerError."""

    @abstractmethod
    def close(self) -> None:
        """Stops it cleanly and removes its temporary directory. Harmless when it is closed."""

    @property
    @abstractmethod
    def bootstrap_servers(self) -> str:
        """`127.0.0.1:PORT`, for every client's setting of that name. BrokerError before it was started."""

    @classmethod
    async def start(
        cls, settings: Mapping[str, object] | None = None, *, directory: Path | str | None = None, seed: int = 0
    ) -> Self:
        """A broker that is ready, for async code. BrokerError."""
        broker = cls(settings, directory=directory, seed=seed)
        await asyncio.to_thread(broker.open)
        return broker

    async def stop(self) -> None:
        """Stop the broker, as `close` does, without holding up the event loop of the caller."""
        await asyncio.to_thread(self.close)

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self.open)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    @property
    def addresses(self) -> tuple[str, ...]:
        """Every listener as `tidelog serve` tells it: Kafka's first, then the message-set's and HTTP's where they are set."""
        return tuple(self._addresses)

    @property
    def host(self) -> str:
        return self.bootstrap_servers.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        return int(self.bootstrap_servers.rpartition(":")[2])
