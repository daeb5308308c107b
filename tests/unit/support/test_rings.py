from __future__ import annotations

import fcntl
import math
import sys
from pathlib import Path

import pytest
from support.rings import BROKEN_OFF, HUNG, LEFT_OUT, RINGS, Clock, Result, Ring, limit_of, main, report, run

BY_NAME = {ring.name: ring for ring in RINGS}


class OfRings(Clock):
    """A clock that each ring moves on by so many times its limit; `hung` never ends. `codes`: of attempts, one by one."""

    def __init__(self, rings: list[Ring], times: float, hung: str = "", codes: tuple[int, ...] = ()) -> None:
        self._codes = [*codes]
        self._takes = {
            tuple(ring.check): math.inf if ring.name == hung else 60 * times * ring.check_minutes for ring in rings
        }
        self._now = 1000.0

    def now(self) -> float:
        return self._now

    def run(self, command: list[str], most: float, **more: str) -> tuple[int | None, float]:
        takes = self._takes[tuple(command)]
        self._now += min(takes, most)
        code = self._codes.pop(0) if self._codes else 0
        return (code if takes <= most else None), min(takes, most)


def a_ring(name: str, minutes: float, code: int = 0) -> Ring:
    return Ring(name, [sys.executable, "-c", f"raise SystemExit({code})  # {name}"], [], minutes, 0)


def test_the_slices_of_all_rings_take_64_minutes_at_most() -> None:
    assert sum(limit_of(ring, "check") for ring in RINGS) <= 64
    assert all(limit_of(ring, "check") > 0 for ring in RINGS if ring.check)


def test_a_ring_that_is_late_fails_nothing_and_is_told() -> None:
    on_time = [Result(ring, limit_of(ring, "check") / 2, 0, 0) for ring in RINGS if ring.check]
    late = [
        result._replace(minutes=2 * result.minutes + 1) if result.ring.name == "lint" else result for result in on_time
    ]
    table, code = report("check", late)
    assert code == 0
    assert [line.split()[0] for line in table.splitlines() if line.endswith("late")] == ["lint"]


def test_a_ring_that_fails_fails_the_run() -> None:
    table, code = report("check", [Result(BY_NAME["lint"], 0.1, 0.1, 2)])
    assert code == 1
    assert "FAILED (2)" in table
    assert table.endswith("FAILED")


def test_a_machine_that_is_three_times_as_slow_leaves_out_the_last_rings_and_names_them() -> None:
    rings = [a_ring(f"ring-{number}", 10) for number in range(6)]
    clock = OfRings(rings, 3)
    results = run("check", rings, clock.now() + 100 * 60, clock)
    assert [result.code for result in results] == [0, 0, 0, None, None, None]
    assert clock.now() <= 1000 + 100 * 60
    table, code = report("check", results)
    assert code == 0
    assert [line.split()[0] for line in table.splitlines() if LEFT_OUT in line] == ["ring-3", "ring-4", "ring-5"]
    assert table.endswith("ok, without 3")


def test_a_ring_that_there_is_time_for_is_run_behind_one_that_there_is_none_for() -> None:
    rings = [a_ring("long", 10), a_ring("longer", 50), a_ring("short", 1)]
    clock = OfRings(rings, 2)
    assert [result.code for result in run("check", rings, clock.now() + 60 * 60, clock)] == [0, None, 0]


def test_a_ring_that_time_runs_out_for_is_broken_off_and_fails_nothing() -> None:
    rings = [a_ring("slow", 10)]
    clock = OfRings(rings, 3)
    results = run("check", rings, clock.now() + 20 * 60, clock)
    table, code = report("check", results)
    assert (clock.now(), code) == (1000 + 20 * 60, 0)
    assert BROKEN_OFF in table


@pytest.mark.parametrize("until", [1000 + 90 * 60, math.inf])
def test_a_ring_that_hangs_fails_the_run(until: float) -> None:
    rings = [a_ring("hung", 1), a_ring("other", 1)]
    clock = OfRings(rings, 1, "hung")
    results = run("check", rings, until, clock)
    table, code = report("check", results)
    assert (results[0].minutes, results[1].code, code) == (HUNG, 0, 1)
    assert "FAILED: hung" in table


def test_what_fails_is_run_once_more_and_told_where_it_passes_then() -> None:
    rings = [a_ring("flaky", 1), a_ring("broken", 1)]
    results = run("check", rings, math.inf, OfRings(rings, 1, codes=(1, 0, 2, 3)))
    table, code = report("check", results)
    assert ([(result.code, result.at_first) for result in results], code) == ([(0, 1), (3, 2)], 1)
    assert "ok at the second attempt, FAILED (1) at first" in table
    assert "FAILED (3)" in table


def test_what_fails_has_no_second_attempt_in_the_whole_rings_nor_without_time() -> None:
    rings = [a_ring("flaky", 10)._replace(slow_minutes=10)]
    for which, until in (("slow", math.inf), ("check", 1000 + 600)):
        rings[0] = rings[0]._replace(slow=rings[0].check)
        ((_, minutes, _, code, at_first),) = run(which, rings, until, OfRings(rings, 1, codes=(1, 0)))
        assert (minutes, code, at_first) == (10, 1, 0)


def test_the_second_attempt_is_of_the_tests_that_failed(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(
        "from pathlib import Path\nran = Path(__file__).with_name('ran')\n"
        "def test_sound():\n    ran.open('a').write('sound ')\n"
        "def test_flaky():\n    ran.open('a').write('flaky ')\n    assert ran.read_text().count('flaky') > 1\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "--rootdir", str(tmp_path), str(tmp_path)]
    ring = Ring("flaky", command, [], 10, 0)
    (result,) = run("check", [ring], math.inf, Clock())
    assert (result.code, result.at_first) == (0, 1)
    assert (tmp_path / "ran").read_text().split() == ["sound", "flaky", "flaky"]


def test_who_has_time_runs_all_of_them_however_slow() -> None:
    rings = [a_ring(f"ring-{number}", 10) for number in range(6)]
    assert all(result.code == 0 for result in run("check", rings, math.inf, OfRings(rings, 5)))


def test_a_command_that_is_broken_off_takes_along_what_it_has_started(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    inner = f"import fcntl, time; f = open({str(lock)!r}, 'w'); fcntl.flock(f, fcntl.LOCK_EX); time.sleep(600)"
    outer = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}])"
    code, _ = Clock().run([sys.executable, "-c", outer], 1)
    assert code is None
    with lock.open("w") as file:  # waits until whoever has it is gone: for ever, if it is not
        fcntl.flock(file, fcntl.LOCK_EX)


def test_a_command_tells_its_code_and_the_processor_time_of_its_children() -> None:
    burns = "import time; t = time.process_time()\nwhile time.process_time() < t + 0.2: pass\nraise SystemExit(3)"
    code, processor = Clock().run([sys.executable, "-c", burns], 60)
    assert code == 3
    assert processor >= 0.2


def test_the_time_that_is_left_comes_from_who_has_a_limit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RINGS_UNTIL", "1")
    assert main("check") == 0
    assert capsys.readouterr().out.count(LEFT_OUT) == sum(bool(ring.check) for ring in RINGS)
