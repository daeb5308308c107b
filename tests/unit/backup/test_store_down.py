"""Promise: a store that is down for an hour stops nothing and costs no memory; what came meanwhile is in the first cut after."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence

import pytest
from support.backups import BackedUpWorld, check_cut
from support.cleaning import put
from tidelog.backup.cut.service import LONGEST_PAUSE_S, BackupService, Stores, Terms
from tidelog.backup.cut.status import RUNNING, WAITING
from tidelog.backup.cut.writer import Identity
from tidelog.backup.restore.catalog import Catalog
from tidelog.backup.store.errors import Unavailable
from tidelog.backup.store.interface import Stored
from tidelog.backup.store.memory import MemoryStore

HOUR_MS = 3_600_000
MINUTE_MS = 60_000


class DownStore(MemoryStore):
    """Fails each request while `is_down`, and counts them."""

    def __init__(self) -> None:
        super().__init__()
        self.is_down = False
        self.failed = 0

    def _refuse(self, operation: str, key: str) -> None:
        if self.is_down:
            self.failed += 1
            raise Unavailable(operation, self.name, key, "nobody answers")

    def create(self, key: str, data: bytes) -> None:
        self._refuse("create", key)
        super().create(key, data)

    def upload(self, key: str, size: int, blocks: Iterable[bytes]) -> None:
        self._refuse("upload", key)
        super().upload(key, size, blocks)

    def read(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        self._refuse("read", key)
        return super().read(key, start, length)

    def list(self, prefix: str, after: str = "") -> Iterator[Stored]:
        self._refuse("list", prefix)
        return super().list(prefix, after)

    def delete(self, keys: Sequence[str]) -> None:
        self._refuse("delete", "")
        super().delete(keys)


class Machine:
    """A daemon's writer on a clock of its own: what would wait moves the clock, and clients write meanwhile."""

    def __init__(self) -> None:
        self.store = DownStore()
        self.world = BackedUpWorld(self.store, 1)
        self.began_ms = self.world.time.milliseconds()
        self.pauses: list[float] = []
        self.states: list[str] = []
        self.lags: list[int] = []
        self.kept: list[int] = []
        self.service = BackupService(
            Stores(lambda: self.store, lambda: self.store),
            self.world.take,
            Identity("c", 1),
            self.world.time,
            Terms(1000),
            wait=self.wait,
        )

    def wait(self, seconds: float) -> bool:
        status = self.service.status()
        now_ms = self.world.time.milliseconds() - self.began_ms
        if self.store.is_down:
            self.pauses.append(seconds)
            self.states.append(status.state)
            self.lags.append(status.lag_ms)
            writer = self.service._writer
            assert writer is not None
            self.kept.append(len(writer._folds) + len(writer._objects) + len(writer._pack_sizes) + len(writer._worn))
        self.store.is_down = MINUTE_MS <= now_ms < MINUTE_MS + HOUR_MS
        for topic in ("plain", "busy"):
            put(self.world.log(topic), "k", "v" * 100, timestamp=self.world.time.milliseconds())
        self.world.time.advance(1000 * seconds)
        return now_ms > HOUR_MS + 3 * MINUTE_MS


def test_an_hour_without_a_store_is_caught_up_with(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine()
    with caplog.at_level(logging.WARNING):
        machine.service._run()
    assert machine.states[1:] == [WAITING] * (len(machine.states) - 1)
    assert machine.pauses[-1] == LONGEST_PAUSE_S
    assert machine.lags[-1] > HOUR_MS - 2 * 1000 * LONGEST_PAUSE_S
    # It asks less and less often, and says it once.
    assert machine.store.failed < 4 * HOUR_MS / (1000 * LONGEST_PAUSE_S)
    assert len([one for one in caplog.messages if "backup waits" in one]) == 1
    # Nothing is kept for each attempt: what an attempt had is gone with it.
    assert max(machine.kept[2:]) <= machine.kept[1]
    status = machine.service.status()
    assert status.lag_ms <= 2_000
    cut = Catalog(machine.store).newest()
    check_cut(machine.store, cut.header.number, machine.world.last, machine.world.time)
    assert status.reason == ""
    assert RUNNING not in machine.states[1:]
    machine.world.stop()
