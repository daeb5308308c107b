"""How long writes take: slow at once, quick again only after a quiet while, and what is said of it."""

from __future__ import annotations

import logging

import pytest
from support.fake_filesystem import FakeFile
from support.logs import World, append
from support.mock_time import MockTime
from tidelog.storage.exceptions import KafkaStorageError
from tidelog.storage.io.write_pace import QUIET_S, SLOW_S, WritePace


def paced() -> tuple[MockTime, WritePace, list[str]]:
    """A clock, a pace on it, and how often it has called."""
    time, calls = MockTime(), []
    pace = WritePace("/data", time.monotonic)
    pace.on_slow = lambda: calls.append("slow")
    return time, pace, calls


def write(time: MockTime, pace: WritePace, seconds: float) -> None:
    """As an append measures."""
    started = pace.clock()
    time.advance(seconds=seconds)
    took = pace.clock() - started
    if took > pace.notice_s:
        pace.note(took)


def test_one_slow_write_is_enough(caplog: pytest.LogCaptureFixture) -> None:
    time, pace, calls = paced()
    for _ in range(3):
        write(time, pace, SLOW_S * 0.9)
    assert not pace.is_slow
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            write(time, pace, SLOW_S * 1.5)
    assert (pace.is_slow, pace.slow_writes, calls) == (True, 3, ["slow"])
    assert [record.getMessage() for record in caplog.records] == [
        "/data: a write took 150 ms: clients' appends go through a thread until writes are quick again"
    ]


def test_it_is_quick_again_with_the_first_quick_write_after_a_quiet_while(caplog: pytest.LogCaptureFixture) -> None:
    time, pace, calls = paced()
    write(time, pace, 1)
    time.advance(seconds=QUIET_S - 1)
    write(time, pace, 0.25)  # the while begins anew
    for _ in range(int(QUIET_S * 2) - 1):
        time.advance(seconds=0.5)
        write(time, pace, 0)
        assert pace.is_slow
    time.advance(seconds=1000)
    assert pace.is_slow, "that nothing was written tells nothing"
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        write(time, pace, 0)
    assert not pace.is_slow
    assert [record.getMessage() for record in caplog.records] == [
        "/data: no slow write for 10 s: appends go the short way again"
    ]
    write(time, pace, 1)
    assert pace.is_slow
    assert calls == ["slow", "slow"]


def test_a_slow_write_after_a_quiet_while_changes_nothing() -> None:
    time, pace, _ = paced()
    write(time, pace, 1)
    time.advance(seconds=1000)
    write(time, pace, 1)
    assert pace.is_slow


def test_the_longest_write_is_told_once() -> None:
    time, pace, _ = paced()
    for seconds in (0.01, 0.05, 0.02, 0):
        write(time, pace, seconds)
    assert pace.take_longest() == pytest.approx(0.05)
    assert pace.take_longest() == 0
    write(time, pace, 0.03)
    write(time, pace, 2)
    write(time, pace, 0.04)
    assert pace.take_longest() == pytest.approx(2)
    write(time, pace, 0.04)
    assert pace.take_longest() == pytest.approx(0.04)


def test_quick_writes_need_not_be_noted() -> None:
    time, pace, _ = paced()
    write(time, pace, 0.05)
    assert pace.notice_s == pytest.approx(0.05)
    write(time, pace, 5)
    assert pace.notice_s < 0, "while it is slow all are"


@pytest.mark.parametrize("fails", [False, True])
def test_appends_are_measured_by_directory_and_failed_ones_too(fails: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = World(directories=("/a", "/b"))
    machine.start()
    logs = [machine.log("t", 0), machine.log("t", 1)]
    slow = next(log for log in logs if log.directory.startswith("/b/"))
    take = FakeFile.append

    def sluggish(file: FakeFile, buffer: bytes) -> None:
        if file.path.startswith("/b/"):
            machine.time.advance(SLOW_S * 2000)
            if fails:
                raise OSError(5, "disk")
        take(file, buffer)

    monkeypatch.setattr(FakeFile, "append", sluggish)
    for log in logs:
        if fails and log is slow:
            with pytest.raises(KafkaStorageError):
                append(log, "x")
        else:
            append(log, "x")
    assert [(path, pace.is_slow) for path, pace in machine.manager.paces] == [("/a", False), ("/b", True)]
    monkeypatch.undo()
    machine.stop()
