"""What compaction promises, on random logs: any interleaving of appends, transactions, passes, aborted passes, retention,
DeleteRecords, changes of policy and of delete.retention.ms, clock moves, restarts and kills, held against a plain list of
everything that was ever appended.

The oracle knows nothing of maps, segments or batches: it has the records, which of them are committed, aborted or open, and when
a pass went over each offset.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.cleaning import (
    DAY_MS,
    CleaningWorld,
    Producer,
    committed_records,
    data_records,
    headers,
    keyed,
    markers,
    put,
    state_of,
)
from support.logs import read_records
from support.process_passes import ProcessWorld
from support.slices import slice_of
from tidelog.cleaner.kernel.results import FilterCounts
from tidelog.config.log_config import LogConfig
from tidelog.protocol.records.attributes import Compression
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.record_batch import Record
from tidelog.storage.ledger.ledger import SegmentExtent

RETENTION_MS = DAY_MS
COMPACTED = {"cleanup_policy": frozenset({"compact"}), "min_cleanable_dirty_ratio": 0.0, "segment_index_bytes": 4096}
NO_RETENTION = {"retention_ms": -1, "retention_bytes": -1}
STEPS = {
    "append": 30,
    "send": 25,
    "end": 12,
    "roll": 10,
    "clean": 10,
    "aborted clean": 3,
    "clock": 4,
    "restart": 2,
    "crash": 2,
    "delete records": 1,
    "retention": 1,
    "policy": 2,
    "delete retention": 2,
}
"""What may happen, and how often."""
CODECS = (Compression.NONE, Compression.NONE, Compression.GZIP, Compression.LZ4, Compression.SNAPPY, Compression.ZSTD)


@dataclass
class Written:
    """One appended record as the oracle keeps it."""

    record: Record
    transaction: int | None
    horizon_ms: int | None = None
    """When a tombstone may go: set by the first pass that covers it, and never moved by a later one."""
    is_sure: bool = False
    """That pass came to its end. One that was aborted may have covered it or not: then this is the earliest there may be."""


@dataclass
class Oracle:
    """Everything that was appended."""

    written: dict[int, Written] = field(default_factory=dict)
    outcome: dict[int, bool] = field(default_factory=dict)
    """Transaction → committed. Open ones are missing."""
    start: int = 0

    def is_committed(self, item: Written) -> bool:
        return item.transaction is None or self.outcome.get(item.transaction, False)

    def is_aborted(self, item: Written) -> bool:
        return item.transaction is not None and self.outcome.get(item.transaction) is False

    def latest(self, end: int) -> dict[bytes, int]:
        """Key → offset of its last committed record below `end`."""
        found: dict[bytes, int] = {}
        for offset, item in self.written.items():
            if offset < end and self.is_committed(item) and item.record.key is not None:
                found[item.record.key] = offset
        return found


class Run:
    """One random history."""

    def __init__(self, seed: int, **log_settings: Any) -> None:
        self.random = random.Random(seed)
        map_entries = self.random.choice([3, 10, 40, 10_000])
        self.world = self.make_world(map_entries=map_entries, producer_id_expiration_ms=str(2**31 - 1))
        if self.random.random() < 0.2:
            self.world.max_segment_bytes = 700
        self.is_old = "message_format_version" in log_settings
        self.settings = {
            "segment_bytes": self.random.choice([300, 1000, 4000]),
            "min_compaction_lag_ms": self.random.choice([0, 0, RETENTION_MS // 4]),
            "index_interval_bytes": self.random.choice([0, 100, 4096]),
            "delete_retention_ms": RETENTION_MS,
        } | log_settings
        self.world.start(**self.settings)
        self.log = self.world.log()
        self.changes: dict[str, Any] = {}
        self.oracle = Oracle()
        self.producers = {n: Producer(n, is_transactional=n < 3) for n in range(5)}
        self.open: dict[int, int] = {}
        self.transactions = 0
        self.cleaned_to = 0
        self.touched_to = 0
        self.present: set[int] = set()
        self.removed: dict[str, int] = {}
        self.last_step = ""
        self.checked_end = 0
        self.start_before = 0

    def make_world(self, **settings: Any) -> CleaningWorld:
        """The machine that it happens on."""
        return CleaningWorld(**settings)

    # --- what happens ---

    def step(self) -> None:
        kind = self.random.choices(
            [*STEPS],
            [*STEPS.values()],
        )[0]
        if self.is_old and kind in ("send", "end"):
            kind = "format" if self.random.random() < 0.2 else "append"
        self.last_step = kind
        getattr(self, kind.replace(" ", "_"))()

    def _pairs(self) -> list[tuple[bytes, bytes | None]]:
        count = self.random.choice([1, 1, 2, 5])
        pairs = []
        for _ in range(count):
            key = b"key-%d" % self.random.randrange(self.random.choice([3, 12]))
            value = None if self.random.random() < 0.15 else b"v%d" % self.random.randrange(10**9)
            pairs.append((key, value))
        return pairs

    def _note(self, offset: int, pairs: Sequence[tuple[bytes | None, bytes | None]], transaction: int | None) -> None:
        for index, (key, value) in enumerate(pairs):
            record = Record(offset + index, self.world.time.milliseconds(), key, value)
            self.oracle.written[offset + index] = Written(record, transaction)

    def append(self) -> None:
        pairs: list[tuple[bytes | None, bytes | None]] = list(self._pairs())
        if not self.is_compacted and not self.is_old:  # nobody refuses it then
            pairs[-1] = (None, b"keyless")
        now = self.world.time.milliseconds()
        codec = self.random.choice(CODECS[:-1] if self.is_old else CODECS)  # zstd is format 2's
        self._note(keyed(self.log, *pairs, timestamp=now, compression=codec), pairs, None)

    def send(self) -> None:
        number = self.random.randrange(5)
        producer, pairs = self.producers[number], self._pairs()
        if 0 <= producer.last_offset < self.oracle.start and number not in self.open:
            producer.epoch, producer.sequence = (
                producer.epoch + 1,
                0,
            )  # what became of it with DeleteRecords is another test's
        transaction = None
        if producer.is_transactional:
            if number not in self.open:
                self.transactions += 1
                self.open[number] = self.transactions
            transaction = self.open[number]
        now = self.world.time.milliseconds()
        offset = producer.send(self.log, *pairs, timestamp=now, compression=self.random.choice(CODECS))
        self._note(offset, pairs, transaction)

    def end(self) -> None:
        if self.open:
            number = self.random.choice(sorted(self.open))
            commit = self.random.random() < 0.6
            self.producers[number].end(self.log, commit=commit, timestamp=self.world.time.milliseconds())
            self.oracle.outcome[self.open.pop(number)] = commit

    def roll(self) -> None:
        self.log.roll()

    def format(self) -> None:
        """Messages of both formats in one log."""
        self._configure(message_format_version=self.random.choice(["0.10.0", "3.0"]))

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.log.config.cleanup_policy

    def _configure(self, **changes: Any) -> None:
        """As AlterConfigs: holds from now on, after a restart too."""
        self.changes |= changes
        self.world.log_config = LogConfig(**(COMPACTED | self.settings | self.changes))
        self.log.update_config(self.world.log_config)

    def policy(self) -> None:
        """No longer compacted, and nothing to be deleted; or compacted again."""
        wanted = {"delete"} if self.is_compacted else {"compact"}
        self._configure(cleanup_policy=frozenset(wanted), **NO_RETENTION)

    def delete_retention(self) -> None:
        """Horizons that are set do not move. Formats without one go by file times and what is set when a pass comes."""
        if not self.is_old:
            self._configure(delete_retention_ms=self.random.choice([RETENTION_MS, RETENTION_MS // 2]))

    def retention(self) -> None:
        """What is old, or too much, goes, whatever its keys: `compact,delete` for a moment."""
        if self.open:
            return  # what becomes of an open transaction is another test's
        self.start_before = self.oracle.start
        before = self.changes.get("cleanup_policy", COMPACTED["cleanup_policy"])
        limits = self.random.choice(
            [{"retention_ms": 2 * RETENTION_MS}, {"retention_bytes": self.random.randrange(self.log.size + 1)}]
        )
        self._configure(cleanup_policy=frozenset({"compact", "delete"}), **(NO_RETENTION | limits))
        self.log.delete_old_segments()
        self._configure(cleanup_policy=before, **NO_RETENTION)
        # After a crash the log may begin below what DeleteRecords has taken: that may come back, or not.
        self.oracle.start = max(self.oracle.start, self.log.log_start_offset)

    def clock(self) -> None:
        self.world.time.advance(self.random.choice([1000, RETENTION_MS // 3, RETENTION_MS + 1]))

    def clean(self) -> None:
        """One pass, if one is due."""
        stable = self.log.last_stable_offset
        active = self.log.segments[-1].base_offset
        before = {r.offset for r in data_records(self.log)}
        markers_before = set(markers(self.log))
        result = self.world.clean_once()
        assert self.world.cleaners.uncleanable() == []
        if result is None:
            return
        assert self.is_compacted
        assert result.end_offset <= min(stable, active)
        assert result.end_offset >= self.cleaned_to or self.cleaned_to > self.log.log_end_offset
        self.cleaned_to = result.end_offset
        now = result.started_ms
        gone = before - {r.offset for r in data_records(self.log)}
        self._check_removed(gone, now, stable)
        self._check_counts(result.counts, gone, markers_before - set(markers(self.log)), stable)
        self._stamp(self.cleaned_to, now)
        self._check_cleaned()

    def aborted_clean(self) -> None:
        """Groups that were complete are swapped in: some of what a whole pass would have done."""
        stable, active = self.log.last_stable_offset, self.log.segments[-1].base_offset
        end = min(stable, active) if self.is_compacted else 0
        now = self.world.time.milliseconds()
        if self.world.clean_once(abort_at=self.random.choice([1, 2, 3, 5, 9, 20])) is None:
            self.touched_to = max(self.touched_to, end)
            self._stamp(end, now, is_sure=False)
        else:
            self.cleaned_to = self.world.cleaners.partitions()[0].checkpoint or 0
            self._stamp(self.cleaned_to, now)

    def _stamp(self, end: int, now: int, *, is_sure: bool = True) -> None:
        horizon_ms = now + self.log.config.delete_retention_ms
        for offset, item in self.oracle.written.items():
            if offset < end and item.record.value is None and not item.is_sure:
                item.horizon_ms = horizon_ms if item.horizon_ms is None else min(item.horizon_ms, horizon_ms)
                item.is_sure = is_sure

    def restart(self) -> None:
        end = self.log.log_end_offset
        self.log = self.world.restart()
        assert self.log.log_end_offset == end

    def crash(self) -> None:
        end = self.log.log_end_offset
        self.log = self.world.crash()
        assert self.log.log_end_offset == end

    def delete_records(self) -> None:
        offset = self.random.randrange(self.log.log_start_offset, self.log.last_stable_offset + 1)
        self.log.increment_log_start_offset(offset)
        self.oracle.start = max(self.oracle.start, self.log.log_start_offset)
        self.log.delete_old_segments()

    # --- what must hold ---

    def _check_removed(self, gone: set[int], now: int, stable: int) -> None:
        """A pass removes a record for one of the causes, never for none."""
        latest = self.oracle.latest(stable)
        for offset in gone:
            item = self.oracle.written[offset]
            lag_ms = self.log.config.min_compaction_lag_ms
            assert item.record.timestamp <= now - lag_ms, f"{item} was younger than min.compaction.lag.ms"
            if offset < self.oracle.start or self.oracle.is_aborted(item):
                continue
            assert self.oracle.is_committed(item), f"{item} was open"
            if item.record.key is None:
                continue
            if latest[item.record.key or b""] > offset:
                continue
            assert item.record.value is None, f"{item} was the last of its key"
            if self.is_old:
                continue  # formats without a horizon go by file times
            assert item.horizon_ms is not None, f"{item} went in the first pass over it"
            assert item.horizon_ms <= now, f"{item} went before its time"

    def _check_counts(self, counts: FilterCounts, gone: set[int], markers_gone: set[int], stable: int) -> None:
        """What a pass says it has removed is what is missing, in offsets. Where two causes hold for one, either is told."""
        latest = self.oracle.latest(stable)
        told = {
            "below start": counts.below_start,
            "marker": counts.markers_expired,
            "aborted": counts.aborted,
            "superseded": counts.superseded,
            "keyless": counts.keyless,
            "tombstone": counts.tombstones_expired,
        }
        only, possible = Counter[str](), Counter[str]()
        for offset in gone | markers_gone:
            causes = ["below start"] if offset < self.oracle.start else []
            causes += self._causes_of_passes(offset, latest)
            possible.update(causes)
            if len(causes) == 1:
                only.update(causes)
        assert counts.records_read == counts.records_kept + counts.removed
        assert counts.removed == sum(told.values()) == len(gone | markers_gone)
        for cause, count in told.items():
            assert only[cause] <= count <= possible[cause], cause

    def _check_cleaned(self) -> None:
        """Below the checkpoint every key is there once, and no aborted record is."""
        seen: set[bytes] = set()
        for record in data_records(self.log):
            if record.offset >= self.cleaned_to or record.offset < self.oracle.start:
                continue
            item = self.oracle.written[record.offset]
            assert not self.oracle.is_aborted(item), f"{item} is still there"
            assert record.key is not None
            if self.is_old:
                continue  # the last record of a range holds its place
            assert record.key not in seen, f"{record} is a second one of its key"
            seen.add(record.key)

    def check_ledger(self) -> None:
        """appended = live + Σ removed, in the whole, by segment and by cause, held against what is in the files."""
        log = self.log
        assert log.local.open_ledger(), "nobody else was here: nothing has to be counted"
        ledger = log.ledger.value
        assert ledger is not None
        end, bases = log.log_end_offset, [segment.base_offset for segment in log.segments]
        present = {record.offset for record in data_records(log)} | set(markers(log))
        assert ledger.appended(end) == end
        assert ledger.live(end) == len(present)
        assert end == len(present) + sum(ledger.removed.values())
        for base, following in zip(bases, [*bases[1:], end], strict=True):
            assert ledger.live_of(SegmentExtent(base, following, 0)) == len(present & set(range(base, following)))
        gone = (self.present | set(range(self.checked_end, end))) - present
        only, possible = self._causes(gone)
        before, self.removed = self.removed, dict(ledger.removed)
        for cause in {*before, *self.removed}:
            more = self.removed.get(cause, 0) - before.get(cause, 0)
            assert only[cause] <= more <= possible[cause], cause
        self.present, self.checked_end = present, end

    def _causes_of_passes(self, offset: int, latest: Mapping[bytes, int]) -> list[str]:
        """Why a pass may have removed it."""
        item = self.oracle.written.get(offset)
        if item is None:
            return ["marker"]
        if self.oracle.is_aborted(item):
            return ["aborted"]
        if item.record.key is None:
            return ["keyless"]
        is_superseded, is_tombstone = latest[item.record.key] > offset, item.record.value is None
        return ["superseded"] * is_superseded + ["tombstone"] * is_tombstone

    def _causes(self, gone: set[int]) -> tuple[Counter[str], Counter[str]]:
        """By cause, how many of these went for it alone, and how many may have gone for it."""
        latest = self.oracle.latest(self.log.last_stable_offset)
        only, possible = Counter[str](), Counter[str]()
        for offset in gone:
            if self.last_step in ("retention", "delete records"):
                causes = [self.last_step.replace(" ", "-")]
                if offset < self.start_before:  # a crash has brought it back, or there was no run since
                    causes = ["retention", "delete-records"]
            else:
                causes = ["delete-records"] if offset < self.oracle.start else []
                causes += self._causes_of_passes(offset, latest)
            possible.update(causes)
            if len(causes) == 1:
                only.update(causes)
        return only, possible

    def check(self) -> None:
        self.check_ledger()
        log, oracle = self.log, self.oracle
        records = data_records(log)
        offsets = [record.offset for record in records]
        assert offsets == sorted(set(offsets)), "order has changed"
        for record in records:
            assert record == oracle.written[record.offset].record, "a record has changed"
        # The head: everything from where the cleaner has not been.
        head = max(self.cleaned_to, self.touched_to, oracle.start)
        kept = set(offsets)
        assert {o for o, i in oracle.written.items() if o >= head and not oracle.is_aborted(i)} <= kept
        # From the start one sees the final state of every key.
        committed = committed_records(log)
        stable = log.last_stable_offset
        latest = oracle.latest(stable)
        expected = {
            key: value
            for key, offset in latest.items()
            if offset >= oracle.start and (value := oracle.written[offset].record.value) is not None
        }
        readable = [record for record in committed if record.offset >= oracle.start]
        assert state_of([record for record in readable if record.key is not None]) == expected
        # No aborted record, and none of an open transaction, is taken for a committed one.
        assert all(oracle.is_committed(oracle.written[record.offset]) for record in readable)
        # Tombstones stay for their time.
        now = self.world.time.milliseconds()
        for offset in latest.values():
            item = oracle.written[offset]
            if (
                item.record.value is None
                and offset >= oracle.start
                and (item.horizon_ms is None or now < item.horizon_ms)
            ):
                assert offset in kept, f"{item} went before its time"
        # An offset that is gone stands for the next one there is.
        if log.log_start_offset < log.high_watermark:
            asked = self.random.randrange(log.log_start_offset, log.high_watermark)
            got = read_records(log, asked)
            data = [r for r in got if r.offset in oracle.written]
            assert [r.offset for r in data] == [o for o in offsets if o >= asked]

    def settle(self) -> None:
        """Decide everything, clean, wait, clean: nothing is left but the last value of every key, and no I/O any more."""
        while self.open:
            self.end()
        self.last_step = "clean"
        self._configure(cleanup_policy=COMPACTED["cleanup_policy"])
        self.log.roll()
        put(self.log, "~active", "x")
        self.oracle.written[self.log.log_end_offset - 1] = Written(
            Record(self.log.log_end_offset - 1, 1_700_000_000_000, b"~active", b"x"), None
        )
        for _ in range(200):
            work = self.world.cleaners.take_next()
            if work is None:
                break
            self.world.cleaners.give_back(work)
            self.clean()
        self.check()
        self.world.time.advance(RETENTION_MS + 1)
        self.world.clean_all()
        self.world.time.advance(RETENTION_MS + 1)
        self.world.clean_all()
        self.check_ledger()
        limit = self.log.segments[-1].base_offset
        values = {k: o for k, o in self.oracle.latest(limit).items() if self.oracle.written[o].record.value is not None}
        left = [r.offset for r in data_records(self.log) if self.oracle.start <= r.offset < limit]
        assert left == sorted(o for o in values.values() if o >= self.oracle.start)
        self._check_rebuilt_producers()
        calls = len(self.world.fake.trace)
        assert self.world.clean_once() is None
        assert len(self.world.fake.trace) == calls, "a pass over a clean log"

    def _check_rebuilt_producers(self) -> None:
        """Without snapshots the state of producers comes from the batches: no transaction may seem open, no retry new."""
        end = self.log.log_end_offset
        self.world.kill()
        for path in self.world.fake.paths():
            if path.endswith(".snapshot"):
                self.world.fake.unlink(path)
        self.log = self.world.start_again()
        assert self.log.log_end_offset == self.log.last_stable_offset == end
        for producer in self.producers.values():
            if producer.last_offset >= self.oracle.start:  # else retention took what would tell
                data = bytearray(
                    build_batch(
                        [Record(0, 1, b"again", b"")] * producer.last_count,
                        **{k: v for k, v in producer.last_arguments.items() if k != "timestamp"},
                    )
                )
                assert self.log.append_as_leader(data, 0, len(data)).duplicate


@pytest.mark.sliced
@pytest.mark.parametrize("seed", slice_of(range(25)))
@pytest.mark.damaged("records that a kill brings back below the log's start have no leader epoch in the file")
def test_promises_hold_for_any_history(seed: int) -> None:
    run = Run(seed)
    for _ in range(120):
        run.step()
        run.check()
    run.settle()


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32))
@pytest.mark.damaged("records that a kill brings back below the log's start have no leader epoch in the file")
def test_promises_hold_for_any_history_that_hypothesis_finds(seed: int) -> None:
    run = Run(seed)
    for _ in range(60):
        run.step()
        run.check_ledger()
    run.check()
    run.settle()


@pytest.mark.sliced
@pytest.mark.parametrize("seed", slice_of(range(20)))
def test_promises_hold_for_old_formats_and_new_ones_in_one_log(seed: int) -> None:
    run = Run(seed, message_format_version="0.10.0")
    for _ in range(100):
        run.step()
        run.check()


def test_markers_go_with_their_transactions() -> None:
    """Aborted data leaves at once, its marker a day later; the producer's last batch stays, empty."""
    run = Run(1, segment_bytes=1000)
    for _ in range(100):
        run.step()
    run.settle()
    limit = run.log.segments[-1].base_offset
    # What is left of markers below belongs to transactions with records that are left, or is a producer's or the range's last.
    transactional = {h.producer_id for h in headers(run.log) if h.is_transactional and not h.is_control}
    kept = [offset for offset in markers(run.log) if offset < limit]
    assert len(kept) <= len(run.oracle.outcome)
    assert transactional <= {0, 1, 2}


# --- in processes: the same promises, and the same bytes ---

LEFT_OUT = ("crash", "aborted clean")
"""Of a mirrored history: a kill is the crash rings', and where an abort meets a pass is chance."""


class ProcessRun(Run):
    """A random history on this machine's files."""

    def __init__(self, directory: Path, seed: int, **log_settings: Any) -> None:
        self.directory = directory
        super().__init__(seed, **log_settings)

    def make_world(self, **settings: Any) -> CleaningWorld:
        return ProcessWorld(self.directory, **settings)

    def crash(self) -> None:
        self.restart()


@pytest.fixture
def runs() -> Iterator[list[ProcessRun]]:
    made: list[ProcessRun] = []
    yield made
    for run in made:
        assert isinstance(run.world, ProcessWorld)
        run.world.close()


@pytest.mark.sliced
@pytest.mark.parametrize("seed", slice_of(range(10)))
@pytest.mark.damaged("records that a kill brings back below the log's start have no leader epoch in the file")
def test_promises_hold_for_passes_in_processes(runs: list[ProcessRun], tmp_path: Path, seed: int) -> None:
    run = ProcessRun(tmp_path / "data", seed)
    runs.append(run)
    for _ in range(80):
        run.step()
        run.check()


def contents(world: CleaningWorld) -> dict[str, bytes]:
    """Files of the log that passes have a part in."""
    directory, files = world.log().directory, world.file_system
    wanted = (".log", ".index", ".timeindex", ".txnindex", ".cleaned", ".swap", "tidelog-cleaner.json")
    active = f"{world.log().segments[-1].base_offset:020d}"  # its indexes have room ahead, which is not the pass's
    return {
        name: files.read_bytes(f"{directory}/{name}")
        for name in files.list_directory(directory)
        if name.endswith(wanted) and not (name.startswith(active) and name.endswith("index"))
    }


@pytest.mark.sliced
@pytest.mark.parametrize("seed", slice_of(range(15), 2))
def test_a_process_leaves_the_same_bytes_as_a_thread(
    runs: list[ProcessRun], tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in LEFT_OUT:
        monkeypatch.setitem(STEPS, step, 0)
    there, here = ProcessRun(tmp_path / "data", 1000 + seed), Run(1000 + seed)
    runs.append(there)
    passes = 0
    for _ in range(100):
        there.step()
        here.step()
        assert there.last_step == here.last_step
        if here.last_step == "clean":
            found = [vars_of(run) for run in (there, here)]
            assert found[0] == found[1]
            assert contents(there.world) == contents(here.world)
            passes += here.world.cleaners.partitions() != []
    assert data_records(there.log) == data_records(here.log)
    assert markers(there.log) == markers(here.log)
    assert passes


def vars_of(run: Run) -> dict[str, Any]:
    """What the last pass says of itself, but for times."""
    _, last = run.world.cleaners.passes(run.log)
    if last is None:
        return {}
    return {name: getattr(last, name) for name in last.__slots__ if not name.endswith("_ms")}
