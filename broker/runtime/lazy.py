"""Lazy: a part that is made when it is first asked for, and whose code is imported then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Lazy(Generic[T]):
    """Makes one `T`. One thread at a time, unless it says more.

    Attributes:
        if_made: the part, or None while nobody has asked for it. Any thread.
    """

    __slots__ = ("_make", "if_made")

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self.if_made: T | None = None

    def get(self) -> T:
        """The part, made by the first call. Raises what making it raises; the next call tries again."""
        made = self.if_made
        if made is None:
            made = self.if_made = self._make()
        return made
