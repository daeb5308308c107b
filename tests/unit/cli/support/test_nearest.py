"""Names that somebody may have meant."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tidelog.cli.support.nearest import MOST_NAMES, did_you_mean, nearest

NAMES = ["orders", "payments", "Invoices", "order-events"]


def test_a_letter_too_many_too_few_or_in_the_wrong_place_is_forgiven() -> None:
    for wrong in ("ordres", "order", "orderss", "oders", "ORDERS"):
        assert nearest(wrong, NAMES) == "orders", wrong
    assert nearest("invoice", NAMES) == "Invoices", "in the spelling that it has"
    assert did_you_mean("paymnets", NAMES) == "; did you mean payments?"


def test_what_is_like_nothing_gets_no_guess() -> None:
    assert nearest("zebra", NAMES) is None
    assert did_you_mean("zebra", NAMES) == ""
    assert nearest("orders", []) is None
    assert nearest("orders", ["orders"]) is None, "the name itself is not there for another reason"


def test_very_many_names_are_compared_as_far_as_it_is_quick() -> None:
    asked = iter(f"topic-{number}" for number in range(10 * MOST_NAMES))
    nearest("zebra", asked)
    assert next(asked) == f"topic-{MOST_NAMES}"


@given(st.sampled_from(NAMES), st.integers(0, 20), st.integers(0, 20))
def test_two_letters_swapped_are_no_stranger(name: str, first: int, second: int) -> None:
    letters = list(name)
    first, second = first % len(name), second % len(name)
    letters[first], letters[second] = letters[second], letters[first]
    typed = "".join(letters)
    assert typed == name or nearest(typed, [name]) == name or len(name) <= 6
