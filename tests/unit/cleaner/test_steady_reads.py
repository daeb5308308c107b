from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from support.cleaning import CleaningWorld, Control, put
from support.logs import World
from tidelog.cleaner.cleaning import CleaningTask
from tidelog.cleaner.exceptions import CleaningAborted
from tidelog.cleaner.log_facts import read_steady, steady_views


class Log:
    """A log of which a file is missing until it is steady."""

    def __init__(self, *, is_mended: bool) -> None:
        self.local = self  # the part that looks after its files
        self.is_mended = is_mended
        self.is_steady = False
        self.reads: list[bool] = []

    @contextmanager
    def steady(self) -> Iterator[None]:
        self.is_steady = True
        yield
        self.is_steady = False

    def read(self) -> str:
        self.reads.append(self.is_steady)
        if not (self.is_steady and self.is_mended):
            raise FileNotFoundError("gone")
        return "read"


def test_it_reads_again_with_retention_and_swaps_kept_out() -> None:
    log = Log(is_mended=True)
    assert read_steady(log, log.read) == "read"  # type: ignore[arg-type]
    assert log.reads == [False, True]


def test_a_file_that_is_missing_all_the_same_is_an_error() -> None:
    log = Log(is_mended=False)
    with pytest.raises(FileNotFoundError):
        read_steady(log, log.read)  # type: ignore[arg-type]
    assert log.reads == [False, True]


def test_what_is_there_is_read_once_and_without_a_lock() -> None:
    log = Log(is_mended=True)
    assert read_steady(log, lambda: log.is_steady) is False  # type: ignore[arg-type]


@pytest.fixture
def world() -> CleaningWorld:
    made = CleaningWorld()
    made.start(segment_bytes=300, cleanup_policy=frozenset({"compact", "delete"}), retention_bytes=1, retention_ms=-1)
    for number in range(40):
        put(made.log(), f"k{number % 4}", "x" * 20)
    made.log().roll()
    return made


class RetentionAt(Control):
    """At the n-th check, retention takes all that is closed."""

    def __init__(self, world: World, at: int) -> None:
        super().__init__(world.time)
        self.world = world
        self.at = at

    def check(self) -> None:
        super().check()
        if self.checks == self.at:
            assert self.world.log().delete_old_segments()


def test_retention_under_a_pass_ends_it_and_is_no_failure(world: CleaningWorld) -> None:
    work = world.cleaners.take_next()
    assert work is not None
    assert world.cleaners.clean(work, world.cleaner, RetentionAt(world, 2)) is None
    assert world.cleaners.uncleanable() == []
    assert world.log().log_start_offset == 39
    put(world.log(), "k", "v")
    world.log().roll()
    assert [result.end_offset for result in world.clean_all()] == [41]


@pytest.mark.damaged("a segment's file is taken away")
def test_a_file_that_somebody_else_took_is_a_failure(world: CleaningWorld) -> None:
    log = world.log()
    segment = log.segments[1]
    segment.abandon()
    world.file_system.unlink(f"{log.directory}/{segment.base_offset:020}.log")
    with pytest.raises(FileNotFoundError):
        world.cleaner.clean(CleaningTask(log, 0, log.log_end_offset), Control(world.time))


def test_the_pass_says_why_it_ended(world: CleaningWorld) -> None:
    log = world.log()
    with pytest.raises(CleaningAborted, match="t-0: segments were deleted while they were being cleaned"):
        world.cleaner.clean(CleaningTask(log, 0, log.log_end_offset), RetentionAt(world, 2))


def test_facts_of_segments_that_a_pass_swaps_meanwhile(world: CleaningWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """The console's page before "clean now" was a 500 when a pass replaced a segment between the list and its file's age."""
    log = world.log()
    stat = world.file_system.stat

    def after_a_pass(path: str) -> object:
        monkeypatch.setattr(world.file_system, "stat", stat)
        assert log.delete_old_segments()
        return stat(path)

    monkeypatch.setattr(world.file_system, "stat", after_a_pass)
    assert [view.base_offset for view in steady_views(log)] == [39, 40]
