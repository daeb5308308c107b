"""Descriptors that connections may take: few at first without counting, then counted."""

from __future__ import annotations

import resource

from tidelog.broker.network.descriptor_limit import Descriptors, open_limit, raise_limit
from tidelog.storage.io.platform import open_descriptors


def test_an_eighth_is_kept_and_counting_is_rare() -> None:
    counts = []
    used = 100

    def count() -> int:
        counts.append(used)
        return used

    descriptors = Descriptors(8000, count)
    assert descriptors.most == 7000
    connections = 0
    while descriptors.has_room(connections):
        connections += 1
        used += 1
    assert used == 7000
    assert len(counts) < 400, "not for each connection, except near the limit"
    used -= 500  # closed
    assert descriptors.has_room(connections - 500)


def test_answers_take_descriptors_too_and_are_found() -> None:
    descriptors = Descriptors(800, lambda: 699)
    assert descriptors.has_room(400)
    descriptors = Descriptors(800, lambda: 700)
    assert not descriptors.has_room(400)


def test_without_a_limit_nothing_is_counted() -> None:
    assert Descriptors(-1, lambda: 10**9).has_room(10**6)


def test_the_soft_limit_becomes_the_hard_one() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 512), hard))
        raise_limit()
        assert open_limit() == hard
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert open_descriptors() > 2
