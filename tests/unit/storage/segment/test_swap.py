from __future__ import annotations

import errno
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from support.fake_disk import KeepNone
from support.fake_filesystem import Operation
from support.logs import ROOT, World, append, read_records, values_of
from support.mock_time import START_MS
from tidelog.protocol.records.record_batch import iterate_batches
from tidelog.storage.exceptions import KafkaStorageError
from tidelog.storage.index.time_index import TimestampOffset
from tidelog.storage.io.file_cache import FileCache
from tidelog.storage.log.local_log import no_checkpoint
from tidelog.storage.log.unified_log import UnifiedLog
from tidelog.storage.segment.log_segment import LogSegment
from tidelog.storage.segment.swap import CleanedSegment

T = f"{ROOT}/t-0"
VALUES = [value.encode() * 80 for value in "abcdefgh"]


@pytest.fixture
def world() -> World:
    """Three segments of three, three and two records, all synced."""
    world = World()
    world.start(segment_bytes=500, index_interval_bytes=100)
    log = world.log()
    for value in VALUES:
        append(log, value, timestamp=START_MS + value[0])
    world.time.advance(0)
    return world


def batches_of(data: bytes) -> list[bytes]:
    ends = [header.position + header.size for header in iterate_batches(data)]
    return [data[start:end] for start, end in pairwise([0, *ends])]


def clean(world: World, old: tuple[LogSegment, ...]) -> CleanedSegment:
    """`.cleaned` files with the first batch of each of `old`."""
    contents = world.fake.contents()
    data = b""
    for segment in old:
        whole = contents[f"{T}/{segment.base_offset:020d}.log"]
        data += whole[: 12 + int.from_bytes(whole[8:12], "big")]
    base = old[0].base_offset
    for suffix, content in ((".log", data), (".index", b""), (".timeindex", b"")):
        file = world.fake.open(f"{T}/{base:020d}{suffix}.cleaned", create=True)
        file.append(content)
        file.close()
    largest = TimestampOffset(START_MS + 100, old[-1].base_offset)
    return CleanedSegment(base, len(data), START_MS + 97, largest, len(old))


def swap(world: World, log: UnifiedLog) -> bool:
    old = log.segments[:2]
    return log.replace_segments([clean(world, old)], old)


def leftovers(world: World) -> list[str]:
    return [path for path in world.fake.paths() if path.endswith((".cleaned", ".swap", ".deleted"))]


@pytest.mark.damaged("the swap takes out offsets as no cleaner does")
def test_readers_see_the_new_segments_and_so_does_the_next_start(world: World) -> None:
    log = world.log()
    assert swap(world, log)
    after = [VALUES[0], VALUES[3], VALUES[6], VALUES[7]]
    assert values_of(read_records(log, 0)) == after
    assert [segment.base_offset for segment in log.segments] == [0, 6]
    found = log.max_timestamp_offset()
    assert found is not None
    assert found.offset == 7
    world.time.advance(0)
    assert leftovers(world) == []
    assert append(log, "next") == 8
    world.stop()
    log = world.start().logs()[0]
    assert values_of(read_records(log, 0)) == [*after, b"next"]
    assert world.manager.recovery_stats.bytes_scanned == 0


@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.damaged("the swap takes out offsets as no cleaner does")
def test_who_is_about_to_open_the_files_at_a_swap_reads_the_old_ones(
    world: World, monkeypatch: pytest.MonkeyPatch, index: int
) -> None:
    """Found by the simulator (seed 6153): he opened the new file by its old name, and read at the old one's positions; or found
    none, of a segment that was merged into the one before (seed 5979)."""
    world.stop()
    log = world.start().logs()[0]
    before = log.segments
    cache, happened = before[0]._directory.cache, []
    acquire = cache.acquire

    def acquire_late(*asked: Any) -> Any:
        monkeypatch.setattr(FileCache, "acquire", lambda cache, *asked: acquire(*asked))
        happened.append(swap(world, log))
        return acquire(*asked)

    monkeypatch.setattr(FileCache, "acquire", lambda cache, *asked: acquire_late(*asked))
    file = before[index].lease_file()
    assert happened == [True]
    assert VALUES[index * 3 + 2] in file.pread(before[index].size, 0)
    file.release()


@pytest.mark.damaged("the swap takes out offsets as no cleaner does")
def test_the_old_files_die_with_their_last_reader(world: World) -> None:
    """Who holds the old list reads on in the old files, opened before or not; the last one to let go closes them."""
    log = world.log()
    before = log.segments
    lease = before[0].lease_file()
    assert swap(world, log)
    world.time.advance(0)
    assert [segment.base_offset for segment in log.segments] == [0, 6]
    for segment, first in ((before[0], VALUES[0]), (before[1], VALUES[3])):
        assert segment.find(segment.base_offset + 1, segment.size) is not None
        file = segment.lease_file()
        assert first in file.pread(segment.size, 0)
        file.release()
    assert lease.pread(8, 0) == bytes(8)
    old_files = [file for file in world.fake.open_files if file.path.endswith(("000.log", "003.log"))]
    assert old_files
    del before, segment
    assert [file for file in old_files if not file.closed] == [lease]
    lease.release()
    assert all(file.closed for file in old_files)


@pytest.mark.damaged("the swap takes out offsets as no cleaner does")
def test_the_order_of_the_steps(world: World) -> None:
    """KAFKA-6324, 12520; each rename is durable before the next step leans on it."""
    log = world.log()
    world.fake.trace.clear()
    assert swap(world, log)
    steps = [
        (operation.kind, str(operation.detail).rpartition("/")[2][20:] if operation.kind == "rename" else "")
        for operation in world.fake.trace
        if operation.path.startswith(T) and operation.kind in ("rename", "sync_directory")
    ]
    names = (".log", ".index", ".timeindex")
    barrier = ("sync_directory", "")
    assert steps == [
        ("rename", ""),  # the ledger, which says what is about to go
        barrier,  # the names of that and of the cleaned files
        *[("rename", f"{name}.swap") for name in names],
        barrier,
        *[("rename", f"{name}.deleted") for name in names],
        *[("rename", f"{name}.deleted") for name in (*names, ".snapshot")],
        barrier,
        ("rename", ".log"),
        barrier,
        ("rename", ".index"),
        ("rename", ".timeindex"),
        barrier,
    ]


@pytest.mark.damaged("the swap takes out offsets as no cleaner does")
def test_what_takes_the_originals_place_is_durable(world: World) -> None:
    """The originals have gone: bytes that only the page cache has would be the only ones."""
    log = world.log()
    assert swap(world, log)
    left = world.fake.rebuilt(KeepNone())
    for suffix in (".log", ".index", ".timeindex"):
        path = f"{T}/{0:020d}{suffix}"
        assert left.contents()[path] == world.fake.contents()[path]
    assert left.contents()[f"{T}/{0:020d}.log"]


def test_segments_that_went_meanwhile_are_not_replaced(world: World) -> None:
    log = world.log()
    old = log.segments[:2]
    cleaned = clean(world, old)
    log.increment_log_start_offset(4)
    log.delete_old_segments()
    world.time.advance(days=1)
    assert not log.replace_segments([cleaned], old)
    assert leftovers(world) == []
    assert values_of(read_records(log, 4)) == VALUES[4:]


@pytest.mark.damaged("the swap takes out offsets as no cleaner does")
def test_segments_that_were_replaced_meanwhile_are_not_replaced_again(world: World) -> None:
    """Of the two one is another by now; what was made from its predecessor must not take its place."""
    log = world.log()
    old = log.segments[:2]
    assert log.replace_segments([clean(world, old[1:])], old[1:])
    world.time.advance(0)
    before = world.fake.contents()
    assert not log.replace_segments([clean(world, old)], old)
    assert world.fake.contents() == before
    assert values_of(read_records(log, 0)) == [*VALUES[:4], *VALUES[6:]]


@pytest.mark.damaged("the swap takes out offsets as no cleaner does")
def test_a_failure_before_the_originals_are_touched_changes_nothing(world: World) -> None:
    log = world.log()
    world.time.advance(seconds=70)
    world.fake.fail_when(
        lambda operation: (
            OSError(errno.EIO, "broken")
            if operation.kind == "rename" and str(operation.detail).endswith(".index.swap")
            else None
        )
    )
    with pytest.raises(KafkaStorageError, match="could not be put in place"):
        swap(world, log)
    world.fake.heal()
    assert leftovers(world) == []
    assert values_of(read_records(log, 0)) == VALUES
    assert append(log, "next") == 8
    assert swap(world, log)


@pytest.mark.damaged("the swap takes out offsets as no cleaner does")
def test_a_failed_swap_of_which_a_file_stays_is_the_last_change_before_a_restart(world: World) -> None:
    """The next start would put it in the place of what had come there since: records that a later pass took would be back."""
    log = world.log()
    world.fake.fail_when(
        lambda operation: (
            OSError(errno.EIO, "bad")
            if (operation.kind == "unlink" and operation.path.endswith(".swap"))
            or (
                operation.kind == "sync_directory"
                and leftovers(world) != []
                and f"{T}/{0:020d}.log.swap" in leftovers(world)
            )
            else None
        )
    )
    with pytest.raises(KafkaStorageError, match="could not be put in place"):
        swap(world, log)
    world.fake.heal()
    assert f"{T}/{0:020d}.log.swap" in leftovers(world)
    assert values_of(read_records(log, 0)) == VALUES
    with pytest.raises(
        KafkaStorageError, match=r"takes no appends until a restart: .* of a swap that failed can.t be removed"
    ):
        append(log, "next")
    world.kill()
    log = world.start(segment_bytes=500, index_interval_bytes=100).logs()[0]
    assert values_of(read_records(log, 0)) == [VALUES[0], VALUES[3], VALUES[6], VALUES[7]]
    assert append(log, "next") == 8


@pytest.mark.damaged("the swap takes out offsets as no cleaner does")
def test_half_of_a_swap_is_not_put_in_place_by_the_next_start(world: World) -> None:
    """Of two new segments the second, which begins within an original, keeps its `.swap`: what says that the swap was not
    complete has to stay with it."""
    log = world.log()
    old = log.segments[:2]
    contents = world.fake.contents()
    found = batches_of(contents[f"{T}/{0:020d}.log"] + contents[f"{T}/{3:020d}.log"])
    new = []
    for base, picked in ((0, (0, 2, 3)), (4, (4, 5))):
        data = b"".join(found[offset] for offset in picked)
        for suffix, content in ((".log", data), (".index", b""), (".timeindex", b"")):
            file = world.fake.open(f"{T}/{base:020d}{suffix}.cleaned", create=True)
            file.append(content)
            file.close()
        largest = TimestampOffset(START_MS + 102, picked[-1])
        new.append(CleanedSegment(base, len(data), START_MS + 97, largest, len(picked)))

    def bad(operation: Operation) -> OSError | None:
        is_rename = operation.kind == "rename" and operation.path == f"{T}/{0:020d}.log.cleaned"
        is_unlink = operation.kind == "unlink" and operation.path == f"{T}/{4:020d}.log.swap"
        return OSError(errno.EIO, "bad") if is_rename or is_unlink else None

    world.fake.fail_when(bad)
    with pytest.raises(KafkaStorageError):
        log.replace_segments(new, old)
    world.fake.heal()
    assert log.failure is not None
    world.kill()
    world.start(segment_bytes=500, index_interval_bytes=100)
    assert [segment.base_offset for segment in world.log().segments] == [0, 3, 6]
    assert [record.offset for record in read_records(world.log(), 0)] == list(range(8))


@pytest.mark.damaged("the swap takes out offsets as no cleaner does")
def test_a_failure_in_the_middle_is_completed_by_the_next_start(world: World) -> None:
    log = world.log()
    world.fake.fail_when(
        lambda operation: (
            OSError(errno.EIO, "broken")
            if operation.kind == "rename" and str(operation.detail).endswith("3.index.deleted")
            else None
        )
    )
    with pytest.raises(KafkaStorageError, match="by half"):
        swap(world, log)
    with pytest.raises(KafkaStorageError):
        append(log, "next")
    assert values_of(read_records(log, 0)) == VALUES, "what is open can be read on"
    world.fake.heal()
    world.kill()
    log = world.start().logs()[0]
    assert values_of(read_records(log, 0)) == [VALUES[0], VALUES[3], VALUES[6], VALUES[7]]
    assert leftovers(world) == []


@pytest.mark.parametrize("save", [no_checkpoint, lambda: False], ids=["no manager", "not written"])
def test_without_a_durable_recovery_point_nothing_is_replaced(world: World, save: Callable[[], bool]) -> None:
    """Cleaning leaves gaps: above the recovery point the next recovery would take them for losses."""
    log = world.log()
    log.local.save_recovery_point = save
    with pytest.raises(KafkaStorageError, match="recovery point"):
        swap(world, log)
    assert leftovers(world) == []
    assert values_of(read_records(log, 0)) == VALUES


@pytest.mark.damaged("the swap takes out offsets as no cleaner does")
def test_no_snapshot_of_a_replaced_segment_is_known_any_more(world: World) -> None:
    log = world.log()
    assert swap(world, log)
    assert not log.producers.forget_snapshot(3)
    assert log.producers.forget_snapshot(6)


@pytest.mark.damaged("the swap takes out offsets as no cleaner does")
def test_a_high_watermark_at_the_end_of_a_replaced_segment_is_the_start_of_the_next() -> None:
    """A sync that was pending when the log rolled leaves it there."""
    world = World()
    world.start(segment_bytes=300, flush_messages=1)
    log = world.log()
    while len(log.segments) < 3:
        synced = log.flush()
        append(log, "x" * 20)
    log.complete_sync(synced)
    assert log.high_watermark == synced == log.segments[2].base_offset
    log.flush()
    assert swap(world, log)
    assert len(read_records(log, 0)) == 2
    world.stop()
