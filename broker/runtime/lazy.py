"""Lazy: a part that is made when it is first asked for, and whose code is imported then."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Lazy(Generic[T]):
    """Makes one `T`. Any thread: while one makes it, others that ask for it wait.

    Attributes:
        if_made: the part, or None while nobody has asked for it. Any thread.
    """

    __slots__ = ("_lock", "_make", "if_made")

    def __init__(self, make: Callable[[], T]) -> None:
        """`make` is let go of, and what it holds, when it has made the part."""
        self._make: Callable[[], T] | None = make
        self._lock = threading.Lock()
        self.if_made: T | None = None

    def get(self) -> T:
        """The part, made by the first call. Raises what making it raises; the next call tries again."""
        made = self.if_made
        return self._made() if made is None else made

    def _made(self) -> T:
        with self._lock:
            made = self.if_made
            if made is None:
                assert self._make is not None
                made = self.if_made = self._make()
                self._make = None
            return made
