"""The crash ring with the cleaner at work: what a power cut in a pass, or after it, must not change.

Beside what every ring checks, each recovered state is held to a plain list of everything that was appended:

- a read_committed consumer's table at the end of the log is the list's: no key is lost, none is back;
- what a finished pass has removed stays away;
- the next pass finishes what was begun, removes what there is to remove, and `tidelog log verify` has no complaint then;
- the ledger balances, before that pass and after it: what is in the files is live, what is not was removed, each offset once
  and for a cause that was its own. What has gone with its segment went for the cause that the deletion had.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from support.cleaning import CleaningWorld, Producer, committed_records, data_records, keyed, markers, state_of
from support.crash_ring import Outcome, Ring
from support.fake_filesystem import FakeFileSystem
from support.logs import World
from tidelog.protocol.records.record_batch import Record
from tidelog.storage.log.unified_log import UnifiedLog
from tidelog.storage.producers.transaction_marker import TransactionMarker


class RingWorld(CleaningWorld):
    """Starts again with the settings that it was started with."""

    def start(self, **settings: Any) -> Any:
        if settings:
            return super().start(**settings)
        manager = World.start(self)
        self.make_cleaner()
        return manager


@dataclass(frozen=True, slots=True)
class Entry:
    """What was written at one offset."""

    key: bytes = b""
    value: bytes | None = None
    transaction: int = -1
    """-1: none."""
    commits: bool | None = None
    """Of a marker: how it ends its transaction."""

    @property
    def is_marker(self) -> bool:
        return self.commits is not None


class History:
    """Everything that was appended, by offset."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def continued(self, end: int, entry: Entry) -> History:
        """Another one that has `entry` at `end`."""
        other = History()
        other.entries = [*self.entries[:end], entry]
        return other

    def committed(self, end: int) -> dict[int, Entry]:
        """Committed records below the last stable offset of a log that ends at `end`."""
        outcome = {entry.transaction: entry.commits for entry in self.entries[:end] if entry.is_marker}
        found = {}
        for offset, entry in enumerate(self.entries[:end]):
            if entry.transaction >= 0 and entry.transaction not in outcome:
                break
            if not entry.is_marker and outcome.get(entry.transaction, True):
                found[offset] = entry
        return found

    def table(self, start: int, end: int) -> dict[bytes, bytes]:
        """What a read_committed consumer of [start, end) holds in the end."""
        return state_of(
            Record(offset, 0, e.key, e.value) for offset, e in self.committed(end).items() if offset >= start
        )

    def aborted(self, end: int) -> set[int]:
        gone = {entry.transaction for entry in self.entries[:end] if entry.commits is False}
        return {o for o, e in enumerate(self.entries[:end]) if e.transaction in gone and not e.is_marker}

    def removable(self, end: int) -> set[int]:
        """Below `end`, where all is decided: what any pass takes at once."""
        last = {entry.key: offset for offset, entry in self.committed(end).items()}
        return self.aborted(end) | (self.committed(end).keys() - last.values())

    def markers(self, end: int) -> set[int]:
        return {offset for offset, entry in enumerate(self.entries[:end]) if entry.is_marker}

    def causes(self, offset: int, end: int) -> set[str]:
        """Why a pass over a log that ends at `end` may have removed it."""
        entry = self.entries[offset]
        if entry.is_marker:
            return {"marker"}
        if offset in self.aborted(end):
            return {"aborted"}
        later = any(e.key == entry.key and o > offset for o, e in self.committed(end).items())
        return {cause for cause, holds in (("superseded", later), ("tombstone", entry.value is None)) if holds}

    def tombstones(self, end: int) -> set[int]:
        return {offset for offset, entry in self.committed(end).items() if entry.value is None}


class CleaningRing(Ring):
    """One log `t`, with a cleaner."""

    world: RingWorld

    def __init__(
        self,
        states_per_moment: int,
        *,
        verify: Callable[[FakeFileSystem], list[str]],
        map_entries: int = 1000,
        **settings: Any,
    ) -> None:
        self._map_entries = map_entries
        self.history = History()
        self.deleted: dict[int, str] = {}
        """Offset → cause, of all that lie in segments that were deleted, or are about to be."""
        self._gone: set[int] = set()
        self._transactions: dict[int, int] = {}
        super().__init__(states_per_moment, verify=verify, **settings)
        self.look_away()

    def _new_world(self, state: FakeFileSystem | None = None) -> World:
        world = RingWorld(map_entries=self._map_entries, **({} if state is None else {"file_system": state}))
        if state is not None:
            world.time.advance(self.world.time.milliseconds() - world.time.milliseconds())
        return world

    # --- what scenarios do ---

    def put(self, *pairs: tuple[str, str | None], **arguments: Any) -> None:
        """One batch without a producer."""
        entries = [Entry(key.encode(), None if value is None else value.encode()) for key, value in pairs]
        self._write(entries, lambda: keyed(self.log(), *_pairs(entries), **self._now(), **arguments))

    def send(self, producer: Producer, *pairs: tuple[str, str | None], **arguments: Any) -> None:
        transaction = -1
        if producer.is_transactional:
            transaction = self._transactions.setdefault(producer.producer_id, len(self.history.entries))
        entries = [Entry(key.encode(), None if value is None else value.encode(), transaction) for key, value in pairs]
        self._write(entries, lambda: producer.send(self.log(), *_pairs(entries), **self._now(), **arguments))

    def end(self, producer: Producer, *, commit: bool) -> None:
        entry = Entry(
            value=TransactionMarker(commit, 0).value(),
            commits=commit,
            transaction=self._transactions.pop(producer.producer_id),
        )
        self._write([entry], lambda: producer.end(self.log(), commit=commit, **self._now()))

    def _now(self) -> dict[str, int]:
        return {"timestamp": self.world.time.milliseconds()}

    def _write(self, entries: list[Entry], write: Callable[[], int]) -> None:
        book = self.book("t")
        values = [entry.value or b"" for entry in entries]
        book.tried = values
        first = len(self.history.entries)
        self.history.entries += entries
        assert write() == first
        book.values += values
        book.tried = []
        log = self.log()
        while log.needs_sync:
            log.complete_sync(log.flush())

    def clean(self, *, due: Iterable[int] = ()) -> int:
        """Passes until there is nothing to do; returns how many. `due`: tombstones and markers that must go with it."""
        log = self.log()
        end = log.segments[-1].base_offset
        assert end <= log.last_stable_offset
        going = self.history.removable(end) | set(due)
        book = self.book("t")
        book.cleaned |= going
        passes = self.world.clean_all()
        self.raise_failure()
        assert self.world.cleaners.uncleanable() == []
        self._gone |= going
        left = {record.offset for record in data_records(log)}
        assert not left & self._gone
        return len(passes)

    def clean_in_part(self, checks: int) -> None:
        """A pass that is ended at that many checks: some of its groups are in place, and are taken for done by nobody."""
        self.book("t").cleaned |= self.history.removable(self.log().segments[-1].base_offset)
        assert self.world.clean_once(abort_at=checks) is None
        self.raise_failure()

    def delete(self, cause: str, below: int) -> None:
        """A retention run that takes the segments below that offset for that cause."""
        self.deleted |= {offset: cause for offset in range(below) if offset not in self.deleted}
        self.retention()
        self.raise_failure()
        assert self.log().segments[0].base_offset == below

    def change(self, **settings: Any) -> None:
        """Change settings of the log, for later starts too."""
        self.world.log_config = replace(self.world.log_config, **settings)
        self.log().update_config(self.world.log_config)

    def left(self) -> list[Record]:
        """The data records in the files."""
        return data_records(self.log())

    # --- states ---

    def _check_again(self, state: FakeFileSystem, world: World, outcome: Outcome) -> None:
        found = state.kill()
        super()._check_again(state, world, outcome)
        if "t" in outcome.logs:
            end = outcome.logs["t"].end
            world = self._new_world(found)
            assert isinstance(world, RingWorld)
            world.log_config = self.world.log_config
            world.start()
            log = world.log()
            assert log.log_end_offset == end
            expected = self.history.table(log.log_start_offset, end)
            readable = [record for record in committed_records(log) if record.offset >= log.log_start_offset]
            assert state_of(readable) == expected, "a key is lost, or back"
            self._check_ledger(log, self.history)
            self._clean_again(world, log, end, expected)

    def _check_ledger(self, log: UnifiedLog, history: History) -> None:
        assert log.local.open_ledger(count=True)
        ledger, end = log.ledger.value, log.log_end_offset
        assert ledger is not None
        present = {record.offset for record in data_records(log)} | set(markers(log))
        assert ledger.live(end) == len(present), f"{ledger} says that {ledger.live(end)} are live of {sorted(present)}"
        assert ledger.appended(end) == end == len(present) + sum(ledger.removed.values()), f"{ledger} and end {end}"
        only, possible = Counter[str](), Counter[str]()
        for offset in set(range(end)) - present:
            causes = history.causes(offset, end)
            if offset < log.segments[0].base_offset:
                # A pass may have had it before. A log that was never synced may have lost its beginning: nobody took that.
                causes = causes | {self.deleted.get(offset, "retention")}
            elif offset < log.log_start_offset:
                causes = causes | {"delete-records"}  # the segment came back, and the pass after that dropped it
            possible.update(causes)
            if len(causes) == 1:
                only.update(causes)
        for cause in {*ledger.removed, *possible}:
            count = ledger.removed.get(cause, 0)
            assert only[cause] <= count <= possible[cause], f"{cause}: {count} of {ledger.removed}"

    def _clean_again(self, world: RingWorld, log: UnifiedLog, end: int, expected: dict[bytes, bytes]) -> None:
        stable = log.last_stable_offset
        log.roll()
        keyed(log, (b"~active", b"x"), timestamp=world.time.milliseconds())
        world.clean_all()
        assert world.cleaners.uncleanable() == []
        assert log.log_end_offset == end + 1
        self._check_ledger(log, self.history.continued(end, Entry(b"~active", b"x")))
        table = state_of([record for record in committed_records(log) if record.offset >= log.log_start_offset])
        table.pop(b"~active", None)
        assert table == expected, "the pass after the power cut takes a key away, or brings one back"
        left = {record.offset for record in data_records(log)}
        # Whole segments, up to the one that an open transaction holds.
        cleaned_below = max(s.base_offset for s in log.segments if s.base_offset <= stable)
        kept = left & self.history.removable(cleaned_below)
        assert not kept, f"the pass after the power cut leaves {sorted(kept)}"
        world.stop()
        complaints = self._verify(world.fake)
        assert not complaints, complaints

    def _judge(self, outcome: Outcome) -> None:
        super()._judge(outcome)
        back = self._gone & {offset for offset, _ in outcome.logs["t"].records} if "t" in outcome.logs else set()
        assert not back, f"offsets {sorted(back)} are back"


def _pairs(entries: list[Entry]) -> list[tuple[bytes, bytes | None]]:
    return [(entry.key, entry.value) for entry in entries]
