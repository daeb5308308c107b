from __future__ import annotations

import logging
import threading
from pathlib import Path

import pytest
from support.fake_disk import KeepNone, KeepSomeNames
from support.fake_filesystem import FakeFileSystem, PowerCut
from support.logs import ROOT, World, append, batch, read_records, three_segments, values_of
from support.mock_time import START_MS
from support.patience import PATIENCE_S
from tidelog.storage.exceptions import KafkaStorageError
from tidelog.storage.log.unified_log import UnifiedLog
from tidelog.storage.segment.log_segment import LogSegment
from tidelog.storage.segment.names import file_name

GOLDEN = Path(__file__).parents[3] / "golden" / "records"
T = f"{ROOT}/t-0"


@pytest.fixture
def world() -> World:
    return three_segments()


VALUES = [value.encode() * 80 for value in "abcdefgh"]


def start(world: World) -> UnifiedLog:
    world.start()
    log = world.manager.get("t", 0)
    assert log is not None
    return log


def path(base: int, suffix: str, stage: str = "") -> str:
    return f"{T}/{file_name(base, suffix, stage)}"


def test_a_clean_start_reads_the_end_of_the_active_segment_only(world: World) -> None:
    world.fake.reads.clear()
    log = start(world)
    assert (log.log_end_offset, log.recovery_point, log.high_watermark) == (8, 8, 8)
    logs_read = {operation.path for operation in world.fake.reads if operation.path.endswith(".log")}
    assert logs_read <= {path(6, ".log")}
    assert world.manager.recovery_stats.bytes_scanned == 0
    world.fake.trace.clear()
    world.stop()
    changed = {operation.path for operation in world.fake.trace if "/t-0/" in operation.path}
    assert not changed  # an idle log is left as it was


@pytest.mark.parametrize("was_clean", [True, False])
def test_a_start_looks_for_no_segment_among_all_the_others(monkeypatch: pytest.MonkeyPatch, was_clean: bool) -> None:
    """Of 10,000 segments that took half a second of a processor."""
    world = World()
    world.start(segment_bytes=100, retention_ms=-1)
    for _ in range(40):
        append(world.log(), "a" * 50)
    world.log().flush()
    world.manager.checkpoint_recovery_points()
    if was_clean:
        world.stop()
    else:
        world.kill()
    compared = [0]

    def is_same(one: LogSegment, other: object) -> bool:
        compared[0] += 1
        return one is other

    monkeypatch.setattr(LogSegment, "__eq__", is_same)
    world.start(segment_bytes=100, retention_ms=-1)
    assert world.log().segment_count == 40
    assert compared[0] < 40


def test_recovery_begins_in_the_segment_of_the_recovery_point(world: World) -> None:
    log = start(world)
    append(log, "i")
    world.kill()
    log = start(world)
    assert values_of(read_records(log, 0)) == [*VALUES, b"i"]
    assert log.recovery_point == 8
    stats = world.manager.recovery_stats
    assert (stats.segments_recovered, stats.bytes_truncated) == (1, 0)
    assert stats.bytes_scanned == log.segments[-1].size


def test_after_a_clean_stop_the_active_segments_indexes_are_durable(world: World) -> None:
    """The next start does not look at more of them than their sizes."""
    log = start(world)
    append(log, "i" * 80)
    world.stop()
    left = world.fake.rebuilt(KeepNone())
    for suffix in (".index", ".timeindex"):
        assert left.contents()[path(log.segments[-1].base_offset, suffix)]
        for base in (0, 3, 6):
            assert left.contents()[path(base, suffix)] == world.fake.contents()[path(base, suffix)]


def test_recovery_leaves_no_snapshot_at_the_end_of_the_segment_that_may_still_grow(world: World) -> None:
    """Once the segment is rolled there, a snapshot would say that its indexes are durable."""
    log = start(world)
    append(log, "i", producer_id=1, producer_epoch=0, base_sequence=0)
    log.roll()
    append(log, "j", producer_id=1, producer_epoch=0, base_sequence=1)
    world.kill()
    world.fake.put(f"{ROOT}/recovery-point-offset-checkpoint", b"0\n1\nt 0 0\n")
    log = start(world)
    assert [segment.base_offset for segment in log.segments] == [0, 3, 6, 9]
    assert 9 in log.producers.snapshot_offsets
    assert max(log.producers.snapshot_offsets) == 9
    again = batch("j", producer_id=1, producer_epoch=0, base_sequence=1)
    assert log.append_as_leader(again, 0, len(again)).duplicate


def test_a_crash_while_loading_is_followed_by_recovery(world: World) -> None:
    """KAFKA-10471, 15375: at whatever call of the load the process dies."""
    clean = world.fake
    calls = 0
    while True:
        other = World(clean.kill())
        other.log_config = world.log_config
        other.fake.fail_at(calls + 1, PowerCut())
        try:
            other.start()
        except PowerCut:
            other.kill()
        else:
            break
        calls += 1
        assert values_of(read_records(start(other), 0)) == VALUES
    assert calls >= 2  # the mark goes, durably


@pytest.mark.parametrize("how", ["killed", "power cut"])
def test_the_mark_of_a_clean_stop_has_gone_before_a_log_is_looked_at(
    world: World, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    looked_at: list[str] = []
    original = world.fake.list_directory

    def list_directory(path: str) -> list[str]:
        if path == T:
            looked_at.append(path)
            raise PowerCut
        return original(path)

    monkeypatch.setattr(world.fake, "list_directory", list_directory)
    with pytest.raises(PowerCut):
        world.start()
    assert looked_at == [T]
    left = world.fake.kill() if how == "killed" else world.fake.rebuilt(KeepNone())
    assert not left.exists(f"{ROOT}/.kafka_cleanshutdown")
    other = World(left)
    other.log_config = world.log_config
    assert values_of(read_records(start(other), 0)) == VALUES
    assert not other.manager.had_clean_shutdown


@pytest.mark.parametrize(("policy", "end"), [("hole", 500), ("kafka", 8)])
@pytest.mark.damaged("a segment is taken away below checkpoints that name it")
def test_a_recovery_point_is_never_beyond_the_end(world: World, policy: str, end: int) -> None:
    """What was durable can't be missing without a loss; its offsets are not given out again, but where Kafka would."""
    world.fake.put(f"{ROOT}/recovery-point-offset-checkpoint", b"0\n1\nt 0 500\n")
    world.fake.unlink(f"{ROOT}/.kafka_cleanshutdown")
    other = World(world.fake, log_damage_policy=policy)
    other.log_config = world.log_config
    log = start(other)
    assert (log.recovery_point, log.log_end_offset) == (end, end)
    assert values_of(read_records(log, 0)) == VALUES


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", ["missing", "odd size", "garbage"])
@pytest.mark.parametrize("clean", [True, False])
def test_a_damaged_index_is_rebuilt_quietly(
    world: World, suffix: str, damage: str, clean: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    if damage == "garbage" and clean:
        target = 6  # after a clean stop a closed segment's entries are looked at when they are used first
    else:
        target = 3
    index = path(target, suffix)
    good = world.fake.contents()[index]
    if damage == "missing":
        world.fake.unlink(index)
    elif damage == "odd size":
        world.fake.put(index, good + b"\1")
    else:
        world.fake.put(index, b"\xff" * len(good))
    if not clean:
        world.fake.unlink(f"{ROOT}/.kafka_cleanshutdown")
    log = start(world)
    assert world.fake.contents()[index] == good
    assert values_of(read_records(log, 0)) == VALUES
    assert log.lookup_by_timestamp(START_MS + ord("e")) == (START_MS + ord("e"), 4, 0)
    assert sum("rebuilt" in message for message in caplog.messages) <= 1


def test_a_missing_index_of_an_empty_active_segment_is_no_damage(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """KAFKA-13603."""
    log = start(world)
    log.roll()
    world.stop()
    for suffix in (".index", ".timeindex"):
        world.fake.unlink(path(8, suffix))
    caplog.clear()
    log = start(world)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert world.manager.recovery_stats.indexes_rebuilt == 0
    assert append(log, "i", timestamp=START_MS) == 8


@pytest.mark.damaged("the segment is emptied without a pass that says so")
@pytest.mark.parametrize("was_clean", [True, False])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_an_empty_closed_segment_whose_index_is_gone_has_one_again(world: World, suffix: str, was_clean: bool) -> None:
    """A pass leaves an empty segment; its deletion renames three files, and a power cut may undo the first of these alone.
    Whoever puts other files in its place opens its indexes first: such a log could never be cleaned again."""
    for name in (".log", ".index", ".timeindex"):
        world.fake.put(path(0, name), b"")
    world.fake.unlink(path(0, suffix))
    if not was_clean:
        world.fake.unlink(f"{ROOT}/.kafka_cleanshutdown")
    log = start(world)
    assert log.segments[0].size == 0
    log.segments[0].pin()
    log.segments[0].unpin()
    assert world.fake.exists(path(0, suffix))


def test_indexes_without_their_log_go(world: World) -> None:
    world.fake.put(path(99, ".index"), b"")
    world.fake.put(path(99, ".timeindex"), b"")
    start(world)
    assert not [name for name in world.fake.paths() if "99.index" in name or "99.timeindex" in name]


def test_foreign_files_are_left_alone(world: World) -> None:
    for name in ("notes.txt", "123.log", "x.log"):
        world.fake.put(f"{T}/{name}", b"mine")
    start(world)
    assert all(f"{T}/{name}" in world.fake.paths() for name in ("notes.txt", "123.log", "x.log"))


# --- what is left of a swap ---


def compacted(world: World) -> dict[str, bytes]:
    """Files of one segment that would replace those at 0 and 3: records 1 and 5 only."""
    system = FakeFileSystem()
    other = World(system)
    other.start(segment_bytes=10_000, index_interval_bytes=100)
    log = other.log()
    append(log, VALUES[1], timestamp=START_MS + ord("b"))
    append(log, VALUES[5], timestamp=START_MS + ord("f"))
    other.stop()
    contents = system.contents()
    data = bytearray(contents[path(0, ".log")])
    size = len(batch(VALUES[1]))
    for position, offset in ((0, 1), (size, 5)):  # the base offset is not under the checksum
        data[position : position + 8] = offset.to_bytes(8, "big")
    return {
        ".log": bytes(data),
        ".index": b"",
        ".timeindex": (START_MS + ord("f")).to_bytes(8, "big") + (5).to_bytes(4, "big"),
    }


AFTER = [VALUES[1], VALUES[5], VALUES[6], VALUES[7]]
STAGES = (".swap", ".cleaned", ".deleted")


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.damaged("the swap takes out offsets as no cleaner does")
def test_every_prefix_of_the_swap_loads_as_before_or_after(world: World, clean: bool) -> None:
    """KAFKA-6324, 12520: .cleaned written → .swap → originals .deleted → names without .swap, a crash after each step."""
    files = compacted(world)
    system = world.fake
    kept = (".log", ".index", ".timeindex")
    steps = [
        *(("write", path(0, suffix, ".cleaned"), "") for suffix in files),
        # the log last: its .swap says that all is there
        *(("rename", path(0, suffix, ".cleaned"), path(0, suffix, ".swap")) for suffix in reversed(kept)),
        *(("rename", path(base, s), path(base, s, ".deleted")) for base in (0, 3) for s in kept),
        *(("rename", path(0, suffix, ".swap"), path(0, suffix)) for suffix in kept),
    ]
    outcomes = []
    for done in range(len(steps) + 1):
        state = system.kill()
        if not clean:
            state.unlink(f"{ROOT}/.kafka_cleanshutdown")
        for kind, source, target in steps[:done]:
            if kind == "write":
                state.put(source, files[Path(source).suffixes[0]])
            else:
                state.rename(source, target)
        other = World(state)
        other.log_config = world.log_config
        log = start(other)
        values = values_of(read_records(log, 0))
        assert values in (VALUES, AFTER), f"after step {done}"
        assert (log.log_start_offset, log.log_end_offset) == (0, 8)
        # The files are those of the segments, and the segments those of before or after: no original stays beside its successor.
        bases = [0, 6] if values == AFTER else [0, 3, 6]
        assert [segment.base_offset for segment in log.segments] == bases, f"after step {done}"
        expected = {path(base, suffix) for base in bases for suffix in kept}
        assert {name for name in state.paths() if name.startswith(T) and name.endswith(kept + STAGES)} == expected
        if values == VALUES:  # and so are their indexes
            assert all(state.contents()[name] == system.contents()[name] for name in expected), f"after step {done}"
        outcomes.append(values == AFTER)
        # KAFKA-5829, 12520: finishing a swap reads no more than the swapped segment and its indexes.
        if clean:
            assert other.manager.recovery_stats.bytes_scanned <= len(files[".log"])
    assert outcomes == sorted(outcomes)
    assert not outcomes[0]
    assert outcomes[-1]


@pytest.mark.damaged("the swap takes out offsets as no cleaner does")
def test_a_swaps_log_has_its_name_durably_before_any_index_has_one(world: World) -> None:
    """An index that has lost its .swap while its log has not would be taken for the original's, and removed."""
    for suffix, data in compacted(world).items():
        world.fake.put(path(0, suffix, ".swap"), data)
    world.fake.trace.clear()
    start(world)
    renames = [
        operation.path.rpartition("/")[2] if operation.kind == "rename" else "synced"
        for operation in world.fake.trace
        if operation.path == T or (operation.kind == "rename" and operation.path.endswith(".swap"))
    ]
    names = [file_name(0, suffix, ".swap") for suffix in (".log", ".index", ".timeindex")]
    assert renames[: renames.index(names[0]) + 2][-2:] == [names[0], "synced"]
    assert sorted(renames[renames.index(names[0]) + 2 :][:2]) == sorted(names[1:])


@pytest.mark.parametrize("clean", [True, False])
def test_a_load_that_is_cut_short_takes_no_half_of_a_swap_for_a_whole(world: World, clean: bool) -> None:
    """Of two new segments the last has got its .swap, the first has not: the group is not complete, and stays so whatever
    a power cut leaves of its removal."""
    files = compacted(world)
    cut = len(batch(VALUES[1]))
    for base, stage, data in ((0, ".cleaned", files[".log"][:cut]), (3, ".swap", files[".log"][cut:])):
        world.fake.put(path(base, ".log", stage), data)
        world.fake.put(path(base, ".index", stage), b"")
    if not clean:
        world.fake.unlink(f"{ROOT}/.kafka_cleanshutdown")
        world.fake.sync_all()
    states = calls = 0
    while True:
        first = World(world.fake.kill())
        first.log_config = world.log_config
        first.fake.fail_at(calls + 1, PowerCut())
        try:
            first.start()
        except PowerCut:
            pass
        else:
            break
        calls += 1
        changes = max(len(first.fake.directory(T).changes), len(first.fake.directory(ROOT).changes))
        for mask in range(1 << changes):
            states += 1
            other = World(first.fake.rebuilt(KeepSomeNames(mask)))
            other.log_config = world.log_config
            log = start(other)
            assert values_of(read_records(log, 0)) == VALUES, f"after {calls} calls, names {mask:b}"
            assert [segment.base_offset for segment in log.segments] == [0, 3, 6]
    assert calls >= 5  # two files of each stage, and the sync between them
    assert states > calls


def test_segments_that_recovery_removed_do_not_come_back_behind_new_records(world: World) -> None:
    """The log is cut in its second segment; a power cut after two appends may undo the removal of the third, unless that was
    made durable before."""
    world.fake.unlink(f"{ROOT}/.kafka_cleanshutdown")
    world.fake.put(f"{ROOT}/recovery-point-offset-checkpoint", b"0\n1\nt 0 0\n")
    size = len(batch(VALUES[4]))
    world.fake.corrupt(path(3, ".log"), size + 100, b"\xff\xff")
    world.fake.sync_all()
    log = start(world)
    assert log.log_end_offset == 4
    assert [append(log, "x"), append(log, "y")] == [4, 5]  # the next would be 6, the removed segment's
    changes = world.fake.directory(T).changes
    assert len(changes) < 8
    for mask in range(1 << len(changes)):
        other = World(world.fake.rebuilt(KeepSomeNames(mask)))
        other.log_config = world.log_config
        assert values_of(read_records(start(other), 0)) == [*VALUES[:4], b"x", b"y"], f"names {mask:b}"


def test_a_cleaned_file_takes_the_swaps_of_its_group_with_it(world: World) -> None:
    """KAFKA-6264: a split was cut short; the originals stay."""
    files = compacted(world)
    world.fake.put(path(3, ".log", ".swap"), files[".log"])
    world.fake.put(path(0, ".log", ".cleaned"), files[".log"])
    log = start(world)
    assert values_of(read_records(log, 0)) == VALUES


@pytest.mark.damaged("the swap takes out offsets as no cleaner does")
def test_good_snapshots_stay_where_a_swap_is_finished(world: World) -> None:
    world.start()
    log = world.manager.get("t", 0)
    assert log is not None
    append(log, "i", producer_id=1, producer_epoch=0, base_sequence=0)
    log.roll()
    world.time.advance(0)
    world.stop()
    snapshots = [name for name in world.fake.paths() if name.endswith(".snapshot")]
    for suffix, data in compacted(world).items():
        world.fake.put(path(0, suffix, ".swap"), data)
    start(world)
    kept = [name for name in world.fake.paths() if name.endswith(".snapshot")]
    assert path(9, ".snapshot") in kept
    assert set(kept) <= set(snapshots)


def test_a_broken_snapshot_is_rebuilt(world: World) -> None:
    """KAFKA-5747."""
    log = start(world)
    append(log, "i", producer_id=1, producer_epoch=0, base_sequence=0)
    world.stop()
    snapshot = path(9, ".snapshot")
    good = world.fake.contents()[snapshot]
    for broken in [good[:cut] for cut in range(0, len(good), 7)] + [b"\xff" * len(good)]:
        state = world.fake.kill()
        state.put(snapshot, broken)
        other = World(state)
        other.log_config = world.log_config
        log = start(other)
        again = batch("i", producer_id=1, producer_epoch=0, base_sequence=0)
        assert log.append_as_leader(again, 0, len(again)).duplicate


@pytest.mark.damaged("small files are cut; one that a clean start does not read stays cut")
def test_small_files_cut_anywhere_still_start(world: World) -> None:
    """KAFKA-9892, 16541: byte by byte."""
    names = ["recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "replication-offset-checkpoint"]
    small = [f"{ROOT}/{name}" for name in names] + [f"{T}/leader-epoch-checkpoint", f"{T}/partition.metadata"]
    for name in small:
        whole = world.fake.contents()[name]
        for cut in range(len(whole)):
            state = world.fake.kill()
            state.put(name, whole[:cut])
            state.unlink(f"{ROOT}/.kafka_cleanshutdown")
            other = World(state)
            other.log_config = world.log_config
            assert values_of(read_records(start(other), 0)) == VALUES, f"{name} cut at {cut}"


def test_progress_counts_the_bytes_of_recovery(world: World) -> None:
    world.fake.unlink(f"{ROOT}/.kafka_cleanshutdown")
    world.fake.put(f"{ROOT}/recovery-point-offset-checkpoint", b"0\n0\n")
    seen: list[tuple[int, int]] = []
    world.manager = world.make_manager()
    world.manager.load(lambda _topic: world.log_config, lambda done, total: seen.append((done, total)))
    size = sum(len(data) for name, data in world.fake.contents().items() if name.endswith(".log"))
    assert seen[-1] == (size, size)
    assert all(done <= total for done, total in seen)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_segments_of_more_than_a_chunk_are_recovered(monkeypatch: pytest.MonkeyPatch) -> None:
    from tidelog.storage.segment import scan as segment_scan

    monkeypatch.setattr(segment_scan, "CHUNK_BYTES", 256)
    world = World()
    world.start(index_interval_bytes=500)
    log = world.log()
    values = [b"%d" % index * (index * 7 % 400 + 1) for index in range(60)]
    for value in values:
        append(log, value)
    for largest in (64 << 20, 300):  # the second goes through a map
        monkeypatch.setattr(segment_scan, "LARGEST_BUFFER", largest)
        world.kill()
        log = start(world)
        assert values_of(read_records(log, 0)) == values
        assert world.manager.recovery_stats.bytes_scanned == log.size


def fail_syncs(world: World, name: str) -> None:
    """From now on, of the files with that suffix."""
    world.fake.fail_when(
        lambda operation: (
            OSError(5, "input/output error") if operation.kind == "sync" and operation.path.endswith(name) else None
        )
    )


@pytest.mark.parametrize("largest", [64 << 20, 300], ids=["buffer", "map"])
def test_records_that_a_failed_sync_has_lost_are_durable_with_what_comes_behind_them(
    monkeypatch: pytest.MonkeyPatch, largest: int
) -> None:
    """The kernel takes their pages for clean: they are read and pass for sound at a start, and no later sync would write them."""
    from tidelog.storage.segment import scan as segment_scan

    monkeypatch.setattr(segment_scan, "CHUNK_BYTES", 256)
    monkeypatch.setattr(segment_scan, "LARGEST_BUFFER", largest)
    world = World()
    world.start(segment_bytes=2000, index_interval_bytes=100)
    log = world.log()
    values = [bytes([number]) * 400 for number in range(1, 10)]
    for value in values[:3]:
        append(log, value)
    log.flush()
    world.manager.checkpoint_recovery_points()
    for value in values[3:7]:  # rolls once
        append(log, value)
    fail_syncs(world, ".log")
    with pytest.raises(KafkaStorageError, match="sync failed"):
        log.flush()
    world.fake.heal()
    world.kill()
    log = start(world)
    for value in values[7:]:
        append(log, value)
    assert log.flush() == 9
    world.cut_power(0)
    for state in (world.fake, world.fake.rebuilt(KeepNone())):
        other = World(state)
        other.log_config = world.log_config
        log = start(other)
        assert values_of(read_records(log, 0)) == values


def test_only_chunks_above_the_recovery_point_are_written_again_and_the_files_time_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from tidelog.storage.segment import scan as segment_scan

    monkeypatch.setattr(segment_scan, "CHUNK_BYTES", 1024)
    world = World()
    world.start()
    log = world.log()
    for number in range(20):
        append(log, bytes([number]) * 400)
        if number == 11:
            log.flush()
            world.manager.checkpoint_recovery_points()
    size, modified_ms = log.size, world.fake.stat(path(0, ".log")).modified_ms
    world.kill()
    world.time.advance(seconds=60)
    world.fake.time = world.time
    log = start(world)
    assert log.log_end_offset == 20
    again = sum(int(operation.detail) for operation in world.fake.trace if operation.kind == "rewrite")
    assert size * 8 / 20 <= again < size * 8 / 20 + 1024
    assert world.fake.stat(path(0, ".log")).modified_ms == modified_ms
    world.fake.trace.clear()
    world.start()  # after a clean stop
    assert all(operation.kind != "rewrite" for operation in world.fake.trace)
    world.stop()


@pytest.mark.damaged("offsets are taken out of the log")
def test_a_gap_above_the_recovery_point_is_a_loss_and_below_it_compactions(world: World) -> None:
    world.fake.unlink(f"{ROOT}/.kafka_cleanshutdown")
    for suffix in (".log", ".index", ".timeindex"):
        world.fake.unlink(path(3, suffix))
    for checkpoint, expected in ((b"0\n1\nt 0 2\n", 3), (b"0\n1\nt 0 7\n", 8), (None, 8)):
        state = world.fake.kill()
        if checkpoint is None:
            state.unlink(f"{ROOT}/recovery-point-offset-checkpoint")
        else:
            state.put(f"{ROOT}/recovery-point-offset-checkpoint", checkpoint)
        other = World(state)
        other.log_config = world.log_config
        log = start(other)
        assert log.log_end_offset == expected
        assert values_of(read_records(log, 0)) == [*VALUES[:3], *VALUES[6:expected]]
        assert append(log, "new") == expected


@pytest.mark.damaged("the sample is one of two directories that were taken apart")
def test_opens_what_kafka_wrote() -> None:
    """A transactional log of Kafka 4.3, after a clean stop and after an unclean one."""
    directory = GOLDEN / "txn-0"
    for clean in (True, False):
        system = FakeFileSystem()
        for file in directory.iterdir():
            system.put(f"{ROOT}/txn-0/{file.name}", file.read_bytes())
        bases = sorted(int(file.stem) for file in directory.glob("*.log"))
        if clean:
            system.put(f"{ROOT}/.kafka_cleanshutdown", b"")
        world = World(system)
        world.start()
        log = world.manager.get("txn", 0)
        assert log is not None
        assert [segment.base_offset for segment in log.segments] == bases
        records = read_records(log, log.log_start_offset)
        assert records
        assert records[-1].offset == log.log_end_offset - 1
        assert world.manager.recovery_stats.bytes_truncated == 0
        world.stop()


def test_each_directorys_logs_are_loaded_in_so_many_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """num.recovery.threads.per.data.dir: three logs are in work at one moment, and never a fourth."""
    world = World()
    world.start()
    for partition in range(6):
        append(world.log("t", partition), "a")
    world.kill()
    world = World(world.fake, num_recovery_threads_per_data_dir="3")
    together = threading.Barrier(3, timeout=PATIENCE_S)  # who waits for two others that never come fails the test
    in_work: list[str] = []
    most = 0
    original = world.fake.list_directory

    def list_directory(path: str) -> list[str]:
        nonlocal most
        if "/t-" in path:
            in_work.append(path)
            together.wait()
            most = max(most, len(in_work))
            together.wait()
            in_work.remove(path)
        return original(path)

    monkeypatch.setattr(world.fake, "list_directory", list_directory)
    world.start()
    assert most == 3
    assert [log.log_end_offset for log in world.manager.logs()] == [1] * 6


def test_no_epoch_is_on_disk_whose_records_are_not() -> None:
    """Else the file would say of other records, of an older epoch, that they are of that one."""
    world = World()
    world.start()
    append(world.log(), "a")
    log = start(world)
    append(log, "of the next epoch")
    fail_syncs(world, ".log")
    with pytest.raises(KafkaStorageError):
        log.flush()
    assert log.epoch_for_offset(1) == 1
    assert world.file_system.read_bytes(f"{T}/leader-epoch-checkpoint") == b"0\n1\n0 0\n"
