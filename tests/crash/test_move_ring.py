"""A log goes to another data directory, and the power goes at every step; see support/crash_ring.py."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from support.crash_ring import NO_LIMIT, Ring
from support.fake_filesystem import FakeFileSystem
from support.logs import ROOT, World
from tidelog.storage.inspect.verify import verify
from tidelog.storage.io.checkpoint import REPLICATION_OFFSET_CHECKPOINT
from tidelog.storage.manager.move import LogMove

pytestmark = pytest.mark.damaged("the ring judges each state itself")

DIRECTORIES = (f"{ROOT}/one", f"{ROOT}/two")


class MoveRing(Ring):
    """Two data directories on one machine. The log is in exactly one of them, whole, whatever happens between two calls."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._verify = _faults

    def _new_world(self, state: FakeFileSystem | None = None) -> World:
        return World(state, directories=DIRECTORIES)

    def begin(self) -> LogMove:
        """A move to the other directory, its first round done."""
        present = self.log().directory.rpartition("/")[0]
        (other,) = set(DIRECTORIES) - {present}
        move = self.world.manager.new_move("t", 0, other)
        assert move is not None
        move.begin()
        move.copy(lambda _bytes: None)
        return move

    def commit(self, move: LogMove) -> None:
        move.commit()
        self.world.manager.end_move(move)
        assert self.log().directory == f"{move.target.directory.path}/t-0"


def _faults(system: FakeFileSystem) -> list[str]:
    return [
        str(finding)
        for directory in DIRECTORIES
        for finding in verify(system, directory)
        if finding.is_fault and not finding.path.endswith("/" + REPLICATION_OFFSET_CHECKPOINT)
    ]


@pytest.fixture
def new_ring(ring_of: Callable[..., Ring]) -> Callable[..., MoveRing]:
    return partial(ring_of, MoveRing)


@pytest.mark.parametrize("flush_messages", [1, NO_LIMIT])
def test_a_log_that_is_written_to(new_ring: Callable[..., MoveRing], flush_messages: int) -> None:
    ring = new_ring(segment_bytes=900, flush_messages=flush_messages)
    ring.look_away()
    for _ in range(2):
        ring.append(350, producer=1)
        ring.append(350)
    ring.background()
    ring.flush()
    ring.checkpoint()
    move = ring.begin()
    ring.append(300, producer=1)
    ring.append(600)  # rolls
    ring.background()
    move.copy(lambda _bytes: None)
    ring.watch()
    ring.append(100, producer=1)
    ring.commit(move)
    ring.append(100, producer=1)
    ring.background(seconds=70)  # what was left behind goes
    ring.stop()


def test_what_was_deleted_meanwhile_stays_deleted(new_ring: Callable[..., MoveRing]) -> None:
    ring = new_ring(segment_bytes=700)
    ring.look_away()
    for _ in range(5):
        ring.append(300)
    ring.background()
    ring.flush()
    ring.checkpoint()
    move = ring.begin()
    ring.watch()
    ring.delete_records(3)
    ring.checkpoint()
    ring.book("t").start = 3
    ring.retention()
    move.copy(lambda _bytes: None)
    ring.commit(move)
    ring.background(seconds=70)


def test_a_move_that_is_cancelled_leaves_the_log_where_it_was(new_ring: Callable[..., MoveRing]) -> None:
    ring = new_ring(segment_bytes=700)
    ring.look_away()
    for _ in range(3):
        ring.append(300)
    ring.flush()
    move = ring.begin()
    ring.watch()
    assert move.cancel()
    ring.world.manager.end_move(move)
    ring.append(300)
    ring.flush()
    assert not [path for path in ring.world.fake.paths() if "/two/t-0" in path]


def test_a_topic_that_is_deleted_on_its_way_is_gone(new_ring: Callable[..., MoveRing]) -> None:
    ring = new_ring(segment_bytes=700)
    ring.look_away()
    for _ in range(3):
        ring.append(300)
    ring.flush()
    move = ring.begin()
    ring.watch()
    ring.book("t").may_be_gone = True
    ring.world.manager.delete("t", 0)
    ring.book("t").gone = True
    ring.world.manager.end_move(move)
    ring.background(seconds=70)
