"""Ledger: accounts for every offset of a partition: `appended = live + Σ removed by cause`, exactly. A value and its
transitions.

    begin                        first                                        log end offset
      | gone with its segments     | segments: whole, or with `missing` offsets |
      | removed, by cause .......................... so many of them by cause |

A segment without an entry is whole: nothing is missing in it. So appends, rolls and retention of what was never compacted cost
nothing, and what retention takes is known without reading it. Each step answers the ledger that holds after it; `begin_swap` and
`begin_deletion` answer the one that has to be on disk before. What was under way when a process ended is found out by
`resolved_swap` and `gone`: the directory shows the one or the other. Design: docs/adr/0018-ledger.md.

The file lies in the partition's directory and is replaced atomically; `segments` are [missing offsets, bytes of the log file]:

    {"version":1,"begin":0,"first":4096,"reused":0,"checkpoint":9000,"deleting":0,"removed":{"superseded":91},
     "segments":{"4096":[2800,65012]},
     "pending":{"end":12000,"old":{"9000":70100},"new":{"9000":[7,65012]},"removed":{"superseded":7}}}
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ..segment.names import Hole

LEDGER_FILE = "tidelog-ledger.json"

RETENTION = "retention"
DELETE_RECORDS = "delete-records"
ELSEWHERE = "elsewhere"
"""Cause of offsets that were missing when first counted: Apache Kafka's cleaner removed them, or they were lost."""
DAMAGED = "damaged"
"""Cause of records in damaged bytes: a hole (`hole.py`)."""

_VERSION = 1
_MAX_INT64 = 2**63 - 1


class SegmentExtent(NamedTuple):
    """Extent of one segment of the directory; lists of them are in offset order."""

    base_offset: int
    end_offset: int
    """Base offset of the next segment; for the active one the log end offset."""
    size: int
    """Size of the log file, in bytes."""


Count = Callable[[SegmentExtent], int]
"""Counts a segment's records from batch headers. Blocks; OSError, RecordError."""


class Entry(NamedTuple):
    """A segment with missing offsets."""

    missing: int
    """Number of offsets, up to the next segment's base, without a record."""
    size: int
    """Size of the log file, in bytes."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A group of cleaned segments that is being swapped in. Keys are base offsets."""

    end: int
    """Base offset of the segment behind the group."""
    old: Mapping[int, int]
    """Sizes of the segments that are replaced."""
    new: Mapping[int, Entry]
    removed: Mapping[str, int]
    """Records removed by the swap, by cause."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """Account of one partition. The default value is that of a log without a file."""

    begin: int = 0
    """First offset that is accounted for."""
    first: int = 0
    """Base offset of the oldest live segment; the offsets before it are in `removed`."""
    reused: int = 0
    """Number of removed offsets above a later truncation point: they were, or will be, assigned again."""
    checkpoint: int = 0
    """The cleaner's checkpoint, now or at the end of the pass: a higher one was written by another program."""
    deleting: int = 0
    """Segments below this offset are deleted because of DeleteRecords, all others because of retention."""
    removed: Mapping[str, int] = field(default_factory=dict)
    segments: Mapping[int, Entry] = field(default_factory=dict)
    pending: Pending | None = None
    holes: tuple[str, ...] = ()
    """Names of the `.damaged` files whose losses are booked."""

    # --- what it says ---

    def appended(self, log_end_offset: int) -> int:
        """Number of offsets ever assigned."""
        return log_end_offset - self.begin + self.reused

    def live(self, log_end_offset: int) -> int:
        """Number of offsets with a record in the segments' files."""
        return log_end_offset - self.first - self._missing(self.first, log_end_offset)

    def live_of(self, segment: SegmentExtent) -> int:
        """Number of records in one segment."""
        entry = self.segments.get(segment.base_offset)
        return segment.end_offset - segment.base_offset - (0 if entry is None else entry.missing)

    @property
    def is_balanced(self) -> bool:
        """True if appended = live + Σ removed. The log end offset is on both sides and drops out."""
        missing = sum(entry.missing for entry in self.segments.values())
        return sum(self.removed.values()) == self.first - self.begin + missing + self.reused

    def _missing(self, low: int, high: int) -> int:
        return sum(entry.missing for base, entry in self.segments.items() if low <= base < high)

    # --- swap ---

    def begin_swap(
        self,
        old: Sequence[SegmentExtent],
        new: Sequence[tuple[int, int, int]],
        removed: Mapping[str, int],
    ) -> Ledger:
        """The ledger to write before `old`, neighbours, are replaced by `new`: (base offset, live, size), in order.

        Offsets neither live afterwards nor in `removed` were missing before and are found now: they went elsewhere.
        """
        end = old[-1].end_offset
        ends = [*(base for base, _, _ in new[1:]), end]
        entries = {base: Entry(e - base - live, size) for (base, live, size), e in zip(new, ends, strict=True)}
        found = sum(map(self.live_of, old)) - sum(live for _, live, _ in new) - sum(removed.values())
        causes = {cause: count for cause, count in removed.items() if count}
        if found:
            causes[ELSEWHERE] = causes.get(ELSEWHERE, 0) + found
        return replace(self, pending=Pending(end, {s.base_offset: s.size for s in old}, entries, causes))

    def confirmed(self) -> Ledger:
        """The ledger after the pending swap was done."""
        pending = self.pending
        if pending is None:
            return self
        kept = {base: entry for base, entry in self.segments.items() if base not in pending.old}
        kept |= {base: entry for base, entry in pending.new.items() if entry.missing}
        return replace(
            self, segments=dict(sorted(kept.items())), removed=_plus(self.removed, pending.removed), pending=None
        )

    def withdrawn(self) -> Ledger:
        """The ledger after the pending swap was given up."""
        return replace(self, pending=None)

    def resolved_swap(self, segments: Sequence[SegmentExtent]) -> Ledger | None:
        """The ledger with the pending swap resolved by the directory's files; None if names and sizes fit both
        outcomes.
        """
        pending = self.pending
        if pending is None:
            return self
        begin = min(pending.old)
        here = {s.base_offset: s.size for s in segments if begin <= s.base_offset < pending.end}
        new = {base: entry.size for base, entry in pending.new.items()}
        if here == new and here == dict(pending.old):
            is_same = sum(pending.removed.values()) == 0
            return self.confirmed() if is_same else None
        # Where retention has taken the first ones meanwhile, those that are left tell.
        return self.confirmed() if here.items() <= new.items() else self.withdrawn()

    # --- deletion ---

    def begin_deletion(self, delete_records_below: int) -> Ledger:
        """The ledger to write before the first segments are renamed, if a start could not tell their cause from it
        (`gone`).
        """
        return replace(self, deleting=delete_records_below)

    def gone(self, first: int) -> Ledger:
        """The ledger after the segments below `first`, the base offset of the oldest remaining one, were deleted."""
        if first <= self.first:
            return self
        border = min(max(self.deleting, self.first), first)
        taken = {
            DELETE_RECORDS: border - self.first - self._missing(self.first, border),
            RETENTION: first - border - self._missing(border, first),
        }
        return replace(
            self,
            first=first,
            removed=_plus(self.removed, {cause: count for cause, count in taken.items() if count}),
            segments={base: entry for base, entry in self.segments.items() if base >= first},
        )

    # --- what was found otherwise than it should be ---

    def with_holes(self, holes: Sequence[Hole], segments: Sequence[SegmentExtent], count: Count) -> Ledger:
        """The ledger of a log with exactly these holes. Losses since a count of segments with new holes are booked as
        damaged.
        """
        new = [hole for hole in holes if hole.name not in self.holes]
        ledger = self._without_missing(segments)
        for segment in segments:
            # One hole may reach over several: segments that were emptied, or that begin where the log does, within it.
            if any(hole.first_offset < segment.end_offset and segment.base_offset <= hole.last_offset for hole in new):
                ledger = ledger.counted(segment, count(segment), DAMAGED)
        return replace(ledger, holes=tuple(sorted(hole.name for hole in holes)))

    def _without_missing(self, segments: Sequence[SegmentExtent]) -> Ledger:
        """Merge entries of segments that no longer exist into the segment before them."""
        entries = dict(self.segments)
        for base in sorted(entries.keys() - {segment.base_offset for segment in segments}):
            before = next((s for s in segments if s.base_offset < base < s.end_offset), None)
            if before is not None:
                known = entries.get(before.base_offset, Entry(0, before.size))
                entries[before.base_offset] = known._replace(missing=known.missing + entries.pop(base).missing)
        return replace(self, segments=dict(sorted(entries.items())))

    def counted(self, segment: SegmentExtent, live: int, cause: str = ELSEWHERE) -> Ledger:
        """The ledger after a count found `live` records in the segment. A difference is booked under `cause`."""
        found = self.live_of(segment) - live
        entry = self.segments.get(segment.base_offset)
        if not found and (entry is None or entry.size == segment.size):
            return self
        entries = {base: entry for base, entry in self.segments.items() if base != segment.base_offset}
        missing = segment.end_offset - segment.base_offset - live
        if missing:
            entries = dict(sorted({**entries, segment.base_offset: Entry(missing, segment.size)}.items()))
        return replace(self, segments=entries, removed=_plus(self.removed, {cause: found}))

    def recounted(self, segments: Sequence[SegmentExtent], live: Mapping[int, int]) -> Ledger:
        """The ledger of a log with exactly these segments, and counts by base offset. Differences are booked as
        elsewhere.
        """
        first = segments[0].base_offset
        missing = {s.base_offset: Entry(s.end_offset - s.base_offset - live[s.base_offset], s.size) for s in segments}
        entries = {base: entry for base, entry in missing.items() if entry.missing}
        total = first - self.begin + self.reused + sum(entry.missing for entry in entries.values())
        found = total - sum(self.removed.values())
        return replace(self, first=first, segments=entries, removed=_plus(self.removed, {ELSEWHERE: found}))

    # --- truncation ---

    def cut(self, end: int, last_base: int, missing: int) -> Ledger:
        """The ledger after a truncation to `end`, in the segment at `last_base`, which has `missing` offsets missing."""
        kept = {base: entry for base, entry in self.segments.items() if base < last_base}
        if missing:
            kept[last_base] = Entry(missing, -1)
        dropped = sum(e.missing for e in self.segments.values()) - sum(e.missing for e in kept.values())
        return replace(
            self, segments=kept, reused=self.reused + dropped, checkpoint=min(self.checkpoint, max(end, self.first))
        )

    def at(self, checkpoint: int) -> Ledger:
        """The ledger with the cleaner's checkpoint at `checkpoint`."""
        return replace(self, checkpoint=checkpoint)


def _plus(one: Mapping[str, int], other: Mapping[str, int]) -> Mapping[str, int]:
    causes = (*one, *(cause for cause in other if cause not in one))
    sums = {cause: one.get(cause, 0) + other.get(cause, 0) for cause in causes}
    return {cause: count for cause, count in sums.items() if count}


# --- the file ---


def encode(ledger: Ledger) -> bytes:
    """Contents of the ledger's file."""
    pending = ledger.pending
    content: dict[str, object] = {
        "version": _VERSION,
        "begin": ledger.begin,
        "first": ledger.first,
        "reused": ledger.reused,
        "checkpoint": ledger.checkpoint,
        "deleting": ledger.deleting,
        "removed": dict(ledger.removed),
        "segments": _entries(ledger.segments),
        "pending": None
        if pending is None
        else {
            "end": pending.end,
            "old": {str(base): size for base, size in pending.old.items()},
            "new": _entries(pending.new),
            "removed": dict(pending.removed),
        },
    }
    if ledger.holes:  # older versions know nothing of it, and need not
        content["holes"] = list(ledger.holes)
    return json.dumps(content, separators=(",", ":")).encode()


def _entries(entries: Mapping[int, Entry]) -> dict[str, list[int]]:
    return {str(base): list(entry) for base, entry in entries.items()}


def decode(data: bytes) -> Ledger | None:
    """Parse the ledger's file; None if it is not understood or does not balance."""
    try:
        content = json.loads(data)
        if content["version"] != _VERSION:
            return None
        pending = content["pending"]
        ledger = Ledger(
            _number(content["begin"]),
            _number(content["first"]),
            _number(content["reused"]),
            _number(content["checkpoint"]),
            _number(content["deleting"]),
            _counts(content["removed"]),
            _parsed(content["segments"]),
            None
            if pending is None
            else Pending(
                _number(pending["end"]),
                {int(base): _number(size) for base, size in pending["old"].items()},
                _parsed(pending["new"]),
                _counts(pending["removed"]),
            ),
            tuple(str(name) for name in content.get("holes", ())),
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    is_whole = ledger.pending is None or bool(ledger.pending.old and ledger.pending.new)
    return ledger if is_whole and ledger.is_balanced else None


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > _MAX_INT64:
        raise ValueError("no number")
    return value


def _counts(content: Mapping[str, object]) -> dict[str, int]:
    return {cause: _number(count) for cause, count in content.items()}


def _parsed(content: Mapping[str, Sequence[object]]) -> dict[int, Entry]:
    return {int(base): Entry(_number(missing), _number(size)) for base, (missing, size) in content.items()}
