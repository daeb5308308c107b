"""What a cut adds to what is in the store: a plan for each partition, made from its segments now and at the last cut.

    closed segment, nothing of it in the store yet, or much missing    one object (`whole`), before the manifest
    end of the active segment, short rest of one that has closed       a piece of the cut's pack
    closed segment that is in packs                                    stays so; one object of it is made beside the cuts
    what a pass of the cleaner made, too large for a pack              sent beside the cuts, which have until then what there
                                                                       was before the pass: a cut waits for no pass

Extents of a segment fold: where `FOLD_AT` short ones stand at its end, the next pack has their bytes as one. Nothing here reads
or sends; one thread, the backup's.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ...storage.ledger.ledger import Ledger, encode
from ...storage.segment.names import SNAPSHOT_SUFFIX
from ..formats.entries import Extent, PackedFile, Partition, Segment

if TYPE_CHECKING:
    from ...storage.log.unified_log import UnifiedLog
    from ...storage.segment.log_segment import LogSegment
    from .vector import LogCut

Key = tuple[str, int]

FOLD_AT = 8
_BOUNDS = (4 << 10, 32 << 10, 256 << 10, 2 << 20)
"""Extents below one of these are folded with their like; longer ones stay."""
DIRECT_BYTES = 4 << 20
"""A closed segment that lacks more than this is sent whole."""
SMALL_BYTES = 64 << 10
"""A closed segment below this stays in packs: ten thousand of them would be as many requests."""
_SNAPSHOT_TRIES = 3


class Piece(NamedTuple):
    """Bytes for a pack: of a segment's log, or `data`."""

    log: UnifiedLog
    segment: LogSegment | None
    start: int
    length: int
    data: bytes | None = None


@dataclass(slots=True)
class SegmentPlan:
    """One segment of a cut.

    Attributes:
        is_whole: it goes as one object, and `done` comes of that.
        kept: extents that stay; `piece` goes on behind them.
        wants: suffixes of the companions to pack, where they are.
        former: identity of the one that `done` is of, where `segment` was made of it by a pass and is not in the store yet.
    """

    segment: LogSegment
    size: int
    is_closed: bool
    done: Segment | None = None
    is_whole: bool = False
    kept: tuple[Extent, ...] = ()
    kept_files: tuple[PackedFile, ...] = ()
    piece: Piece | None = None
    wants: tuple[str, ...] = ()
    former: object = None

    @property
    def identity(self) -> object:
        """Of the files whose bytes are in the cut."""
        return self.segment.identity if self.former is None else self.former


@dataclass(slots=True)
class Tracked:
    """A partition as the last published cut has it. `ids`: identities of its segments, in order; `written`: the ledger that the
    cut has of it, where that is not `ledger`, the log's at that moment."""

    log: UnifiedLog
    entry: Partition
    ids: tuple[object, ...] = ()
    closed: frozenset[object] = frozenset()
    """Segments that had closed by then: their companions are in the store."""
    high_offset: int = -1
    ledger: Ledger | None = None
    written: Ledger | None = None
    holes: tuple[str, ...] = ()
    tries: dict[object, int] = field(default_factory=dict)


@dataclass(slots=True)
class PartitionPlan:
    """All of one partition. `head` is its entry but for segments and files; `later` are to be sent beside the cuts."""

    cut: LogCut
    head: Partition
    segments: list[SegmentPlan]
    tries: dict[object, int]
    kept_holes: tuple[PackedFile, ...] = ()
    new_holes: tuple[str, ...] = ()
    later: tuple[SegmentPlan, ...] = ()
    written: Ledger | None = None

    @property
    def key(self) -> Key:
        return self.head.key


def key_of(log: UnifiedLog) -> Key:
    return log.topic, log.partition


def identities(cut: LogCut) -> tuple[object, ...]:
    """Identities of the segments that the cut has records of."""
    last = cut.high.segment_base_offset
    return tuple([segment.identity for segment in cut.view if segment.base_offset <= last])


def is_unchanged(cut: LogCut, known: Tracked | None, objects: Mapping[object, Segment]) -> bool:
    """True if the last cut's entry says all of this one."""
    return (
        known is not None
        and known.log is cut.log
        and known.high_offset == cut.high.offset
        and known.entry.start == cut.start
        and not known.entry.held
        and known.ledger is cut.ledger
        and known.ids == identities(cut)
        and (not objects or not any(identity in objects for identity in known.ids))
    )


def plan(
    cut: LogCut,
    known: Tracked | None,
    objects: Mapping[object, Segment],
    worn: Collection[str] = (),
) -> PartitionPlan:
    """Plan one partition. `objects`: closed segments that were sent whole since; `worn`: packs to be rewritten."""
    log = cut.log
    if known is not None and known.log is not log:
        known = None
    before = dict(zip(known.ids, known.entry.segments, strict=True)) if known is not None else {}
    had_closed = known.closed if known is not None else frozenset()
    tries = dict(known.tries) if known is not None else {}
    last_base = cut.high.segment_base_offset
    segments = []
    for segment in cut.view:
        if segment.base_offset > last_base:
            break
        is_closed = segment.base_offset < last_base
        size = segment.size if is_closed else cut.high.position
        identity = segment.identity
        old = before.get(identity)
        made = objects.get(identity)
        if made is not None and made.size == size:
            segments.append(SegmentPlan(segment, size, is_closed, done=made))
            continue
        segments.append(_planned(log, segment, size, is_closed, old, identity in had_closed, tries, worn))
    ledger = cut.ledger
    later: tuple[SegmentPlan, ...] = ()
    before_pass = _before_pass(segments, known) if known is not None else None
    if known is not None and before_pass is not None:
        later = tuple(one for one in segments if _is_late(one, before))
        segments = before_pass
        ledger = known.written.gone(cut.view[0].base_offset) if known.written is not None else None
    alive = {planned.identity for planned in segments}
    known_holes = {file.name: file for file in known.entry.files} if known is not None else {}
    names = [hole.name for hole in log.holes]
    kept_holes = tuple(
        known_holes[name] for name in names if name in known_holes and known_holes[name].extent.pack not in worn
    )
    return PartitionPlan(
        cut,
        _head(cut, ledger),
        segments,
        {identity: count for identity, count in tries.items() if identity in alive},
        kept_holes,
        tuple(name for name in names if name not in {file.name for file in kept_holes}),
        later,
        ledger,
    )


def _is_late(one: SegmentPlan, before: Collection[object]) -> bool:
    """Whether a pass has made a segment that is not in the store, and that a cut would have to wait for."""
    return one.is_whole and one.done is None and one.segment.identity not in before


def _before_pass(segments: list[SegmentPlan], known: Tracked) -> list[SegmentPlan] | None:
    """The segments with those of the last cut in the place of all that passes have made since; None: none has to wait, or
    the last cut has not all of their offsets.

    All or nothing: of two passes the later one may have taken a tombstone that what the earlier one took is still below.
    """
    holes = {hole.name for hole in known.log.holes}
    if not any(_is_late(one, known.ids) for one in segments) or holes != set(known.holes):
        return None
    formers = list(zip(known.ids, known.entry.segments, strict=True))
    ends = [one.segment.base_offset for one in segments[1:]]
    found: list[SegmentPlan] = []
    for index, one in enumerate(segments):
        if one.segment.identity in known.ids or not one.is_closed:
            found.append(one)
            continue
        start, end = one.segment.base_offset, ends[index]
        old = [(identity, entry) for identity, entry in formers if start <= entry.base_offset < end]
        # What was not closed then has grown since, or lacks its companions.
        if not old or old[0][1].base_offset != start or any(identity not in known.closed for identity, _ in old):
            return None
        found += [SegmentPlan(one.segment, entry.size, True, done=entry, former=identity) for identity, entry in old]
    return found


def _planned(
    log: UnifiedLog,
    segment: LogSegment,
    size: int,
    is_closed: bool,
    old: Segment | None,
    had_closed: bool,
    tries: dict[object, int],
    worn: Collection[str],
) -> SegmentPlan:
    if old is None or old.size > size:
        old = Segment(segment.base_offset, 0)
    if old.object_sum:
        return SegmentPlan(segment, size, is_closed, done=old)
    if is_closed and size - old.size > DIRECT_BYTES:
        return SegmentPlan(segment, size, True, is_whole=True)
    is_worn = any(extent.pack in worn for extent in old.extents) or any(file.extent.pack in worn for file in old.files)
    has_snapshot = any(file.name == SNAPSHOT_SUFFIX for file in old.files)
    wants: tuple[str, ...] = ()
    if is_closed and (not had_closed or is_worn):
        wants = (".txnindex", SNAPSHOT_SUFFIX)
    elif not is_closed and segment.base_offset and (not has_snapshot or is_worn):
        # It is written a moment after the roll, by another thread, and only where there are producers.
        count = tries[segment.identity] = tries.get(segment.identity, 0) + 1
        if count <= _SNAPSHOT_TRIES or is_worn:
            wants = (SNAPSHOT_SUFFIX,)
    if size == old.size and not wants and not is_worn:
        return SegmentPlan(segment, size, is_closed, done=old)
    kept = _kept(old.extents, size - old.size, is_last=is_closed, worn=worn)
    start = sum(extent.length for extent in kept)
    piece = Piece(log, segment, start, size - start) if size > start else None
    kept_files = () if is_worn else tuple(file for file in old.files if file.name not in wants)
    return SegmentPlan(segment, size, is_closed, kept=kept, kept_files=kept_files, piece=piece, wants=wants)


def _kept(extents: tuple[Extent, ...], added: int, *, is_last: bool, worn: Collection[str]) -> tuple[Extent, ...]:
    """Extents that stay where `added` bytes come behind them; those after are written again with the new ones."""
    for index, extent in enumerate(extents):
        if extent.pack in worn:
            return extents[:index]
    if not added:
        return extents
    total = sum(extent.length for extent in extents) + added
    if is_last and total <= DIRECT_BYTES:
        return ()  # it never grows again
    keep = len(extents)
    for bound in _BOUNDS:
        run = 0
        while run < keep and extents[keep - 1 - run].length < bound:
            run += 1
        if run >= FOLD_AT:
            keep -= run
    return extents[:keep]


def _head(cut: LogCut, ledger: Ledger | None) -> Partition:
    log, end = cut.log, cut.high.offset
    text, cleaned = "", -1
    if ledger is None:
        cleaned = 0  # a load counts the records then
    elif ledger != Ledger().gone(cut.view[0].base_offset):
        text, cleaned = encode(ledger).decode(), ledger.checkpoint
    return Partition(
        log.topic,
        log.partition,
        log.topic_id.hex if log.topic_id is not None else "",
        min(cut.start, end),
        end,
        min(log.recovery_point, end),
        cleaned,
        tuple((entry.epoch, entry.start_offset) for entry in log.leader_epochs.entries if entry.start_offset <= end),
        text,
    )


def wants_object(entry: Segment, is_closed: bool) -> bool:
    """True if a closed segment in packs should get an object of its own."""
    return is_closed and not entry.object_sum and entry.size >= SMALL_BYTES


def tracked(planned: PartitionPlan, entry: Partition) -> Tracked:
    """What to remember of a partition that is published."""
    cut = planned.cut
    return Tracked(
        cut.log,
        entry,
        tuple(one.identity for one in planned.segments),
        frozenset(one.identity for one in planned.segments if one.is_closed),
        cut.high.offset,
        cut.ledger,
        planned.written,
        tuple(file.name for file in entry.files),
        planned.tries,
    )
