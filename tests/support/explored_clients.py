"""Clients of one release in a process of their own, which do a case under a schedule of faults."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from tidelog.testing import Broker, Rule

ROOT = Path(__file__).resolve().parents[2]
CLIENTS = ROOT / ".cache" / "explore"
WORKER = ROOT / "tests" / "explore" / "worker.py"
TOPIC = "orders"


class Defect(NamedTuple):
    """A published defect of a released client, and where it is found.

    Attributes:
        release, mended: package and version that has it, and the first that has not, both as PACKAGE-VERSION.
        case: of `worker.py`.
        kinds, apis: what seeds choose from.
        seeds: that find it. Where threads of the client race, not each does each time: one of them has to.
        says: part of what is said then.
        thread: where it was published.
    """

    release: str
    mended: str
    case: str
    kinds: Sequence[str]
    apis: Sequence[str] | None
    seeds: Sequence[int]
    says: str
    thread: str


class Result(NamedTuple):
    """What became of one case: None or why it failed, the rules that struck, the trace."""

    failure: str | None
    struck: tuple[Rule, ...]
    trace: str


class Client:
    """One release's process, which is started anew after a failure. Use as a context manager; one thread."""

    def __init__(self, release: str) -> None:
        """`release`: PACKAGE-VERSION."""
        self._python = CLIENTS / release / "bin" / "python"
        assert self._python.exists(), f"{self._python}: run `make explore-clients`"
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def run(self, case: str, rules: Sequence[Rule]) -> Result:
        """Do the case with a new broker that follows the rules."""
        with Broker(faults=rules) as broker:
            broker.create_topic(TOPIC)
            failure = self._ask({"case": case, "servers": broker.bootstrap_servers})
            return Result(failure, broker.struck, str(broker.trace))

    def _ask(self, asked: dict[str, str]) -> str | None:
        if self._process is None:
            self._process = subprocess.Popen(
                [self._python, WORKER],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        failure: str | None = json.loads(line)["failed"] if line else "the client's process has died"
        if failure is not None:  # its threads may go on with what they did
            self._end()
        return failure

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None
