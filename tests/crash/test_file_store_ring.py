"""Power cuts of a directory with objects: before every mutating call, each legal state is opened and held against the book.

- What was created, uploaded or deleted before the last call is so.
- An object is whole or not there, and its first creator's.
- What a new process lists after `kill -9`, and may count on from then on, is still there after a power cut.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.fake_filesystem import FakeFileSystem, Operation, PowerCut
from support.fake_states import Moment
from tidelog.backup.store import AlreadyThere, NotThere
from tidelog.backup.store.files import FileStore

LARGE = bytes(range(256)) * 12


class Book:
    """What is known: contents that must be there, and keys of which something is under way."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}
        self.under_way: dict[str, bytes | None] = {}

    def judge(self, disk: FakeFileSystem) -> None:
        store = FileStore("/store", disk)
        found = {stored.key: store.read(stored.key) for stored in store.list("")}
        for stored in store.list(""):
            assert stored.size == len(found[stored.key])
        for key, data in self.kept.items():
            if key not in self.under_way:
                assert found.get(key) == data, key
        for key, data in found.items():
            allowed = {self.kept.get(key), self.under_way.get(key)}
            assert data in allowed - {None}, f"{key} holds {data[:20]!r}"


class Scenario:
    """Runs operations, and looks at the states before each mutating call of theirs."""

    def __init__(self, limit: int, *, exclusively: bool) -> None:
        self.limit = limit or 1 << 30
        self.states = 0
        self.book = Book()
        self.disk = FakeFileSystem()
        self.disk.renames_exclusively = exclusively
        self.disk.make_directory("/store")
        self.disk.sync_all()
        self.start()

    def start(self) -> None:
        self.disk.fail_when(self.look)
        self.store = FileStore("/store", self.disk)

    def look(self, operation: Operation | None = None) -> None:
        moment = Moment(self.disk)
        for number, choice in enumerate(moment.choices()):
            if number >= self.limit:
                break
            self.states += 1
            state = moment.state(choice)
            self.book.judge(state)

    def create(self, key: str, data: bytes) -> None:
        self.book.under_way = {key: data}
        try:
            self.store.create(key, data)
        except AlreadyThere:
            assert key in self.book.kept
        else:
            assert key not in self.book.kept
            self.book.kept[key] = data
        self.book.under_way = {}
        self.look()

    def upload(self, key: str, data: bytes) -> None:
        self.book.under_way = {key: data}
        self.store.upload(key, len(data), [data[:1000], data[1000:]])
        self.book.kept[key] = data
        self.book.under_way = {}
        self.look()

    def delete(self, *keys: str) -> None:
        self.book.under_way = dict.fromkeys(keys)
        self.store.delete(keys)
        for key in keys:
            self.book.kept.pop(key, None)
        self.book.under_way = {}
        self.look()


def cuts(s: Scenario) -> None:
    for number in range(3):
        s.upload(f"logs/t/{number}.log", LARGE)
        s.create(f"cuts/{number}", b"cut %d" % number * 100)
    s.create("cuts/1", b"somebody else's" * 40)
    s.delete("cuts/0", "logs/t/0.log")
    s.create("cuts/0", b"again")


def repeated(s: Scenario) -> None:
    s.upload("a/b/c/d", LARGE)
    s.upload("a/b/c/d", LARGE)
    s.delete("a/b/c/d", "a/b/nothing")
    s.upload("a/b/c/d", LARGE)
    s.create("a/b/e", b"")
    s.create("top", b"x" * 600)


@pytest.mark.parametrize("exclusively", [True, False], ids=["rename that refuses", "lock"])
@pytest.mark.parametrize("scenario", [cuts, repeated])
def test_power_cuts(scenario: Callable[[Scenario], None], exclusively: bool) -> None:
    run = Scenario(0, exclusively=exclusively)
    scenario(run)
    assert run.states > 300, run.states


@pytest.mark.parametrize("exclusively", [True, False], ids=["rename that refuses", "lock"])
def test_what_a_killed_writer_left_and_the_next_one_lists_survives_a_power_cut(exclusively: bool) -> None:
    """The second counts on what it lists: it does not upload it again, and publishes a cut that names it."""
    killed_at = states = 0
    while True:
        killed_at += 1
        disk = FakeFileSystem()
        disk.renames_exclusively = exclusively
        disk.make_directory("/store")
        disk.sync_all()
        first = FileStore("/store", disk)
        disk.fail_at(killed_at, PowerCut())
        try:
            first.upload("logs/t/0.log", len(LARGE), [LARGE])
            first.create("cuts/0", b"cut")
        except PowerCut:
            pass
        else:
            break
        after_kill = disk.kill()
        second = FileStore("/store", after_kill)
        listed = {stored.key for stored in second.list("")}
        refused = False
        try:
            second.create("cuts/0", b"cut")
        except AlreadyThere:
            refused = True
        assert refused == ("cuts/0" in listed)
        moment = Moment(after_kill)
        for choice in moment.choices():
            states += 1
            store = FileStore("/store", moment.state(choice))
            for key in listed | {"cuts/0"}:
                assert store.read(key) == (LARGE if key.startswith("logs") else b"cut")
            if "logs/t/0.log" not in listed:
                with pytest.raises(NotThere):
                    store.read("logs/t/0.log")
    assert killed_at > 10
    assert states > 20
