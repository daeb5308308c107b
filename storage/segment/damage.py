"""Finds damage in a segment: where it begins and ends, and which batch is damaged when two contradict each other.

Recovery asks when a scan has met something that is no sound batch (`find_damage`). Three fields have no checksum: a batch's
base offset, its leader epoch and its length; so neighbours say what they must be. Design: docs/adr/0051-damage.md.

    content   checksum, size, magic or counts are wrong      ends where the next sound batch begins
    offsets   the content is right, but the offsets step back behind an earlier batch, or forward past a later one

A file is read once, batch by batch; memory does not grow with it, and what is spent on looking for the next sound batch is
bounded (`SEARCH_BYTES`). One thread; OSError.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from ...protocol.records.attributes import COMPRESSION_MASK
from ...protocol.records.record_batch import (
    HEADER_UP_TO_MAGIC,
    LAST_OFFSET_DELTA_AT,
    LENGTH_AT,
    LOG_OVERHEAD,
    MAGIC_AT,
    MAGIC_V2,
    RECORD_BATCH_OVERHEAD,
    RECORD_COUNT_AT,
)
from ..exceptions import StorageError
from ..index.offset_index import OffsetIndex, OffsetPosition
from ..io.filesystem import File
from .batch_walk import computed_crc, stored_crc

SEARCH_BYTES = 256 << 20
"""Bytes that may be read and checksummed while searching for the end of a damaged stretch."""

_CHUNK_BYTES = 1 << 20
_EPOCH_AT = LOG_OVERHEAD
LEGACY_ATTRIBUTES_AT = MAGIC_AT + 1
_LARGEST_BATCH = 1 << 30
_SMALLEST = (26, 34, RECORD_BATCH_OVERHEAD)
_MAX_OFFSET = 2**63 - 1
# Where a sound batch may start: an offset that is not negative, a length in 1 … 2^31 - 1, any 4 bytes, a magic.
_CANDIDATE = re.compile(rb"(?=[\0-\x7f].{7}(?!\0{4})[\0-\x7f].{7}[\0-\2])", re.DOTALL)


MustFollow = Callable[[int, int, int], bool]
"""(offset expected, base offset, last offset) of a log's last batch → True if the batch has to begin at the expected
offset.
"""


class SearchGivenUpError(StorageError):
    """The end of the damage was not found within `SEARCH_BYTES`."""


class Batch(NamedTuple):
    """A batch with sound content."""

    position: int
    size: int
    base_offset: int
    """Base offset; of a wrapper of format 0 or 1 its last offset, the only one it states."""
    last_offset: int
    is_wrapper: bool = False

    @property
    def end(self) -> int:
        """Position of the first byte behind the batch."""
        return self.position + self.size


class Damage(NamedTuple):
    """A stretch of a segment's log file that is not what was written there.

    Attributes:
        position, end: its bytes.
        first_offset: the first one that may have been in it.
        next_offset: the first one behind it; -1: nothing sound follows in this segment.
        reason: for people.
    """

    position: int
    end: int
    first_offset: int
    next_offset: int
    reason: str


class SegmentReader:
    """Reads one log file for the search: sound batches by position, in chunks."""

    def __init__(self, file: File, size: int) -> None:
        self._file = file
        self.size = size
        self._data = b""
        self._start = 0

    def get(self, position: int, size: int) -> memoryview:
        """Read `size` bytes at `position`; fewer at the end of the file."""
        size = max(0, min(size, self.size - position))
        if position < self._start or position + size > self._start + len(self._data):
            self._data = self._file.pread(min(max(size, _CHUNK_BYTES), self.size - position), position)
            self._start = position
        at = position - self._start
        return memoryview(self._data)[at : at + size]

    def claimed_size(self, position: int) -> int:
        """Size that the batch header at `position` claims; 0 where no header fits."""
        head = self.get(position, HEADER_UP_TO_MAGIC)
        if len(head) < HEADER_UP_TO_MAGIC:
            return 0
        return LOG_OVERHEAD + int.from_bytes(head[LENGTH_AT : LENGTH_AT + 4], "big", signed=True)

    def batch_at(self, position: int, size: int | None = None) -> Batch | str:
        """The batch at `position`, of which all but offset and leader epoch is verified, or the reason why it is none.
        `size` overrides the size that it claims.
        """
        left = self.size - position
        if left < HEADER_UP_TO_MAGIC:
            return f"{left} bytes are too few for a batch"
        claimed = self.claimed_size(position) if size is None else size
        magic = self.get(position, HEADER_UP_TO_MAGIC)[MAGIC_AT]
        if magic > MAGIC_V2:
            return "impossible magic"
        if claimed < _SMALLEST[magic]:
            return "impossible batch size"
        if claimed > left:
            return "a batch is cut off"
        if claimed > _LARGEST_BATCH:
            return "impossible batch size"
        data = self.get(position, claimed)
        if len(data) < claimed:
            return "the file has become shorter"
        if stored_crc(data, magic) != computed_crc(data, magic):
            return "wrong checksum"
        base = last = int.from_bytes(data[:8], "big", signed=True)
        if magic < MAGIC_V2:
            return Batch(position, claimed, base, last, _is_wrapper(data))
        delta = int.from_bytes(data[LAST_OFFSET_DELTA_AT : LAST_OFFSET_DELTA_AT + 4], "big", signed=True)
        count = int.from_bytes(data[RECORD_COUNT_AT : RECORD_COUNT_AT + 4], "big", signed=True)
        if delta < 0 or not 0 <= count <= delta + 1:
            return "impossible record count"
        return Batch(position, claimed, base, base + delta)

    def follows(self, position: int, low: int, high: int) -> bool:
        """True if the file ends at `position`, or a sound batch begins there whose offsets lie in [low, high)."""
        if position == self.size:
            return True
        found = self.batch_at(position)
        return not isinstance(found, str) and low <= found.base_offset and found.last_offset < high


def _is_wrapper(head: memoryview) -> bool:
    return head[MAGIC_AT] < MAGIC_V2 and head[LEGACY_ATTRIBUTES_AT] & COMPRESSION_MASK != 0


def find_damage(
    file: File,
    size: int,
    base_offset: int,
    limit: int | None,
    *,
    must_follow: MustFollow,
    hints: Iterable[OffsetPosition] = (),
) -> Iterator[Damage]:
    """Iterate over the damaged stretches of a segment, in order. SearchGivenUpError.

    `limit`: the next segment's base offset, which no offset in it may reach; None for the last segment. There no later batch can
    contradict the last one, and `must_follow` is asked about it.
    `hints`: the entries of its offset index; they are looked at, not believed.
    """
    reader = SegmentReader(file, size)
    entries = sorted({entry.position: entry.offset for entry in hints}.items())
    high = _MAX_OFFSET if limit is None else limit
    stretches = _walk(reader, base_offset, high, entries)
    yield from _joined(_offset_damage(stretches, base_offset, high, must_follow if limit is None else None))


def _walk(reader: SegmentReader, low: int, high: int, hints: list[tuple[int, int]]) -> Iterator[Batch | Damage]:
    """Batches with sound content, and stretches without (whose `first_offset` and `next_offset` are not known yet)."""
    position = 0
    while position < reader.size:
        found = reader.batch_at(position)
        if isinstance(found, str):
            end = _end_of_damage(reader, position, low, high, hints)
            yield Damage(position, end, -1, -1, found)
            position = end
        else:
            yield found
            position = found.end


def _end_of_damage(reader: SegmentReader, position: int, low: int, high: int, hints: list[tuple[int, int]]) -> int:
    """Position of the next sound batch behind the damage at `position`; the file's size if there is none."""
    claimed = reader.claimed_size(position)
    if HEADER_UP_TO_MAGIC < claimed <= reader.size - position and reader.follows(position + claimed, low, high):
        return position + claimed
    # Of one flipped bit in the length the checksum tells which, since it does not cover the length itself.
    for bit in range(31):
        size = LOG_OVERHEAD + (claimed - LOG_OVERHEAD ^ 1 << bit)
        is_possible = HEADER_UP_TO_MAGIC < size <= reader.size - position
        is_end = is_possible and reader.follows(position + size, low, high)
        if is_end and isinstance(reader.batch_at(position, size), Batch):
            return position + size
    hint = reader.size
    for place, offset in hints:
        if place > position:
            found = reader.batch_at(place)
            if not isinstance(found, str) and low <= found.base_offset and found.last_offset == offset < high:
                hint = place
                break
    return _search(reader, position + 1, hint, low, high)


def _search(reader: SegmentReader, position: int, stop: int, low: int, high: int) -> int:
    """Position of the first sound batch in [position, stop) that ends where another one begins, or at `stop`; else
    `stop`.
    """
    budget = SEARCH_BYTES
    while position < stop:
        window = bytes(reader.get(position, min(_CHUNK_BYTES, stop - position)))
        if len(window) < HEADER_UP_TO_MAGIC:
            return stop
        budget -= len(window)
        for match in _CANDIDATE.finditer(window):
            at = match.start()
            base = int.from_bytes(window[at : at + 8], "big")
            size = LOG_OVERHEAD + int.from_bytes(window[at + LENGTH_AT : at + LENGTH_AT + 4], "big")
            budget -= HEADER_UP_TO_MAGIC
            if budget < 0:
                break
            if not low <= base < high or size > stop - position - at or window[at + MAGIC_AT] > MAGIC_V2:
                continue
            budget -= size
            found = reader.batch_at(position + at)
            if isinstance(found, str) or found.last_offset >= high:
                continue
            if found.end == stop or reader.follows(found.end, found.last_offset + 1, high):
                return found.position
        if budget < 0:
            if stop < reader.size:
                return stop  # an entry of the index says so
            raise SearchGivenUpError(f"no sound batch was found behind position {position} within {SEARCH_BYTES} bytes")
        position += len(window) - HEADER_UP_TO_MAGIC + 1
    return stop


def _offset_damage(
    stretches: Iterator[Batch | Damage], base_offset: int, high: int, must_follow: MustFollow | None
) -> Iterator[Damage]:
    """Damaged content with its offsets, and batches whose offsets contradict their neighbours'."""
    expected = base_offset
    jumped: Batch | None = None  # the last batch, if it stepped forward: the next one agrees with it, or does not
    before = base_offset  # `expected` before that batch
    damage: Damage | None = None  # its next offset is that of the next batch that is kept
    for found in stretches:
        if isinstance(found, Damage):
            if damage is not None:
                yield damage
            damage, jumped = found._replace(first_offset=expected), None
            continue
        if found.is_wrapper:
            found = found._replace(base_offset=min(expected, found.last_offset))
        culprits: tuple[Batch, ...] = ()
        if not expected <= found.base_offset or not found.last_offset < high:
            culprits = (found,)
            if jumped is not None and before <= found.base_offset and found.last_offset < high:
                culprits = _culprits(jumped, found, before, high)
        if jumped is not None and jumped in culprits:
            assert damage is None
            damage = _misplaced(jumped, before)
            expected = before
        if found in culprits:
            if damage is not None:
                yield damage
            damage, jumped = _misplaced(found, expected), None
            continue
        if damage is None:
            jumped = found if found.base_offset > expected else None
        else:  # that explains a step forward
            yield damage._replace(next_offset=found.base_offset)
            damage = jumped = None
        before, expected = expected, found.last_offset + 1
    if damage is not None:
        yield damage
    if jumped is not None and must_follow is not None and must_follow(before, jumped.base_offset, jumped.last_offset):
        yield _misplaced(jumped, before)


def _misplaced(batch: Batch, expected: int) -> Damage:
    reason = f"its base offset {batch.base_offset} can't be right"
    return Damage(batch.position, batch.end, expected, -1, reason)


def _culprits(jumped: Batch, found: Batch, before: int, high: int) -> tuple[Batch, ...]:
    """Decide which of two contradicting batches is damaged; both if that can't be told."""
    span = jumped.last_offset - jumped.base_offset + 1
    if found.base_offset - before == span:
        return (jumped,)  # the missing offsets are exactly those that it has
    jumped_is_damaged = _has_one_bit_too_many(jumped.base_offset, before, found.base_offset - span)
    found_is_damaged = _has_one_bit_too_many(found.base_offset, jumped.last_offset + 1, high - 1)
    if jumped_is_damaged == found_is_damaged:
        return (jumped, found)
    return (jumped,) if jumped_is_damaged else (found,)


def _has_one_bit_too_many(offset: int, low: int, high: int) -> bool:
    """True if flipping one bit moves `offset` into [low, high]."""
    return any(low <= offset ^ 1 << bit <= high for bit in range(63))


def _joined(stretches: Iterator[Damage]) -> Iterator[Damage]:
    """Merge adjacent stretches."""
    before: Damage | None = None
    for damage in stretches:
        if before is not None and before.end == damage.position:
            before = Damage(before.position, damage.end, before.first_offset, damage.next_offset, before.reason)
            continue
        if before is not None:
            yield before
        before = damage
    if before is not None:
        yield before


class Tail(NamedTuple):
    """Last batch of a segment.

    Attributes:
        expected: the offset at which its last batch should begin.
        base_offset, last_offset, leader_epoch: of that batch; the epoch is -1 where it has none.
    """

    expected: int
    base_offset: int
    last_offset: int
    leader_epoch: int


def tail_of(file: File, size: int, base_offset: int, entries: bytes | bytearray) -> Tail | None:
    """The end of a sound segment of `size` bytes; None if it is empty.

    `entries`: the packed offset index that was just made of the file; the last two say where its end can be read from.
    """
    reader = SegmentReader(file, size)
    position, expected = 0, base_offset
    if len(entries) >= 2 * OffsetIndex.ENTRY_SIZE:
        _, position = OffsetIndex.ENTRY.unpack_from(entries, len(entries) - 2 * OffsetIndex.ENTRY_SIZE)
        expected = -1  # not known, but there is a batch behind this one
    tail = None
    while position < size:
        head = reader.get(position, RECORD_BATCH_OVERHEAD)
        base = last = int.from_bytes(head[:8], "big", signed=True)
        epoch = -1
        if head[MAGIC_AT] == MAGIC_V2:
            last += int.from_bytes(head[LAST_OFFSET_DELTA_AT : LAST_OFFSET_DELTA_AT + 4], "big", signed=True)
            epoch = int.from_bytes(head[_EPOCH_AT : _EPOCH_AT + 4], "big", signed=True)
        elif _is_wrapper(head):
            base = min(max(expected, 0), last)
        tail = Tail(expected, base, last, epoch)
        expected = last + 1
        position += reader.claimed_size(position)
    return tail


def leader_epochs(file: File, size: int) -> list[tuple[int, int]]:
    """(epoch, base offset of its first batch) of a sound segment; epochs that later batches contradict are left out."""
    reader = SegmentReader(file, size)
    runs: list[tuple[int, int, int]] = []  # epoch, base offset, batches
    position = 0
    while position < size:
        head = reader.get(position, RECORD_BATCH_OVERHEAD)
        if reader.claimed_size(position) < min(_SMALLEST):
            break  # damage, where it was not looked for
        if head[MAGIC_AT] == MAGIC_V2:
            epoch = int.from_bytes(head[_EPOCH_AT : _EPOCH_AT + 4], "big", signed=True)
            run = (epoch, int.from_bytes(head[:8], "big", signed=True), 1)
            if runs and runs[-1][0] == epoch:
                run = (epoch, runs[-1][1], runs[-1][2] + 1)
                runs.pop()
            elif runs and runs[-1][0] > epoch:
                # Epochs never fall: the one of fewer batches is wrong, and of two single ones the earlier.
                if runs[-1][2] > 1:
                    position += reader.claimed_size(position)
                    continue
                runs.pop()
                if runs and runs[-1][0] == epoch:
                    run = (epoch, runs[-1][1], runs[-1][2] + 1)
                    runs.pop()
            runs.append(run)
        position += reader.claimed_size(position)
    return [(epoch, base) for epoch, base, _ in runs if epoch >= 0]
