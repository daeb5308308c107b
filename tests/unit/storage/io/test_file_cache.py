from __future__ import annotations

import threading

import pytest
from tidelog.storage.exceptions import FileClosedError
from tidelog.storage.io.file_cache import FileCache


class Entry:
    def __init__(self) -> None:
        self.leases = 1

    @property
    def closed(self) -> bool:
        return self.leases == 0

    def retain(self) -> Entry:
        if not self.leases:
            raise FileClosedError("closed")
        self.leases += 1
        return self

    def release(self) -> None:
        assert self.leases > 0
        self.leases -= 1


def test_an_entry_is_opened_once_and_closed_when_it_falls_out() -> None:
    cache: FileCache[Entry] = FileCache(2)
    opened: list[Entry] = []

    def opener() -> Entry:
        opened.append(Entry())
        return opened[-1]

    for key in "aab":
        cache.acquire(key, opener).release()
    assert len(opened) == 2
    cache.acquire("a", opener).release()  # b is the oldest now
    cache.acquire("c", opener).release()
    assert [entry.closed for entry in opened] == [False, True, False]
    assert len(cache) == 2
    cache.close()
    assert all(entry.closed for entry in opened)


def test_a_lease_outlives_eviction_and_discard() -> None:
    cache: FileCache[Entry] = FileCache(1)
    first = cache.acquire("a", Entry)
    second = cache.acquire("b", Entry)
    cache.discard("b")
    assert not first.closed
    assert not second.closed
    first.release()
    second.release()
    assert first.closed
    assert second.closed


def test_what_is_opened_behind_the_close_goes_with_its_lease() -> None:
    """Found by the simulator (seed 55): a coordinator that was still loading in a stop left its log open."""
    cache: FileCache[Entry] = FileCache(2)
    kept = cache.acquire("a", Entry)
    cache.close()
    late = cache.acquire("b", Entry)
    assert not late.closed
    assert not kept.closed
    assert len(cache) == 0
    late.release()
    kept.release()
    assert late.closed
    assert kept.closed


def test_peek_opens_nothing() -> None:
    cache: FileCache[Entry] = FileCache(1)
    assert cache.peek("a") is None
    entry = cache.acquire("a", Entry)
    again = cache.peek("a")
    assert again is entry
    assert entry.leases == 3


def test_put_replaces_and_takes_the_lease_over() -> None:
    cache: FileCache[Entry] = FileCache(2)
    old = cache.acquire("a", Entry)
    old.release()
    new = Entry()
    cache.put("a", new)
    assert old.closed
    assert cache.acquire("a", Entry) is new


def test_an_entry_that_was_closed_elsewhere_is_opened_again() -> None:
    cache: FileCache[Entry] = FileCache(2)
    entry = cache.acquire("a", Entry)
    entry.release()
    entry.release()  # behind the cache's back
    assert cache.acquire("a", Entry) is not entry


def test_a_failing_opener_leaves_nothing_behind() -> None:
    cache: FileCache[Entry] = FileCache(2)

    def broken() -> Entry:
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        cache.acquire("a", broken)
    assert len(cache) == 0


def test_no_room_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        FileCache(0)


def test_threads_share_entries_and_give_all_leases_back() -> None:
    cache: FileCache[Entry] = FileCache(3)
    entries: list[Entry] = []
    lock = threading.Lock()

    def opener() -> Entry:
        entry = Entry()
        with lock:
            entries.append(entry)
        return entry

    class Locked(Entry):
        pass

    def work(seed: int) -> None:
        for step in range(300):
            cache.acquire((seed * 7 + step * step) % 5, opener)

    # Entry's count is not safe between threads, so each lease is only taken here and counted at the end.
    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(cache) == 3
    cache.close()
    assert len(cache) == 0
