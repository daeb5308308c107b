"""Promise: a cut waits for no segment that a pass of the cleaner has made; until it is sent, cuts have what was there before."""

from __future__ import annotations

import threading
from collections.abc import Iterable

import pytest
from support.backups import BackedUpWorld, check_cut, restored, seen
from support.cleaning import Producer, put
from support.mock_time import MockTime
from support.patience import PATIENCE_S, until
from tidelog.backup.cut import tracker
from tidelog.backup.cut.writer import UPLOADERS
from tidelog.backup.formats.keys import SEGMENTS, segments_prefix
from tidelog.backup.restore.catalog import Catalog
from tidelog.backup.store.memory import MemoryStore
from tidelog.backup.upkeep.retention import DAY_MS, HOUR_MS, Keep
from tidelog.backup.upkeep.sweep import named, sweep


class HeldUploads(MemoryStore):
    """Segments of their own are not sent while `lets` is not set, but for the next `free`."""

    def __init__(self, time: MockTime | None = None) -> None:
        super().__init__(time=time)
        self.lets = threading.Event()
        self.lets.set()
        self.free = 0
        self.came = threading.Event()
        self.sent: list[str] = []

    def upload(self, key: str, size: int, blocks: Iterable[bytes]) -> None:
        if key.startswith(SEGMENTS):
            self.came.set()
            with self._lock:
                is_free, self.free = self.free > 0, max(0, self.free - 1)
            assert is_free or self.lets.wait(PATIENCE_S)
            self.sent.append(key)
        super().upload(key, size, blocks)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> BackedUpWorld:
    monkeypatch.setattr(tracker, "DIRECT_BYTES", 100)
    return BackedUpWorld(HeldUploads(), 1)


def filled(world: BackedUpWorld) -> None:
    """Several closed segments of one topic, with keys that come again and a transaction that was aborted."""
    log, producer = world.log("kept"), Producer(7)
    for number in range(40):
        put(log, f"k{number % 4}", "v" * 60, timestamp=world.time.milliseconds())
        if number == 10:
            producer.send(log, (b"k1", b"aborted"), timestamp=world.time.milliseconds())
            producer.end(log, commit=False, timestamp=world.time.milliseconds())
    log.roll()
    log.flush()
    put(log, "last", "one", timestamp=world.time.milliseconds())


def test_a_cut_beside_a_pass_has_what_was_there_before_it(world: BackedUpWorld) -> None:
    store = world.store
    assert isinstance(store, HeldUploads)
    filled(world)
    world.cut()
    before = seen(world.log("kept"))
    store.lets.clear()
    store.came.clear()
    world.clean_all()
    put(world.log("plain"), "k", "written after the pass", timestamp=world.time.milliseconds())
    number = world.cut()
    assert store.came.wait(PATIENCE_S)
    model = {**world.last, ("kept", 0): before}
    assert before.records != world.last["kept", 0].records
    check_cut(store, number, model, world.time)
    (waiting,) = world.writer.progress.passes
    assert waiting[:3] == ("kept", 0, world.writer.progress.taken_ms)
    assert waiting.bytes >= 100
    assert world.cut() == number + 1
    assert world.writer.progress.passes == (waiting,), "it is so since the first of these cuts"

    store.lets.set()
    for future in list(world.writer._folds.values()):
        future.result(PATIENCE_S)
    for _ in range(10):  # some at a time
        number = world.cut()
        for future in list(world.writer._folds.values()):
            future.result(PATIENCE_S)
    check_cut(store, number, world.last, world.time)
    assert world.writer.progress.passes == ()
    sent = len(store.sent)
    world.time.advance(1000)
    assert not world.writer.attempt()
    assert len(store.sent) == sent
    world.stop()


def test_a_cut_says_which_partition_it_waits_for(world: BackedUpWorld) -> None:
    store = world.store
    assert isinstance(store, HeldUploads)
    filled(world)
    store.lets.clear()
    cut = threading.Thread(target=world.cut)
    cut.start()
    try:
        assert store.came.wait(PATIENCE_S)
        (waiting,) = world.writer.progress.waits_for
        closed = sum(segment.size for segment in world.log("kept").segments[:-1] if segment.size > 100)
        assert (waiting.topic, waiting.partition, waiting.bytes) == ("kept", 0, closed)
    finally:
        store.lets.set()
        cut.join(PATIENCE_S)
    assert world.writer.progress.waits_for == ()
    assert world.writer.progress.number == 1
    world.stop()


def test_a_cut_waits_behind_no_segment_that_is_in_packs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments that closed together are sent once more, whole, for hours: what a cut needs goes past them."""
    monkeypatch.setattr(tracker, "SMALL_BYTES", 100)
    world = BackedUpWorld(store := HeldUploads(), 1)
    filled(world)
    store.lets.clear()
    try:
        world.cut()
        assert len(world.writer._folds) > UPLOADERS
        monkeypatch.setattr(tracker, "DIRECT_BYTES", 100)
        busy = world.log("busy")
        put(busy, "k", "v" * 400, timestamp=world.time.milliseconds())
        busy.roll()
        busy.flush()
        wanted = segments_prefix("busy", busy.topic_id, 0)
        upload = store.upload

        def past(key: str, size: int, blocks: Iterable[bytes]) -> None:
            MemoryStore.upload(store, key, size, blocks) if key.startswith(wanted) else upload(key, size, blocks)

        store.upload = past  # type: ignore[method-assign]
        cut = threading.Thread(target=world.cut, daemon=True)
        cut.start()
        cut.join(PATIENCE_S / 2)
        assert world.writer.progress.number == 2
    finally:
        store.lets.set()
    for future in list(world.writer._folds.values()):
        future.exception(PATIENCE_S)
    number = world.cut()
    assert all(
        segment.object_sum
        for segment in Catalog(store).cut(number).partitions["kept", 0].segments
        if segment.size > 100
    )
    check_cut(store, number, world.last, world.time)
    world.stop()


def test_a_second_pass_beside_the_first_one_is_not_mixed_with_it(world: BackedUpWorld) -> None:
    """A tombstone that the second pass has taken must not be gone while the first one's segments are as before."""
    store = world.store
    assert isinstance(store, HeldUploads)
    filled(world)
    world.cut()
    store.lets.clear()
    log = world.log("kept")
    for _ in range(3):
        put(log, "k2", None, timestamp=world.time.milliseconds())
        world.cut()  # what closes was in a cut already, and waits for nothing
        log.roll()
        log.flush()
        put(log, "other", "x" * 200, timestamp=world.time.milliseconds())
        world.cut()
        world.clean_all()
        world.time.advance(200_000_000)  # beyond delete.retention.ms
        number = world.cut()
        made, manager = restored(store, Catalog(store).cut(number), world.time)
        found = seen(manager.get("kept", 0))  # type: ignore[arg-type]
        newest = {record[1]: record[2] for record in found.records}
        assert newest.get(b"k2") is None, "what was deleted has come back"
        made.stop()
    store.lets.set()
    for future in list(world.writer._folds.values()):
        future.exception(PATIENCE_S)  # the second pass has taken what the first one made
    for _ in range(10):
        number = world.cut()
        for future in list(world.writer._folds.values()):
            future.exception(PATIENCE_S)
    check_cut(store, number, world.last, world.time)
    world.stop()


@pytest.mark.parametrize("ahead_days", [0, 365])
def test_what_is_sent_beside_cuts_for_days_is_not_swept_before_a_cut_names_it(
    world: BackedUpWorld, ahead_days: int
) -> None:
    """Over a thin line a pass may take longer to send than the grace of objects that no cut names. The store's clock may have
    been ahead at the last cut before.
    """
    store = HeldUploads(world.time)
    world.store = store
    world.writer = world.new_writer()
    log = world.log("kept")
    for number in range(72):
        put(log, f"k{number}" if number % 2 else "again", "v" * 60, timestamp=world.time.milliseconds())
    log.roll()
    log.flush()
    put(log, "last", "one", timestamp=world.time.milliseconds())
    world.time.set_wall_clock(world.time.milliseconds() + ahead_days * DAY_MS)
    world.cut()
    world.time.set_wall_clock(world.time.milliseconds() - ahead_days * DAY_MS)
    store.sent.clear()
    store.lets.clear()
    store.free = 1
    world.clean_all()

    def go_on(hours: int) -> None:
        for _ in range(hours):
            world.time.advance(HOUR_MS)
            put(world.log("plain"), "k", "v", timestamp=world.time.milliseconds())
            world.cut()
            sweep(store, Keep())

    go_on(1)
    until(lambda: bool(store.sent), "the first segment of the pass is sent")
    [early] = store.sent
    assert len(world.writer._folds) > 1, "nothing is being sent"
    assert early not in set(named(Catalog(store).newest()))
    go_on(30)
    assert early in {stored.key for stored in store.list(SEGMENTS)}
    store.lets.set()
    for _ in range(10):
        for future in list(world.writer._folds.values()):
            future.result(PATIENCE_S)
        number = world.cut()
    cut = Catalog(store).cut(number)
    assert early in set(named(cut))
    check_cut(store, number, world.last, world.time)
    put(world.log("plain"), "k", "v", timestamp=world.time.milliseconds())
    assert Catalog(store).cut(world.cut()).header.unnamed == -1
    # What no cut has named in the end goes as ever.
    orphan = f"{SEGMENTS}{'a' * 32}/0/{0:020d}-{'b' * 32}"
    store.create(orphan, b"")
    go_on(26)
    assert orphan not in {stored.key for stored in store.list(SEGMENTS)}
    world.stop()


def test_what_a_writer_before_sent_and_this_one_uses_is_not_swept_before_a_cut_names_it(world: BackedUpWorld) -> None:
    store = HeldUploads(world.time)
    world.store = store
    world.writer = world.new_writer()
    put(world.log("plain"), "k", "v", timestamp=world.time.milliseconds())
    first = world.cut()
    world.time.advance(11 * HOUR_MS)
    put(world.log("plain"), "k", "v", timestamp=world.time.milliseconds())
    second = world.cut()
    world.time.advance(2 * HOUR_MS)
    writer = world.new_writer()
    assert writer._reused_after == first, "what is in use again may be half a grace old, and so older than the last cut"
    world.time.advance(11 * HOUR_MS)
    assert world.new_writer()._reused_after == second
    world.stop()


def test_a_partition_that_was_moved_is_not_sent_again(world: BackedUpWorld) -> None:
    """Its log is another object with the same bytes, as after a move to another directory."""
    store = world.store
    assert isinstance(store, HeldUploads)
    filled(world)
    world.cut()
    world.cut()
    writer, sent = world.writer, [*store.sent]
    world.stop()
    world.start(segment_bytes=700, cleanup_policy=frozenset({"compact"}))
    world.writer = writer
    number = world.cut()
    check_cut(store, number, world.last, world.time)
    assert store.sent == sent
    world.stop()
