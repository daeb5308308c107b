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


def test_full_collections_are_called_for_after_many_pauses_and_seconds_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[int] = []
    monkeypatch.setattr(gc, "collect", lambda: called.append(1))
    seconds = 1e9

    def collections_in(pauses: int) -> int:
        called.clear()
        for _ in range(pauses):
            garbage.pause_full_gc()
            garbage.resume_full_gc(lambda: seconds)
        return len(called)

    assert collections_in(1000) == 1, "others may have paused before"
    seconds += 9.0
    assert collections_in(1000) == 0, "with thousands of connections each is felt"
    seconds += 1.0
    assert collections_in(1000) == 1
    assert collections_in(50) == 0
    monkeypatch.setattr(garbage, "_called_for", float("-inf"))  # whatever clock others have gone by
