"""A standalone Spark cluster of this machine: a master and two workers on loopback, each a process that is ended by its pid.

The workers have addresses of their own (127.0.0.1, 127.0.0.2), since Spark runs a task's speculative copy on another host only.
What they start (executors, and their Python) is in their session of processes, and is ended with it. Their environment is
bare: no PYTHONPATH, no virtual environment, so what an executor's Python knows came with the application.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

from support.patience import PATIENCE_S, until

HOSTS = ("127.0.0.1", "127.0.0.2")
_MASTER = re.compile(r"Starting Spark master at (spark://\S+)")
#: Of the environment: what Java needs to be found and to run.
_KEPT = ("PATH", "JAVA_HOME", "HOME", "LANG", "LC_ALL", "TMPDIR")


def bare_environment() -> dict[str, str]:
    """The environment without anything of Python's or of Spark's."""
    return {name: os.environ[name] for name in _KEPT if name in os.environ}


class SparkCluster:
    """One master, a worker for each of `HOSTS` with `cores` each; from the distribution at `spark_home`. The test's thread.

    Use as a context manager; leaving it kills every process of it, whatever has happened.
    """

    def __init__(self, spark_home: Path, directory: Path, *, cores: int = 2) -> None:
        self._home, self.directory, self._cores = spark_home, directory, cores
        self._started: list[subprocess.Popen[bytes]] = []
        self.master = ""

    def __enter__(self) -> Self:
        self.directory.mkdir(parents=True, exist_ok=True)
        try:
            log = self._start("master", HOSTS[0], "master.Master", "--port", "0", "--webui-port", "0")
            found = until(lambda: self._said(log, _MASTER), f"the master's address in {log}")
            self.master = found.group(1)
            for number, host in enumerate(HOSTS):
                self._start_worker(number, host)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Kills workers first, so that no executor is started again; returns when none of their processes is left."""
        sessions = {process.pid for process in self._started}
        for process in reversed(self._started):
            process.kill()
            process.wait()
        self._started.clear()

        def gone() -> bool:
            left = [pid for pid, session in _sessions() if session in sessions]
            for pid in left:
                with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return not left

        until(gone, "the end of the cluster's processes")

    def logs(self, most: int = 4000) -> str:
        """The end of each log of master, workers and executors, for a test that fails."""
        files = sorted([*self.directory.glob("*.log"), *self.directory.glob("work-*/*/*/stderr")])
        return "\n".join(f"--- {file}\n{file.read_text(errors='replace')[-most:]}" for file in files)

    # -- inside

    def _start_worker(self, number: int, host: str) -> None:
        name, work = f"worker-{number}", self.directory / f"work-{number}"
        log = self._start(
            name, host, "worker.Worker", self.master, "--port", "0", "--webui-port", "0", "--cores", str(self._cores),
            "--memory", "2g", "--work-dir", str(work),
        )  # fmt: skip
        until(
            lambda: self._said(log, re.compile("Successfully registered with master")), f"{name} at the master, {log}"
        )

    def _start(self, name: str, host: str, what: str, *arguments: str) -> Path:
        log = self.directory / f"{name}.log"
        environment = {
            **bare_environment(), "SPARK_HOME": str(self._home), "SPARK_DAEMON_MEMORY": "256m", "SPARK_LOCAL_IP": host,
        }  # fmt: skip
        with log.open("wb") as output:
            self._started.append(
                subprocess.Popen(
                    [str(self._home / "bin" / "spark-class"), f"org.apache.spark.deploy.{what}", "--host", host, *arguments],
                    stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=environment,
                    cwd=self.directory, start_new_session=True,
                )
            )  # fmt: skip
        return log

    def _said(self, log: Path, pattern: re.Pattern[str]) -> re.Match[str] | None:
        text = log.read_text(errors="replace")
        if self._started[-1].poll() is not None:
            raise AssertionError(f"{log} ended with {self._started[-1].returncode}:\n{text[-2000:]}")
        return pattern.search(text)


def run_driver(
    program: Path, arguments: list[str], folder: Path, environment: dict[str, str], patience_s: float = 4 * PATIENCE_S
) -> subprocess.CompletedProcess[str]:
    """Runs a driver's program in `folder`, in a session of processes of its own, which is ended with it."""
    process = subprocess.Popen(
        [str(program), *arguments], cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        output, errors = process.communicate(timeout=patience_s)
    finally:
        for pid, session in _sessions():
            if session == process.pid:
                with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        process.wait()
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)


def _sessions() -> list[tuple[int, int]]:
    """(pid, session) of every process that is not a zombie."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            # The name, in parentheses, may hold anything; behind it: state, parent, group, session.
            state, _, _, session = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[:4]
            if state != "Z":
                found.append((int(entry.name), int(session)))
    return found
