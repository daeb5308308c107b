"""The enumerated crash ring: before every mutating call of a scenario, every legal state after a power cut is recovered.

A scenario works on a `Ring`, which keeps the book: what was tried, what the log has promised (its recovery point and high
watermark say so), what may or must be gone. Before each write, sync, rename, unlink, truncation and mkdir the ring takes the
`Moment` (fake_states.py), starts a fresh daemon's storage on each of its states and holds what comes up against the book:

- all records below the recovery point are there, and all below the high watermark but for `flush.messages`;
- no record that was not written, none twice, none at another offset; offsets have no gaps but cleaning's;
- a second recovery finds nothing to do: the files stay as they are;
- `tidelog log verify` has no complaint.

Equivalent states are recovered once and judged by each moment's book.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from support.crash_exploration import Exploration, Figures
from support.fake_filesystem import FakeFileSystem, Operation
from support.fake_states import Choice, Moment
from support.logs import ROOT, World, batch, read_records
from tidelog.protocol.records.record_batch import iterate_batches, iterate_records
from tidelog.storage.inspect.verify import verify as verify_directory
from tidelog.storage.io.checkpoint import REPLICATION_OFFSET_CHECKPOINT
from tidelog.storage.log.unified_log import UnifiedLog
from tidelog.storage.segment.names import CLEANED_STAGE, DELETED_STAGE, SWAP_STAGE

NO_LIMIT = 1 << 60


@dataclass
class Book:
    """What is known of one log."""

    values: list[bytes] = field(default_factory=list)
    """By offset, of appends that have returned."""
    tried: list[bytes] = field(default_factory=list)
    """One batch more that may be in the files, whole or not at all."""
    durable: int = 0
    start: int = 0
    """Where the log starts at least, for good."""
    may_start: int = 0
    """Up to where a deletion under way may have come."""
    may_be_gone: bool = False
    gone: bool = False
    cleaned: frozenset[int] = frozenset()
    """Offsets that a swap under way takes out."""
    is_cleaned: bool = False
    transaction_indexes: frozenset[int] = frozenset()
    """Base offsets of cleaned segments that have one."""
    truncating: int = NO_LIMIT
    """Offset that a truncation under way goes back to."""


class Recovered(NamedTuple):
    """What a start made of one log."""

    start: int
    end: int
    records: tuple[tuple[int, bytes], ...]
    transaction_indexes: frozenset[int]


class Outcome(NamedTuple):
    """What a start made of one state."""

    logs: dict[str, Recovered]
    was_clean: bool
    bytes_scanned: int


def verify(system: FakeFileSystem, ignored: frozenset[str] = frozenset()) -> list[str]:
    """The faults that `tidelog log verify` finds.

    But the high watermarks' checkpoint tells what was readable, synced or not, and is only ever taken as far as the log goes.
    """
    return [
        str(finding)
        for finding in verify_directory(system, ROOT)
        if finding.is_fault
        and not finding.path.endswith("/" + REPLICATION_OFFSET_CHECKPOINT)
        and finding.rule not in ignored
    ]


class Ring:
    """One run of one scenario."""

    def __init__(
        self,
        states_per_moment: int | Exploration,
        *,
        verify: Callable[[FakeFileSystem], list[str]],
        every: int = 1,
        **settings: Any,
    ) -> None:
        """`states_per_moment` 0: all within the bound. An exploration says for itself which it wants.

        Of `every` moments one is looked at.
        """
        self._limit = states_per_moment
        self._every = every
        self._verify = verify
        self.settings = {"index_interval_bytes": 300, "segment_index_bytes": 240} | settings
        self.world = self._new_world()
        self.books: dict[str, Book] = {}
        self.moments = 0
        self.states = 0
        self.distinct: dict[bytes, Outcome] = (
            states_per_moment.outcomes if isinstance(states_per_moment, Exploration) else {}
        )
        self.settled: set[object] = states_per_moment.settled if isinstance(states_per_moment, Exploration) else set()
        self._interned: dict[Recovered, Recovered] = {}
        self.must_be_clean = False
        self._watching = False
        self._failure: BaseException | None = None
        self._sequence = 0
        self.start()
        self.watch()

    def _new_world(self, state: FakeFileSystem | None = None) -> World:
        """A daemon's storage, on a new disk or on this one."""
        return World(state, damaged="the ring judges each state itself")

    # --- the daemon's life ---

    def start(self) -> None:
        self.must_be_clean = False
        self.world.start(**self.settings)

    def stop(self) -> None:
        self.world.stop()
        for book in self.books.values():
            book.durable = len(book.values)
        self.must_be_clean = True

    def kill(self) -> None:
        self.world.kill()
        self.watch()

    def watch(self) -> None:
        """Recover the states of every moment from here on."""
        self._watching = True
        self.world.fake.fail_when(self._before)

    def look_away(self) -> None:
        """Moments don't count until `watch`: for what leads up to a scenario and is another one's."""
        self._watching = False

    def _before(self, operation: Operation) -> None:
        if self._watching and operation.kind != "prefetch":
            self.enumerate(str(operation))

    def finish(self) -> None:
        """And the states after the last call."""
        self.raise_failure()
        self.enumerate("the end")
        self._watching = False

    def raise_failure(self) -> None:
        """Again, for whoever calls what takes an exception for its own business, as the cleaner does."""
        if self._failure is not None:
            raise self._failure

    # --- what scenarios do ---

    def book(self, topic: str) -> Book:
        return self.books.setdefault(topic, Book())

    def log(self, topic: str = "t") -> UnifiedLog:
        self.book(topic)
        return self.world.log(topic)

    def append(self, *sizes: int, topic: str = "t", producer: int = -1, **arguments: Any) -> None:
        """One batch of records with values of these sizes."""
        log, book = self.log(topic), self.book(topic)
        first = len(book.values)
        values = [(b"%s %d " % (topic.encode(), first + i)).ljust(size, b".") for i, size in enumerate(sizes)]
        if producer >= 0:
            arguments |= {"producer_id": producer, "producer_epoch": 0, "base_sequence": self._sequence}
            self._sequence += len(values)
        data = batch(*values, timestamp=self.world.time.milliseconds(), **arguments)
        book.tried = values
        info = log.append_as_leader(data, 0, len(data))
        assert info.first_offset == first
        book.values += values
        book.tried = []
        while log.needs_sync:
            log.complete_sync(log.flush())

    def flush(self, topic: str = "t") -> None:
        log = self.log(topic)
        log.complete_sync(log.flush())

    def background(self, seconds: float = 0) -> None:
        self.world.time.advance(seconds=seconds)

    def checkpoint(self) -> None:
        self.world.manager.checkpoint_recovery_points()
        self.world.manager.checkpoint_log_start_offsets()
        self.world.manager.checkpoint_high_watermarks()

    def delete_records(self, offset: int, topic: str = "t") -> None:
        book = self.book(topic)
        book.may_start = max(book.may_start, offset)
        self.log(topic).increment_log_start_offset(offset)

    def answer_delete_records(self, offset: int, topic: str = "t") -> None:
        """Delete records and say so: from then on they are gone for good."""
        self.delete_records(offset, topic)
        assert not self.world.manager.note_log_starts([(topic, 0)])
        self.book(topic).start = offset

    def retention(self, topic: str = "t") -> None:
        log, book = self.log(topic), self.book(topic)
        book.may_start = log.high_watermark
        log.delete_old_segments()
        book.may_start = log.log_start_offset

    # --- states ---

    def enumerate(self, moment_name: str) -> None:
        """Recover and judge the states of this moment."""
        self._note_promises()
        self.moments += 1
        if self.moments % self._every:
            return
        moment = Moment(self.world.fake)
        for choice, key in self._chosen(moment):
            self.states += 1
            try:
                outcome = self.distinct.get(key)
                if outcome is None:
                    outcome = self.distinct[key] = self._shared(self._recover(moment.state(choice)))
                self._judge(outcome)
            except BaseException as error:
                error.add_note(f"before {moment_name}, {moment.describe(choice)}")
                self._failure, self._watching = error, False
                raise

    def _chosen(self, moment: Moment) -> Iterator[tuple[Choice, bytes]]:
        if isinstance(self._limit, Exploration):
            yield from self._limit.choose(moment)
            return
        choices: Iterable[Choice] = moment.choices()
        if self._limit:
            choices = spread(choices, moment.count(), self._limit, self.moments)
        for choice in choices:
            yield choice, moment.key(choice)

    def _shared(self, outcome: Outcome) -> Outcome:
        """Most states come to one of a few logs: each of those is kept once."""
        logs = {topic: self._interned.setdefault(log, log) for topic, log in outcome.logs.items()}
        return outcome._replace(logs=logs)

    def figures(self) -> Figures:
        """What this run has looked at."""
        if isinstance(self._limit, Exploration):
            return self._limit.figures()
        return Figures(self.moments, self.states, len(self.distinct), 0)

    def _note_promises(self) -> None:
        """The log says what is durable and what was readable: that is what it will be held to."""
        if not self.world.running:
            return
        for log in self.world.manager.logs():
            book = self.books.get(log.topic)
            if book is None or log.failure is not None or book.truncating != NO_LIMIT:
                continue
            flush_messages = log.config.flush_messages
            # `flush.messages=M`: never more than M are lost of what consumers could read and producers were told.
            promised = log.high_watermark - (0 if flush_messages == 1 else flush_messages)
            assert len(book.values) >= log.recovery_point
            book.durable = max(book.durable, log.recovery_point, promised)

    def _recover(self, state: FakeFileSystem) -> Outcome:
        world = self._new_world(state)
        world.log_config = self.world.log_config
        outcome = _start(world)
        # Many states are recovered to the same files, and what comes then is the same for all of them.
        place = image(state), tuple(sorted(outcome.logs.items()))
        if place not in self.settled:
            self._check_again(state, world, outcome)
            self.settled.add(place)
        return outcome

    def _check_again(self, state: FakeFileSystem, world: World, outcome: Outcome) -> None:
        """`state` is recovered, by `world`, to `outcome`."""
        files = _lasting(state)
        complaints = self._verify(state)
        assert not complaints, complaints
        world.kill()
        again = _start(world)
        assert again.logs == outcome.logs, "a second recovery comes to something else"
        stats = world.manager.recovery_stats
        assert (stats.bytes_truncated, stats.segments_removed) == (0, 0)
        changed = dict(_lasting(world.fake).items() ^ files.items())
        assert not changed, f"a second recovery changes {sorted(changed)}"

    def _judge(self, outcome: Outcome) -> None:
        if self.must_be_clean:
            assert outcome.was_clean
            assert outcome.bytes_scanned == 0
        for topic, book in self.books.items():
            log = outcome.logs.get(topic)
            if log is None:
                assert book.may_be_gone or book.gone or book.durable <= 0, f"the log {topic} is gone"
                continue
            assert not book.gone, f"the log {topic} is back"
            possible = [*book.values, *book.tried]
            least = min(book.durable, book.truncating)
            assert log.end >= least, f"{topic}: ends at {log.end}, {least} records were durable"
            assert log.end in (len(book.values), len(possible)) or log.end <= len(book.values)
            assert log.start >= book.start or book.durable < book.start
            # Of a log that was never synced the first segments may be the ones that are lost.
            may_start = log.end if least <= book.start else max(book.may_start, book.start)
            assert log.start <= may_start, f"{topic} starts at {log.start}"
            offsets = [offset for offset, _ in log.records]
            gaps = set(range(log.start, log.end)) - set(offsets)
            assert offsets == sorted(set(offsets))
            assert gaps <= book.cleaned, f"{topic}: offsets {sorted(gaps - book.cleaned)} are missing"
            if gaps & book.cleaned:
                assert log.transaction_indexes >= book.transaction_indexes, "aborted records would become committed"
            if book.is_cleaned:
                assert gaps >= {offset for offset in book.cleaned if log.start <= offset < log.end}
            for offset, value in log.records:
                assert value == possible[offset], f"{topic}: an invented record at {offset}"


def _start(world: World) -> Outcome:
    manager = world.start()
    logs = {}
    for log in manager.logs():
        assert log.log_start_offset <= log.high_watermark <= log.log_end_offset
        assert log.recovery_point <= log.log_end_offset
        end = log.log_end_offset
        records = read_records(log, log.log_start_offset, limit_offset=end)
        offsets = [record.offset for record in records]
        for segment in log.segments:
            for offset in (segment.base_offset, end - 1):
                if log.log_start_offset <= offset < end:
                    following = min((o for o in offsets if o >= offset), default=None)
                    assert _first_offset(log, offset, end) == following
        logs[log.topic] = Recovered(
            log.log_start_offset,
            end,
            tuple((record.offset, record.value or b"") for record in records),
            frozenset(
                segment.base_offset
                for segment in log.segments
                if world.fake.exists(f"{log.directory}/{segment.base_offset:020d}.txnindex")
            ),
        )
    leftovers = [path for path in world.fake.paths() if path.endswith((SWAP_STAGE, CLEANED_STAGE))]
    assert not leftovers, leftovers
    return Outcome(logs, manager.had_clean_shutdown, manager.recovery_stats.bytes_scanned)


def _first_offset(log: UnifiedLog, offset: int, end: int) -> int | None:
    """Offset of the first record that a look-up of `offset` leads to; batches that cleaning has emptied are passed over."""
    while offset < end:
        info = log.read(offset, 1, limit_offset=end)
        assert info.file is not None
        data = info.file.pread(info.size, info.position)
        info.release()
        for record in iterate_records(data):
            if record.offset >= offset:
                return record.offset
        offset = next(iterate_batches(data)).last_offset + 1
    return None


def _lasting(system: FakeFileSystem) -> dict[str, bytes]:
    """What a recovery of a recovered directory must not touch; what waits for deletion is none of it.

    Indexes without the room that an active segment's have; snapshots above the point where recovery starts go and come.
    """
    return {
        path: data.rstrip(b"\0") if path.endswith("index") else data
        for path, data in system.contents().items()
        if path.startswith(ROOT + "/") and not path.endswith((DELETED_STAGE, ".snapshot")) and "-delete/" not in path
    }


def image(system: FakeFileSystem) -> bytes:
    """A digest of all names and contents."""
    digest = hashlib.blake2b(digest_size=16)
    for path, data in sorted(system.contents().items()):
        digest.update(b"%s\0%d\0" % (path.encode(), len(data)))
        digest.update(data)
    digest.update("\0".join(system.directories()).encode())
    return digest.digest()


def spread(choices: Iterable[Choice], count: int, limit: int, turn: int) -> Iterable[Choice]:
    """About `limit` of `count`: the extremes, and the rest evenly spread, other ones at each moment."""
    first = min(2, limit)
    step = max(1, (count - first) // max(1, limit - first))
    iterator = iter(choices)
    yield from itertools.islice(iterator, first)
    yield from itertools.islice(iterator, turn * 7919 % step, None, step)
