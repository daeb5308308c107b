"""Power cuts while the cleaner cleans, and after it; see support/cleaning_ring.py and test_ring.py."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from support.cleaning import DAY_MS, Producer
from support.cleaning_ring import CleaningRing

pytestmark = pytest.mark.damaged("the ring judges each state itself")

NewRing = Callable[..., CleaningRing]


@pytest.fixture
def new_ring(ring_of: Callable[..., CleaningRing]) -> NewRing:
    return partial(ring_of, CleaningRing)


def fill(ring: CleaningRing) -> tuple[Producer, Producer]:
    """Keys a to e: superseded, deleted, in an aborted and in a committed transaction; several segments of 500 bytes."""
    idempotent, transactional = Producer(1, is_transactional=False), Producer(2)
    ring.put(("a", "a0"), ("b", "b1"), ("c", "c2"))
    ring.send(transactional, ("a", "a3 aborted"), ("d", "d4 aborted"))
    ring.send(idempotent, ("b", "b5"))
    ring.end(transactional, commit=False)
    ring.put(("c", None), ("e", "e8"))
    ring.put(("e", "e9"), ("a", "a10"))
    ring.send(transactional, ("d", "d11"), ("b", "b12"))
    ring.send(idempotent, ("e", None))
    ring.end(transactional, commit=True)
    ring.put(("d", "d15"), ("f", "f16"))
    ring.send(transactional, ("a", "a17 aborted"))
    ring.end(transactional, commit=False)
    return idempotent, transactional


def close(ring: CleaningRing, value: str) -> None:
    """What is there goes to closed segments."""
    ring.log().roll()
    ring.put(("active", value))


@pytest.mark.parametrize("synced", [True, False])
def test_first_pass(new_ring: NewRing, synced: bool) -> None:
    """Unsynced, unchecked segments too: the swap must move the recovery point first. Nothing deleted goes yet."""
    ring = new_ring(segment_bytes=300)
    fill(ring)
    close(ring, "19")
    if synced:
        ring.background()
        ring.checkpoint()
    ring.change(segment_bytes=600)
    before = len(ring.log().segments)
    ring.watch()
    assert ring.clean() == 1
    assert before - len(ring.log().segments) >= 2
    assert {7, 13} <= {record.offset for record in ring.left()}, "tombstones"
    ring.background()
    ring.put(("a", "a20"))
    ring.flush()


def test_pass_past_the_horizon(new_ring: NewRing) -> None:
    """Tombstones and markers go, and a dirty part supersedes what was clean."""
    ring = new_ring(segment_bytes=300, delete_retention_ms=DAY_MS)
    idempotent, transactional = fill(ring)
    close(ring, "19")
    ring.clean()
    ring.send(transactional, ("f", "f20"), ("a", None))
    ring.end(transactional, commit=True)
    ring.send(idempotent, ("b", "b23"))
    close(ring, "24")
    ring.background(seconds=DAY_MS / 1000 + 1)
    ring.checkpoint()
    ring.watch()
    due = {7, 13}
    ring.book("t").cleaned |= ring.history.markers(19)
    ring.clean(due=due)
    assert 21 in {record.offset for record in ring.left()}, "a younger tombstone"
    ring.background()
    ring.put(("c", "c25"))
    ring.flush()


def test_passes_that_end_in_mid_segment(new_ring: NewRing) -> None:
    """A map of two keys: the checkpoint moves within a segment, pass by pass, with the transactions' state."""
    ring = new_ring(segment_bytes=2000, map_entries=2)
    transactional = Producer(2)
    ring.put(("a", "a0"), ("b", "b1"))
    ring.send(transactional, ("a", "a2 aborted"), ("b", "b3"))
    ring.put(("c", "c4"))
    ring.end(transactional, commit=False)
    ring.put(("a", "a6"), ("b", None))
    close(ring, "8")
    ring.background()
    ring.watch()
    assert ring.clean() >= 2


def test_start_after_a_pass_and_the_next_one(new_ring: NewRing) -> None:
    """A clean stop, a kill, each with a pass before it: horizons and checkpoint come from the files."""
    ring = new_ring(segment_bytes=400)
    idempotent, _ = fill(ring)
    close(ring, "19")
    ring.clean()
    ring.stop()
    ring.start()
    ring.send(idempotent, ("f", "f20"))
    close(ring, "21")
    ring.watch()
    ring.clean()
    ring.kill()
    ring.start()


BOTH = frozenset({"compact", "delete"})


def test_deletion_of_what_was_cleaned(new_ring: NewRing) -> None:
    """DeleteRecords, then retention, take whole segments: the ledger tells the one from the other, and reads neither."""
    ring = new_ring(segment_bytes=300, cleanup_policy=BOTH, retention_ms=-1)
    fill(ring)
    close(ring, "19")
    ring.clean()
    bases = [segment.base_offset for segment in ring.log().segments]
    assert len(bases) >= 5
    ring.background()
    ring.checkpoint()
    ring.watch()
    for base in bases[1:3]:  # the first one's names may still come back when the second one's cause is written
        ring.delete_records(base)
        ring.delete("delete-records", base)
    ring.change(retention_bytes=sum(segment.size for segment in ring.log().segments[1:]))
    ring.delete("retention", bases[3])
    ring.background()
    ring.put(("c", "c20"))
    ring.flush()


def test_deletion_after_half_a_pass(new_ring: NewRing) -> None:
    """The last group that the pass has put in place is not confirmed on disk yet, and goes."""
    ring = new_ring(segment_bytes=300, cleanup_policy=BOTH, retention_ms=-1)
    fill(ring)
    close(ring, "19")
    ring.background()
    ring.checkpoint()
    ring.watch()
    ring.clean_in_part(checks=9)
    before = ring.log().ledger.value
    assert before is not None
    assert before.removed
    bases = [segment.base_offset for segment in ring.log().segments]
    ring.change(retention_bytes=sum(segment.size for segment in ring.log().segments[2:]))
    ring.delete("retention", bases[2])
    ring.put(("c", "c20"))
    ring.flush()
