"""Batches larger than a block: read once, block by block, without a buffer of their size."""

from __future__ import annotations

import random
import tracemalloc
from typing import Any

import pytest
from support.cleaning import Producer, append_marker
from support.logs import ROOT, World, append
from tidelog.protocol.records.record_batch import Record
from tidelog.storage.inspect import verify_segment
from tidelog.storage.scrub.examine import examine
from tidelog.storage.scrub.segment_look import SegmentLook, SegmentPlace

T = f"{ROOT}/t-0"
BLOCK = 64 << 10
LARGE = 3 << 20
pytestmark = pytest.mark.damaged("bits are flipped")


def world_with_a_large_batch() -> World:
    """A closed segment: a small batch, one of 3 MiB, a small one."""
    world = World()
    world.start(segment_bytes=1 << 30, max_message_bytes=1 << 30, index_interval_bytes=1, retention_ms=-1)
    append(world.log(), "before")
    append(world.log(), random.Random(1).randbytes(LARGE))
    append(world.log(), "behind")
    world.log().roll()
    append(world.log(), "the last one")
    return world


def look(world: World, block: int = BLOCK) -> str:
    """The suspicion, "" for none."""
    view = world.log().segments
    place = SegmentPlace(
        T, view[0].base_offset, view[0].size, view[1].base_offset, 0, world.log().leader_epochs.entries, is_settled=True
    )
    steps = SegmentLook(world.file_system, place, block).steps()
    while True:
        try:
            next(steps)
        except StopIteration as end:
            suspicion: str = end.value
            return suspicion


def test_a_large_batch_is_read_once_in_blocks() -> None:
    world = world_with_a_large_batch()
    world.fake.reads.clear()
    assert look(world) == ""
    sizes = [int(read.detail) for read in world.fake.reads if read.path.endswith(".log")]
    assert max(sizes) == BLOCK
    assert sum(sizes) == world.log().segments[0].size


def test_a_large_batch_takes_no_buffer_of_its_size() -> None:
    world = world_with_a_large_batch()
    look(world)
    tracemalloc.start()
    try:
        assert look(world) == ""
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 10 * BLOCK, "the file system of these tests copies what is read once more"


@pytest.mark.parametrize("place", [0, 100, 1_000_000, 3_000_000, LARGE - 1])
def test_a_flip_anywhere_in_a_large_batch_is_found(place: int) -> None:
    world = world_with_a_large_batch()
    path = f"{T}/{0:020d}.log"
    start = world.fake.contents()[path].index(random.Random(1).randbytes(LARGE))
    byte = world.fake.contents()[path][start + place]
    world.fake.corrupt(path, start + place, bytes([byte ^ 4]))
    assert "checksum" in look(world)


@pytest.mark.parametrize("at", [0, 7, 11, 12, 16, 17, 60])
def test_a_flip_in_the_header_of_a_large_batch_is_found(at: int) -> None:
    world = world_with_a_large_batch()
    path = f"{T}/{0:020d}.log"
    data = world.fake.contents()[path]
    start = 12 + int.from_bytes(data[8:12], "big")
    world.fake.corrupt(path, start + at, bytes([data[start + at] ^ 1]))
    assert look(world) != ""


def test_records_of_large_batches_are_not_made_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """What makes the segment suspicious is another batch."""
    world = world_with_a_large_batch()
    path = f"{T}/{0:020d}.log"
    data = world.fake.contents()[path]
    world.fake.corrupt(path, len(data) - 1, bytes([data[-1] ^ 1]))
    decoded: list[int] = []
    original = verify_segment.decode_records

    def noting(buffer: Any, start: int, end: int) -> list[Record]:
        decoded.append(end - start)
        return original(buffer, start, end)

    monkeypatch.setattr(verify_segment, "decode_records", noting)
    view = world.log().segments
    place = SegmentPlace(T, 0, view[0].size, view[1].base_offset, 0, None, is_settled=True)
    steps = examine(world.file_system, place)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            assert [finding.rule for finding in end.value] == ["batch-crc"]
            break
    assert decoded
    assert max(decoded) < LARGE


@pytest.mark.parametrize("place", [100, 1_000_000, LARGE - 1])
def test_a_damaged_large_batch_is_named_and_never_read_whole(place: int) -> None:
    world = world_with_a_large_batch()
    path = f"{T}/{0:020d}.log"
    start = world.fake.contents()[path].index(random.Random(1).randbytes(LARGE))
    byte = world.fake.contents()[path][start + place]
    world.fake.corrupt(path, start + place, bytes([byte ^ 4]))
    view = world.log().segments
    steps = examine(world.file_system, SegmentPlace(T, 0, view[0].size, view[1].base_offset, 0, None, is_settled=True))
    world.fake.reads.clear()
    counts = []
    while True:
        try:
            counts.append(next(steps))
        except StopIteration as end:
            first = 12 + int.from_bytes(world.fake.contents()[path][8:12], "big")
            assert [(finding.rule, finding.position) for finding in end.value] == [("batch-crc", first)]
            break
    assert max(int(read.detail) for read in world.fake.reads if read.path == path) <= 1 << 20
    assert max(counts) <= (1 << 20) + 1000


def test_a_large_batch_of_an_aborted_transaction_is_replayed_and_zeros_behind_the_index_are_nothing() -> None:
    world = World()
    world.start(segment_bytes=1 << 30, max_message_bytes=1 << 30, index_interval_bytes=1, retention_ms=-1)
    Producer(1).send(world.log(), (b"k", random.Random(2).randbytes(1 << 20)))
    append_marker(world.log(), 1, 0, commit=False)
    append(world.log(), "behind")
    world.log().roll()
    append(world.log(), "the last one")
    world.time.advance(1)
    assert look(world) == ""
    index = f"{T}/{0:020d}.txnindex"
    data = world.fake.contents()[index]
    assert data
    for zeros in (1, 33):  # fewer than an entry has: nothing was written there
        world.fake.put(index, data + bytes(zeros))
        assert look(world) == ""
    world.fake.corrupt(index, len(data) - 1, bytes([data[-1] ^ 1]))
    assert look(world) != ""
