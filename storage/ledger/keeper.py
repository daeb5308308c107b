"""LedgerKeeper: holds one log's ledger and its file, and writes it before the log's files change.

Nothing is read at a start. A log without a file whose segments no cleaner has touched is known to be whole from the names alone;
any other's file is read before the first change, or when somebody asks. Only where the directory is not what the file describes
(a log that comes from Apache Kafka, or was cleaned or restored elsewhere meanwhile) batch headers are counted, once, by the
first pass, deletion or request to clean.

Before a swap the group's counts are written, always: the swap itself is one step, and which side of it a crash was on the
directory shows. Before a deletion something is written only if a start would draw another conclusion from what is there:
segments that are gone without a word are retention's, so retention writes nothing, and DeleteRecords one small file.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ...protocol.records.exceptions import RecordError
from ..exceptions import StorageError
from ..io.filesystem import replace_file
from .ledger import LEDGER_FILE, Count, Ledger, SegmentExtent, decode, encode

if TYPE_CHECKING:
    from ..segment.files import LogDirectory
    from ..segment.names import Hole

logger = logging.getLogger(__name__)


class LedgerKeeper:
    """Ledger of one log. It changes under the log's deletion lock, which keeps swap and deletion apart; changes block.

    Attributes:
        value: the ledger as of now, None while it is not known. Any thread reads; it is replaced as a whole.
        needs_count: it was looked for, and takes a count of records to be known.
    """

    __slots__ = (
        "_checkpoint",
        "_directory",
        "_has_file",
        "_holes",
        "_log_start_offset",
        "_on_disk",
        "needs_count",
        "value",
    )

    def __init__(
        self,
        directory: LogDirectory,
        first_base_offset: int,
        *,
        has_file: bool = False,
        checkpoint: int | None = None,
        log_start_offset: int = 0,
        holes: Sequence[Hole] = (),
    ) -> None:
        """Facts of the log as it was loaded; `checkpoint` is its entry in Kafka's cleaner-offset-checkpoint. No I/O."""
        self._holes = tuple(holes)
        self._log_start_offset = log_start_offset
        self._directory = directory
        self._has_file = has_file
        self._checkpoint = checkpoint
        self._on_disk = Ledger()
        self.needs_count = False
        self.value: Ledger | None = None
        if not has_file and checkpoint is None and not holes:
            self.value = Ledger().gone(first_base_offset)

    # --- opening ---

    def open(self, segments: Callable[[], Sequence[SegmentExtent]], count: Count | None = None) -> bool:
        """Read the ledger, or make it by counting; False if `count` is needed but absent or failing.

        Before the log's files change for the first time. Never raises: a log is kept, not its books.
        """
        if self.value is not None:
            return True
        if self.needs_count and count is None:
            return False
        try:
            self.value = self._opened(segments(), count)
        except (OSError, StorageError, RecordError) as error:
            logger.warning("%s: the ledger is not known: %s", self._directory.path, error)
        self.needs_count = self.value is None
        return self.value is not None

    def _opened(self, segments: Sequence[SegmentExtent], count: Count | None) -> Ledger | None:
        found = self._read()
        is_whole = found is None and self._checkpoint is None
        ledger: Ledger | None = Ledger().gone(segments[0].base_offset)
        if found is not None:
            self._on_disk = found
            ledger = resolved(found, segments, count)
        if ledger is None:
            return None
        has_new_holes = not {hole.name for hole in self._holes} <= set(ledger.holes)
        if has_new_holes:
            if count is None:
                return None
            ledger = ledger.with_holes(self._holes, segments, count)
        if is_whole or (
            found is not None and not is_strange(ledger, segments, self._checkpoint, self._log_start_offset)
        ):
            # A pass may have died before the checkpoint moved.
            self.value = ledger.at(min(ledger.checkpoint, self._checkpoint or 0))
            if has_new_holes:
                self._try_to_write()
            # Else nothing is written: the next start finds the same.
            return self.value
        if found is not None:
            logger.info("%s: somebody else has changed segments; their records are counted", self._directory.path)
        if count is None:
            return None
        ledger = ledger.withdrawn()
        live = {segment.base_offset: count(segment) for segment in segments[:-1]}
        base, end, _ = active = segments[-1]
        entry = ledger.segments.get(base)
        live[base] = end - base if entry is None else count(active)
        if entry is not None and entry.missing > end - base - live[base]:
            # Only a truncation leaves gaps in it, and only those above the cut can have gone.
            ledger = ledger.cut(end, base, end - base - live[base])
        self.value = ledger.recounted(segments, live)
        self._try_to_write()  # so that nobody has to count again
        return self.value

    def _read(self) -> Ledger | None:
        if not self._has_file:
            return None
        try:
            data = self._directory.file_system.read_bytes(self._path)
        except FileNotFoundError:
            return None
        found = decode(data)
        if found is None:
            logger.warning("%s is not understood; records are counted anew", self._path)
        return found

    # --- swap ---

    def begin_swap(
        self, old: Sequence[SegmentExtent], new: Sequence[tuple[int, int, int]], removed: Mapping[str, int]
    ) -> None:
        """Note on disk that `old` are about to be replaced by `new` (base offset, live, size). OSError: the swap must
        not happen.

        Durable with the next sync of the directory, which `SegmentSwap.prepare` begins with.
        """
        if self.value is None:
            return
        before = self.value
        self.value = before.begin_swap(old, new, removed)
        try:
            self._write(self.value, sync_name=False)
        except OSError:
            self._on_disk, self.value = self.value, before  # it may be there all the same: the next change writes
            raise

    def confirm_swap(self) -> None:
        """Note that the begun swap was done."""
        if self.value is not None:
            self.value = self.value.confirmed()

    def withdraw_swap(self) -> None:
        """Note that the begun swap was not done."""
        if self.value is not None:
            self.value = self.value.withdrawn()

    # --- deletion ---

    def delete(self, delete_records_below: int, first: int) -> None:
        """Book the segments below `first`, which are out of the log and about to be deleted; those below
        `delete_records_below` go because of DeleteRecords.

        A disk that takes no small file must not stop what helps it: a kill before the next write books them otherwise then.
        """
        if self.value is None:
            return
        self.value = self.value.begin_deletion(delete_records_below)
        left, told = self.value.gone(first), self._on_disk.gone(first)
        if self._on_disk.pending is not None or left.removed != told.removed or left.segments != told.segments:
            self._try_to_write()
        self.value = left  # of this nothing is written: a start finds the same

    # --- the rest ---

    def was_counted(self, segment: SegmentExtent, live: int) -> None:
        """Book the number of records of a segment that a pass has read and left unchanged."""
        if self.value is not None:
            self.value = self.value.counted(segment, live)

    def cut(self, end: int, last_base: int, count_missing: Callable[[], int]) -> None:
        """Book a truncation to `end`, in the segment `last_base`; `count_missing` is called only if that segment had
        gaps.
        """
        if self.value is None:
            return
        is_touched = self.value.checkpoint > end or max(self.value.segments, default=-1) >= last_base
        if not is_touched and self._on_disk.pending is None:
            return
        missing = 0
        entry = self.value.segments.get(last_base)
        if entry is not None:
            try:
                missing = count_missing()
            except (OSError, StorageError, RecordError) as error:
                logger.warning("%s: segment %d could not be counted: %s", self._directory.path, last_base, error)
                missing = entry.missing  # the next start counts it
        self.value = self.value.cut(end, last_base, missing)
        self._try_to_write()

    def start_anew(self, offset: int) -> None:
        """Book that the log was emptied and starts at `offset`."""
        self.value = Ledger(begin=offset, first=offset)
        self._try_to_write()

    def save(self, checkpoint: int) -> None:
        """Write the ledger at the end of a pass, before the cleaner's checkpoint moves to `checkpoint`. OSError."""
        if self.value is None:
            return
        self.value = self.value.at(checkpoint)
        if self.value != self._on_disk:
            self._write(self.value)

    def close(self) -> None:
        """Write the ledger at a clean stop, so that the next start has nothing to guess."""
        told = self._on_disk
        if self.value is not None and (told.pending is not None or told.checkpoint > self.value.checkpoint):
            self._try_to_write()

    @property
    def _path(self) -> str:
        return f"{self._directory.path}/{LEDGER_FILE}"

    def _try_to_write(self) -> None:
        assert self.value is not None
        try:
            self._write(self.value)
        except OSError as error:
            logger.warning("%s could not be written; it is with the next change: %s", self._path, error)

    def _write(self, ledger: Ledger, *, sync_name: bool = True) -> None:
        file_system = self._directory.file_system
        if ledger.first != self._on_disk.first:
            # Segments that come back after a power cut must not be booked as gone.
            file_system.sync_directory(self._directory.path)
        if sync_name:
            file_system.write_atomically(self._path, encode(ledger))
        else:
            replace_file(file_system, self._path, encode(ledger))
        self._on_disk, self._has_file = ledger, True


def is_strange(
    ledger: Ledger, segments: Sequence[SegmentExtent], checkpoint: int | None, log_start_offset: int
) -> bool:
    """True if closed segments differ from those that the ledger describes: another program has changed them."""
    here = {segment.base_offset: segment.size for segment in segments}
    active = segments[-1].base_offset
    if segments[0].base_offset != ledger.first:
        return True
    if any(base == active or here.get(base) != entry.size for base, entry in ledger.segments.items()):
        return True
    mark = -1 if checkpoint is None else checkpoint
    # Where the log starts behind the checkpoint, cleaning starts over from there, and no segment before it was touched.
    known = max(ledger.checkpoint, log_start_offset)
    return any(known < segment.end_offset <= mark for segment in segments[:-1])


def resolved(ledger: Ledger, segments: Sequence[SegmentExtent], count: Count | None) -> Ledger | None:
    """The ledger with pending changes resolved by the files in the directory; None if `count` is needed but absent."""
    swapped = ledger.resolved_swap(segments)
    if swapped is None:
        if count is None:
            return None
        assert ledger.pending is not None
        swapped = ledger.confirmed()
        group = [s for s in segments if s.base_offset in ledger.pending.new]
        if any(count(segment) != swapped.live_of(segment) for segment in group):
            swapped = ledger.withdrawn()
    last = segments[-1].base_offset
    if max(swapped.segments, default=-1) > last:
        entry = swapped.segments.get(last)
        swapped = swapped.cut(segments[-1].end_offset, last, 0 if entry is None else entry.missing)
    return swapped.gone(segments[0].base_offset)
