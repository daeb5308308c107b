"""The look at what tests leave behind: what it finds, and what it leaves alone."""

from __future__ import annotations

from support.fake_filesystem import FakeFileSystem
from support.left_behind import KEPT_WORLDS, LEFT_BEHIND, LeftBehind, faults_of
from support.logs import ROOT, World, append
from tidelog.testing import Broker


def watching() -> LeftBehind:
    made = LeftBehind()
    made.is_watching = True
    made.begin(is_damaged=False)
    return made


def world(*, damaged: str, is_sound: bool = False) -> World:
    """A world with one log, one batch of which is broken. `damaged` also keeps the real look from it."""
    made = World(damaged=damaged)
    made.start()
    append(made.log(), "a", "b")
    if not is_sound:
        made.fake.corrupt(f"{ROOT}/t-0/00000000000000000000.log", 70, b"\xff")
    return made


def test_a_fault_is_told_and_a_sound_directory_is_counted() -> None:
    look, broken, sound = watching(), world(damaged="for this test"), world(damaged="", is_sound=True)
    look.world(sound)
    assert look.end(has_failed=False) == []
    assert look.directories == 1
    broken.damaged = ""
    look.world(broken)
    faults = look.end(has_failed=False)
    broken.damaged = "for this test"
    assert "batch-crc" in faults[0]
    assert look.directories == 2


def test_what_is_marked_or_was_left_by_a_failed_test_is_no_fault() -> None:
    broken = world(damaged="for this test")
    look = watching()
    look.world(broken)
    assert look.end(has_failed=False) == []
    assert (look.directories, look.marked) == (0, 1)
    broken.damaged = ""
    look.begin(is_damaged=True)
    look.world(broken)
    assert look.end(has_failed=False) == []
    look.begin(is_damaged=False)
    look.world(broken)
    assert look.end(has_failed=True) == []
    broken.damaged = "for this test"
    assert (look.directories, look.marked) == (0, 2)


def test_what_a_power_cut_left_is_judged_once_a_start_has_recovered_it() -> None:
    made = world(damaged="", is_sound=True)
    made.cut_power(1)
    assert made.left() is None
    made.start()
    assert made.left() == (made.file_system, (ROOT,))


def test_of_many_worlds_the_oldest_is_looked_at_early() -> None:
    look = watching()
    for _ in range(KEPT_WORLDS + 2):
        look.world(world(damaged="", is_sound=True))
    assert look.directories == 2


def test_a_directory_without_data_is_not_counted() -> None:
    system = FakeFileSystem()
    system.make_directory("/empty")
    assert faults_of(system, "/empty") is None


def test_a_brokers_own_directory_is_looked_at_before_it_goes() -> None:
    before = LEFT_BEHIND.directories
    with Broker() as broker:
        broker.create_topic("t")
        directory = broker.directory
    assert LEFT_BEHIND.directories == before + 1
    assert not directory.exists()
