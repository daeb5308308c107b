"""Promise: a cut waits for no segment that a pass of the cleaner has made; until it is sent, cuts have what was there before."""

from __future__ import annotations

import threading
from collections.abc import Iterable

import pytest
from support.backups import BackedUpWorld, check_cut, restored, seen
from support.cleaning import Producer, put
from support.patience import PATIENCE_S
from tidelog.backup.cut import tracker
from tidelog.backup.formats.keys import SEGMENTS
from tidelog.backup.restore.catalog import Catalog
from tidelog.backup.store.memory import MemoryStore


class HeldUploads(MemoryStore):
    """Segments of their own are not sent while `lets` is not set."""

    def __init__(self) -> None:
        super().__init__()
        self.lets = threading.Event()
        self.lets.set()
        self.came = threading.Event()
        self.sent: list[str] = []

    def upload(self, key: str, size: int, blocks: Iterable[bytes]) -> None:
        if key.startswith(SEGMENTS):
            self.came.set()
            assert self.lets.wait(PATIENCE_S)
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
