"""A process that walks, and everything that may become of it: the log is as it was, the next pass does it, somebody is told."""

from __future__ import annotations

import errno
import itertools
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.cleaning import Control, committed_records, data_records, put, state_of
from support.failing_process import LIES
from support.patience import PATIENCE_S, until
from support.process_passes import ProcessWorld, failing, fill, is_alive
from support.slices import slice_of
from tidelog.cleaner.cleaner_manager import FIRST_RETRY_MS, CleanerManager
from tidelog.cleaner.cleaner_pool import CleanerPool, PoolSettings
from tidelog.cleaner.cleaning import CleaningTask
from tidelog.cleaner.exceptions import PassProcessError
from tidelog.cleaner.process import walker as walker_module
from tidelog.cleaner.process.walker import PROGRAM, SILENCE_S, ProcessWalker
from tidelog.cleaner.process_counts import Trouble

Make = Callable[..., ProcessWorld]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[ProcessWorld] = []

    def world(**arguments: Any) -> ProcessWorld:
        made.append(ProcessWorld(tmp_path / str(len(made)), **arguments))
        made[-1].start(segment_bytes=500, index_interval_bytes=100)
        return made[-1]

    yield world
    for one in made:
        one.close()


def check_nothing_happened(world: ProcessWorld, before: dict[bytes, bytes]) -> None:
    assert state_of(committed_records(world.log())) == before
    assert world.left_over() == []


def clean_after_a_failure(world: ProcessWorld, table: dict[bytes, bytes]) -> None:
    world.take_program(PROGRAM)
    world.time.advance(FIRST_RETRY_MS)
    assert world.clean_all()
    assert world.failure() == ""
    assert state_of(committed_records(world.log())) == table
    assert len(data_records(world.log())) == len(table) + 1, "a tombstone, and nothing that is superseded"
    assert world.left_over() == []


# --- a pass ---


def test_a_pass_reads_and_writes_in_a_process(make: Make) -> None:
    world = make()
    table = fill(world)
    before = len(data_records(world.log()))
    (result,) = world.clean_all()
    assert state_of(committed_records(world.log())) == table
    assert len(data_records(world.log())) == len(table) + 1
    counts = result.counts
    assert (counts.records_read - counts.removed, counts.superseded, counts.aborted) == (counts.records_kept, 8, 6)
    assert before > len(data_records(world.log()))
    assert result.map_bytes > 0
    assert result.filtered_bytes == counts.bytes_read
    assert world.throttler.total_bytes >= result.map_bytes + result.filtered_bytes + result.bytes_written
    assert (world.counts.started, world.counts.troubles) == (1, dict.fromkeys(Trouble, 0))
    assert world.counts.cpu_s > 0
    assert os.getpriority(os.PRIO_PROCESS, world.pid) == 19
    if sys.platform == "linux":
        assert world.counts.resident_bytes > 1 << 20


def test_the_process_stays_for_the_next_pass_and_ends_when_it_has_rested(make: Make) -> None:
    world = make()
    fill(world)
    world.clean_all()
    pid, walker = world.pid, world.walker
    assert walker is not None
    walker.rest()
    put(world.log(), "k0", "again")
    world.roll_and_clean()
    assert world.pid == pid
    walker._rest_s = 0.0
    walker.rest()
    assert world.counts.pids == []
    assert not is_alive(pid)
    put(world.log(), "k0", "again")
    world.roll_and_clean()
    assert (world.counts.started, world.failure()) == (2, "")


def test_a_process_that_was_killed_while_it_rested_is_no_failure(make: Make) -> None:
    world = make()
    fill(world)
    world.clean_all()
    os.kill(pid := world.pid, signal.SIGKILL)
    until(lambda: not is_alive(pid), "its end")
    put(world.log(), "k0", "again")
    assert world.roll_and_clean()
    assert (world.counts.started, world.failure(), world.counts.troubles[Trouble.END]) == (2, "", 0)


def test_signals_for_all_processes_of_a_terminal_or_a_service_are_the_daemons(make: Make) -> None:
    world = make()
    fill(world)
    world.clean_all()
    pid = world.pid
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(pid, number)
    put(world.log(), "k0", "again")
    assert world.roll_and_clean()
    assert world.pid == pid


# --- what may become of it ---


@pytest.mark.sliced
@pytest.mark.parametrize("share", slice_of(range(5)))
def test_a_process_that_is_killed_at_any_step_leaves_the_log_as_it_was(make: Make, share: int) -> None:
    for step in itertools.count(share + 1, 5):
        world = make(program=failing("kill", step))
        table = fill(world)
        before = state_of(committed_records(world.log()))
        if world.clean_once() is not None:
            break
        assert "PassProcessError: the process of the pass was killed by SIGKILL" in world.failure()
        assert world.counts.troubles[Trouble.END] == 1
        assert world.counts.pids == []
        check_nothing_happened(world, before)
        clean_after_a_failure(world, table)
        world.close()
    assert step > 20, "there are more steps than that"


@pytest.mark.parametrize("number", range(1, 9))
def test_a_process_that_is_killed_between_two_messages_leaves_the_log_as_it_was(
    make: Make, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the thread gets to the n-th: it may have it, or may not."""
    world = make()
    table = fill(world)
    before = state_of(committed_records(world.log()))
    receive, count = walker_module._Conversation.receive, itertools.count(1)

    def killed(talk: walker_module._Conversation) -> Any:
        message = receive(talk)
        if next(count) == number:
            talk.child.process.kill()
            talk.child.process.wait()
        return message

    monkeypatch.setattr(walker_module._Conversation, "receive", killed)
    assert world.clean_once() is None
    monkeypatch.undo()
    assert "killed by SIGKILL" in world.failure()
    check_nothing_happened(world, before)
    clean_after_a_failure(world, table)


@pytest.mark.parametrize("step", [1, 5, 9])
def test_a_process_that_hangs_is_killed_and_told_of(make: Make, step: int) -> None:
    world = make(program=failing("stop", step), silence_s=0.5)
    table = fill(world)
    before = state_of(committed_records(world.log()))
    assert world.clean_once() is None
    assert "has said nothing for 0.5 s, and was killed" in world.failure()
    assert (world.counts.troubles[Trouble.SILENCE], world.counts.pids) == (1, [])
    check_nothing_happened(world, before)
    world.silence_s = SILENCE_S  # a sound process may take longer to start on a busy machine
    clean_after_a_failure(world, table)


@pytest.mark.parametrize("lie", LIES)
def test_nothing_that_makes_no_sense_is_believed(make: Make, lie: str) -> None:
    world = make(program=failing(lie))
    table = fill(world)
    before = state_of(committed_records(world.log()))
    assert world.clean_once() is None
    assert "PassProcessError: t-0: the process of the pass says what it can't mean: " in world.failure()
    assert (world.counts.troubles[Trouble.NONSENSE], world.counts.pids) == (1, [])
    check_nothing_happened(world, before)
    clean_after_a_failure(world, table)


@pytest.mark.parametrize("step", [1, 2, 4, 6])
def test_a_full_disk_is_an_error_of_the_disk(make: Make, step: int) -> None:
    """As in a thread: the same class, with the file's whole name where the system tells it."""
    world = make(program=failing("full", step))
    table = fill(world)
    before = state_of(committed_records(world.log()))
    work = world.cleaners.take_next()
    assert work is not None
    task = CleaningTask(work.log, work.eligibility.first_dirty, work.eligibility.first_uncleanable)
    with pytest.raises(OSError, match="No space left") as caught:
        world.cleaner.clean(task, Control(world.time))
    assert caught.value.errno == errno.ENOSPC
    world.cleaners.give_back(work)
    check_nothing_happened(world, before)
    assert is_alive(world.pid), "it can make the next pass"
    assert sum(world.counts.troubles.values()) == 0
    clean_after_a_failure(world, table)


def test_a_file_that_is_missing_is_named_with_its_directory(make: Make) -> None:
    world = make()
    fill(world)
    log = world.log()
    work = world.cleaners.take_next()
    assert work is not None
    path = Path(log.directory) / f"{log.segments[1].base_offset:020d}.log"
    log.log_directory.cache.clear() if hasattr(log.log_directory.cache, "clear") else None
    hidden = path.rename(path.with_suffix(".hidden"))
    task = CleaningTask(log, work.eligibility.first_dirty, work.eligibility.first_uncleanable)
    with pytest.raises(FileNotFoundError) as caught:
        world.cleaner.clean(task, Control(world.time))
    assert caught.value.filename == str(path)
    hidden.rename(path)
    world.cleaners.give_back(work)


@pytest.mark.parametrize(("what", "told"), [("memory", "MemoryError"), ("defect", "LookupError: a defect")])
def test_exceptions_are_told_as_they_are(make: Make, what: str, told: str, caplog: pytest.LogCaptureFixture) -> None:
    world = make(program=failing(what, 3))
    table = fill(world)
    before = state_of(committed_records(world.log()))
    assert world.clean_once() is None
    assert told in world.failure()
    check_nothing_happened(world, before)
    pid = world.pid
    put(world.log(), "k0", "x")
    world.time.advance(FIRST_RETRY_MS)
    assert world.clean_once() is not None, "the process goes on"
    assert world.pid == pid
    if what == "defect":
        assert "in happen" in caplog.text, "where it was met is in the daemon's log"
    assert state_of(committed_records(world.log())) == table | {b"k0": b"x"}


def test_a_process_that_cannot_be_started_or_does_not_get_ready(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    world = make(program=("/nowhere/python",))
    table = fill(world)
    assert world.clean_once() is None
    assert "No such file" in world.failure()
    assert "log.cleaner.process.enable=false" in world.failure()
    assert (world.counts.troubles[Trouble.START], world.counts.started) == (1, 0)
    world.take_program(failing("die"))
    world.time.advance(FIRST_RETRY_MS)
    with caplog.at_level(logging.WARNING):
        assert world.clean_once() is None
    assert "has ended with code 3: it is not installed" in world.failure()
    assert ": it is not installed" in caplog.text
    world.time.advance(FIRST_RETRY_MS)
    clean_after_a_failure(world, table)


def test_a_process_needs_no_ctypes(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python may be built without libffi: the end of the socket ends the process all the same."""
    (tmp_path / "ctypes.py").write_text("raise ImportError('no libffi')")
    monkeypatch.syspath_prepend(tmp_path)
    world = make()
    table = fill(world)
    assert world.clean_all()
    assert world.failure() == ""
    assert state_of(committed_records(world.log())) == table


STRANGER = """
import sys
sys.path[:0] = {path!r}
from tidelog.cleaner.process.walker import PROGRAM, Child, WalkerSettings
from tidelog.cleaner.process_counts import ProcessCounts
child = Child.start(PROGRAM, WalkerSettings(24_000, 1.0, 1 << 16), ProcessCounts())
child.sock.setblocking(True)
print(type(child.receive()).__name__, child.how_it_ended() if child.has_ended else "runs")
child.end()
"""


@pytest.mark.parametrize("flags", [(), ("-I",), ("-E", "-s")])
def test_a_process_finds_what_its_daemon_has_found(flags: tuple[str, ...], tmp_path: Path) -> None:
    """An interpreter in which nothing is installed, and a program that says where modules are, as one has that is embedded."""
    (tmp_path / "tidelog").symlink_to(Path(walker_module.__file__).parents[2])
    packages = [entry for entry in sys.path if entry.endswith("-packages")]
    ran = subprocess.run(
        [getattr(sys, "_base_executable", sys.executable), *flags, "-c", STRANGER.format(path=[str(tmp_path), *packages])],
        cwd="/", check=False, capture_output=True, text=True, timeout=PATIENCE_S,
    )  # fmt: skip
    assert (ran.stdout, ran.stderr) == ("Ready runs\n", "")


def test_what_python_takes_from_the_environment_is_what_the_daemon_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHOME", "/nowhere")
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    assert "/nowhere" not in walker_module._environment()["PYTHONPATH"]
    assert walker_module._environment()["PYTHONHOME"] == "/nowhere"

    class Isolated:
        ignore_environment = 1

    monkeypatch.setattr(walker_module.sys, "flags", Isolated)
    assert "PYTHONHOME" not in walker_module._environment()


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_a_process_has_no_descriptor_of_the_daemon(make: Make) -> None:
    """Not even one that the daemon was given to hand on: who waits for its end would wait for the process's too."""
    ours, theirs = os.pipe()
    os.set_inheritable(theirs, True)
    try:
        world = make()
        fill(world)
        world.clean_all()
        held = {os.readlink(path) for path in Path(f"/proc/{world.pid}/fd").iterdir()}
        assert os.readlink(f"/proc/self/fd/{theirs}") not in held
        assert len(held) <= 4, f"socket, its copy, nothing and standard error: {held}"
    finally:
        os.close(ours)
        os.close(theirs)


# --- ends that are wanted: nothing but the kill can have ended a process that is stopped ---


def test_an_abort_needs_no_answer(make: Make) -> None:
    world = make(program=failing("stop", 3))
    table = fill(world)
    before = state_of(committed_records(world.log()))
    assert aborted_while_it_is_stopped(world) is None
    assert (world.failure(), sum(world.counts.troubles.values())) == ("", 0), "an abort is no failure"
    assert world.counts.pids == []
    check_nothing_happened(world, before)
    clean_after_a_failure(world, table)


def aborted_while_it_is_stopped(world: ProcessWorld) -> Any:
    """Result of a pass that is aborted when its process can't answer."""
    work = world.cleaners.take_next()
    assert work is not None

    def abort() -> None:
        until(lambda: world.counts.pids and is_stopped(world.pid), "a process that is stopped")
        assert world.cleaners.abort("t", 0, "a test wants it")

    thread = threading.Thread(target=abort)  # not the pass: a process ends with the thread that has started it
    thread.start()
    result = world.cleaners.clean(work, world.cleaner, Control(world.time))
    thread.join()
    return result


def test_a_stop_of_the_pool_ends_its_processes(make: Make) -> None:
    world = make()
    fill(world)
    settings = PoolSettings(
        dedupe_buffer_bytes=24_000,
        io_buffer_bytes=1 << 17,
        backoff_ms=60_000,
        io_bytes_per_second=1.0,
        in_processes=True,
    )
    pool = CleanerPool(world.cleaners, settings, time=world.time, secret=lambda: bytes(16))
    pool.start()
    until(lambda: pool.throttler.total_bytes > 0, "a pass that waits for its rate")
    (pid,) = pool.processes.pids
    pool.stop(PATIENCE_S)
    assert pool.processes.pids == []
    assert not is_alive(pid)
    assert world.failure() == ""
    assert world.left_over() == []
    assert world.clean_all()


def test_two_logs_are_walked_over_by_two_processes_at_once(make: Make) -> None:
    world = make()
    for topic in ("t", "u"):
        log = world.log(topic)
        for number in range(40):
            put(log, f"k{number % 3}", str(number))
        log.roll()
    settings = PoolSettings(
        threads=2, dedupe_buffer_bytes=48_000, io_buffer_bytes=1 << 18, backoff_ms=60_000, io_bytes_per_second=1.0,
        in_processes=True,
    )  # fmt: skip
    pool = CleanerPool(world.cleaners, settings, time=WallTime(world), secret=lambda: bytes(16))
    pool.start()
    try:
        until(lambda: len(world.cleaners.history.running()) == 2 and len(pool.processes.pids) == 2, "two at once")
        pool.configure(PoolSettings(**{**settings_of(settings), "io_bytes_per_second": float("inf")}))
        until(lambda: [p.passes for p in world.cleaners.partitions()] == [1, 1], "both passes")
    finally:
        pool.stop(PATIENCE_S)
    for topic in ("t", "u"):
        assert len(data_records(world.log(topic))) == 3


class WallTime:
    """The world's time of day, and a clock that goes on."""

    def __init__(self, world: ProcessWorld) -> None:
        self.milliseconds = world.time.milliseconds

    @staticmethod
    def monotonic_ms() -> float:
        return time.monotonic() * 1000

    monotonic = staticmethod(time.monotonic)


def settings_of(settings: PoolSettings) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in PoolSettings.__slots__}


def is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


# --- the throttle: on the clock of the test, which waits move ---


def test_bytes_are_paid_for_as_in_a_thread(make: Make) -> None:
    world = make()
    fill(world)
    world.throttler.set_rate(10_000.0)
    began = world.time.monotonic_ms()
    (result,) = world.clean_all()
    moved = result.map_bytes + result.filtered_bytes + result.bytes_written
    assert world.throttler.total_bytes >= moved
    waited = world.time.monotonic_ms() - began
    assert waited == pytest.approx(world.throttler.total_bytes / 10_000 * 1000, abs=1)
    assert result.throttled_ms == pytest.approx(waited, abs=1)


def test_a_limit_that_is_set_under_way_holds_from_then_on(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    world = make()
    fill(world)
    began = world.time.monotonic_ms()
    work = world.cleaners.take_next()
    assert work is not None
    begin = world.cleaners._begin_swaps

    def limited(state: Any, found: Any, end_offset: int) -> None:
        begin(state, found, end_offset)
        world.throttler.set_rate(10_000.0)

    monkeypatch.setattr(world.cleaners, "_begin_swaps", limited)
    result = world.cleaners.clean(work, world.cleaner, Control(world.time))
    assert result is not None
    moved = result.map_bytes + result.filtered_bytes + result.bytes_written
    waited = world.time.monotonic_ms() - began
    assert 0 < waited < moved / 10_000 * 1000, "the first group cost nothing, the others their bytes"


def test_a_limit_that_is_set_while_nobody_waits_reaches_the_process(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One group: no answer to another one brings it."""
    world = make()
    world.log_config = replace(world.log_config, segment_bytes=1 << 20)
    fill(world)
    assert len(world.log().segments) == 2
    note = walker_module._Walk._note

    def limited(walk: walker_module._Walk, told: Any) -> None:
        note(walk, told)
        if not told.waits:
            world.throttler.set_rate(10_000.0)

    monkeypatch.setattr(walker_module._Walk, "_note", limited)
    (result,) = world.clean_all()
    assert result.throttled_ms > result.filtered_bytes / 10_000 * 1000 * 0.9, "the second walk is paid for"


# --- the directory ---


def test_a_directory_that_takes_the_place_of_a_renamed_one_gets_no_file(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a topic is deleted and made anew while a process is about to write."""
    world = make()
    fill(world)
    directory = Path(world.log().directory)
    aside = directory.with_name("t-0.0123-delete")
    check_build = walker_module._Walk._check_build

    def renamed(walk: walker_module._Walk, report: Any) -> None:
        check_build(walk, report)
        directory.rename(aside)
        directory.mkdir()

    found: list[list[str]] = []

    def look(walk: walker_module._Walk, report: Any) -> None:
        found.extend((os.listdir(directory), [name for name in os.listdir(aside) if name.endswith(".cleaned")]))
        raise PassProcessError("enough")

    monkeypatch.setattr(walker_module._Walk, "_check_build", renamed)
    monkeypatch.setattr(walker_module._Walk, "_check_group", look)
    assert world.clean_once() is None
    new, old = found
    assert new == []
    assert any(name.endswith(".log.cleaned") for name in old)
    directory.rmdir()
    aside.rename(directory)


def test_a_log_that_was_deleted_while_its_directory_was_opened_is_not_walked_over(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory may be another log's by then."""
    world = make()
    fill(world)
    work = world.cleaners.take_next()
    assert work is not None
    real = os.open

    def opened(path: Any, flags: int, *rest: Any, **named: Any) -> int:
        if path == work.log.directory and flags & os.O_DIRECTORY:
            world.manager.delete("t", 0)
            os.mkdir(path)
        return real(path, flags, *rest, **named)

    monkeypatch.setattr(walker_module.os, "open", opened)
    directory = work.log.directory
    assert world.cleaners.clean(work, world.cleaner, Control(world.time)) is None
    monkeypatch.undo()
    assert os.listdir(directory) == []
    os.rmdir(directory)


def test_a_pass_begins_without_files_of_an_earlier_one(make: Make) -> None:
    """A start after a power cut would take them for a group that was not complete, and drop swaps for their sake."""
    world = make()
    fill(world)
    stray = Path(world.log().directory) / f"{world.log().segments[-1].base_offset:020d}.index.cleaned"
    stray.write_bytes(b"x")
    assert world.clean_all()
    assert not stray.exists()


def test_no_pass_is_made_beside_a_killed_process_that_has_not_ended(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for its disk, and may make one file more when that answers."""
    world = make(program=failing("stop", 3))
    table = fill(world)
    kill = walker_module.subprocess.Popen.kill
    monkeypatch.setattr(walker_module.subprocess.Popen, "kill", lambda process: None)
    monkeypatch.setattr(walker_module, "_END_S", 0.01)
    assert aborted_while_it_is_stopped(world) is None
    ((child, _),) = walker_module._LINGERING._left
    assert is_alive(child.pid)
    world.walker = ProcessWalker(world.make_walker()._settings, world.counts)
    world.make_cleaner()
    world.time.advance(FIRST_RETRY_MS)
    assert world.clean_once() is None
    assert f"process {child.pid} of an earlier pass was killed and has not ended" in world.failure()
    monkeypatch.undo()
    kill(child.process)
    child.process.wait()
    world.time.advance(FIRST_RETRY_MS)
    clean_after_a_failure(world, table)


def test_a_killed_process_that_ends_late_is_no_zombie_until_the_next_pass(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread of the cleaner without work looks for its end: the next pass may be days away, or in another directory."""
    world = make(program=failing("stop", 3))
    fill(world)
    kill = walker_module.subprocess.Popen.kill
    monkeypatch.setattr(walker_module.subprocess.Popen, "kill", lambda process: None)
    monkeypatch.setattr(walker_module, "_END_S", 0.01)
    assert aborted_while_it_is_stopped(world) is None
    monkeypatch.undo()
    ((child, _),) = walker_module._LINGERING._left
    walker = ProcessWalker(world.make_walker()._settings, world.counts)
    walker.rest()
    assert walker_module._LINGERING._left, "it has not ended"
    kill(child.process)
    # Waits for the end without collecting the exit code, as nothing of a daemon does.
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    walker.rest()
    assert walker_module._LINGERING._left == []
    assert child.process.returncode == -signal.SIGKILL
    with pytest.raises(ChildProcessError):
        os.waitpid(child.pid, os.WNOHANG)


# --- what it costs ---


def test_a_daemon_imports_no_walk_and_no_process_before_its_first_pass() -> None:
    import subprocess

    code = (
        "import sys, tidelog.broker.server.node, tidelog.broker.cleaning.service;"
        "unwanted = ('tidelog.cleaner.process.', 'tidelog.cleaner.walk', 'tidelog.cleaner.kernel._kernel');"
        "assert not [name for name in sys.modules if name.startswith(unwanted)], 'imported'"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_map_is_the_processs(make: Make) -> None:
    world = make()
    settings = PoolSettings(threads=2, dedupe_buffer_bytes=24_000, in_processes=True, niceness=5)
    pool = CleanerPool(CleanerManager(world.manager, world.file_system, world.time), settings, time=world.time,
                       secret=lambda: bytes(16))  # fmt: skip
    walker = pool.make_cleaner().walker
    assert isinstance(walker, ProcessWalker)
    assert walker._settings == (12_000, 0.9, 1 << 17, 2**31 - 1, 5)
