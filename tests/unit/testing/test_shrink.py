"""The shrinker: what it returns fails, is a part of what it was given, and nothing of it can be left out."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tidelog.testing.shrink import shrink

#: Causes: the list fails when it has all numbers of one of these sets.
CAUSES = st.lists(st.sets(st.integers(0, 12), min_size=1, max_size=4), min_size=1, max_size=3)


def is_part(part: Sequence[object], whole: Sequence[object]) -> bool:
    rest = iter(whole)
    return all(any(item == other for other in rest) for item in part)


@given(CAUSES, st.permutations(list(range(13))))
def test_the_result_fails_and_is_minimal(causes: list[set[int]], items: list[int]) -> None:
    def fails(part: Sequence[int]) -> bool:
        return any(cause <= set(part) for cause in causes)

    found = shrink(items, fails, most_tries=10_000)
    assert fails(found.items)
    assert is_part(found.items, items)
    assert found.is_minimal
    for rest in combinations(found.items, len(found.items) - 1):
        assert not fails(rest)


@given(CAUSES, st.permutations(list(range(13))), st.integers(0, 12))
def test_bounds_are_kept_and_what_is_returned_fails_all_the_same(
    causes: list[set[int]], items: list[int], most: int
) -> None:
    asked: list[tuple[int, ...]] = []

    def fails(part: Sequence[int]) -> bool:
        asked.append(tuple(part))
        return any(cause <= set(part) for cause in causes)

    found = shrink(items, fails, most_tries=most)
    assert found.tries == len(asked) <= most
    assert len(set(asked)) == len(asked), "no list is tried twice"
    assert tuple(items) not in asked, "the whole list is known to fail"
    assert any(cause <= set(found.items) for cause in causes)
    late = shrink(items, fails, has_time=lambda: False)
    assert (late.items, late.tries, late.is_minimal) == (tuple(items), 0, False)


def test_a_list_that_is_not_to_blame_shrinks_to_nothing() -> None:
    assert shrink(["a", "b"], lambda _: True).items == ()
    assert shrink([], lambda _: True).items == ()


def test_equal_items_are_told_apart() -> None:
    found = shrink(["lost"] * 9, lambda part: len(part) >= 3)
    assert found.items == ("lost",) * 3
    assert found.is_minimal


def test_items_are_made_simpler_one_after_the_other() -> None:
    found = shrink(
        [40, 3, 17],
        lambda part: sum(part) >= 20,
        simpler=lambda number: (number // 2, number - 1) if number else (),
    )
    assert found.items == (20,)


def test_an_error_of_the_experiment_is_not_taken_for_a_result() -> None:
    def fails(part: Sequence[int]) -> bool:
        raise OSError("no more processes")

    with pytest.raises(OSError, match="no more processes"):
        shrink([1, 2], fails)
