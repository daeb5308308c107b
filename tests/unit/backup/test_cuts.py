"""Single promises of cuts: requests, fences, resumption, partitions that hold back, sweeps, restores that are broken off."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from support.backups import RESTORED, BackedUpWorld, RestoredWorld, check_cut, restored, seen
from support.cleaning import Producer, aborted_transactions, put
from support.mock_time import MockTime
from support.patience import PATIENCE_S
from tidelog.backup.cut import pack, reading
from tidelog.backup.cut.reading import SegmentGone
from tidelog.backup.cut.writer import CutWriter, FencedError, Identity, OthersBackupError, VoidCut
from tidelog.backup.formats.keys import BASES, CUTS, PACKS, SEGMENTS, cut_key
from tidelog.backup.formats.sealed import DamagedBackupError
from tidelog.backup.restore.catalog import Catalog, NoSuchCutError
from tidelog.backup.restore.marker import refuse_unfinished
from tidelog.backup.restore.restore import RestoreError, verify_cut
from tidelog.backup.store.memory import MemoryStore
from tidelog.backup.upkeep.retention import DAY_MS, HOUR_MS, MINUTE_MS, Keep, kept_cuts
from tidelog.backup.upkeep.sweep import named, sweep
from tidelog.storage.exceptions import DataDirectoryError, DirectoryLockedError
from tidelog.storage.log.unified_log import UnifiedLog
from tidelog.storage.manager.data_directory import RESTORE_FILE
from tidelog.storage.segment.log_segment import LogSegment


class NotingStore(MemoryStore):
    """Notes each request."""

    def __init__(self, time: Any = None) -> None:
        super().__init__(time=time)
        self.requests: list[tuple[str, str]] = []

    def create(self, key: str, data: bytes) -> None:
        self.requests.append(("create", key))
        super().create(key, data)

    def upload(self, key: str, size: int, blocks: Any) -> None:
        self.requests.append(("upload", key))
        super().upload(key, size, blocks)

    def taken(self) -> list[tuple[str, str]]:
        noted, self.requests = self.requests, []
        return noted


@pytest.fixture
def world() -> BackedUpWorld:
    made = BackedUpWorld(NotingStore(), 1)
    for number in range(12):
        for topic in ("plain", "kept", "busy"):
            put(made.log(topic), f"k{number}", "v" * 60, timestamp=made.time.milliseconds())
    return made


def noting(world: BackedUpWorld) -> NotingStore:
    assert isinstance(world.store, NotingStore)
    return world.store


def test_a_cut_takes_two_requests_however_many_partitions(world: BackedUpWorld) -> None:
    world.cut()
    noting(world).taken()
    for topic in ("plain", "kept", "busy"):
        put(world.log(topic), "k", "new", timestamp=world.time.milliseconds())
    number = world.cut()
    assert [key.partition("/")[0] for _, key in noting(world).taken()] == ["packs", "cuts"]
    check_cut(world.store, number, world.models[number], world.time)


def test_nothing_new_is_no_cut_but_one_a_minute(world: BackedUpWorld) -> None:
    world.cut()
    noting(world).taken()
    for _ in range(5):
        world.time.advance(1000)
        assert not world.writer.attempt()
    assert noting(world).taken() == []
    world.time.advance(60_000)
    assert world.writer.attempt()
    assert [key.partition("/")[0] for _, key in noting(world).taken()] == ["cuts"]


def test_a_restart_sends_nothing_that_is_there(world: BackedUpWorld) -> None:
    world.cut()
    noting(world).taken()
    world.restart()
    world.writer = world.new_writer()
    number = world.cut()
    assert {key.partition("/")[0] for _, key in noting(world).taken()} == {"bases", "cuts"}
    check_cut(world.store, number, world.models[number], world.time)


def test_records_that_a_power_cut_took_and_others_replaced_are_not_taken_for_those_in_the_store(
    world: BackedUpWorld,
) -> None:
    log = world.log("plain")
    log.flush()
    synced = log.log_end_offset
    put(log, "lost", "with the power", timestamp=world.time.milliseconds())
    world.cut()
    world.cut_power(1)
    world.start_again()
    log = world.log("plain")
    assert log.log_end_offset == synced, "this power cut took nothing"
    put(log, "lose", "with the power", timestamp=world.time.milliseconds())
    world.writer = world.new_writer()
    number = world.cut()
    check_cut(world.store, number, world.models[number], world.time)


def test_what_a_pass_joined_before_a_restart_brings_the_aborts_of_all_its_segments() -> None:
    """The new segment begins with the bytes that the store has of its first; its transaction index is another."""
    world = BackedUpWorld(MemoryStore(), 1)
    log = world.log("kept")
    put(log, "first", "v", timestamp=world.time.milliseconds())
    log.roll()
    producer = Producer(7)
    producer.send(log, (b"gone", b"v"), timestamp=world.time.milliseconds())
    producer.end(log, commit=False, timestamp=world.time.milliseconds())
    log.roll()
    put(log, "last", "v", timestamp=world.time.milliseconds())
    log.flush()
    world.cut()
    world.time.advance(100_000)
    world.clean_all()
    assert [segment.base_offset for segment in log.segments] == [0, 3]
    world.restart()
    world.writer = world.new_writer()
    put(world.log("kept"), "later", "v", timestamp=world.time.milliseconds())
    number = world.cut()
    assert [txn[:3] for txn in aborted_transactions(world.log("kept"))] == [(7, 1, 2)]
    check_cut(world.store, number, world.models[number], world.time)
    world.stop()


def test_what_a_pass_made_before_a_restart_is_not_taken_for_the_segment_that_was_as_long() -> None:
    """A pass gives a segment the time of the records in it: size and time are as they were."""
    world = BackedUpWorld(MemoryStore(), 1)
    log = world.log("kept")
    for value in "ab":
        for number in range(4):
            put(log, f"k{number}", value, timestamp=world.time.milliseconds())
        log.roll()
    put(log, "last", "v", timestamp=world.time.milliseconds())
    log.flush()
    sizes = [segment.size for segment in log.segments]
    world.time.advance(100_000)
    world.cut()
    world.time.advance(10)
    world.clean_all()
    assert [(segment.base_offset, segment.size) for segment in log.segments] == [(0, sizes[1]), (8, sizes[2])]
    world.restart()
    world.writer = world.new_writer()
    put(world.log("kept"), "later", "v", timestamp=world.time.milliseconds())
    number = world.cut()
    check_cut(world.store, number, world.models[number], world.time)
    world.stop()


def test_the_second_writer_is_found_out_by_the_first(world: BackedUpWorld) -> None:
    world.cut()
    second = world.new_writer()
    put(world.log("plain"), "k", "of the second", timestamp=world.time.milliseconds())
    assert second.attempt()
    put(world.log("plain"), "k", "of the first", timestamp=world.time.milliseconds())
    with pytest.raises(FencedError, match="another daemon has published cut 2"):
        world.writer.attempt()


@pytest.mark.parametrize("clock", ["both", "wall"])
def test_a_second_writer_is_found_out_behind_its_cuts_that_a_sweep_has_taken(clock: str) -> None:
    """The first was cut off from the store, or its machine stood still, while the numbers of its next cuts got free again."""
    world = BackedUpWorld(MemoryStore(), 1)
    world.store = store = MemoryStore(time=(there := MockTime()))
    first = world.writer = world.new_writer()
    put(world.log("plain"), "k", "v", timestamp=world.time.milliseconds())
    world.cut()
    second = world.new_writer()
    for _ in range(72):
        there.advance(10_000)
        if clock == "both":
            world.time.advance(10_000)
        put(world.log("plain"), "k", "of the second", timestamp=world.time.milliseconds())
        assert second.attempt()
    sweep(store, Keep())
    assert 2 not in Catalog(store).numbers
    if clock == "wall":
        world.time.set_wall_clock(there.milliseconds())
    newest = Catalog(store).numbers[-1]
    put(world.log("plain"), "k", "of the first", timestamp=world.time.milliseconds())
    with pytest.raises(FencedError, match=f"another daemon has published cut {newest} "):
        first.attempt()
    assert Catalog(store).numbers[-1] == newest
    assert 2 not in Catalog(store).numbers
    world.stop()


def test_a_writer_that_was_idle_for_long_goes_on(world: BackedUpWorld) -> None:
    world.cut()
    world.time.advance(DAY_MS)
    put(world.log("plain"), "k", "v", timestamp=world.time.milliseconds())
    assert world.cut() == 2
    check_cut(world.store, 2, world.models[2], world.time)


def test_an_own_manifest_whose_answer_was_lost_is_no_second_writer(world: BackedUpWorld) -> None:
    world.cut()
    put(world.log("plain"), "k", "v", timestamp=world.time.milliseconds())
    create = world.store.create

    def lossy(key: str, data: bytes) -> None:
        create(key, data)
        world.store.create = create  # type: ignore[method-assign]
        raise ConnectionError("the answer was lost")

    world.store.create = lossy  # type: ignore[method-assign]
    with pytest.raises(ConnectionError):
        world.cut()
    put(world.log("plain"), "k", "w", timestamp=world.time.milliseconds())
    assert world.cut() == 3
    check_cut(world.store, 3, world.models[3], world.time)


def test_the_backup_of_another_cluster_is_not_written_to(world: BackedUpWorld) -> None:
    world.cut()
    other = CutWriter(world.store, world.take, Identity("another", 1), world.time, "f" * 16)
    with pytest.raises(OthersBackupError, match=r"set backup\.url to a place of its own"):
        other.open()


def test_a_partition_that_cannot_be_read_holds_back_alone_and_says_so(world: BackedUpWorld) -> None:
    world.cut()
    before = world.models[1]["kept", 0]
    for topic in ("plain", "kept", "busy"):
        put(world.log(topic), "k", "new", timestamp=world.time.milliseconds())
    broken = world.log("kept").segments[-1]
    lease = pack.lease

    def fails(log: UnifiedLog, segment: LogSegment) -> Any:
        if segment is broken:
            raise OSError(5, "Input/output error")
        return lease(log, segment)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pack, "lease", fails)
        assert world.writer.attempt()
    cut = Catalog(world.store).cut(2)
    assert [(entry.topic, entry.held) for entry in cut.held] == [("kept", "[Errno 5] Input/output error")]
    restored_world, manager = restored(world.store, cut, world.time)
    found = {log.topic: log for log in manager.logs()}
    assert seen(found["kept"]) == before
    assert seen(found["plain"]) == world.last["plain", 0]
    restored_world.stop()
    world.time.advance(60_000)
    number = world.cut()
    assert not Catalog(world.store).cut(number).held
    check_cut(world.store, number, world.models[number], world.time)


@pytest.mark.parametrize("fault", ["unreadable", "gone"])
def test_a_partition_that_holds_back_after_a_power_cut_stays_as_the_last_cut_has_it(
    world: BackedUpWorld, fault: str
) -> None:
    """The end of the log on disk is another than the one in the store: what they have in common is no state of the partition."""
    log = world.log("kept")
    log.flush()
    put(log, "lost", "with the power", timestamp=world.time.milliseconds())
    world.cut()
    before = world.models[1]["kept", 0]
    world.cut_power(1)
    world.start_again()
    put(world.log("kept"), "lose", "x", timestamp=world.time.milliseconds())
    world.writer = world.new_writer()
    lease = pack.lease

    def fails(log: UnifiedLog, segment: LogSegment) -> Any:
        if log.topic == "kept":
            raise OSError(5, "Input/output error") if fault == "unreadable" else SegmentGone(log)
        return lease(log, segment)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pack, "lease", fails)
        for _ in range(5 if fault == "gone" else 0):
            with pytest.raises(VoidCut):
                world.writer.attempt()
        assert world.writer.attempt()
    cut = Catalog(world.store).cut(2)
    assert [entry.topic for entry in cut.held] == ["kept"]
    restored_world, manager = restored(world.store, cut, world.time)
    assert {log.topic: seen(log) for log in manager.logs()}["kept"] == before
    restored_world.stop()
    world.time.advance(60_000)
    number = world.cut()
    assert not Catalog(world.store).cut(number).held
    check_cut(world.store, number, world.models[number], world.time)


def test_a_topic_that_is_deleted_while_it_holds_back_leaves_the_backup_up_to_date(world: BackedUpWorld) -> None:
    """No cut ever had it, so it is none of those that are gone since the last one."""
    world.cut()
    put(world.log("fresh"), "k", "v", timestamp=world.time.milliseconds())
    lease = pack.lease

    def fails(log: UnifiedLog, segment: LogSegment) -> Any:
        if log.topic == "fresh":
            raise OSError(5, "Input/output error")
        return lease(log, segment)

    progress = world.writer.progress
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pack, "lease", fails)
        world.cut()
        assert [held[0] for held in progress.held] == ["fresh"]
        assert progress.covered_ms < progress.taken_ms
        world.cut()
        assert [held[0] for held in progress.held] == ["fresh"], "it is still there"
        world.manager.delete("fresh", 0)
        put(world.log("plain"), "k", "v", timestamp=world.time.milliseconds())
        world.cut()
    assert progress.held == ()
    assert progress.covered_ms == progress.taken_ms


def test_a_partition_whose_segments_go_each_time_holds_back_alone(world: BackedUpWorld) -> None:
    """The cleaner, or retention, may be as fast as the backup for as long as it likes: other partitions do not wait for that."""
    world.cut()
    before = world.models[1]["kept", 0]
    for topic in ("plain", "kept", "busy"):
        put(world.log(topic), "k", "new", timestamp=world.time.milliseconds())
    lease = pack.lease

    def gone(log: UnifiedLog, segment: LogSegment) -> Any:
        if log.topic == "kept":
            raise SegmentGone(log)
        return lease(log, segment)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pack, "lease", gone)
        for _ in range(5):
            with pytest.raises(VoidCut):
                world.writer.attempt()
        assert world.writer.attempt()
        cut = Catalog(world.store).cut(2)
        assert [(entry.topic, entry.held) for entry in cut.held] == [
            ("kept", "its segments go faster than they are read")
        ]
        restored_world, manager = restored(world.store, cut, world.time)
        found = {log.topic: log for log in manager.logs()}
        assert seen(found["kept"]) == before
        assert seen(found["plain"]) == world.last["plain", 0]
        restored_world.stop()
        # It is tried again with the next cut, and costs that one try.
        put(world.log("plain"), "k", "newer", timestamp=world.time.milliseconds())
        world.time.advance(1000)
        with pytest.raises(VoidCut):
            world.writer.attempt()
        assert world.writer.attempt()
    world.time.advance(1000)
    number = world.cut()
    assert not Catalog(world.store).cut(number).held
    check_cut(world.store, number, world.models[number], world.time)


def test_a_disk_that_answers_too_late_leaves_no_segment_open(
    world: BackedUpWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, released = threading.Event(), threading.Event()

    class Lease:
        def release(self) -> None:
            released.set()

    def slow(*_: object) -> Lease:
        assert answers.wait(PATIENCE_S)
        return Lease()

    monkeypatch.setattr(reading, "lease", slow)
    log, readers = world.log("plain"), reading.Readers(0.01)
    with pytest.raises(reading.Unreadable, match="has not answered"), readers.leased(log, log.segments[0]):
        pass
    assert not released.is_set()
    answers.set()
    assert released.wait(PATIENCE_S)
    readers.close()


def test_a_segment_whose_transaction_index_has_more_than_64_mib_is_backed_up(world: BackedUpWorld) -> None:
    log = world.log("plain")
    segment = log.segments[0]
    path = log.log_directory.file(segment.base_offset, ".txnindex")
    log.log_directory.file_system.write_atomically(path, bytes((64 << 20) + 34))
    ((suffix, data),) = reading.Readers().companions(log, segment, (".txnindex",))
    log.log_directory.file_system.unlink(path)
    assert (suffix, len(data)) == (".txnindex", (64 << 20) + 34)


def test_a_clock_that_is_set_back_delays_neither_idle_cuts_nor_what_holds_back(world: BackedUpWorld) -> None:
    world.cut()
    world.time.set_wall_clock(world.time.milliseconds() - DAY_MS)
    world.time.advance(59_000)
    assert not world.writer.attempt()
    world.time.advance(1000)
    assert world.writer.attempt()
    put(world.log("plain"), "k", "v", timestamp=world.time.milliseconds())
    lease = pack.lease

    def fails(log: UnifiedLog, segment: LogSegment) -> Any:
        raise OSError(5, "Input/output error")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pack, "lease", fails)
        assert world.writer.attempt()
        assert Catalog(world.store).newest().held
        world.time.set_wall_clock(world.time.milliseconds() - DAY_MS)
    assert pack.lease is lease
    world.time.advance(30_000)
    number = world.cut()
    assert not Catalog(world.store).cut(number).held
    check_cut(world.store, number, world.models[number], world.time)


def test_a_clock_behind_the_stores_makes_no_object_young_that_a_sweep_may_take(world: BackedUpWorld) -> None:
    store = MemoryStore(time=MockTime(world.time.milliseconds()))
    orphans = [f"{SEGMENTS}{'a' * 32}/0/{number:020d}-{'b' * 32}" for number in range(2)]
    theirs = store._time
    assert isinstance(theirs, MockTime)
    store.create(orphans[0], b"old")
    theirs.advance(13 * HOUR_MS)
    store.create(orphans[1], b"young")
    world.store = store
    world.writer = world.new_writer()
    world.cut()
    assert store.list(CUTS)
    writer = world.new_writer()
    assert writer._present & set(orphans) == {orphans[1]}


def test_each_damaged_object_is_named_and_others_still_restore(world: BackedUpWorld) -> None:
    world.cut()
    put(world.log("plain"), "k", "v", timestamp=world.time.milliseconds())
    number = world.cut()
    cut = Catalog(world.store).cut(number)
    for key in sorted(set(named(cut))):
        whole = world.store.read(key)
        world.store.delete([key])
        broken = bytearray(whole)
        broken[len(broken) // 2] ^= 1
        world.store.upload(key, len(broken), [bytes(broken)])
        with pytest.raises(DamagedBackupError, match=key):
            verify_cut(world.store, Catalog(world.store).cut(number))
        world.store.delete([key])
        with pytest.raises(DamagedBackupError, match=key):
            verify_cut(world.store, Catalog(world.store).cut(number))
        world.store.upload(key, len(whole), [whole])
    last = world.store.read(cut_key(number))
    world.store.delete([cut_key(number)])
    world.store.create(cut_key(number), last[:-1])
    assert Catalog(world.store).newest().header.number == number - 1
    check_cut(world.store, number - 1, world.models[number - 1], world.time)


def test_a_restore_that_was_broken_off_is_refused_by_a_start_and_goes_on(world: BackedUpWorld) -> None:
    for topic in ("plain", "kept", "busy"):
        put(world.log(topic), "k", "v", timestamp=world.time.milliseconds())
        number = world.cut()  # several packs
    cut = Catalog(world.store).cut(number)
    new = RestoredWorld(world.time)
    new.log_config = world.log_config
    read = world.store.read
    left = [1]

    def breaks(key: str, start: int = 0, length: int | None = None) -> bytes:
        if key.startswith((PACKS, SEGMENTS)):
            left[0] -= 1
            if left[0] < 0:
                raise OSError(28, "No space left on device")
        return read(key, start, length)

    def run() -> None:
        new.restore(world.store, cut)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world.store, "read", breaks)
        with pytest.raises(RestoreError, match="make room and give the same command again"):
            run()
        with pytest.raises(DataDirectoryError, match="has not come to its end"):
            refuse_unfinished(new.file_system, [RESTORED])
    run()
    refuse_unfinished(new.file_system, [RESTORED])
    assert not new.file_system.exists(f"{RESTORED}/{RESTORE_FILE}")
    manager = new.start()
    assert {(log.topic, log.partition): seen(log) for log in manager.logs()} == world.models[number]
    with pytest.raises(RestoreError, match="is not empty"):
        run()
    new.stop()


def test_a_second_restore_into_the_same_directory_leaves_the_first_alone(world: BackedUpWorld) -> None:
    cut = Catalog(world.store).cut(world.cut())
    new = RestoredWorld(world.time)
    new.log_config = world.log_config
    read = world.store.read
    refused: list[str] = []

    def run() -> None:
        new.restore(world.store, cut)

    def beside(key: str, start: int = 0, length: int | None = None) -> bytes:
        # Its thread has opened the file that these bytes are for.
        world.store.read = read  # type: ignore[method-assign]
        with pytest.raises(DirectoryLockedError) as error:
            run()
        refused.append(str(error.value))
        return read(key, start, length)

    world.store.read = beside  # type: ignore[method-assign]
    run()
    assert len(refused) == 1
    manager = new.start()
    assert {(log.topic, log.partition): seen(log) for log in manager.logs()} == world.models[1]
    new.stop()


def test_cuts_are_found_by_time(world: BackedUpWorld) -> None:
    times = []
    for value in range(6):
        put(world.log("plain"), "k", str(value), timestamp=world.time.milliseconds())
        world.cut()
        times.append(Catalog(world.store).header(value + 1).taken_ms)
    catalog = Catalog(world.store)
    for number, at_ms in enumerate(times, 1):
        assert catalog.at(at_ms).header.number == number
        assert catalog.at(at_ms + 1).header.number == number
    with pytest.raises(NoSuchCutError):
        catalog.at(times[0] - 1)
    with pytest.raises(NoSuchCutError, match="it has 6 from 1 to 6"):
        catalog.cut(7)


def test_a_sweep_leaves_every_kept_cut_whole_and_nothing_else() -> None:
    world = BackedUpWorld(NotingStore(), 4)
    world.store = store = NotingStore(world.time)
    world.writer = world.new_writer()
    for _ in range(40):
        for _ in range(4):
            world.step()
        world.cut()
        world.time.advance(world.random.choice((1_000, MINUTE_MS, HOUR_MS, 5 * HOUR_MS)))
    cuts = [(int(stored.key[-20:]), stored.modified_ms) for stored in store.list(CUTS)]
    now = max(at_ms for _, at_ms in cuts)
    swept = sweep(store, Keep(4 * DAY_MS, hourly=5))
    kept = kept_cuts(cuts, now, Keep(4 * DAY_MS, hourly=5))
    assert swept.kept_cuts == len(kept) < len(cuts)
    catalog = Catalog(store)
    assert set(catalog.numbers) == kept
    for number in kept & world.models.keys():
        check_cut(store, number, world.models[number], world.time, world.damaged)
    wanted = {key for number in kept for key in named(catalog.cut(number))}
    left = {stored.key for stored in store.list("") if not stored.key.startswith(CUTS)}
    assert wanted <= left
    assert all(now - stored.modified_ms <= DAY_MS for stored in store.list("") if stored.key in left - wanted)
    assert sweep(store, Keep(4 * DAY_MS, hourly=5)).deleted_objects == 0
    world.stop()


def test_a_sweep_beside_a_damaged_cut_deletes_nothing_that_it_may_name() -> None:
    """Whichever of the kept cuts, by its manifest and by its base; the others stay whole, and the rest goes as far as it can."""
    world = BackedUpWorld(NotingStore(), 4)
    world.store = store = NotingStore(world.time)
    world.writer = world.new_writer()
    for _ in range(40):
        for _ in range(4):
            world.step()
        world.cut()
        world.time.advance(world.random.choice((1_000, HOUR_MS, 9 * HOUR_MS)))
    keep = Keep(4 * DAY_MS, hourly=5)
    whole = dict(store._objects)
    clean = sweep(store, keep)
    catalog = Catalog(store)
    needs = {number: set(named(catalog.cut(number))) for number in catalog.numbers}
    deleted = []
    for number in needs:
        bases = [key for key in needs[number] if key.startswith(BASES)]
        for key in (cut_key(number), *bases):
            store._objects = dict(whole)
            data, modified_ms = whole[key]
            store._objects[key] = (data[:-1], modified_ms)
            swept = sweep(store, keep)
            assert any(sentence.startswith(f"{key} is damaged: ") for sentence in swept.damaged)
            assert all("or delete it" in sentence for sentence in swept.damaged)
            assert set(Catalog(store).numbers) == set(needs), "manifests that are not kept went"
            assert all(key in store._objects for keys in needs.values() for key in keys)
            deleted.append(swept.deleted_objects)
    assert 0 < max(deleted) <= clean.deleted_objects, "what is younger than the damaged cut goes"
    assert min(deleted) == 0
    newest = cut_key(max(needs))
    store._objects = {**whole, newest: (b"", whole[newest][1])}
    sweep(store, keep)
    store.delete([newest])
    again = sweep(store, keep)
    assert (again.damaged, again.deleted_objects > 0) == ((), True), "without it room is made"
    world.stop()


def test_a_clock_that_was_ahead_for_one_cut_costs_no_other_cut() -> None:
    clock = MockTime()
    world = BackedUpWorld(MemoryStore(time=clock), 1)
    for days in (*([0.5] * 20), 365, -365, 0):
        put(world.log("plain"), "k", "v" * 50, timestamp=world.time.milliseconds())
        world.cut()
        clock.set_wall_clock(clock.milliseconds() + int(days * DAY_MS))
    there = Catalog(world.store).numbers
    sweep(world.store, Keep())
    assert Catalog(world.store).numbers == there
    world.stop()


def test_a_sweep_after_a_clock_was_set_back_takes_nothing_that_is_being_sent() -> None:
    """The store's clock was ahead at the newest cut, and only the clock of who sweeps tells."""
    clock = MockTime()
    world = BackedUpWorld(store := MemoryStore(time=clock), 1)
    for days in (0, 365):
        clock.set_wall_clock(clock.milliseconds() + days * DAY_MS)
        put(world.log("plain"), "k", "v" * 50, timestamp=world.time.milliseconds())
        world.cut()
    clock.set_wall_clock(clock.milliseconds() - 365 * DAY_MS)
    create = store.create

    def beside_a_sweep(key: str, data: bytes) -> None:
        if key.startswith(CUTS):
            store.create = create  # type: ignore[method-assign]
            sweep(store, Keep(), clock.milliseconds())
        create(key, data)

    store.create = beside_a_sweep  # type: ignore[method-assign]
    put(world.log("plain"), "k", "v" * 50, timestamp=world.time.milliseconds())
    world.cut()
    verify_cut(store, Catalog(store).newest())
    world.stop()


def test_what_an_older_class_keeps_a_younger_one_kept() -> None:
    cuts = [(number, number * 7_000) for number in range(200_000)]
    now, kept = cuts[-1][1], {number for number, _ in cuts}
    for later in range(0, 40 * DAY_MS, 3 * HOUR_MS):
        again = kept_cuts([(n, at) for n, at in cuts if n in kept], now + later, Keep())
        assert again <= kept
        kept = again
        assert cuts[-1][0] in kept
    assert kept == {cuts[-1][0]}
