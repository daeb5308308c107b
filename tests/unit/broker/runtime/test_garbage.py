"""What is kept is not looked at again; what is not is collected as ever."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from tidelog.broker.runtime import garbage
from tidelog.broker.runtime.garbage import MANY_LOGS, freeze_if_many, gc_paused, malloc_trim


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    yield
    gc.unfreeze()
    assert gc.isenabled()


def test_few_logs_freeze_nothing() -> None:
    frozen = gc.get_freeze_count()
    freeze_if_many(MANY_LOGS - 1)
    assert gc.get_freeze_count() == frozen
    freeze_if_many(MANY_LOGS)
    assert gc.get_freeze_count() > frozen


def test_a_load_is_not_disturbed_and_the_collector_comes_back() -> None:
    kept: list[object] = []
    with gc_paused(lambda: MANY_LOGS):
        assert not gc.isenabled()
        kept.append([[] for _ in range(1000)])
    assert gc.isenabled()
    assert gc.get_freeze_count() > 1000
    with pytest.raises(OSError, match="disk"), gc_paused(lambda: 0):
        raise OSError("disk")
    assert gc.isenabled()


def test_who_had_switched_it_off_finds_it_so() -> None:
    gc.disable()
    try:
        with gc_paused(lambda: 0):
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_free_memory_goes_back_to_the_system() -> None:
    held = [bytearray(100_000) for _ in range(300)]
    keep = held[-1]  # at the end of the heap: without help nothing before it would go
    del held
    malloc_trim()
    assert len(keep) == 100_000


def test_full_collections_are_held_off_and_come_all_the_same() -> None:
    before = gc.get_threshold()
    garbage.pause_full_gc()
    garbage.pause_full_gc()
    assert gc.get_threshold()[:2] == before[:2]
    assert gc.get_threshold()[2] > 1_000_000
    garbage.resume_full_gc()
    assert gc.get_threshold()[2] > 1_000_000
    garbage.resume_full_gc()
    assert gc.get_threshold() == before
    full: list[int] = []

    def note(phase: str, facts: dict[str, int]) -> None:
        if phase == "start" and facts["generation"] == 2:
            full.append(1)

    gc.callbacks.append(note)
    try:
        for _ in range(100):
            garbage.pause_full_gc()
            garbage.resume_full_gc()
    finally:
        gc.callbacks.remove(note)
    assert full
