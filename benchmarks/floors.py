"""What our figures of small requests are held against besides Apache Kafka: bare C servers that do the same work and no more, and
kfake, franz-go's broker in memory, which keeps nothing on a disk."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

from brokers import Broker, BrokerError
from session import BUILD, HERE, begin_command, built, finish_load

KFAKE_SOURCE = HERE / "kfake"


class FloorServer:
    """A C server of one partition, and loads of it. `offsets` are what the client is to believe of the partition."""

    def __init__(self, program: str, place: Path) -> None:
        """`place`: the partition's directory for sendfile_floor, the file to write for append_floor."""
        self._process = subprocess.Popen([built(program), place], stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        _, port, *ends = self._process.stdout.readline().split()
        begin, end = ends or ("0", "0")
        self._where = ("--port", port, "--pid", self._process.pid, "--offsets", f"{begin}:{end}")

    def load(self, mode: str, *options: object) -> dict[str, Any]:
        return finish_load(begin_command(mode, *self._where, *options))

    def stop(self) -> None:
        self._process.kill()
        self._process.communicate()


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
