"""Stores around stores: a limit of bytes a second, counts, and the probe at start."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import pytest
from support.store_conformance import Conformance
from tidelog.backup.store import (
    AlreadyThere,
    Counted,
    Denied,
    Limited,
    NotThere,
    ObjectStore,
    StoreError,
    Unavailable,
    probe,
)
from tidelog.backup.store.counted import Tally
from tidelog.backup.store.memory import MemoryStore


class Clock:
    """Moves by pauses alone."""

    def __init__(self) -> None:
        self.now = 1000.0

    def milliseconds(self) -> int:
        return int(self.now * 1000)

    def monotonic_ms(self) -> float:
        return self.now * 1000

    def monotonic(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds


class TestLimited(Conformance):
    @pytest.fixture
    def store(self) -> ObjectStore:
        clock = Clock()
        return Limited(MemoryStore(), 1 << 20, clock, clock.pause)


class TestCounted(Conformance):
    @pytest.fixture
    def store(self) -> ObjectStore:
        return Counted(MemoryStore())


def test_bytes_pass_at_the_rate() -> None:
    clock = Clock()
    store = Limited(MemoryStore(), 1000, clock, clock.pause)
    store.upload("a", 10_000, (bytes(100) for _ in range(100)))
    assert clock.now == pytest.approx(1000 + 10 - 0.25)
    store.create("b", bytes(1000))
    assert clock.now == pytest.approx(1000 + 11 - 0.25)
    store.read("a", 0, 500)
    assert clock.now == pytest.approx(1000 + 11.5 - 0.25)


def test_what_was_not_used_is_not_saved_up() -> None:
    clock = Clock()
    store = Limited(MemoryStore(), 1000, clock, clock.pause)
    clock.now += 3600
    start = clock.now
    store.create("a", bytes(10_000))
    assert clock.now - start == pytest.approx(10 - 0.25)


def test_a_large_block_does_not_pass_at_once() -> None:
    clock = Clock()
    passed: list[float] = []

    class Notes(MemoryStore):
        def upload(self, key: str, size: int, blocks: Iterable[bytes]) -> None:
            for block in blocks:
                assert len(block) <= 256 << 10
                passed.append(clock.now)

    Limited(Notes(), 1 << 20, clock, clock.pause).upload("a", 4 << 20, [bytes(4 << 20)])
    assert len(passed) == 16
    assert passed == sorted(passed)
    assert passed[-1] - passed[0] == pytest.approx(3.75)


def test_a_rate_is_positive() -> None:
    with pytest.raises(ValueError, match="not a rate"):
        Limited(MemoryStore(), 0)


def test_counts() -> None:
    clock = Clock()
    inner = MemoryStore()
    store = Counted(Limited(inner, 1000, clock, clock.pause), clock, part_bytes=100)
    store.create("a", bytes(10))
    with pytest.raises(AlreadyThere):
        store.create("a", bytes(10))
    store.upload("small", 100, [bytes(100)])
    store.upload("large", 1000, [bytes(500), bytes(500)])
    store.read("large", 0, 50)
    with pytest.raises(NotThere):
        store.read("nothing")
    for number in range(1500):
        inner.create(f"many/{number}", b"")
    assert len(list(store.list("many/"))) == 1500
    list(store.list("none/"))
    store.delete([f"many/{number}" for number in range(1500)])
    counts = store.counts()
    assert [(name, c.calls, c.requests, c.bytes, c.errors) for name, c in counts.items()] == [
        ("create", 2, 2, 20, 0),
        ("upload", 2, 1 + 10 + 2, 1100, 0),
        ("read", 2, 2, 50, 0),
        ("list", 2, 2 + 1, 0, 0),
        ("delete", 1, 2, 0, 0),
    ]
    assert counts["upload"].seconds == pytest.approx(1.1, abs=0.26)


def test_counts_of_failures_and_of_stores_one_after_the_other() -> None:
    class Broken(MemoryStore):
        def read(self, key: str, start: int = 0, length: int | None = None) -> bytes:
            raise Unavailable("read", self.name, key, "it does not answer")

    tally = Tally()
    for store in (MemoryStore(), Broken()):
        counted = Counted(store, tally=tally)
        counted.create("a", bytes(10))
        with suppress(Unavailable):
            counted.read("a")
    counts = tally.counts()
    assert (counts["create"].calls, counts["create"].bytes, counts["create"].errors) == (2, 20, 0)
    assert (counts["read"].calls, counts["read"].bytes, counts["read"].errors) == (2, 10, 1)


# --- the probe ---


def test_a_good_store_passes_and_is_as_before() -> None:
    store = MemoryStore()
    store.create("cuts/0", b"")
    assert probe(store).can_delete
    assert [stored.key for stored in store.list("")] == ["cuts/0"]


class Overwrites(MemoryStore):
    def create(self, key: str, data: bytes) -> None:
        self.upload(key, len(data), [data])


class SaysSoAndOverwrites(MemoryStore):
    def create(self, key: str, data: bytes) -> None:
        was = key in self._objects
        self.upload(key, len(data), [data])
        if was:
            raise AlreadyThere("create", self.name, key, "")


class LosesRaces(MemoryStore):
    def create(self, key: str, data: bytes) -> None:
        if "race" in key:
            self.upload(key, len(data), [data])
        else:
            super().create(key, data)


class ListsDirectories(MemoryStore):
    def list(self, prefix: str, after: str = ""):  # type: ignore[no-untyped-def]
        return iter(sorted(super().list(prefix, after), key=lambda stored: stored.key.split("/")))


class IgnoresRanges(MemoryStore):
    def read(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        return super().read(key)


@pytest.mark.parametrize(
    ("store", "text"),
    [
        (Overwrites(), "ignores If-None-Match and overwrites"),
        (SaysSoAndOverwrites(), "has overwritten it"),
        (LosesRaces(), "more than one succeeded"),
        (ListsDirectories(), "order of their keys"),
        (IgnoresRanges(), "ranges"),
    ],
)
def test_a_promise_that_is_broken_is_named(store: MemoryStore, text: str) -> None:
    with pytest.raises(StoreError, match=text) as caught:
        probe(store)
    assert "\n" not in str(caught.value)
    assert store._objects == {}


def test_credentials_that_may_not_delete() -> None:
    class AppendOnly(MemoryStore):
        def delete(self, keys: object) -> None:  # type: ignore[override]
            raise Denied("delete", self.name, "", "403")

    assert not probe(AppendOnly()).can_delete


def test_a_store_that_is_away_is_told_as_such() -> None:
    class Away(MemoryStore):
        def create(self, key: str, data: bytes) -> None:
            raise Unavailable("create", self.name, key, "no route to host")

    with pytest.raises(Unavailable, match="no route"):
        probe(Away())


def test_an_answer_that_was_lost_is_no_broken_promise() -> None:
    class Repeats(MemoryStore):
        def create(self, key: str, data: bytes) -> None:
            super().create(key, data)
            raise AlreadyThere("create", self.name, key, "its own, sent twice")

    assert probe(Repeats()).can_delete
