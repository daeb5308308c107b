"""Kills of the driver and of its workers at every step of the sink: nothing twice, nothing lost, as committed readers see it.

Slow rings: `--sink-kills 100 --sink-seed random`.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from support.committed import committed_values, create_topic
from support.daemon import Daemon

ROOT = Path(__file__).resolve().parents[1]
LINES = 300
#: Requests of a commit when all is well, and of a task; beyond them nobody is killed.
REQUESTS = {"driver": 13, "commit": 13, "worker": 13}
#: In the slice: around the token (7, and 8 which commits it) and the ends of the parts (10, 11), and in the middle of a task.
CHOSEN = [
    ("commit", 7, "after"), ("worker", 9, "after"), ("driver", 10, "before"), ("commit", 10, "after"),
    ("commit", 11, "before"),
]  # fmt: skip


#: Seconds for a kill, with the start of a driver after it; all together have as many as there are kills.
PATIENCE_WITH_A_KILL_S = 600


@pytest.mark.timeout(0)  # `run` ends what hangs
def test_kills_leave_no_duplicate_and_no_gap(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    count, seed = int(pytestconfig.getoption("--sink-kills")), pytestconfig.getoption("--sink-seed")
    chance = random.Random(None if seed == "random" else seed)
    (tmp_path / "input").mkdir()
    expected: list[str] = []
    kills = []
    for number in range(count + 1):
        lines = [f"{number}-{i}" for i in range(LINES)]
        (tmp_path / "input" / f"{number:04}.txt").write_text("\n".join(lines) + "\n")
        expected += lines
        who, request, when = CHOSEN[number % len(CHOSEN)]
        if number >= len(CHOSEN):
            who = chance.choice(["commit", "commit", "worker", "worker", "driver"])
            request, when = chance.randrange(1, REQUESTS[who] + 1), chance.choice(["before", "after"])
        if number < count:
            stamp = tmp_path / f"stamp{number}"
            kills.append({"who": who, "batch": number, "request": request, "when": when, "stamp": str(stamp)})
    drivers = sum(kill["who"] == "driver" for kill in kills)
    patience_s = PATIENCE_WITH_A_KILL_S * (count + 1)
    with Daemon(tmp_path / "data") as daemon:
        create_topic(daemon.bootstrap, "rows", 3)
        job = {
            "bootstrap": daemon.bootstrap, "topic": "rows", "input": str(tmp_path / "input"),
            "home": str(tmp_path / "spark"), "checkpoint": str(tmp_path / "checkpoint"), "kills": kills,
        }  # fmt: skip
        for _ in range(drivers + 1):
            output = run(job, patience_s)
            if output.returncode == 0:
                break
        assert output.returncode == 0, output.stderr[-4000:]
        values = committed_values(daemon.bootstrap, "rows")
    struck = sum(Path(str(kill["stamp"])).exists() for kill in kills)
    # Else the steps are no longer where this test believes them: the chosen ones are certain to be met.
    assert struck >= min(count, len(CHOSEN))
    counts = Counter(values)
    assert not [value for value, found in counts.items() if found > 1]
    assert set(counts) == set(expected)


def run(job: dict[str, object], patience_s: float) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, str(ROOT / "support" / "sink_query.py"), json.dumps(job)],
        env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False,
        timeout=patience_s,
    )  # fmt: skip
