"""What our figures of small requests are held against besides Apache Kafka: bare C servers that do the same work and no more, by
themselves and on the daemon's own event loop, and kfake, franz-go's broker in memory, which keeps nothing on a disk."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from brokers import Broker, BrokerError
from measure import FLOOR, LOOP
from session import BUILD, HERE, begin_command, built, finish_load

KFAKE_SOURCE = HERE / "kfake"


class FloorServer:
    """A server of one partition that does a request's work and no more, and loads of it, which know its offsets."""

    def __init__(self, command: list[object]) -> None:
        self._process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        _, port, *ends = self._process.stdout.readline().split()
        begin, end = ends or ("0", "0")
        self._where = ("--port", port, "--pid", self._process.pid, "--offsets", f"{begin}:{end}")

    def load(self, mode: str, *options: object) -> dict[str, Any]:
        return finish_load(begin_command(mode, *self._where, *options))

    def stop(self) -> None:
        self._process.kill()
        self._process.communicate()


def append_floors(directory: Path) -> dict[str, FloorServer]:
    """Servers of produces, by side: C alone, and C on our loop."""
    alone, loop = directory / "append_floor.log", directory / "append_loop.log"
    return {FLOOR: FloorServer([built("append_floor"), alone]), LOOP: FloorServer([*_on_loop(), "append", loop])}


def read_floors(partition: Path) -> dict[str, FloorServer]:
    """Servers of fetches from a partition's directory, by side."""
    return {
        FLOOR: FloorServer([built("sendfile_floor"), partition]),
        LOOP: FloorServer([*_on_loop(), "read", partition]),
    }


def _on_loop() -> list[object]:
    return [sys.executable, HERE / "loop_floor.py", built("loop_handler")]


class Kfake(Broker):
    """kfake as a process. It needs Go, and the first time its module proxy."""

    name = "kfake"

    def prepare(self) -> None:
        target = BUILD / "kfake"
        newest = max(path.stat().st_mtime for path in KFAKE_SOURCE.iterdir())
        if target.exists() and target.stat().st_mtime >= newest:
            return
        BUILD.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            ["go", "build", "-trimpath", "-o", str(target), "."],
            cwd=KFAKE_SOURCE, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise BrokerError(f"cannot build kfake:\n{done.stderr}")

    def command(self) -> list[str]:
        return [str(BUILD / "kfake"), str(self.port)]


def has_go() -> bool:
    return shutil.which("go") is not None
