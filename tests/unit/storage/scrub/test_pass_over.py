"""Passes over the data directories of a daemon: what is told when, what is taken back, and that nothing sound ever is told."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from support.cleaning import CleaningWorld, put
from support.fake_filesystem import FakeFile, FakeFileSystem
from support.logs import ROOT, World, append
from tidelog.storage.inspect.verify_report import Finding
from tidelog.storage.log.unified_log import UnifiedLog
from tidelog.storage.scrub.memory import read_memory
from tidelog.storage.scrub.pass_over import AGAIN_MS, MOST_DAMAGE, PASS_MS, RETRY_MS, DirectoryScrub
from tidelog.storage.scrub.status import NEVER, ScrubDamage, ScrubState

T = f"{ROOT}/t-0"
pytestmark = pytest.mark.damaged("bits are flipped")


def world_with(segments: int = 4, **settings: Any) -> World:
    """A running daemon's log of that many closed segments, two batches each, and the active one."""
    world = World(**settings)
    world.start(segment_bytes=500, index_interval_bytes=1, retention_ms=-1)
    fill(world.log(), segments)
    assert len(world.log().segments) == segments + 1
    world.time.advance(1)  # flushes, which write snapshots
    return world


def fill(log: UnifiedLog, segments: int) -> None:
    for _ in range(segments):
        append(log, "a" * 150)
        append(log, "b" * 150)
        log.roll()
    append(log, "the last one")


def scrub_of(world: World, rate: int = 1 << 20, path: str = ROOT) -> DirectoryScrub:
    scrub = DirectoryScrub(path, world.manager, world.file_system, world.time)
    scrub.rate = rate
    return scrub


def run(scrub: DirectoryScrub, limit: int = 10_000) -> None:
    """Steps until the pass is over."""
    for _ in range(limit):
        scrub.step()
        if scrub.status().state is not ScrubState.READING:
            return
    raise AssertionError("a pass without an end")


def run_again(scrub: DirectoryScrub) -> None:
    """Steps that a look at damaged segments takes: blocks, snapshot, the end."""
    for _ in range(4):
        scrub.step()


def flip(world: World, segment: int, suffix: str = ".log", at: int = -1) -> str:
    path = f"{T}/{world.log().segments[segment].base_offset:020d}{suffix}"
    data = world.fake.contents()[path]
    world.fake.corrupt(path, at % len(data), bytes([data[at] ^ 1]))
    return path


def present(scrub: DirectoryScrub) -> list[ScrubDamage]:
    return list(scrub.status().present)


# --- a pass ---


def test_a_pass_reads_every_closed_segment_once_and_never_the_active_one() -> None:
    world = world_with(3)
    scrub = scrub_of(world)
    assert scrub.status().state is not ScrubState.READING
    world.fake.reads.clear()
    run(scrub)
    logs = [read.path for read in world.fake.reads if read.path.endswith(".log")]
    assert logs == [f"{T}/{segment.base_offset:020d}.log" for segment in world.log().segments[:-1]]
    status = scrub.status()
    closed = sum(segment.size for segment in world.log().segments[:-1])
    assert (status.state, status.pass_number) == (ScrubState.WAITING, 1)
    assert status.done_bytes == status.total_bytes == closed
    assert status.read_bytes > closed, "indexes count too"
    assert status.whole_begun_ms == status.begun_ms == world.time.milliseconds() == status.whole_ms
    assert status.damage == ()


def test_the_next_pass_begins_an_hour_after_the_last_one_did() -> None:
    world = world_with()
    scrub = scrub_of(world)
    run(scrub)
    assert scrub.step() == PASS_MS
    world.time.advance(PASS_MS - 1)
    scrub.step()
    assert scrub.status().pass_number == 1
    world.time.advance(1)
    run(scrub)
    assert scrub.status().pass_number == 2


def test_a_clock_that_was_set_back_keeps_no_pass_away() -> None:
    world = world_with()
    scrub = scrub_of(world)
    run(scrub)
    world.time.set_wall_clock(world.time.milliseconds() - 10 * PASS_MS)
    run(scrub)
    assert scrub.status().pass_number == 2


def test_a_pass_over_nothing_ends_and_does_not_spin() -> None:
    world = World()
    world.start()
    world.log()
    scrub = scrub_of(world)
    assert scrub.step() == PASS_MS
    status = scrub.status()
    assert (status.state, status.pass_number, status.total_bytes) == (ScrubState.WAITING, 1, 0)
    assert status.whole_ms == world.time.milliseconds()
    assert not world.fake.exists(f"{ROOT}/tidelog-scrub"), "there is nothing to remember"


def test_segments_that_are_closed_during_a_pass_wait_for_the_next_one() -> None:
    world = world_with(2)
    scrub = scrub_of(world)
    scrub.step()
    path = flip(world, -1)
    fill(world.log(), 1)
    run(scrub)
    assert present(scrub) == []
    world.time.advance(PASS_MS)
    run(scrub)
    assert [damage.path for damage in present(scrub)] == [path]


def test_the_pace_is_the_rate_by_the_clock() -> None:
    world = world_with(4)
    scrub = scrub_of(world, rate=1000)
    waited = 0.0
    while not scrub.status().whole_ms > 0:
        wait = scrub.step()
        world.time.advance(wait)
        waited += wait if scrub.status().state is ScrubState.READING else 0
    assert waited == pytest.approx(scrub.status().read_bytes, rel=0.01), "1000 bytes a second are a byte a millisecond"


def test_blocks_follow_the_rate() -> None:
    world = World()
    world.start(segment_bytes=2 << 20, retention_ms=-1)
    for _ in range(40):
        append(world.log(), bytes(50_000))
    world.log().roll()
    sizes = {}
    for rate in (1, 1 << 20, 1 << 30):
        world.time.advance(PASS_MS)
        scrub = scrub_of(world, rate)
        world.fake.reads.clear()
        run(scrub)
        sizes[rate] = max(int(read.detail) for read in world.fake.reads if read.path.endswith(".log"))
    assert list(sizes.values()) == [64 << 10, 256 << 10, 1 << 20]


# --- damage ---


@pytest.mark.parametrize(
    ("suffix", "at", "rule"),
    [
        (".log", -1, "batch-crc"),
        (".index", -1, "index-"),
        (".timeindex", 7, "timeindex-"),
        (".snapshot", -1, "snapshot-corrupt"),
    ],
)
def test_damage_is_told_with_its_place_and_stays_the_same_thing(suffix: str, at: int, rule: str) -> None:
    world = world_with()
    path = flip(world, 1, suffix, at)
    scrub = scrub_of(world)
    run(scrub)
    [damage] = present(scrub)
    assert (damage.topic, damage.partition, damage.path, damage.still_there) == ("t", 0, path, True)
    assert damage.rule.startswith(rule)
    assert damage.meaning
    assert damage.remedy
    assert damage.found_ms == world.time.milliseconds()
    world.time.advance(PASS_MS)
    run(scrub)
    assert present(scrub) == [damage], "it is the one that was found first"
    assert scrub.status().found == 1


def test_the_leader_epochs_are_held_against_those_of_the_log() -> None:
    world = world_with()
    world.start(segment_bytes=500, retention_ms=-1)
    fill(world.log(), 1)
    world.time.advance(0)
    path = f"{T}/leader-epoch-checkpoint"
    data = world.fake.contents()[path]
    assert data.count(b"\n") == 4, data
    world.fake.corrupt(path, len(data) - 2, bytes([data[-2] ^ 1]))
    scrub = scrub_of(world)
    run(scrub)
    [damage] = present(scrub)
    assert (damage.rule, damage.path) == ("epochs-differ", path)


def test_a_wrong_index_is_made_anew_and_the_damage_taken_back() -> None:
    world = world_with()
    flip(world, 1, ".index")
    scrub = scrub_of(world)
    run(scrub)
    assert len(present(scrub)) == 1
    world.log().local.mend_indexes()
    assert len(present(scrub)) == 1, "nobody has looked yet"
    world.time.advance(AGAIN_MS)
    run_again(scrub)
    assert present(scrub) == []
    [mended] = scrub.status().damage
    assert not mended.still_there
    world.time.advance(PASS_MS)
    run(scrub)
    assert scrub.status().damage == (), "told until the next pass has ended"


def test_a_repaired_log_is_looked_at_again() -> None:
    world = world_with()
    path = flip(world, 1)
    scrub = scrub_of(world)
    run(scrub)
    assert len(present(scrub)) == 1
    file = world.fake.open(path)
    flip(world, 1)
    file.rewrite(b"", 0)  # as whoever repairs it in place does: the time of modification is another
    world.time.advance(AGAIN_MS)
    world.fake._touch(world.fake._inode(path))
    run_again(scrub)
    assert present(scrub) == []


def test_damage_goes_with_its_segment_at_once() -> None:
    world = world_with()
    flip(world, 0)
    scrub = scrub_of(world)
    run(scrub)
    assert len(present(scrub)) == 1
    world.log().increment_log_start_offset(3)
    world.log().delete_old_segments()
    assert scrub.status().damage == ()


def test_damage_goes_with_its_topic_though_a_new_one_has_its_name() -> None:
    world = world_with()
    flip(world, 0)
    scrub = scrub_of(world)
    run(scrub)
    world.manager.delete("t", 0)
    assert scrub.status().damage == ()
    fill(world.log(), 3)
    assert scrub.status().damage == ()


def test_a_disk_that_can_not_read_is_damage_and_the_pass_goes_on() -> None:
    world = world_with()
    bad = f"{T}/{world.log().segments[1].base_offset:020d}.log"
    scrub = scrub_of(world)
    with_errors(world.fake, {bad: errno.EIO})
    flip(world, 2)
    run(scrub)
    assert (present(scrub)[0].rule, present(scrub)[0].position) == ("unreadable", 0)
    assert len(present(scrub)) == 2
    assert scrub.status().state is ScrubState.WAITING


def test_another_error_stops_the_pass_until_it_is_over() -> None:
    world = world_with()
    bad = f"{T}/{world.log().segments[1].base_offset:020d}.log"
    scrub = scrub_of(world)
    errors = {bad: errno.EMFILE}
    with_errors(world.fake, errors)
    while scrub.status().state is not ScrubState.FAILED:
        wait = scrub.step()
    assert wait == RETRY_MS
    assert "Too many open files" in scrub.status().reason
    assert scrub.status().damage == ()
    errors.clear()
    world.time.advance(RETRY_MS)
    run(scrub)
    status = scrub.status()
    assert (status.state, status.pass_number, status.done_bytes) == (ScrubState.WAITING, 1, status.total_bytes)


def with_errors(system: FakeFileSystem, errors: dict[str, int]) -> None:
    """Reads of these files fail."""
    real = FakeFile.pread_aside

    class Failing(FakeFile):
        def pread_aside(self, view: memoryview | bytearray, offset: int) -> int:
            if (number := errors.get(self.path)) is not None:
                import os

                raise OSError(number, os.strerror(number))
            return real(self, view, offset)

    original = system.open

    def opened(path: Any, **arguments: Any) -> FakeFile:
        file = original(path, **arguments)
        file.__class__ = Failing
        return file

    system.open = opened  # type: ignore[method-assign]


def test_a_file_that_is_gone_is_damage() -> None:
    world = world_with()
    path = f"{T}/{world.log().segments[1].base_offset:020d}.log"
    world.fake.unlink(path)
    scrub = scrub_of(world)
    run(scrub)
    assert [(damage.rule, damage.path, damage.detail) for damage in present(scrub)] == [
        ("unreadable", path, "the file is missing")
    ]


def test_what_is_told_is_bounded() -> None:
    world = world_with(30)
    for segment in range(30):
        flip(world, segment)
    scrub = scrub_of(world)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tidelog.storage.scrub.pass_over.MOST_DAMAGE", 10)
        run(scrub)
    assert len(scrub.status().damage) == 10
    assert scrub.status().omitted == 20
    assert MOST_DAMAGE >= 1000


# --- races: something happens in the moment before damage would be published ---


class Gate:
    """A lock that does something before it is first taken."""

    def __init__(self, lock: Any, before: Callable[[], object]) -> None:
        self._lock = lock
        self._before: Callable[[], object] | None = before

    def __enter__(self) -> None:
        before, self._before = self._before, None
        if before is not None:
            before()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def retention(world: World) -> None:
    world.log().increment_log_start_offset(3)
    world.log().delete_old_segments()


def deletion(world: World) -> None:
    world.manager.delete("t", 0)


def truncation(world: World) -> None:
    world.log().truncate_to(1)


def close(world: World) -> None:
    world.log().local.is_closed = True


def repair(world: World) -> None:
    path = flip(world, 0)
    world.time.advance(5)
    world.fake._touch(world.fake._inode(path))


@pytest.mark.parametrize("happens", [retention, deletion, truncation, close, repair])
def test_what_changes_while_it_is_read_is_not_told(happens: Callable[[World], None]) -> None:
    world = world_with()
    flip(world, 0)
    scrub = scrub_of(world)
    log = world.log()
    log.local.deletion_lock = Gate(log.local.deletion_lock, lambda: happens(world))  # type: ignore[assignment]
    run(scrub)
    assert scrub.status().damage == ()
    assert scrub.status().found == 0
    assert not [file for file in world.fake.open_files if not file._writable], "a file was left open"


def test_a_segment_that_the_cleaner_replaces_is_not_told_of() -> None:
    world = CleaningWorld()
    world.start(segment_bytes=400, index_interval_bytes=1)
    for number in range(20):
        put(world.log(), f"k{number % 2}", "v" * 100)
    world.log().roll()
    log, scrub = world.log(), scrub_of(world)
    # Below the checksum's reach, and nothing that the cleaner minds: an index entry.
    flip(world, 0, ".index")
    log.local.deletion_lock = Gate(log.local.deletion_lock, world.clean_all)  # type: ignore[assignment]
    run(scrub)
    assert scrub.status().damage == ()
    assert scrub.status().found == 0


@pytest.mark.parametrize("steps", range(6))
def test_a_pass_goes_on_whatever_is_cleaned_meanwhile(steps: int) -> None:
    world = CleaningWorld()
    world.start(segment_bytes=400, index_interval_bytes=1)
    for number in range(40):
        put(world.log(), f"k{number % 3}", "v" * 100)
    scrub = scrub_of(world, rate=1)
    for _ in range(steps):
        scrub.step()
    world.roll_and_clean()
    world.time.advance(seconds=70)
    assert not [path for path in world.fake.paths() if path.endswith(".deleted")], "nothing keeps the replaced files"
    run(scrub)
    assert scrub.status().damage == ()


def test_a_log_that_moves_is_the_other_directorys() -> None:
    one, two = f"{ROOT}/one", f"{ROOT}/two"
    world = World(directories=(one, two))
    world.start(segment_bytes=500, index_interval_bytes=1, retention_ms=-1)
    fill(world.log(), 3)
    path = f"{one}/t-0/{0:020d}.log"
    world.fake.corrupt(path, 80, b"?")
    here, there = scrub_of(world, path=one), scrub_of(world, path=two)
    run(here)
    assert len(present(here)) == 1
    move = world.manager.new_move("t", 0, two)
    assert move is not None
    move.begin()
    while move.copy(lambda _bytes: None):
        pass
    move.commit()
    world.manager.end_move(move)
    assert here.status().damage == ()
    run(there)
    assert [damage.path for damage in present(there)] == [f"{two}/t-0/{0:020d}.log"]


# --- over restarts ---


def restarted(world: World) -> World:
    world.stop()
    world.start()
    return world


def test_a_pass_goes_on_where_it_was() -> None:
    world = world_with(4)
    scrub = scrub_of(world, rate=1)
    bases = [segment.base_offset for segment in world.log().segments]
    while scrub.status().done_bytes < world.log().segments[0].size:
        scrub.step()
    scrub.step()
    scrub.stop()
    done = scrub.status().done_bytes
    restarted(world)
    world.fake.reads.clear()
    again = scrub_of(world)
    run(again)
    read = sorted({read.path for read in world.fake.reads if read.path.endswith(".log") and read.path.startswith(T)})
    assert f"{T}/{bases[0]:020d}.log" not in read
    assert f"{T}/{bases[3]:020d}.log" in read
    status = again.status()
    assert (status.pass_number, status.state) == (1, ScrubState.WAITING)
    assert status.done_bytes == status.total_bytes > done > 0
    scrub_of(world).step()


def test_what_was_read_when_and_what_is_damaged_is_remembered() -> None:
    world = world_with()
    path = flip(world, 1)
    scrub = scrub_of(world)
    run(scrub)
    before = scrub.status()
    scrub.stop()
    restarted(world)
    again = scrub_of(world)
    again.step()
    status = again.status()
    assert (status.pass_number, status.whole_ms, status.begun_ms) == (1, before.whole_ms, before.begun_ms)
    assert status.state is ScrubState.WAITING
    assert [damage._replace(path="") for damage in status.damage] == [d._replace(path="") for d in before.damage]
    assert [damage.path for damage in status.damage] == [path]


def test_what_was_repaired_between_two_runs_is_not_told_again() -> None:
    world = world_with()
    path = flip(world, 1)
    scrub = scrub_of(world)
    run(scrub)
    scrub.stop()
    world.stop()
    data = bytearray(world.fake.contents()[path])
    data[-1] ^= 1
    world.fake.put(path, bytes(data))
    world.start()
    again = scrub_of(world)
    for _ in range(5):
        assert present(again) == []
        again.step()
    assert present(again) == []


@pytest.mark.parametrize("content", [b"", b"nonsense", b"tidelog 1 00000000\n{}"])
def test_a_damaged_memory_costs_a_pass_and_nothing_else(content: bytes) -> None:
    world = world_with()
    scrub = scrub_of(world)
    run(scrub)
    scrub.stop()
    world.fake.put(f"{ROOT}/tidelog-scrub", content)
    again = scrub_of(world)
    run(again)
    assert again.status().pass_number == 1
    assert again.status().whole_ms == world.time.milliseconds()


def test_after_a_stop_nothing_is_read_or_written() -> None:
    world = world_with()
    scrub = scrub_of(world, rate=1)
    scrub.step()
    scrub.stop()
    world.fake.reads.clear()
    trace = len(world.fake.trace)
    assert scrub.step() == PASS_MS
    assert not world.fake.reads
    assert len(world.fake.trace) == trace
    assert read_memory(world.fake, ROOT).pass_number == 1


def test_a_memory_that_can_not_be_written_is_no_reason_to_stop() -> None:
    world = world_with()
    flip(world, 1)
    scrub = scrub_of(world)
    world.fake.fail_when(lambda operation: OSError(errno.ENOSPC, "full") if "tidelog-scrub" in operation.path else None)
    run(scrub)
    assert scrub.status().state is ScrubState.WAITING
    assert len(present(scrub)) == 1
    scrub.stop()


def test_before_the_first_step_nothing_is_known() -> None:
    status = scrub_of(world_with()).status()
    assert (status.pass_number, status.whole_ms, status.damage) == (0, NEVER, ())


def test_what_was_read_when_is_told_before_the_first_step() -> None:
    world = world_with()
    flip(world, 1)
    scrub = scrub_of(world)
    run(scrub)
    before = scrub.status()
    scrub.stop()
    restarted(world)
    for rate in (1 << 20, 0):
        again = scrub_of(world, rate)
        again.recall()
        status = again.status()
        assert (status.pass_number, status.begun_ms) == (1, before.begun_ms)
        assert (status.whole_begun_ms, status.whole_ms) == (before.whole_begun_ms, before.whole_ms)
        assert (status.done_bytes, status.total_bytes) == (before.done_bytes, before.total_bytes)
        again.believe()
        assert again.status().damage == before.damage
        assert again.status().state is ScrubState.OFF, "nothing is read yet"


def test_how_much_of_a_pass_is_left_is_told_before_the_first_step() -> None:
    world = world_with(4)
    scrub = scrub_of(world, rate=1)
    while not 0 < scrub.status().done_bytes < scrub.status().total_bytes:
        scrub.step()
    while scrub._at == ("t", 0, 0):
        scrub.step()
    scrub.stop()
    before = scrub.status()
    restarted(world)
    again = scrub_of(world)
    again.recall()
    assert 0 < again.status().done_bytes < again.status().total_bytes == before.total_bytes


# --- what is in doubt at a stop ---


def test_an_index_that_was_to_be_made_anew_is_so_after_a_restart() -> None:
    world = world_with()
    path = flip(world, 1, ".index")
    damaged = world.fake.contents()[path]
    scrub = scrub_of(world)
    run(scrub)
    scrub.stop()
    restarted(world)
    assert world.fake.contents()[path] == damaged, "a start believes it"
    again = scrub_of(world)
    again.believe()
    world.log().local.mend_indexes()
    assert world.fake.contents()[path] != damaged
    world.time.advance(AGAIN_MS)
    run_again(again)
    assert present(again) == []


def test_a_segment_that_is_being_examined_at_a_stop_is_the_next_daemons_first() -> None:
    world = world_with()
    path = flip(world, 1)
    scrub = scrub_of(world, rate=1)
    base = world.log().segments[1].base_offset
    while scrub._at is None or scrub._at[2] <= base - 2:
        scrub.step()
    scrub.step()
    assert present(scrub) == []
    scrub.stop()
    restarted(world)
    again = scrub_of(world)
    world.fake.reads.clear()
    while not present(again):
        again.step()
    assert [damage.path for damage in present(again)] == [path]
    assert (
        next(read.path for read in world.fake.reads if read.path.startswith(T) and read.path.endswith(".log")) == path
    )


def test_what_can_not_be_held_against_its_files_at_a_start_is_not_forgotten() -> None:
    world = world_with()
    path = flip(world, 1)
    scrub = scrub_of(world)
    run(scrub)
    scrub.stop()
    restarted(world)
    again = scrub_of(world)
    with refused(world.fake, path):
        again.believe()
        assert present(again) == [], "in doubt"
        again.stop()
    restarted(world)
    later = scrub_of(world)
    later.believe()
    assert [damage.path for damage in present(later)] == [path]


def copied(world: World, *paths: str) -> None:
    """A stop and a start, between which the files were copied: others, with other times."""
    world.stop()
    for path in paths:
        world.fake.put(path, world.fake.contents()[path])
        world.fake.set_modified_ms(path, 12345)
    world.start()


def test_what_is_damaged_in_a_copy_of_the_directory_was_found_when_it_was() -> None:
    world = world_with()
    paths = [flip(world, 0), flip(world, 1)]
    scrub = scrub_of(world)
    run(scrub)
    before = [(damage.path, damage.found_ms) for damage in present(scrub)]
    assert [path for path, _ in before] == paths
    scrub.stop()
    copied(world, *paths)
    world.time.advance(10_000)
    again = scrub_of(world)
    for _ in range(30):
        again.step()
    assert [(damage.path, damage.found_ms) for damage in present(again)] == before
    assert again.status().found == 0


def test_what_was_not_looked_at_yet_is_not_forgotten_at_a_stop() -> None:
    world = world_with()
    paths = [flip(world, 0), flip(world, 1)]
    scrub = scrub_of(world)
    run(scrub)
    scrub.stop()
    copied(world, *paths)
    again = scrub_of(world, rate=1)
    while not present(again):
        again.step()
    assert [damage.path for damage in present(again)] == paths[:1]
    again.stop()
    assert [segment.base_offset for segment in read_memory(world.fake, ROOT).damage] == [
        segment.base_offset for segment in world.log().segments[:2]
    ]
    restarted(world)
    later = scrub_of(world)
    for _ in range(30):
        later.step()
    assert [damage.path for damage in present(later)] == paths


def test_damage_whose_segment_went_before_the_start_is_forgotten() -> None:
    world = world_with()
    flip(world, 0)
    scrub = scrub_of(world)
    run(scrub)
    scrub.stop()
    retention(world)
    restarted(world)
    again = scrub_of(world)
    run_again(again)
    again.stop()
    assert again.status().damage == ()
    assert read_memory(world.fake, ROOT).damage == ()


# --- files that can't be read ---


@contextmanager
def refused(system: FakeFileSystem, path: str, number: int = errno.EACCES, *, is_seen: bool = False) -> Iterator[None]:
    """The file can't be opened, nor (unless `is_seen`) looked at."""
    stat, opened = system.stat, system.open

    def failing(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(name: Any, *more: Any, **options: Any) -> Any:
            if str(name) == path:
                raise OSError(number, os.strerror(number), path)
            return original(name, *more, **options)

        return call

    system.open = failing(opened)  # type: ignore[method-assign]
    if not is_seen:
        system.stat = failing(stat)  # type: ignore[method-assign]
    try:
        yield
    finally:
        system.stat, system.open = stat, opened  # type: ignore[method-assign]


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.EIO, errno.ELOOP, errno.EISDIR, errno.ESTALE])
@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex", ".snapshot"])
def test_a_file_that_can_not_be_read_is_passed_over_and_told(number: int, suffix: str) -> None:
    world = world_with()
    path = f"{T}/{world.log().segments[1].base_offset:020d}{suffix}"
    other = flip(world, 2)
    scrub = scrub_of(world)
    with refused(world.fake, path, number):
        run(scrub)
    status = scrub.status()
    assert (status.state, status.done_bytes) == (ScrubState.WAITING, status.total_bytes)
    rule = "no-access" if number in (errno.EACCES, errno.EPERM) else "unreadable"
    assert [(damage.rule, damage.path) for damage in present(scrub)] == [(rule, path), ("batch-crc", other)]


@pytest.mark.parametrize("is_seen", [False, True])
def test_a_file_that_may_be_read_again_is_looked_at_again(is_seen: bool) -> None:
    world = world_with()
    path = f"{T}/{world.log().segments[1].base_offset:020d}.log"
    scrub = scrub_of(world)
    with refused(world.fake, path, is_seen=is_seen):
        run(scrub)
        assert len(present(scrub)) == 1
    world.time.advance(AGAIN_MS)
    run_again(scrub)
    assert present(scrub) == [], "rights are given back without a trace in size or time"


def test_a_memory_that_can_not_be_read_costs_a_pass_and_nothing_else() -> None:
    world = world_with()
    run(scrub := scrub_of(world))
    scrub.stop()
    original = world.fake.read_bytes

    def failing(name: Any, *more: Any) -> bytes:
        if str(name).endswith("tidelog-scrub"):
            raise OSError(errno.EIO, "Input/output error", name)
        return original(name, *more)

    world.fake.read_bytes = failing  # type: ignore[method-assign]
    run(again := scrub_of(world))
    assert (again.status().state, again.status().pass_number) == (ScrubState.WAITING, 1)


# --- bounds ---


def test_what_is_remembered_is_saved_a_few_times_however_much_is_damaged() -> None:
    world = world_with(60)
    for segment in range(60):
        flip(world, segment)
    scrub = scrub_of(world)
    before = len(world.fake.trace)
    run(scrub)
    saves = {id(one) for one in world.fake.trace[before:] if "tidelog-scrub" in one.path and "rename" in str(one)}
    assert 1 <= len(saves) <= 3
    assert len(read_memory(world.fake, ROOT).damage) == 60


def test_the_file_of_what_is_remembered_is_bounded() -> None:
    world = world_with(2)
    scrub = scrub_of(world)
    run(scrub)
    stamp = ((1 << 40, 1 << 44, 1 << 50),) * 5
    key = ("t" * 249, 99_999)
    for base in range(MOST_DAMAGE + 5):
        finding = Finding("records-unreadable", f"{ROOT}/{key[0]}-99999/{base:020d}.log", 1 << 31, "x" * 10_000)
        scrub._note(key, base, object(), stamp, [finding])
        scrub._is_live = lambda _entry: True  # type: ignore[method-assign]
    assert scrub.status().omitted == 5
    scrub.stop()
    assert len(world.fake.contents()[f"{ROOT}/tidelog-scrub"]) < 1 << 20
    assert read_memory(world.fake, ROOT).omitted == 5


def test_snapshots_and_small_files_count_for_the_pace() -> None:
    world = world_with(4)
    big = f"{T}/{world.log().segments[2].base_offset:020d}.snapshot"
    scrub = scrub_of(world)
    run(scrub)
    read = scrub.status().read_bytes
    world.fake.put(big, bytes(5_000_000))
    world.time.advance(PASS_MS)
    run(scrub)
    assert scrub.status().read_bytes >= 2 * read + 4_900_000
