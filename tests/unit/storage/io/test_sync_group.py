"""Syncs of many files: several at a time, all of them, and the first failure ends it."""

from __future__ import annotations

import threading

import pytest
from tidelog.storage.io.sync_group import FEW, sync_group

AT_ONCE = 4
TIMEOUT_S = 30


def test_many_are_synced_several_at_a_time_each_once_and_all_before_it_returns() -> None:
    lock, synced, told = threading.Lock(), list[int](), list[int]()
    running = most = 0
    together = threading.Barrier(AT_ONCE)

    def sync(item: int) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        together.wait(TIMEOUT_S)  # fewer threads would wait for ever
        with lock:
            running -= 1
            synced.append(item)

    sync_group(range(10 * AT_ONCE), sync, AT_ONCE, told.append)
    assert sorted(synced) == list(range(10 * AT_ONCE))
    assert told == list(range(1, 10 * AT_ONCE + 1))
    assert most == AT_ONCE


@pytest.mark.parametrize("count", [0, 1, FEW - 1])
def test_few_are_synced_by_the_caller(count: int) -> None:
    seen, told = list[tuple[int, int]](), list[int]()
    sync_group(range(count), lambda item: seen.append((item, threading.get_ident())), AT_ONCE, told.append)
    assert seen == [(item, threading.get_ident()) for item in range(count)]
    assert told == list(range(1, count + 1))


@pytest.mark.parametrize("given", [0, 2])
def test_where_there_are_no_more_threads_fewer_sync_all(given: int, monkeypatch: pytest.MonkeyPatch) -> None:
    start, left = threading.Thread.start, [given]

    def refused(thread: threading.Thread) -> None:
        if not left[0]:
            raise RuntimeError("can't start new thread")
        left[0] -= 1
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refused)
    lock, synced = threading.Lock(), list[int]()

    def sync(item: int) -> None:
        with lock:
            synced.append(item)

    sync_group(range(100), sync, AT_ONCE)
    assert sorted(synced) == list(range(100))


@pytest.mark.parametrize("at_once", [1, AT_ONCE])
def test_after_a_failure_no_further_one_begins_and_those_under_way_end(at_once: int) -> None:
    lock, begun, ended = threading.Lock(), list[int](), list[int]()

    def sync(item: int) -> None:
        with lock:
            begun.append(item)
        if item == 20:
            raise OSError("rot")
        with lock:
            ended.append(item)

    with pytest.raises(OSError, match="rot"):
        sync_group(range(100_000), sync, at_once)
    assert set(ended) == set(begun) - {20}
    assert set(range(20)) <= set(ended)
    assert len(begun) < 100_000
