"""The indexes against a list that is searched from end to end."""

from __future__ import annotations

from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st
from support.fake_filesystem import FakeFileSystem
from tidelog.storage.exceptions import CorruptIndexError
from tidelog.storage.index.offset_index import OffsetIndex
from tidelog.storage.index.time_index import TimeIndex

BASE = 1000

gaps = st.lists(st.tuples(st.integers(1, 50), st.integers(1, 5000)), max_size=60)


def rising(start: tuple[int, int], steps: list[tuple[int, int]]) -> list[tuple[int, int]]:
    first, second = start
    out = []
    for more_first, more_second in steps:
        first, second = first + more_first, second + more_second
        out.append((first, second))
    return out


@settings(max_examples=150, deadline=None)
@given(
    gaps, st.lists(st.integers(BASE - 5, BASE + 3100), max_size=20), st.integers(BASE - 5, BASE + 3100), st.booleans()
)
def test_offset_index(steps: list[tuple[int, int]], targets: list[int], cut: int, reopen: bool) -> None:
    system = FakeFileSystem()
    index = OffsetIndex(system, "/i", BASE, 1024).open()
    entries = rising((BASE - 1, 0), steps)
    for entry in entries:
        index.append(*entry)
    if reopen:
        index.seal()
        index = OffsetIndex(system, "/i", BASE, 1024)
        index.unseal()
    index.verify(10**9)

    def check(model: list[tuple[int, int]]) -> None:
        assert list(index) == model
        assert index.entries == len(model)
        assert index.last_offset == (model[-1][0] if model else BASE)
        for target in targets:
            below = [entry for entry in model if entry[0] <= target]
            assert index.lookup(target) == (below[-1] if below else (BASE, 0))

    check(entries)
    index.truncate_to(cut)
    kept = [entry for entry in entries if entry[0] < cut]
    check(kept)
    index.append(BASE + 5000, 10**6)
    check([*kept, (BASE + 5000, 10**6)])
    index.close()


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 30)), max_size=60),
    st.lists(st.integers(-2, 3000), max_size=20),
    st.integers(BASE - 5, BASE + 2000),
)
def test_time_index(steps: list[tuple[int, int]], targets: list[int], cut: int) -> None:
    index = TimeIndex(FakeFileSystem(), "/i", BASE, 2400).open()
    model: list[tuple[int, int]] = []
    for timestamp, offset in rising((0, BASE), steps):
        index.maybe_append(timestamp, offset)
        if timestamp > (model[-1][0] if model else -1):
            model.append((timestamp, offset))

    def check() -> None:
        assert [(entry.timestamp, entry.offset) for entry in index] == model
        for target in targets:
            below = [entry for entry in model if entry[0] <= target]
            found = index.lookup(target)
            assert (found.timestamp, found.offset) == (below[-1] if below else (-1, BASE))

    check()
    index.verify()
    index.truncate_to(cut)
    model = [entry for entry in model if entry[1] < cut]
    check()
    index.close()


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=120), st.integers(0, 2**62), st.integers(-5, 2**62))
def test_garbage_is_found_or_harmless(data: bytes, base: int, target: int) -> None:
    """Whatever the bytes, opening, looking up and iterating end without a crash; a reset makes an index of them."""
    for kind in (OffsetIndex, TimeIndex):
        system = FakeFileSystem()
        system.put("/i", data)
        index = kind(system, "/i", base, 1200)
        with suppress(CorruptIndexError):
            index.sanity_check()
        index.lookup(target)
        list(index)
        index.reset()
        index.sanity_check()
        assert index.entries == 0
        index.close()
