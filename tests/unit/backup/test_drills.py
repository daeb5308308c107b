"""Drills: what they find, what is kept of them, and that what they read is not swept meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.backups import BackedUpWorld, check_cut
from support.cleaning import put
from tidelog.backup.cut.service import BackupService, Stores, Terms
from tidelog.backup.cut.status import BackupStatus, Drills
from tidelog.backup.cut.writer import Identity
from tidelog.backup.formats.drills import decode_drill, encode_drill
from tidelog.backup.formats.entries import Drill
from tidelog.backup.formats.keys import DRILLS, PINS
from tidelog.backup.formats.sealed import DamagedBackupError
from tidelog.backup.restore.catalog import Catalog
from tidelog.backup.restore.restore import Bar, verify_cut
from tidelog.backup.store import Denied, ObjectStore, Unavailable
from tidelog.backup.store.memory import MemoryStore
from tidelog.backup.upkeep.drill import KEPT, drill, newest_drill, record, recorded
from tidelog.backup.upkeep.pins import PIN_MS, pinned, pins
from tidelog.backup.upkeep.retention import DAY_MS, HOUR_MS, MINUTE_MS, Keep
from tidelog.backup.upkeep.sweep import named, sweep

DRILL = Drill(7, 1_000, 2_000, 0.5, 3, 1234)


@pytest.fixture
def world() -> BackedUpWorld:
    made = BackedUpWorld(MemoryStore(), 1)
    made.store = MemoryStore(time=made.time)
    made.writer = made.new_writer()
    for number in range(12):
        for topic in ("plain", "kept", "busy"):
            put(made.log(topic), f"k{number}", "v" * 60, timestamp=made.time.milliseconds())
    made.cut()
    return made


def damage(store: ObjectStore, key: str) -> None:
    whole = bytearray(store.read(key))
    whole[len(whole) // 2] ^= 1
    store.delete([key])
    store.upload(key, len(whole), [bytes(whole)])


def test_a_drill_reads_the_newest_cut_whole(world: BackedUpWorld) -> None:
    found = newest_drill(world.store, world.time)
    cut = Catalog(world.store).newest()
    assert (found.cut, found.partitions, found.bytes, found.fault) == (1, 3, cut.size, "")
    assert found.taken_ms == cut.header.taken_ms


def test_a_drill_finds_each_damaged_object_and_names_it(world: BackedUpWorld) -> None:
    cut = Catalog(world.store).newest()
    for key in sorted(set(named(cut))):
        if key.startswith("bases/"):
            continue  # without it there is no cut to be read
        whole = world.store.read(key)
        damage(world.store, key)
        assert key in drill(world.store, cut, world.time).fault
        world.store.delete([key])
        assert key in drill(world.store, cut, world.time).fault
        world.store.upload(key, len(whole), [whole])
    assert drill(world.store, cut, world.time).fault == ""


def test_a_store_that_fails_is_no_finding(world: BackedUpWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    cut = Catalog(world.store).newest()

    def fails(key: str, start: int = 0, length: int | None = None) -> bytes:
        raise Unavailable("read", "memory:", key, "it does not answer")

    monkeypatch.setattr(world.store, "read", fails)
    with pytest.raises(Unavailable):
        drill(world.store, cut, world.time)
    assert pins(world.store) == []


def test_what_a_bar_raises_ends_a_drill(world: BackedUpWorld) -> None:
    class StopError(Exception):
        pass

    def stop(_count: int) -> None:
        raise StopError

    with pytest.raises(StopError):
        verify_cut(world.store, Catalog(world.store).newest(), Bar(done=stop), threads=1)


def test_the_last_drill_and_the_last_good_one_are_known() -> None:
    store = MemoryStore()
    assert recorded(store) == Drills()
    good, bad = DRILL, DRILL._replace(cut=8, ended_ms=3_000, fault="packs/x is damaged")
    record(store, good)
    assert recorded(store) == Drills(good, good)
    record(store, bad)
    assert recorded(store) == Drills(bad, good)
    record(store, bad)  # in the same millisecond
    store.create(f"{DRILLS}{9_000:020d}", b"not a record")
    assert recorded(store) == Drills(bad, good)


def test_some_records_are_kept() -> None:
    store = MemoryStore()
    for number in range(3 * KEPT):
        record(store, DRILL._replace(ended_ms=number))
    assert [stored.key for stored in store.list(DRILLS)] == [
        f"{DRILLS}{number:020d}" for number in range(2 * KEPT, 3 * KEPT)
    ]


@pytest.mark.parametrize("data", [b"", b"x", encode_drill(DRILL)[:-1], encode_drill(DRILL).replace(b"drill", b"cut")])
def test_bytes_that_are_no_record(data: bytes) -> None:
    with pytest.raises(DamagedBackupError):
        decode_drill(data, "drills/1")


def test_a_record_comes_back() -> None:
    assert decode_drill(encode_drill(DRILL), "drills/1") == DRILL
    assert len(decode_drill(encode_drill(DRILL._replace(fault="x" * 10_000)), "drills/1").fault) == 2000


# --- pins ---


def test_a_pinned_cut_stays_whole_until_its_pin_goes(world: BackedUpWorld) -> None:
    def later() -> None:
        put(world.log("plain"), "k", "v", timestamp=world.time.milliseconds())
        world.time.advance(5 * MINUTE_MS)
        world.cut()

    first = 1
    with pinned(world.store, first):
        for log in world.manager.logs():
            log.roll()
            log.increment_log_start_offset(log.high_watermark)
        world.manager.delete_old_segments()
        for _ in range(12):
            later()
        world.time.advance(3 * DAY_MS - 2 * HOUR_MS)
        later()
        assert sweep(world.store, Keep(HOUR_MS)).deleted_cuts
        assert first in Catalog(world.store).numbers
        check_cut(world.store, first, world.models[first], world.time)
    assert list(world.store.list(PINS)) == []
    assert sweep(world.store, Keep(HOUR_MS)).deleted_objects
    assert first not in Catalog(world.store).numbers
    world.stop()


def test_a_pin_of_somebody_who_was_killed_goes(world: BackedUpWorld) -> None:
    world.store.create(f"{PINS}{1:020d}-0123456789abcdef", b"{}")
    world.store.create(f"{PINS}not-one-of-ours", b"")
    put(world.log("plain"), "k", "v", timestamp=world.time.milliseconds())
    world.time.advance(PIN_MS + HOUR_MS)
    world.cut()
    sweep(world.store, Keep(HOUR_MS))
    assert Catalog(world.store).numbers == [2]
    assert pins(world.store) == []
    world.stop()


def test_credentials_that_may_only_read_can_verify() -> None:
    class ReadOnly(MemoryStore):
        def create(self, key: str, data: bytes) -> None:
            raise Denied("create", self.name, key, "403")

        def delete(self, keys: Any) -> None:
            raise Denied("delete", self.name, keys[0], "403")

    with pinned(ReadOnly(), 1):
        pass


# --- the daemon's ---


class Drilled:
    """A service whose drills are made here, one after the other."""

    def __init__(self, world: BackedUpWorld, interval_ms: int) -> None:
        self.world = world
        self.service = BackupService(
            Stores(lambda: world.store, lambda: world.store),
            world.take,
            Identity("c", 1),
            world.time,
            Terms(1000, drill_interval_ms=interval_ms),
        )

    def look(self) -> BackupStatus:
        self.service._drill_over(self.world.store)
        return self.service.status()


def test_a_daemon_makes_a_drill_when_the_last_one_is_older_than_the_interval(world: BackedUpWorld) -> None:
    drilled = Drilled(world, DAY_MS)
    status = drilled.look()
    assert status.drills.good is not None
    assert (status.drill_age_ms, status.without_drill_ms, status.drills.is_running) == (0, 0, False)
    ended_ms = status.drills.good.ended_ms
    world.time.advance(DAY_MS - 1)
    again = drilled.look().drills.good
    assert again is not None
    assert again.ended_ms == ended_ms
    assert drilled.service.status().drill_age_ms == DAY_MS - 1
    world.time.advance(1)
    assert drilled.look().drill_age_ms == 0
    world.stop()


def test_drills_that_were_made_while_a_clock_was_ahead_put_off_no_other(world: BackedUpWorld) -> None:
    """As many as are kept, so that none of these pushes out a new one either."""
    for number in range(KEPT):
        record(world.store, DRILL._replace(ended_ms=world.time.milliseconds() + 365 * DAY_MS + number))
    drilled = Drilled(world, DAY_MS)
    for _ in range(3):
        assert drilled.look().drill_age_ms == 0
        world.time.advance(HOUR_MS)
        assert drilled.look().drill_age_ms == HOUR_MS, "none is made that is not due"
        world.time.advance(DAY_MS - HOUR_MS)
    assert len(list(world.store.list(DRILLS))) == KEPT + 3
    world.stop()


def test_a_new_daemon_knows_of_the_drills_before_it(world: BackedUpWorld) -> None:
    Drilled(world, DAY_MS).look()
    world.time.advance(HOUR_MS)
    assert Drilled(world, DAY_MS).look().drill_age_ms == HOUR_MS
    assert Drilled(world, 0).look().drill_age_ms == HOUR_MS, "one that somebody else makes is known too"
    world.stop()


def test_damage_that_a_drill_finds_is_told_and_the_last_good_one_stays_known(world: BackedUpWorld) -> None:
    drilled = Drilled(world, DAY_MS)
    drilled.look()
    damage(world.store, next(key for key in named(Catalog(world.store).newest()) if key.startswith("packs/")))
    world.time.advance(DAY_MS)
    status = drilled.look()
    assert status.drills.last is not None
    assert "is damaged" in status.drills.last.fault
    assert status.drill_age_ms == DAY_MS
    world.stop()


def test_without_an_interval_there_is_no_drill(world: BackedUpWorld) -> None:
    status = Drilled(world, 0).look()
    assert status.drills == Drills()
    assert status.drill_age_ms == -1
    world.stop()


def test_a_daemon_that_stops_ends_its_drill(world: BackedUpWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    drilled = Drilled(world, DAY_MS)
    read: Callable[..., bytes] = world.store.read

    def reads(key: str, start: int = 0, length: int | None = None) -> bytes:
        drilled.service.stop(0)
        return read(key, start, length)

    monkeypatch.setattr(world.store, "read", reads)
    drilled.service._look_at_drills()
    assert recorded(world.store) == Drills()
    assert not drilled.service.status().drills.is_running
    world.stop()
