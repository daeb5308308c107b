"""Where damage begins and ends, and which of two batches is wrong."""

from __future__ import annotations

import random
import time

import pytest
from support.fake_filesystem import FakeFileSystem
from support.logs import batch
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.legacy_record import append_legacy_record
from tidelog.protocol.records.record_batch import Record
from tidelog.storage.index.offset_index import OffsetPosition
from tidelog.storage.segment import damage as module
from tidelog.storage.segment.damage import SearchGivenUpError, find_damage, leader_epochs, tail_of

PATH = "/log"


def at(offset: int, count: int = 1, *, value: bytes = b"v", epoch: int = 0) -> bytearray:
    data = batch(*[value] * count)
    data[:8] = offset.to_bytes(8, "big", signed=True)
    data[12:16] = epoch.to_bytes(4, "big", signed=True)
    return data


def found(
    *parts: bytes | bytearray, limit: int | None = 1000, dense: bool = True, hints: list[OffsetPosition] | None = None
) -> list[tuple[int, int, int, int]]:
    """(position, end, first offset, next offset) of each stretch."""
    system = FakeFileSystem()
    data = b"".join(parts)
    system.put(PATH, data)
    stretches = find_damage(
        system.open(PATH), len(data), 0, limit, must_follow=lambda _expected, _base, _last: dense, hints=hints or []
    )
    return [stretch[:4] for stretch in stretches]


SIZE = len(at(0))


def test_what_is_sound_has_no_damage() -> None:
    assert found() == []
    assert found(at(0), at(1), at(2, 5), at(7)) == []
    assert found(at(0), at(20), at(30)) == [], "compaction leaves gaps"


@pytest.mark.parametrize("bit", range(62))
def test_of_two_batches_that_contradict_each_other_the_moved_one_is_wrong(bit: int) -> None:
    for victim in range(5):
        batches = [at(offset) for offset in (0, 1, 2, 3, 4)]
        batches[victim] = at(victim ^ 1 << bit)
        assert found(*batches, limit=5) == [
            (victim * SIZE, victim * SIZE + SIZE, victim, -1 if victim == 4 else victim + 1)
        ]


def test_a_step_forward_that_others_agree_with_is_a_gap_and_the_one_that_falls_back_is_wrong() -> None:
    # 600 ^ 512 = 88: it fell below the batch before it, which had stepped over a gap.
    assert found(at(0), at(500), at(88), at(601)) == [(2 * SIZE, 3 * SIZE, 501, 601)]


def test_where_neither_can_be_told_to_be_right_both_are_put_aside() -> None:
    assert found(at(0), at(500), at(499), at(601)) == [(SIZE, 3 * SIZE, 1, 601)]


def test_nothing_follows_the_last_batch_so_it_is_asked_about() -> None:
    assert found(at(0), at(1 << 45), limit=None) == [(SIZE, 2 * SIZE, 1, -1)]
    assert found(at(0), at(1 << 45), limit=None, dense=False) == []
    assert found(at(0), at(1 << 45), at((1 << 45) + 1), limit=None) == []


@pytest.mark.parametrize("bit", range(32))
def test_a_length_that_lost_a_bit_hides_nothing_behind_it(bit: int) -> None:
    broken = at(1, value=b"x" * 300)
    length = int.from_bytes(broken[8:12], "big") ^ 1 << bit
    broken[8:12] = length.to_bytes(4, "big")
    stretches = found(at(0), broken, at(2), at(3))
    assert stretches == [(SIZE, SIZE + len(broken), 1, 2)]


def test_a_batch_within_a_damaged_batch_is_not_taken_for_the_next_one() -> None:
    """Whoever stores batches in records must not have them read as the log's own."""
    inner = bytes(at(2)) + bytes(at(3))
    broken = at(1, value=b"<" + inner + b">")
    broken[17:21] = b"\xff" * 4
    assert found(at(0), broken, at(2)) == [(SIZE, SIZE + len(broken), 1, 2)]
    broken[8:12] = b"\x00\x00\x01\x01"  # and nothing tells its length any more
    assert found(at(0), broken, at(2), hints=[OffsetPosition(2, SIZE + len(broken))])[0][3] == 2


def test_an_entry_of_the_index_is_looked_at_and_not_believed() -> None:
    junk = bytes(random.Random(1).randbytes(500))
    good = at(6)
    place = SIZE + len(junk)
    for hints in ([OffsetPosition(6, place)], [OffsetPosition(9, place), OffsetPosition(3, SIZE + 7)], []):
        assert found(at(0), junk, good, at(7), hints=hints) == [(SIZE, place, 1, 6)]


def test_the_search_is_bounded_whatever_a_producer_has_put_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Headers in a record, each of which claims all that follows: checksums over them would take quadratic time."""
    monkeypatch.setattr(module, "SEARCH_BYTES", 64 << 20)
    head = (5).to_bytes(8, "big") + (1 << 20).to_bytes(4, "big") + bytes(4) + b"\2"
    junk = b"\xff" * 20 + head * 120_000
    began = time.process_time()
    with pytest.raises(SearchGivenUpError, match="no sound batch"):
        found(at(0), junk, at(6), at(7))
    entry = OffsetPosition(6, SIZE + len(junk))
    assert found(at(0), junk, at(6), at(7), hints=[entry]) == [(SIZE, SIZE + len(junk), 1, 6)]
    # CPU time of a bounded search of 2 × 64 MiB; quadratic it would be 2 TB.
    assert time.process_time() - began < 30


def test_messages_of_old_formats_and_wrappers_have_only_a_last_offset() -> None:
    messages = bytearray()
    for offset in (0, 1):
        append_legacy_record(messages, 1, offset, 1000, b"k", b"v", 0)
    wrapper = bytearray()
    append_legacy_record(wrapper, 1, 9, 1000, None, b"compressed", 1)
    assert found(messages, wrapper, limit=None) == []
    assert found(messages, wrapper, messages, limit=None)[0][0] == len(messages + wrapper)


def test_the_tail_says_how_a_segment_ends() -> None:
    system = FakeFileSystem()
    data = b"".join([*map(at, range(5)), at(9, epoch=3)])
    system.put(PATH, data)
    file = system.open(PATH)
    entries = b"".join(offset.to_bytes(4, "big") + (offset * SIZE).to_bytes(4, "big") for offset in (2, 4))
    for known in (b"", entries[:8], entries):
        assert tail_of(file, len(data), 0, known) == (5, 9, 9, 3)
    assert tail_of(file, 0, 0, b"") is None


@pytest.mark.parametrize(
    ("epochs", "expected"),
    [
        ([1, 1, 2, 2, 5], [(1, 0), (2, 2), (5, 4)]),
        ([1, 1, 1 << 30, 2, 2], [(1, 0), (2, 3)]),
        ([1, 1, 9, 1, 1], [(1, 0)]),
        ([3, 3, 1, 3, 4], [(3, 0), (4, 4)]),
        ([-1, -1, 0], [(0, 2)]),
    ],
)
def test_an_epoch_that_the_batches_behind_contradict_is_not_taken(
    epochs: list[int], expected: list[tuple[int, int]]
) -> None:
    system = FakeFileSystem()
    data = b"".join(at(offset, epoch=epoch) for offset, epoch in enumerate(epochs))
    system.put(PATH, data)
    assert leader_epochs(system.open(PATH), len(data)) == expected


def test_records_of_any_codec_are_batches_like_others() -> None:
    data = build_batch([Record(0, 1, b"k", b"v" * 100)], base_offset=1)
    assert found(at(0), data, at(2)) == []
