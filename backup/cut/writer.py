"""Makes cuts and publishes them; notices when somebody else does.

    open      read the last manifest: its number, whose it is, what is in the store
    attempt   take a vector → plan → send whole segments, the pack, metadata, a base now and then → create `cuts/N`

One thread, the backup's; whole segments go by a pool of others. A store that fails fails the attempt; the next one begins with
a new vector, and what was sent is there. Nothing of an attempt outlives it but that.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from ...storage.exceptions import StorageError
from ..formats.entries import Cut, CutHeader, Extent, PackedFile, Partition, Segment
from ..formats.keys import (
    BASES,
    CUTS,
    METADATA,
    PACKS,
    SEGMENTS,
    cut_key,
    cut_number,
    numbered,
    segment_key,
    segments_prefix,
    sum_of,
)
from ..formats.manifest import Partitions, decode_base, decode_cut, decode_header, encode_base, encode_cut
from ..formats.sealed import DamagedBackupError
from ..store.errors import AlreadyThere, NotThere
from ..upkeep.retention import ALL_MS, GRACE_MS
from .pack import Pack
from .reading import Readers, SegmentGone, Unreadable
from .resume import resumed
from .status import Progress, RecentCut, SafePartition, SafeSegment, Unsent
from .tracker import (
    Key,
    PartitionPlan,
    Piece,
    SegmentPlan,
    Tracked,
    is_unchanged,
    key_of,
    plan,
    tracked,
    wants_object,
)
from .vector import LogCut, TakeVector, Vector
from .whole import send_whole

if TYPE_CHECKING:
    from ...storage.clock import Time
    from ..store.interface import ObjectStore

logger = logging.getLogger(__name__)

UPLOADERS = 3
PATIENT_UPLOADERS = 2
"""Of what is in packs already: no cut waits for it, nor behind it."""
IDLE_MS = 60_000
"""A cut at which nothing is new is published so often: whoever looks sees that the writer lives."""
HELD_RETRY_MS = 30_000
VOIDS_RETRY_MS = 1000
"""Sooner than after a disk's failure: a try costs one cut that is given up."""
REUSE_MS = GRACE_MS // 2
LOOK_AFTER_MS = ALL_MS // 5
"""No sweep takes a cut as young as that: what another writer has published meanwhile is in the place of the next one."""
_BASE_EVERY = 600
_BASE_AT_BYTES = 64 << 10
_WORN_LOOK = 60
_WORN_SHARE = 0.25
_WORN_BYTES = 64 << 20
_MOST_TRIES = 8
_MOST_VOIDS = 5
"""Cuts that are given up in a row because of one partition, before it holds back: others must not wait for it."""
_RECENT = 60


class FencedError(StorageError):
    """Another writer has published a cut: this one must not go on."""


class OpenedLateError(StorageError):
    """The listing that this writer began with lacked a cut that is there: it has to be opened again."""


class OthersBackupError(StorageError):
    """The store has the backup of another cluster."""


class VoidCut(Exception):
    """What a cut needs went while it was made: another one has to be taken. No fault."""


class Identity(NamedTuple):
    """Whose backup it is."""

    cluster_id: str
    node_id: int


class Secrets(NamedTuple):
    """What becomes of secrets in the metadata."""

    are_there: bool = True
    prepare: Callable[[bytes], bytes] = lambda data: data
    """Makes of a metadata database what is backed up of it: takes secrets out, or seals them."""
    key: str = ""
    """Name of the key that they are sealed with; empty: they are not."""


class CutWriter:
    """One writer of one backup, from its opening to its end."""

    def __init__(
        self,
        store: ObjectStore,
        take: TakeVector,
        identity: Identity,
        time: Time,
        session: str,
        *,
        readers: Readers | None = None,
        secrets: Secrets | None = None,
        prepare: Callable[[], object] = lambda: None,
        progress: Progress | None = None,
    ) -> None:
        """`session`: 16 hexadecimal digits that no other writer has. `prepare` is what each uploading thread begins with;
        `progress`: of the writer before, in the same daemon, to go on with."""
        self.store = store
        self.progress = progress or Progress()
        self._take = take
        self._identity = identity
        self._time = time
        self._session = session
        self._secrets = secrets or Secrets()
        self._readers = readers or Readers()
        self._pool = ThreadPoolExecutor(UPLOADERS, "backup-upload", prepare)
        self._patient_pool = ThreadPoolExecutor(PATIENT_UPLOADERS, "backup-upload-packed", prepare)
        self._generation = 1
        self._next = 1
        self._packs = 0
        self._bases = 0
        self._base = _Base("", 0, 0, {})
        self._tracked: dict[Key, Tracked] = {}
        self._prior: dict[Key, Partition] = {}
        self._prior_ms = 0
        self._last: Partitions = {}
        """Of the newest cut that is known: what a partition that holds back stays as."""
        self._present: set[str] = set()
        self._objects: dict[object, Segment] = {}
        self._folds: dict[object, Future[tuple[Segment, bool]]] = {}
        self._patient: set[object] = set()
        """Those of them whose bytes are in packs: thousands, where so many segments close together."""
        self._sent_after: dict[object, int] = {}
        """A cut that each of these is younger than, in the store."""
        self._reused_after = 0
        self._opened_at_ms = time.monotonic_ms()
        self._held: dict[Key, tuple[str, int, float]] = {}  # reason, since (wall clock), try again at (monotonic)
        self._voids: dict[Key, int] = {}
        self._passes: dict[Key, Unsent] = {}
        self._changes = -1
        self._metadata = ""
        self._pack_sizes: dict[str, int] = {}
        self._worn: set[str] = set()
        self._sent_before = self.progress.bytes
        self._published: Cut | None = None
        self._published_at_ms = 0.0
        self._alone_at: tuple[float, int] = time.monotonic_ms(), time.milliseconds()
        """When no cut was there behind the last one that is known, by both clocks: one stands still while a machine does, the
        other may be set."""
        self.safe: dict[Key, SafePartition] = {}
        """What is in the store, by partition. Written by the writer's thread, entry by entry; any thread looks one up."""

    # --- opening ---

    def open(self) -> None:
        """Read the last manifest. StoreError; OthersBackupError, NewerFormatError: this writer must not write there."""
        self._alone_at = self._time.monotonic_ms(), self._time.milliseconds()
        times = {
            number: stored.modified_ms
            for stored in self.store.list(CUTS)
            if (number := cut_number(stored.key)) is not None
        }
        if not times:
            return
        numbers = list(times)
        cut = self._last_readable(sorted(numbers, reverse=True)[:_MOST_TRIES])
        self._next = self._generation = max(numbers) + 1
        if cut is None:
            return
        header = cut.header
        if header.cluster_id != self._identity.cluster_id:
            raise OthersBackupError(
                f"{self.store.name} has the backup of cluster {header.cluster_id}, and this is {self._identity.cluster_id}: "
                "set backup.url to a place of its own"
            )
        self._generation = header.generation + 1
        self._last, self._prior, self._prior_ms = cut.partitions, dict(cut.partitions), header.taken_ms
        self._metadata = header.metadata
        self.progress.number, self.progress.taken_ms = header.number, header.taken_ms
        self._find_present(cut, times)

    def _last_readable(self, numbers: list[int]) -> Cut | None:
        """The newest cut that can be read; None if none of these can. The next base is written anew."""
        for number in numbers:
            name = cut_key(number)
            try:
                return decode_cut(self.store.read(name), self._read_base, name)
            except (DamagedBackupError, NotThere) as error:
                logger.warning("backup: cut %d can't be gone on from: %s", number, error)
        return None

    def _read_base(self, name: str) -> Partitions:
        key = f"{BASES}{name}"
        return decode_base(self.store.read(key), key)

    def _find_present(self, cut: Cut, times: dict[int, int]) -> None:
        """Find segments that an earlier writer sent and did not publish: those that no sweep is about to take.

        `times`: of the cuts, by the store's clock. This machine's may be behind it, and must not make objects younger.
        """
        named = set()
        for entry in cut.partitions.values():
            prefix = prefix_of(entry)
            named |= {segment_key(prefix, one.base_offset, one.object_sum) for one in entry.segments if one.object_sum}
        now = max(self._time.milliseconds(), *times.values())
        self._reused_after = max((number for number, at_ms in times.items() if now - at_ms >= REUSE_MS), default=0)
        for stored in self.store.list(SEGMENTS):
            if stored.key in named or now - stored.modified_ms < REUSE_MS:
                self._present.add(stored.key)

    # --- one cut ---

    def attempt(self) -> bool:
        """Make one cut; False: nothing is new since the last one. Blocks. StoreError, VoidCut: try again; FencedError: never."""
        asked_ms = self._time.monotonic_ms()
        vector = self._take(self._changes if self._published is not None else -1)
        cuts = [LogCut(*row) for row in vector.rows]
        if any(cut.is_torn for cut in cuts):
            self._void()
        self._collect_folds()
        changed = [cut for cut in cuts if self._is_changed(cut)]
        gone = self._tracked.keys() - {key_of(cut.log) for cut in cuts}
        if self._published is not None and not changed and not gone and vector.metadata is None and not self._worn:
            self._cover(vector, asked_ms)
            if asked_ms - self._published_at_ms < IDLE_MS:
                return False
        metadata = self._send_metadata(vector)
        plans, entries = self._send(changed)
        partitions: dict[Key, Partition] = {}
        for cut in cuts:
            key = key_of(cut.log)
            partitions[key] = entries[key] if key in entries else self._tracked[key].entry
        header = CutHeader(
            self._next,
            self._generation,
            self._session,
            self._identity.cluster_id,
            self._identity.node_id,
            vector.taken_ms,
            metadata,
            self._base.name,
            self._secrets.are_there,
            self._secrets.key,
            self._unnamed(),
        )
        made = self._publish(Cut(header, partitions), sent_metadata=metadata != self._metadata)
        self._settle(made, vector, plans, entries, gone)
        self._published_at_ms = asked_ms
        if not self._held:
            self._cover(vector, asked_ms)
        return True

    def _unnamed(self) -> int:
        """A cut that all is younger than that was sent, or is being sent, and that no cut names yet; -1: there is nothing."""
        self._sent_after = {
            identity: after
            for identity, after in self._sent_after.items()
            if identity in self._objects or identity in self._folds
        }
        return min(self._sent_after.values(), default=-1)

    def _cover(self, vector: Vector, asked_ms: float) -> None:
        """Publish that all of a vector, which was asked for at `asked_ms`, is in the store."""
        self.progress.covered_ms, self.progress.covered_at_ms = vector.taken_ms, asked_ms

    def _is_changed(self, cut: LogCut) -> bool:
        known = self._tracked.get(key_of(cut.log))
        if known is None or not is_unchanged(cut, known, self._objects):
            return True
        return bool(self._worn) and any(extent.pack in self._worn for extent in known.entry.extents())

    def _void(self) -> None:
        self.progress.voided += 1
        raise VoidCut

    def _send_metadata(self, vector: Vector) -> str:
        """Send the metadata if they have changed; returns their sum."""
        if vector.metadata is None:
            return self._metadata
        data = vector.metadata.result(self._metadata_timeout_s)
        if data is None:
            return ""
        packed = zlib.compress(self._secrets.prepare(data))
        digest = sum_of(packed)
        if digest != self._metadata:
            self._upload(f"{METADATA}{digest}", len(packed), [packed])
        return digest

    _metadata_timeout_s = 30.0

    def _upload(self, key: str, size: int, blocks: Iterable[bytes]) -> None:
        self.store.upload(key, size, blocks)
        self.progress.objects += 1
        self.progress.bytes += size

    def _send(self, changed: list[LogCut]) -> tuple[list[PartitionPlan], dict[Key, Partition]]:
        """Send what is new of these logs; returns their plans, and their entries with those that hold back.

        A partition that can't be read is left out, and the rest planned again: it happens when a disk dies.
        """
        skipped: dict[Key, Partition] = {}
        for _ in range(len(changed) + _MOST_TRIES):
            try:
                todo = [cut for cut in changed if not self._is_held(cut, skipped)]
                plans = [self._plan(cut) for cut in todo]
                self._send_later(plans)
                self._send_whole(plans)
                return plans, {**skipped, **self._send_pack(plans)}
            except Unreadable as error:
                self._hold(error.key, error.reason)
            except SegmentGone as error:
                self._voids[error.key] = self._voids.get(error.key, 0) + 1
                if self._voids[error.key] >= _MOST_VOIDS:
                    self._hold(error.key, "its segments go faster than they are read", VOIDS_RETRY_MS)
                self._void()
        raise VoidCut

    def _is_held(self, cut: LogCut, skipped: dict[Key, Partition]) -> bool:
        """Whether a partition holds back for now; its entry, as it was, is put into `skipped` then."""
        key = key_of(cut.log)
        now = self._time.monotonic_ms()
        held = self._held.get(key)
        if held is None and self._readers.is_hanging(cut.log):
            self._hold(key, f"{cut.log.directory} does not answer")
            held = self._held[key]
        if held is None or (now >= held[2] and not self._readers.is_hanging(cut.log)):
            skipped.pop(key, None)
            return False
        # Not of what is tracked, which after a restart or a move has what is the same on disk, and no cut is of that alone.
        entry = self._last.get(key)
        topic_id = cut.log.topic_id.hex if cut.log.topic_id is not None else ""
        if entry is None or entry.topic_id != topic_id:
            entry = Partition(cut.log.topic, cut.log.partition, topic_id)
        skipped[key] = entry._replace(held=held[0], held_since_ms=held[1])
        return True

    def _hold(self, key: Key, reason: str, retry_ms: int = HELD_RETRY_MS) -> None:
        now = self._time.milliseconds()
        known = self._held.get(key)
        if known is None:
            logger.warning("backup: %s-%d holds back: %s", *key, reason)
        again = self._time.monotonic_ms() + retry_ms
        self._held[key] = (reason, known[1] if known is not None else now, again)

    def _plan(self, cut: LogCut) -> PartitionPlan:
        key = key_of(cut.log)
        known = self._tracked.get(key)
        if known is None and (prior := self._prior.get(key)) is not None:
            known = resumed(cut, prior, self._prior_ms, self._readers)
            if known is not None:
                self._tracked[key] = known
            self._prior.pop(key, None)
        elif known is not None and known.log is not cut.log:
            # Its log was moved to another directory, or its topic was made anew: what has the same bytes is not sent again.
            known = resumed(cut, known.entry, 0, self._readers)
            if known is not None:
                self._tracked[key] = known
        if cut.ledger is None and (known is None or known.ledger is None):
            # Read once, for the cuts to come; of this one a load counts the records.
            self._readers.run(cut.log, lambda: cut.log.local.open_ledger())
        return plan(cut, known, self._objects, self._worn)

    def _send_whole(self, plans: list[PartitionPlan]) -> None:
        """Send the segments that go as objects of their own, some at a time, and wait for all of them."""
        waits_for = self._waits_for(plans)
        if not waits_for:
            return
        self.progress.waits_for = waits_for
        try:
            jobs = {
                self._fold(planned.cut, one): one
                for planned in plans
                for one in planned.segments
                if one.is_whole and one.done is None
            }
            wait(jobs)
        finally:
            self.progress.waits_for = ()
        failure: BaseException | None = None
        for job, one in jobs.items():
            self._folds.pop(one.segment.identity, None)
            self._patient.discard(one.segment.identity)
            if (error := job.exception()) is not None:
                failure = failure or error
            else:
                one.done = self._sent(one.segment.identity, job)
        if failure is not None:
            raise failure

    def _waits_for(self, plans: list[PartitionPlan]) -> tuple[Unsent, ...]:
        """What is sent before the cut that is being made, by partition."""
        now_ms = self._time.milliseconds()
        sizes = (
            (planned.key, sum(one.size for one in planned.segments if one.is_whole and one.done is None))
            for planned in plans
        )
        return tuple(Unsent(*key, now_ms, size) for key, size in sizes if size)

    def _send_later(self, plans: list[PartitionPlan]) -> None:
        """Begin to send what no cut waits for, as far as one thread is left for what cuts do wait for."""
        running = sum(not job.done() for identity, job in self._folds.items() if identity not in self._patient)
        free = UPLOADERS - 1 - running
        waiting = ((planned.cut, one) for planned in plans for one in planned.later)
        for cut, one in waiting:
            if free <= 0:
                return
            if one.segment.identity not in self._folds:
                self._fold(cut, one)
                free -= 1

    def _fold(self, cut: LogCut, one: SegmentPlan, *, is_packed: bool = False) -> Future[tuple[Segment, bool]]:
        """Begin to send a segment whole, unless that is under way. `is_packed`: it is in packs."""
        identity = one.segment.identity
        job = self._folds.get(identity)
        if job is None:
            log, segment, size = cut.log, one.segment, one.size
            self._sent_after[identity] = self._next - 1
            if self._time.monotonic_ms() - self._opened_at_ms > REUSE_MS // 2:
                self._present = set()  # a sweep may have taken some of them since
            present = self._present

            def send() -> tuple[Segment, bool]:
                made, is_present = send_whole(log, segment, size, self._readers, self.store, present)
                if not is_present:
                    self.progress.objects += 1
                    self.progress.bytes += made.object_size
                return made, is_present

            pool = self._patient_pool if is_packed else self._pool
            job = self._folds[identity] = pool.submit(send)
            if is_packed:
                self._patient.add(identity)
        return job

    def _collect_folds(self) -> None:
        """Take up segments that were sent whole beside the cuts. Those that failed are tried again with a later cut."""
        for identity, job in list(self._folds.items()):
            if job.done():
                del self._folds[identity]
                self._patient.discard(identity)
                if job.exception() is None:
                    self._sent(identity, job)

    def _sent(self, identity: object, job: Future[tuple[Segment, bool]]) -> Segment:
        """Note a segment that is in the store."""
        made, is_reused = job.result()
        self._objects[identity] = made
        if is_reused:
            self._sent_after[identity] = self._reused_after
        return made

    def _send_pack(self, plans: list[PartitionPlan]) -> dict[Key, Partition]:
        """Send the pieces of all partitions as one pack; returns the entries."""
        self._packs += 1
        pack = Pack(numbered(self._session, self._packs))
        places: list[tuple[PartitionPlan, list[_Places], list[tuple[str, int]]]] = []
        for planned in plans:
            log = planned.cut.log
            rows = []
            for one in planned.segments:
                files: list[tuple[str, int]] = []
                if one.done is None and one.wants:
                    found = self._readers.companions(log, one.segment, one.wants)
                    files = [(suffix, pack.add(Piece(log, None, 0, len(data), data))) for suffix, data in found]
                number = pack.add(one.piece) if one.done is None and one.piece is not None else -1
                rows.append(_Places(one, number, files))
            holes = []
            for name in planned.new_holes:
                data = self._readers.file(log, name)
                holes.append((name, pack.add(Piece(log, None, 0, len(data), data))))
            places.append((planned, rows, holes))
        if pack.size:
            self._upload(f"{PACKS}{pack.name}", pack.size, pack.blocks(self._readers))
            self._pack_sizes[pack.name] = pack.size
        return {planned.key: _entry(planned, rows, holes, pack) for planned, rows, holes in places}

    # --- publishing ---

    def _publish(self, cut: Cut, *, sent_metadata: bool) -> Cut:
        """Create the manifest, with a new base before it where that is due. FencedError, StoreError."""
        base = self._base
        content = encode_cut(cut, base.partitions) if base.name else b""
        is_old = cut.header.number - base.number >= _BASE_EVERY
        is_long = len(content) > _BASE_AT_BYTES and 2 * len(content) > base.size
        if not base.name or ((is_old or is_long) and not sent_metadata):
            self._bases += 1
            name = numbered(self._session, self._bases)
            data = encode_base(cut.partitions)
            self._upload(f"{BASES}{name}", len(data), [data])
            self._base = _Base(name, cut.header.number, len(data), cut.partitions)
            cut = Cut(cut.header._replace(base=name), cut.partitions)
            content = encode_cut(cut, cut.partitions)
        now = self._time.monotonic_ms(), self._time.milliseconds()
        if any(abs(one - other) > LOOK_AFTER_MS for one, other in zip(now, self._alone_at, strict=True)):
            self._look_for_others(cut.header.number)
        while True:
            key = cut_key(cut.header.number)
            try:
                self.store.create(key, content)
            except AlreadyThere:
                if self._is_ours(key, content):
                    break
                # Ours, of an attempt whose answer was lost: it is whole, and this one comes behind it.
                self._next = cut.header.number + 1
                cut = Cut(cut.header._replace(number=self._next), cut.partitions)
                content = encode_cut(cut, self._base.partitions)
                continue
            break
        self._alone_at = now
        self.progress.objects += 1
        self.progress.bytes += len(content)
        return cut

    def _look_for_others(self, number: int) -> None:
        """After a pause: others' cuts behind this number, which may be free again since a sweep takes most of them. Raises as
        `_is_ours`."""
        later = [
            found for stored in self.store.list(CUTS, cut_key(number)) if (found := cut_number(stored.key)) is not None
        ]
        if later:
            self._is_ours(cut_key(max(later)), b"")

    def _is_ours(self, key: str, content: bytes) -> bool:
        """True if the object is the very manifest; False if it is an earlier one of this writer.

        FencedError: it is another's. OpenedLateError: it is another's, and this writer has published nothing yet.
        """
        try:
            found = self.store.read(key)
        except NotThere:
            raise FencedError(f"{self.store.name}/{key} is there and can't be read: somebody deletes cuts") from None
        if found == content:
            return True
        header = decode_header(found, key)
        if header.session == self._session:
            return False
        if self._published is None:
            raise OpenedLateError(
                f"{self.store.name} did not list cut {header.number}, which is there: it is looked at again"
            )
        raise FencedError(
            f"{self.store.name}: another daemon has published cut {header.number} (node {header.node_id}, its writer "
            f"{header.session}, this one {self._session}): this one backs up no more; see which of the two is to go on, and "
            "start that one again"
        )

    def _settle(
        self,
        cut: Cut,
        vector: Vector,
        plans: list[PartitionPlan],
        entries: dict[Key, Partition],
        gone: Iterable[Key],
    ) -> None:
        """Remember what is published."""
        for planned in plans:
            self._tracked[planned.key] = tracked(planned, entries[planned.key])
            self._held.pop(planned.key, None)
        for key in gone:
            del self._tracked[key]
            self._held.pop(key, None)
            self._passes.pop(key, None)
            self.safe.pop(key, None)
        for planned in plans:
            self.safe[planned.key] = _safe(cut.header, planned, entries[planned.key], self.safe.get(planned.key))
        for key in entries.keys() - {planned.key for planned in plans}:
            known = self._tracked.get(key)
            if known is not None:
                known.entry = known.entry._replace(held=entries[key].held, held_since_ms=entries[key].held_since_ms)
        self._published, self._last = cut, cut.partitions
        self._next = cut.header.number + 1
        self._changes, self._metadata = vector.changes, cut.header.metadata
        self._prior = {key: entry for key, entry in self._prior.items() if key in cut.partitions}
        # One that was deleted before any cut had it is not among `gone`.
        self._held = {key: held for key, held in self._held.items() if key in cut.partitions}
        if self._objects:
            alive = {identity for known in self._tracked.values() for identity in known.ids}
            alive |= {segment.identity for planned in plans for segment in planned.cut.view if planned.later}
            named = {
                identity
                for known in self._tracked.values()
                for identity, entry in zip(known.ids, known.entry.segments, strict=False)
                if entry.object_sum
            }
            self._objects = {i: made for i, made in self._objects.items() if i in alive and i not in named}
        for planned in plans:
            known = self._tracked[planned.key]
            for one, entry in zip(planned.segments, known.entry.segments, strict=True):
                if one.former is None and wants_object(entry, one.is_closed):
                    self._fold(planned.cut, one, is_packed=True)
        self._note_passes(plans, vector.taken_ms)
        self._worn = self._find_worn(cut) if cut.header.number % _WORN_LOOK == 0 else set()
        progress = self.progress
        progress.cuts += 1
        progress.number, progress.taken_ms = cut.header.number, cut.header.taken_ms
        recent = RecentCut(
            cut.header.number,
            cut.header.taken_ms,
            len(cut.partitions),
            progress.bytes - self._sent_before,
            round((self._time.milliseconds() - cut.header.taken_ms) / 1000, 3),
        )
        self._sent_before = progress.bytes
        progress.recent = (*progress.recent[-_RECENT + 1 :], recent)
        progress.logs_bytes = cut.size if plans or gone else progress.logs_bytes
        progress.held = tuple((*key, reason, since) for key, (reason, since, _) in self._held.items())
        # Of one that holds back the first void of its next try is enough.
        self._voids = {key: count for key, count in self._voids.items() if key in self._held}

    def _note_passes(self, plans: list[PartitionPlan], taken_ms: int) -> None:
        """Publish which partitions have in this cut what there was before a pass."""
        for planned in plans:
            known = self._passes.pop(planned.key, None)
            if planned.later:
                size = sum(one.size for one in planned.later)
                self._passes[planned.key] = Unsent(
                    *planned.key, known.since_ms if known is not None else taken_ms, size
                )
        self.progress.passes = tuple(self._passes.values())

    def _find_worn(self, cut: Cut) -> set[str]:
        """Packs of which little is in use, but for the newest ones; their bytes go into the next pack."""
        used: dict[str, int] = {}
        for entry in cut.partitions.values():
            for extent in entry.extents():
                used[extent.pack] = used.get(extent.pack, 0) + extent.length
        self._pack_sizes = {name: size for name, size in self._pack_sizes.items() if name in used}
        newest = numbered(self._session, max(0, self._packs - _WORN_LOOK))
        worn: set[str] = set()
        total = 0
        for name, length in sorted(used.items(), key=lambda item: item[1]):
            size = self._pack_sizes.get(name)
            is_old = size is None or name < newest
            if is_old and (size is None or length < size * _WORN_SHARE) and total + length <= _WORN_BYTES:
                worn.add(name)
                total += length
        return worn

    def close(self) -> None:
        """End the threads: what is being sent is finished or fails. Blocks for as long as one request."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._patient_pool.shutdown(wait=False, cancel_futures=True)
        self._readers.close()


class _Base(NamedTuple):
    """The base that manifests are a difference from. `number`: of the cut that it came with; `size`: its bytes."""

    name: str
    number: int
    size: int
    partitions: Partitions


class _Places(NamedTuple):
    """Where in a pack the bytes of one segment are."""

    plan: SegmentPlan
    piece: int
    """Number of its piece; -1: none."""
    files: list[tuple[str, int]]


def _entry(planned: PartitionPlan, rows: list[_Places], holes: list[tuple[str, int]], pack: Pack) -> Partition:
    """Entry of a partition whose pieces are in the store."""
    segments = []
    for one, number, files in rows:
        if one.done is not None:
            segments.append(one.done)
            continue
        added: tuple[Extent, ...] = (pack.extent(number),) if number >= 0 else ()
        packed = tuple(PackedFile(suffix, pack.extent(place)) for suffix, place in files)
        segments.append(
            Segment(
                one.segment.base_offset,
                one.size,
                extents=(*one.kept, *added),
                files=(*one.kept_files, *packed),
            )
        )
    new_holes = tuple(PackedFile(name, pack.extent(place)) for name, place in holes)
    return planned.head._replace(segments=tuple(segments), files=(*planned.kept_holes, *new_holes))


def _safe(header: CutHeader, planned: PartitionPlan, entry: Partition, before: SafePartition | None) -> SafePartition:
    """What of a partition is safe with this cut. Segments that were as long before are so since then."""
    ids = tuple(one.identity for one in planned.segments)
    known = {} if before is None else dict(zip(before.ids, before.segments, strict=True))
    segments = []
    for identity, segment in zip(ids, entry.segments, strict=True):
        old = known.get(identity)
        if old is None or old.size != segment.size:
            old = SafeSegment(segment.base_offset, segment.size, header.taken_ms)
        segments.append(old)
    return SafePartition(header.number, header.taken_ms, entry.end, tuple(segments), ids)


def prefix_of(entry: Partition) -> str:
    """Prefix of the keys of a partition's segments."""
    return segments_prefix(entry.topic, UUID(hex=entry.topic_id) if entry.topic_id else None, entry.partition)
