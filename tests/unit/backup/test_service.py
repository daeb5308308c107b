"""Promises of the thread that makes cuts: what it waits for, and what it says when a clock is set."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from support.backups import BackedUpWorld
from support.cleaning import put
from tidelog.backup.cut.service import LAST_TRIES, BackupService, Stores, Terms
from tidelog.backup.cut.writer import CutWriter, Identity, VoidCut
from tidelog.backup.restore.catalog import Catalog
from tidelog.backup.store.errors import Unavailable
from tidelog.backup.store.memory import MemoryStore
from tidelog.backup.upkeep.sweep import Swept

HOUR_MS = 3_600_000


class Served:
    """A service that takes cuts of a world, until as many waits as it may have are over; they move the clock."""

    def __init__(self, most_waits: int = 1, terms: Terms | None = None) -> None:
        self.world = BackedUpWorld(MemoryStore(), 1)
        self.waits: list[float] = []
        self._most = most_waits
        self.service = BackupService(
            Stores(lambda: self.world.store, lambda: self.world.store),
            self.world.take,
            Identity("c", 1),
            self.world.time,
            terms or Terms(1000),
            wait=self.wait,
        )

    def wait(self, seconds: float) -> bool:
        self.waits.append(seconds)
        if self.service._sweeper is not None:
            self.service._sweeper.join()
        self.world.time.advance(1000 * seconds)
        put(self.world.log("plain"), "k", "v", timestamp=self.world.time.milliseconds())
        return len(self.waits) >= self._most


def test_after_a_cut_that_was_given_up_the_next_one_does_not_wait_for_the_interval(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    served = Served(most_waits=6)
    attempt = CutWriter.attempt

    def voided(writer: CutWriter) -> bool:
        if len(served.waits) in (1, 2):
            raise VoidCut
        return attempt(writer)

    monkeypatch.setattr(CutWriter, "attempt", voided)
    served.service._run()
    assert served.waits == pytest.approx([1.0, 0.05, 0.05, 1.0, 1.0, 1.0])
    served.world.stop()


def test_a_last_cut_that_is_given_up_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cleaner and retention still run beside a stop."""
    served = Served()
    attempt, given_up = CutWriter.attempt, []

    def voided(writer: CutWriter) -> bool:
        if served.waits and len(given_up) < 3:
            given_up.append(writer)
            raise VoidCut
        return attempt(writer)

    monkeypatch.setattr(CutWriter, "attempt", voided)
    served.service._run()
    last = Catalog(served.world.store).newest().partitions["plain", 0]
    assert last.end == served.world.log("plain").high_watermark > 0
    served.world.stop()


def test_a_last_cut_that_is_given_up_for_good_ends_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    served = Served()
    tries: list[CutWriter] = []

    def voided(writer: CutWriter) -> bool:
        tries.append(writer)
        raise VoidCut

    monkeypatch.setattr(CutWriter, "attempt", voided)
    served.service._run()
    assert len(tries) == 1 + LAST_TRIES
    served.world.stop()


def test_a_wall_clock_that_is_set_back_hides_no_lag_and_opens_no_fence() -> None:
    served = Served(terms=Terms(1000, fence_ms=5000))
    served.service._run()
    time = served.world.time
    assert served.service.refusal() is None
    time.set_wall_clock(time.milliseconds() - HOUR_MS)
    before_ms = served.service.status().lag_ms
    time.advance(10_000)
    assert served.service.status().lag_ms == before_ms + 10_000
    assert "nothing of the last 10 s is in the backup" in str(served.service.refusal())
    served.world.stop()


def test_a_wall_clock_that_is_set_forward_shows_no_lag_and_shuts_no_fence() -> None:
    served = Served(terms=Terms(1000, fence_ms=5000))
    served.service._run()
    served.world.time.set_wall_clock(served.world.time.milliseconds() + HOUR_MS)
    assert served.service.status().lag_ms <= 1000
    assert served.service.refusal() is None
    served.world.stop()


def test_before_the_first_cut_the_fence_counts_from_the_start() -> None:
    served = Served(terms=Terms(1000, fence_ms=5000))
    served.world.time.set_wall_clock(served.world.time.milliseconds() - HOUR_MS)
    served.world.time.advance(5000)
    assert served.service.refusal() is None
    assert served.service.status().lag_ms == -1
    served.world.time.advance(1)
    assert served.service.refusal() is not None
    served.world.stop()


def test_old_cuts_are_removed_minutes_after_a_start_and_then_each_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon that is started more often than once an hour would never remove any."""
    served = Served(most_waits=70, terms=Terms(60_000))
    swept: list[float] = []
    began = served.world.time.milliseconds()

    def noted(_store: object, _keep: object, here_ms: float) -> Swept:
        swept.append(here_ms - began)
        return Swept(1, 0, 0, 0, ("cuts/1 is damaged",))

    monkeypatch.setattr("tidelog.backup.upkeep.sweep.sweep", noted)
    served.service._run()
    assert swept == [300_000, 3_900_000]
    assert served.service.status().progress.damaged == ("cuts/1 is damaged",)
    served.world.stop()


def test_a_store_that_is_full_is_swept_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """No cut comes about until there is room, and a sweep makes some."""
    served = Served(most_waits=12, terms=Terms(60_000))
    served.world.store = store = MemoryStore(time=served.world.time)
    upload = store.upload
    is_full = True

    def full(key: str, size: int, blocks: Iterable[bytes]) -> None:
        if is_full and len(served.waits) > 3:
            raise Unavailable("upload", store.name, key, "No space left on device", "make room there")
        upload(key, size, blocks)

    def swept(_store: object, _keep: object, _here_ms: float) -> Swept:
        nonlocal is_full
        is_full = False
        return Swept(1, 1, 1, 1)

    monkeypatch.setattr(store, "upload", full)
    monkeypatch.setattr("tidelog.backup.upkeep.sweep.sweep", swept)
    served.service._run()
    assert not is_full
    last = Catalog(store).newest().partitions["plain", 0]
    assert last.end == served.world.log("plain").high_watermark
    served.world.stop()
