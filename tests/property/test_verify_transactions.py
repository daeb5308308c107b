"""Random transactions, compaction, DeleteRecords, stops and crashes in one log: `tidelog log verify` finds no fault in what is
healthy, and finds what was damaged in a transaction index or a snapshot where it would change what readers or producers get.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.cleaning import CleaningWorld, headers, keyed
from support.crash_ring import verify as faults
from support.fake_filesystem import FakeFileSystem
from support.logs import ROOT
from tidelog.protocol.records.record_batch import iterate_batches, iterate_records
from tidelog.storage.inspect.verify import verify
from tidelog.storage.log.unified_log import UnifiedLog
from tidelog.storage.producers.snapshot import decode_snapshot, encode_snapshot
from tidelog.storage.producers.transaction_marker import TransactionMarker, marker_batch
from tidelog.storage.segment.names import SNAPSHOT_SUFFIX, TRANSACTION_INDEX_SUFFIX
from tidelog.storage.values import AppendOrigin

PRODUCERS = 3
HOUR_MS = 3_600_000


class Workload:
    """One log `t`, driven by actions that a number decides. Producers are what their clients and coordinator know of them."""

    def __init__(self, *, delete: bool = False, map_entries: int = 1000) -> None:
        policy = frozenset({"compact", "delete"} if delete else {"compact"})
        self.world = CleaningWorld(map_entries=map_entries)
        self.settings: dict[str, Any] = {
            "segment_bytes": 500, "cleanup_policy": policy, "retention_ms": -1, "delete_retention_ms": HOUR_MS,
            "index_interval_bytes": 200, "segment_index_bytes": 240,
        }  # fmt: skip
        self.world.start(**self.settings)
        self.epoch = dict.fromkeys(range(PRODUCERS), 0)
        self.sequence = dict.fromkeys(range(PRODUCERS), 0)
        self.is_open = dict.fromkeys(range(PRODUCERS), False)
        self.coordinator = 0

    @property
    def log(self) -> UnifiedLog:
        return self.world.log()

    def act(self, action: str, number: int) -> None:
        getattr(self, action)(number)

    def put(self, number: int) -> None:
        self._keyed(number, 1 + number % 3)

    def _keyed(self, number: int, count: int, **arguments: Any) -> None:
        pairs = [(b"k%d" % ((number + i) % 5), None if (number + i) % 7 == 0 else b"v" * 40) for i in range(count)]
        keyed(self.log, *pairs, timestamp=self.world.time.milliseconds(), **arguments)

    def send(self, number: int) -> None:
        producer, count = number % PRODUCERS, 1 + number % 2
        if not self.is_open[producer]:
            self.is_open[producer] = True
        self._keyed(
            number, count, producer_id=producer, producer_epoch=self.epoch[producer],
            base_sequence=self.sequence[producer], is_transactional=True,
        )  # fmt: skip
        self.sequence[producer] += count

    def send_alone(self, number: int) -> None:
        """An idempotent producer without transactions."""
        producer, count = PRODUCERS, 1 + number % 2
        sequence = self.sequence.setdefault(producer, 0)
        self._keyed(number, count, producer_id=producer, producer_epoch=0, base_sequence=sequence)
        self.sequence[producer] += count

    def _end(self, producer: int, *, commit: bool) -> None:
        marker = TransactionMarker(commit, self.coordinator)
        data = marker_batch(producer, self.epoch[producer], marker, self.world.time.milliseconds())
        self.log.append_as_leader(data, 0, len(data), origin=AppendOrigin.COORDINATOR)
        self.is_open[producer] = False

    def end(self, number: int) -> None:
        """Also of a transaction that has no record here: its partition was added, and nothing came."""
        self._end(number % PRODUCERS, commit=number % 2 == 0)

    def fence(self, number: int) -> None:
        """The producer starts anew: the coordinator raises its epoch and aborts what is open, with the new one."""
        producer = number % PRODUCERS
        self.epoch[producer] += 1
        self.sequence[producer] = 0
        self._end(producer, commit=False)

    def end_with_a_new_epoch(self, number: int) -> None:
        """As the second version of transactions does it."""
        producer = number % PRODUCERS
        self._end(producer, commit=number % 2 == 0)
        self.epoch[producer] += 1
        self.sequence[producer] = 0

    def elect(self, _number: int) -> None:
        self.coordinator += 1

    def flush(self, _number: int) -> None:
        self.log.complete_sync(self.log.flush())
        self.world.manager.checkpoint_recovery_points()

    def roll(self, _number: int) -> None:
        self.log.roll()
        self.world.time.advance(1)

    def clean(self, number: int) -> None:
        self.roll(number)
        self.world.clean_all()
        assert self.world.cleaners.uncleanable() == []

    def clean_in_part(self, number: int) -> None:
        self.roll(number)
        self.world.clean_once(abort_at=2 + number)

    def wait(self, number: int) -> None:
        """Horizons pass; with the longer wait producers expire."""
        self.world.time.advance(hours=2 if number % 3 else 30)
        self.log.producers.remove_expired_producers(self.world.time.milliseconds())
        for producer in range(PRODUCERS + 1):
            if self.log.producers.entry(producer) is None:
                self.sequence[producer] = 0

    def delete_records(self, number: int) -> None:
        log = self.log
        span = log.high_watermark - log.log_start_offset
        log.increment_log_start_offset(log.log_start_offset + span * number // 20)
        self.world.manager.checkpoint_log_start_offsets()

    def retention(self, _number: int) -> None:
        self.log.delete_old_segments()
        self.world.time.advance(seconds=70)

    def restart(self, number: int) -> None:
        if number % 2:
            self.world.crash()
        else:
            self.world.restart()

    def healthy(self) -> None:
        assert faults(self.world.fake) == []
        alone = [str(f) for f in _verify_alone(self.world.fake) if f.is_fault]
        assert alone == []


def _verify_alone(system: FakeFileSystem) -> list[Any]:
    """The partition's directory without the one around it: nobody says where the cleaner has been."""
    copy = FakeFileSystem()
    for path, data in system.contents().items():
        if path.startswith(f"{ROOT}/t-0/"):
            copy.put(path.replace(ROOT, "/copy"), data)
    return list(verify(copy, "/copy/t-0"))


COMMON = ("put", "send", "send", "send_alone", "end", "end", "roll", "clean", "flush")
RARE = ("fence", "end_with_a_new_epoch", "elect", "clean_in_part", "wait", "delete_records", "retention", "restart")
ACTIONS = st.lists(st.tuples(st.sampled_from((*COMMON, *COMMON, *RARE)), st.integers(0, 20)), min_size=8, max_size=60)


@pytest.mark.parametrize("delete", [False, True], ids=["compact", "compact,delete"])
@settings(max_examples=60)
@given(ACTIONS, st.sampled_from((4, 1000)))
def test_no_healthy_log_is_called_damaged(delete: bool, actions: list[tuple[str, int]], map_entries: int) -> None:
    workload = Workload(delete=delete, map_entries=map_entries)
    for action, number in actions:
        workload.act(action, number)
        if action in ("clean", "clean_in_part", "restart", "retention"):
            workload.healthy()
    workload.world.stop()
    workload.healthy()


# --- damage ---


def logs_of(files: dict[str, bytes]) -> bytes:
    return b"".join(data for path, data in sorted(files.items()) if path.endswith(".log"))


def delivered(files: dict[str, bytes], end: int) -> set[int]:
    """Offsets that a read_committed consumer takes, as clients filter: from an entry's first offset to the abort marker."""
    entries = sorted(
        (first, producer, last)
        for path, data in files.items()
        if path.endswith(TRANSACTION_INDEX_SUFFIX)
        for _version, producer, first, last, _stable in struct.iter_unpack(">hqqqq", data)
    )
    skipped: set[int] = set()
    found: set[int] = set()
    data = logs_of(files)
    for header in iterate_batches(data):
        if header.base_offset >= end:
            break
        while entries and entries[0][0] <= header.last_offset:
            _first, producer, last = entries.pop(0)
            if last >= header.base_offset:  # a broker names none that has ended before the fetch
                skipped.add(producer)
        if header.is_control:
            if any(record.key == b"\0\0\0\0" for record in iterate_records(data, header.position)):
                skipped.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in skipped):
            found |= {record.offset for record in iterate_records(data, header.position)}
    return found


@settings(max_examples=80)
@given(ACTIONS, st.data())
@pytest.mark.damaged("indexes are damaged")
def test_damage_to_a_transaction_index_that_readers_would_notice_is_found(
    actions: list[tuple[str, int]], data: st.DataObject
) -> None:
    workload = Workload()
    for action, number in [*actions, ("send", 1), ("send", 3), ("end", 1), ("end", 3)]:
        workload.act(action, number)
    end = workload.log.last_stable_offset
    workload.world.stop()
    fake = workload.world.fake
    files = {path: content for path, content in fake.contents().items() if "/t-0/" in path and ".deleted" not in path}
    index = data.draw(st.sampled_from([path for path in sorted(files) if path.endswith(TRANSACTION_INDEX_SUFFIX)]))
    entries = [list(entry) for entry in struct.iter_unpack(">hqqqq", files[index])]
    number = data.draw(st.integers(0, len(entries) - 1))
    field = data.draw(st.integers(0, 3))
    if field == 0:
        del entries[number]
    else:
        entries[number][field] += data.draw(st.sampled_from((-9, -3, -1, 1, 3, 9)))
    damaged = b"".join(struct.pack(">hqqqq", *entry) for entry in entries)
    if delivered(files, end) == delivered(files | {index: damaged}, end):
        return  # nobody would see it
    fake.put(index, damaged)
    assert any("txnindex" in fault for fault in faults(fake))


@settings(max_examples=80)
@given(ACTIONS, st.data())
@pytest.mark.damaged("snapshots are damaged")
def test_damage_to_a_snapshot_of_a_producer_that_the_log_shows_is_found(
    actions: list[tuple[str, int]], data: st.DataObject
) -> None:
    workload = Workload()
    for action, number in [*actions, ("send", 2), ("send_alone", 1)]:
        workload.act(action, number)
    shown = {h.producer_id: h for h in headers(workload.log) if h.producer_id >= 0 and not h.is_control}
    workload.world.stop()
    fake = workload.world.fake
    path = max(path for path in fake.paths() if path.endswith(SNAPSHOT_SUFFIX))
    entries = decode_snapshot(fake.contents()[path])
    whole = [e for e in entries if (h := shown.get(e.producer_id)) is not None
             and (h.last_offset, h.producer_epoch) == (e.last_offset, e.producer_epoch)]  # fmt: skip
    entry = data.draw(st.sampled_from(whole))
    (last,) = entry.batches

    def changed(**fields: int) -> Callable[[], None]:
        return lambda: entry.batches.__setitem__(0, last._replace(**fields))

    def set_to(name: str, value: object) -> Callable[[], None]:
        return lambda: setattr(entry, name, value)

    damage = {
        "sequence": changed(last_sequence=last.last_sequence + 1),
        "offset": changed(last_offset=last.last_offset - 1),
        "delta": changed(offset_delta=last.offset_delta + 1),
        "epoch": set_to("producer_epoch", entry.producer_epoch - 1),
        "batches": set_to("batches", []),
        "transaction": set_to(
            "current_txn_first_offset", None if entry.current_txn_first_offset is not None else last.last_offset
        ),
    }
    is_open = entry.current_txn_first_offset is not None
    names = [name for name in damage if name != "batches" or is_open or entry.producer_id == PRODUCERS]
    damage[data.draw(st.sampled_from(names))]()
    fake.put(path, encode_snapshot(entries))
    assert any("snapshot-differs" in fault for fault in faults(fake))
