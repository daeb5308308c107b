"""Shares of what a test goes through: `make test` takes a fifth, all others take all (tests/conftest.py has the profiles)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

SLICES = 5


def is_slice() -> bool:
    """True in a run of `make test`."""
    return os.environ.get("HYPOTHESIS_PROFILE") == "slice"


def slice_of(values: Sequence[T], start: int = 0) -> Sequence[T]:
    """Every fifth from the `start`th on, in a slice. A test that has it is marked `sliced`, so that `make check` finds it."""
    return values[start % SLICES :: SLICES] if is_slice() else values
