"""A world of logs that is backed up, with a model of what each cut has to give back."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

from support.cleaning import CleaningWorld, Producer, aborted_transactions, put
from support.fake_filesystem import FakeFileSystem
from support.logs import World, append, read_records
from support.mock_time import START_MS, MockTime
from tidelog.backup.cut.reading import Readers
from tidelog.backup.cut.vector import Vector, copied
from tidelog.backup.cut.writer import CutWriter, Identity, VoidCut
from tidelog.backup.formats.entries import Cut
from tidelog.backup.restore.catalog import Catalog
from tidelog.backup.restore.restore import Restore
from tidelog.backup.store import ObjectStore
from tidelog.storage.log.unified_log import UnifiedLog
from tidelog.storage.manager.log_manager import LogManager

CLUSTER = "cluster-of-tests"
TOPICS = ("plain", "kept", "busy")
RESTORED = "/restored"


class Seen(NamedTuple):
    """What a consumer, a producer and an auditor may see of one log."""

    start: int
    end: int
    records: tuple[tuple[Any, ...], ...]
    aborted: tuple[tuple[int, int, int], ...]
    stable: int
    producers: tuple[tuple[int, int, int], ...]
    appended: int | None
    topic_id: str


def seen(log: UnifiedLog) -> Seen:
    """The log as it is now."""
    end = log.high_watermark
    records = read_records(log, log.log_start_offset) if log.log_start_offset < end else []
    ledger = log.ledger.value
    first = log.segments[0].base_offset
    return Seen(
        log.log_start_offset,
        end,
        tuple(tuple(record) for record in records),
        tuple(
            (t.producer_id, t.first_offset, t.last_offset) for t in aborted_transactions(log) if t.last_offset >= first
        ),
        log.last_stable_offset,
        tuple(sorted(log.last_records_of_producers())),
        None if ledger is None else ledger.appended(end),
        log.topic_id.hex if log.topic_id is not None else "",
    )


class BackedUpWorld(CleaningWorld):
    """Logs that change at random, a writer, and what each vector saw."""

    def __init__(self, store: ObjectStore, seed: int) -> None:
        super().__init__()
        self.random = random.Random(seed)
        self.store = store
        self.models: dict[int, dict[tuple[str, int], Seen]] = {}
        self.sessions = 0
        self.meanwhile: Callable[[], object] = lambda: None
        self.last: dict[tuple[str, int], Seen] = {}
        self.producers = [Producer(1), Producer(2), Producer(3, is_transactional=False)]
        # 0: DeleteRecords and passes of the cleaner together, 1: no passes, 2: no DeleteRecords.
        self.kinds = seed % 3
        self.start(segment_bytes=700, cleanup_policy=frozenset({"compact"}))
        for topic in TOPICS:
            self.log(topic)
        self.writer = self.new_writer()

    def new_writer(self) -> CutWriter:
        """A writer as after a start of the daemon."""
        self.sessions += 1
        writer = CutWriter(
            self.store,
            self.take,
            Identity(CLUSTER, 1),
            self.time,
            f"{self.sessions:016x}",
            readers=Readers(60.0),
        )
        writer.open()
        return writer

    def take(self, _changes: int) -> Vector:
        """A vector; right after it whatever `meanwhile` does, as threads and the loop do."""
        logs = self.manager.logs()
        for log in logs:
            log.local.open_ledger(count=True)
        self.last = {(log.topic, log.partition): seen(log) for log in logs}
        vector = Vector(self.time.milliseconds(), copied(logs), 0, None)
        self.meanwhile()
        return vector

    def cut(self, tries: int = 20) -> int:
        """Publish a cut; returns its number."""
        for _ in range(tries):
            self.time.advance(1000)
            try:
                self.writer.attempt()
            except VoidCut:
                continue
            number = self.writer.progress.number
            if self.writer.progress.covered_ms == self.writer.progress.taken_ms:
                self.models[number] = self.last
            return number
        raise AssertionError("no cut comes about")

    def step(self) -> None:
        """One random change of one log."""
        log = self.log(self.random.choice(TOPICS))
        kind = self.random.choices(
            ("put", "batch", "transaction", "end", "roll", "clean", "retain", "delete", "wait"),
            (30, 10, 12, 8, 6, 0 if self.kinds == 1 else 6, 3, 0 if self.kinds == 2 else 3, 3),
        )[0]
        value = "v" * self.random.randrange(120)
        now = self.time.milliseconds()
        if kind == "put":
            put(log, f"k{self.random.randrange(6)}", value or None, timestamp=now)
        elif kind == "batch":
            append(log, *(value for _ in range(self.random.randrange(1, 6))), timestamp=now)
        elif kind in ("transaction", "end"):
            self._transaction(log, kind)
        elif kind == "roll":
            log.roll()
            log.flush()
        elif kind == "clean":
            self.clean_all()
        elif kind == "delete" and log.high_watermark > log.log_start_offset:
            log.increment_log_start_offset(self.random.randrange(log.log_start_offset, log.high_watermark + 1))
            self.manager.delete_old_segments()
        elif kind == "wait":
            self.time.advance(self.random.choice((10, 5_000, 100_000)))

    def _transaction(self, log: UnifiedLog, kind: str) -> None:
        producer = self.random.choice(self.producers)
        producer = self.by_log.setdefault(
            (log.name, producer.producer_id), Producer(producer.producer_id, is_transactional=producer.is_transactional)
        )
        if kind == "end" and producer.is_transactional:
            producer.end(log, commit=self.random.random() < 0.5, timestamp=self.time.milliseconds())
        else:
            producer.send(log, (b"k%d" % self.random.randrange(6), b"t"), timestamp=self.time.milliseconds())

    @property
    def by_log(self) -> dict[tuple[str, int], Producer]:
        return self.__dict__.setdefault("_by_log", {})


class RestoredWorld(World):
    """A new machine."""

    def __init__(self, time: MockTime, directories: tuple[str, ...] = (RESTORED,), damaged: str = "") -> None:
        super().__init__(FakeFileSystem(time=time), directories=directories, damaged=damaged)
        self.time = time
        self.log_config = CleaningWorld().log_config

    def restore(self, store: ObjectStore, cut: Cut) -> None:
        """Blocks. RestoreError and what else a restore raises."""
        Restore(
            store,
            cut,
            self.directories,
            self.file_system,
            self.config,
            config_of=lambda _topic: self.log_config,
            time=self.time,
        ).run()


def restored(
    store: ObjectStore, cut: Cut, time: MockTime, directories: tuple[str, ...] = (RESTORED,), damaged: str = ""
) -> tuple[RestoredWorld, LogManager]:
    """A cut on a new machine, started."""
    world = RestoredWorld(time, directories, damaged)
    world.restore(store, cut)
    return world, world.start()


def check_cut(
    store: ObjectStore, number: int, model: dict[tuple[str, int], Seen], time: MockTime, damaged: str = ""
) -> None:
    """AssertionError unless the cut, restored, is what was seen when it was taken."""
    world, manager = restored(store, Catalog(store).cut(number), time, damaged=damaged)
    found = {(log.topic, log.partition): log for log in manager.logs()}
    assert found.keys() == model.keys()
    for key, expected in model.items():
        log = found[key]
        log.local.open_ledger(count=True)
        actual = seen(log)
        assert actual == expected, f"{key} of cut {number}"
    world.stop()


__all__ = ["START_MS", "BackedUpWorld", "check_cut", "restored", "seen"]
