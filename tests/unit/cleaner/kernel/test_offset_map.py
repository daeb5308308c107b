"""The documents' arithmetic of the offset map, and maps of its sizes."""

from __future__ import annotations

import pytest
from tidelog.cleaner.kernel.offset_map import ENTRY_SIZE, make_map, memory_per_thread

KB, MB, GB = 1000, 1000**2, 1000**3
KIB, GIB = 1 << 10, 1 << 30
SECRET = bytes(range(16))


def memory_for(entries: int, load_factor: float = 1.0) -> int:
    """The least bytes in which `entries` keys fit."""
    slots = max(1, int(entries / load_factor))
    while int(slots * load_factor) < entries:
        slots += 1
    return slots * ENTRY_SIZE


def entries_in(memory: int, load_factor: float) -> int:
    """The most keys that a map with `memory` bytes takes."""
    return max(1, int(memory // ENTRY_SIZE * load_factor))


def log_bytes_for(memory: int, message_size: int, load_factor: float) -> int:
    """Bytes of log head that one pass can clean when every message has a key of its own."""
    return entries_in(memory, load_factor) * message_size


def test_an_entry_takes_exactly_24_bytes() -> None:
    assert memory_for(1) == 24
    assert 24 * 1000 // ENTRY_SIZE == 1000
    map_ = make_map(24 * 1000 + 23, 1.0)
    map_.reset(SECRET)
    assert map_.slots == 1000
    assert sum(map_.put(b"%d" % n, n) for n in range(2000)) == 1000
    assert map_.entries == 1000
    assert map_.utilization == 1.0


def test_a_gigabyte_of_1_kb_messages_is_a_million_entries_in_24_mb() -> None:
    messages = GB // KB
    assert messages == 1_000_000
    assert memory_for(messages) == 24 * MB
    assert log_bytes_for(24 * MB, KB, load_factor=1.0) == GB


def test_one_gigabyte_for_five_threads_is_200_mb_each() -> None:
    assert memory_per_thread(GB, 5) == 200 * MB


def test_8_gb_of_buffer_clean_about_366_gb_of_1_kb_messages() -> None:
    """The document's figure counts binary gigabytes and messages of 1,024 bytes, and every slot."""
    assert log_bytes_for(8 * GIB, KIB, load_factor=1.0) * 3 // GIB == 1023  # 341.3 GiB …
    assert log_bytes_for(8 * GIB, KIB, load_factor=1.0) // GB == 366  # … which are 366 GB


def test_the_load_factor_bounds_the_entries() -> None:
    assert entries_in(24 * 1000, 0.9) == 900
    map_ = make_map(24 * 1000, 0.9)
    map_.reset(SECRET)
    assert map_.capacity == 900
    assert [map_.put(b"%d" % n, n) for n in range(901)] == [True] * 900 + [False]
    assert map_.put(b"7", 5000), "a key that is there needs no room"
    assert memory_for(900, 0.9) == 24 * 1000


@pytest.mark.parametrize("load_factor", [0.01, 0.5, 0.75, 0.9, 1.0])
@pytest.mark.parametrize("entries", [1, 2, 9, 1000, 12_345_678_901])
def test_the_memory_for_some_entries_is_the_least_that_holds_them(entries: int, load_factor: float) -> None:
    memory = memory_for(entries, load_factor)
    assert entries_in(memory, load_factor) >= entries
    assert memory == 24 or int((memory - 24) // ENTRY_SIZE * load_factor) < entries


def test_the_smallest_map_takes_one_key_and_makes_progress() -> None:
    map_ = make_map(24, 0.9)
    map_.reset(SECRET)
    assert map_.put(b"only", 1)
    assert not map_.put(b"other", 2)
    assert map_.put(b"only", 3)
    assert (map_.get(b"only"), map_.get(b"other")) == (3, -1)
    assert memory_per_thread(24, 5) == 24


def test_more_than_2_gb_a_thread_is_one_map_of_which_only_what_is_used_is_touched() -> None:
    memory = 5 * GIB
    map_ = make_map(memory, 0.9)
    map_.reset(SECRET)
    assert map_.slots == memory // 24 > 2**31 // 24
    assert map_.capacity == int(memory // 24 * 0.9)
    keys = [b"key %d" % n for n in range(40)]  # spread over all of it: some lie beyond 2 and 4 GiB
    assert all(map_.put(key, 2**40 + n) for n, key in enumerate(keys))
    assert [map_.get(key) for key in keys] == [2**40 + n for n in range(40)]
    map_.release()


def test_repeated_keys_reuse_their_entry_and_keep_the_largest_offset() -> None:
    map_ = make_map(24 * 100)
    map_.reset(SECRET)
    for offset in (5, 9, 7):
        assert map_.put(b"k", offset)
    assert (map_.get(b"k"), map_.entries, map_.utilization) == (9, 1, 1 / 100)


def test_a_pass_that_expects_few_keys_touches_little_and_still_counts_against_all_slots() -> None:
    map_ = make_map(24 * 10_000)
    map_.reset(SECRET, expected=100)
    assert all(map_.put(b"%d" % n, n) for n in range(100))
    assert map_.utilization == 100 / 10_000
    map_.reset(SECRET)
    assert (map_.entries, map_.get(b"5"), map_.latest_offset) == (0, -1, -1)


def test_a_new_secret_makes_another_table_of_the_same_keys() -> None:
    map_ = make_map(24 * 100)
    map_.reset(SECRET)
    map_.put(b"k", 1)
    map_.reset(bytes(16))
    assert map_.get(b"k") == -1


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="hold no entry"):
        make_map(23)
    with pytest.raises(ValueError, match="load factor"):
        make_map(24, 0.0)
    with pytest.raises(ValueError, match="load factor"):
        make_map(24, 1.1)
    with pytest.raises(ValueError, match="secret"):
        make_map(24).reset(b"short")
    with pytest.raises(ValueError, match="threads"):
        memory_per_thread(100, 0)


def test_a_map_that_was_not_reset_takes_nothing() -> None:
    assert not make_map(2400).put(b"k", 1)
