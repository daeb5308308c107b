"""A part that is made when it is first asked for: made once, by whoever asks first."""

from __future__ import annotations

import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.patience import PATIENCE_S
from tidelog.broker.runtime.lazy import Lazy


class Part:
    """Anything."""


def test_threads_that_ask_at_once_get_the_same_part() -> None:
    """Two of them would drift apart: a password changed in one would still open the other."""
    asked, go_on = threading.Event(), threading.Event()
    made: list[Part] = []

    def make() -> Part:
        asked.set()
        assert go_on.wait(PATIENCE_S)
        made.append(Part())
        return made[-1]

    lazy = Lazy(make)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(lazy.get)
        assert asked.wait(PATIENCE_S)
        asked.clear()
        second = pool.submit(lazy.get)
        asked.wait(0.05)  # one that makes a part of its own says so
        go_on.set()
        parts = {first.result(PATIENCE_S), second.result(PATIENCE_S), lazy.get(), lazy.if_made}
    assert parts == set(made)
    assert len(made) == 1


def test_what_could_not_be_made_is_tried_again() -> None:
    tries: list[int] = []

    def make() -> Part:
        tries.append(1)
        if len(tries) == 1:
            raise OSError("the disk is full")
        return Part()

    lazy = Lazy(make)
    with pytest.raises(OSError, match="full"):
        lazy.get()
    assert lazy.if_made is None
    part = lazy.get()
    assert lazy.get() is part
    assert len(tries) == 2


def test_what_a_part_was_made_of_is_not_kept() -> None:
    """Credentials as they were at the start, of users who are gone since."""
    source = Part()
    seen = weakref.ref(source)

    def make(source: Part = source) -> Part:
        return Part()

    lazy = Lazy(make)
    lazy.get()
    del source, make
    gc.collect()
    assert seen() is None
