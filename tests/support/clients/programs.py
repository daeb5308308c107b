"""Clients that are programs: kcat, and the small Java and Go programs of tests/compat/java and tests/compat/go."""

from __future__ import annotations

import itertools
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from support.kafka_versions import NEWEST, TOOLS
from support.patience import PATIENCE_S

from .base import Headers, Job, Message, Record, job_lines, parse_message

_ROOT = Path(__file__).resolve().parents[3]
_CACHE = _ROOT / ".cache" / "compat"


_END = b"\x01\x02\x03\n"  # after each message that kcat prints; NUL cannot stand in an argument


class MissingToolError(Exception):
    """A program that the compat ring needs is not there: an error, never a skip."""


def java_command(program: str = "Compat", release: str = NEWEST) -> list[str]:
    """How to run a Java program of tests/compat/java with one release of Kafka's clients.

    MissingToolError before `make compat-java` has built it.
    """
    home = _CACHE / "java" / release
    classes, jars = home / "classes", home / "lib"
    if not (classes / f"{program}.class").exists() or not jars.exists():
        raise MissingToolError("the Java program is not built: run `make compat-java`")
    # Short runs on a small machine: the cheap collector, no second compiler.
    return ["java", "-Xmx400m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{classes}:{jars}/*", program]


def tools_command() -> list[str]:
    """How to run Apache Kafka's own programs; MissingToolError before `make compat-kafka` has built what runs them."""
    classes, jars = _CACHE / "tools" / "classes", _ROOT / ".cache" / "kafka" / TOOLS / "jars"
    if not (classes / "Tools.class").exists() or not jars.exists():
        raise MissingToolError("the program that runs Kafka's is not built: run `make compat-kafka`")
    return ["java", "-Xmx400m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{classes}:{jars}/*", "Tools"]


def settings_command() -> list[str]:
    """How to print the settings of the newest Kafka; MissingToolError before `make compat-kafka` has fetched it."""
    jars = _ROOT / ".cache" / "kafka" / NEWEST / "jars"
    if not jars.exists():
        raise MissingToolError("Apache Kafka's jars are not there: run `make compat-kafka`")
    return ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*", str(_ROOT / "tests/compat/java/Settings.java")]


def node_command() -> list[str]:
    """How to run the Node program; MissingToolError before `make compat-node` has fetched its packages."""
    folder = _CACHE / "node"
    if not (folder / ".installed").exists():
        raise MissingToolError("the Node program's packages are not there: run `make compat-node`")
    return ["node", str(folder / "compat.js")]


def connect_command() -> list[str]:
    """How to run a class of Kafka Connect's; MissingToolError before `make compat-connect` has fetched its jars."""
    jars = _CACHE / "connect"
    if not (jars / ".fetched").exists():
        raise MissingToolError("Kafka Connect's jars are not there: run `make compat-connect`")
    return ["java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*"]


def sarama_program() -> Path:
    """sarama's own tests, built; MissingToolError before `make compat-sarama` has done it."""
    program = _CACHE / "sarama" / "sarama.test"
    if not program.exists():
        raise MissingToolError("sarama's tests are not built: run `make compat-sarama`")
    return program


def go_command() -> list[str]:
    """How to run the Go program; MissingToolError before `make compat-go` has built it."""
    program = _CACHE / "go" / "compat"
    if not program.exists():
        raise MissingToolError("the Go program is not built: run `make compat-go`")
    return [str(program)]


def run(command: Sequence[str], text: str = "", timeout_s: float = PATIENCE_S) -> str:
    """The program's stdout; AssertionError with the end of its stderr unless it exits with 0."""
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=timeout_s, check=False)
    assert done.returncode == 0, f"{Path(command[0]).name} exit code {done.returncode}: {done.stderr[-2000:]}"
    return done.stdout


def run_cases(
    command: Sequence[str],
    bootstrap: str,
    timeout_s: float,
    *only: str,
    environment: Mapping[str, str] | None = None,
) -> Mapping[str, str]:
    """Runs a program's own cases, or those that are named; by case name what it said of it: `PASS …` or `FAIL …`.

    `environment`: more variables for the program.
    """
    done = subprocess.run(
        [*command, bootstrap, "cases", *only],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
        env={**os.environ, **(environment or {})},
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith(("PASS ", "FAIL "))]
    assert lines, f"no case ran, exit code {done.returncode}: {done.stderr[-2000:]}"
    return {line.split()[1].rstrip(":"): line for line in lines}


class ProgramDriver:
    """The Java or Go program; records go in and come out in the text form."""

    def __init__(self, name: str, command: Sequence[str], bootstrap: str, timeout_s: float = PATIENCE_S) -> None:
        self.name = name
        self._command = [*command, bootstrap]
        self._timeout_s = timeout_s

    def write(self, topic: str, jobs: Sequence[Job]) -> None:
        run([*self._command, "write", topic], job_lines(jobs), self._timeout_s)

    def read(self, topic: str, count: int) -> list[Message]:
        out = run([*self._command, "read", topic, str(count)], timeout_s=self._timeout_s)
        return [parse_message(line) for line in out.splitlines()]


class KcatDriver:
    """kcat: keys and values are text in one line without tabs; nulls but no empty ones; timestamps are its own."""

    name = "kcat"

    def __init__(self, bootstrap: str, timeout_s: float = PATIENCE_S) -> None:
        self._bootstrap = bootstrap
        self._timeout_s = timeout_s

    def run(self, *arguments: str, text: str = "") -> str:
        """kcat with these arguments; its stdout as text."""
        return run(["kcat", "-b", self._bootstrap, *arguments], text, self._timeout_s)

    def run_bytes(self, *arguments: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        """kcat with binary in and out; the caller looks at the exit code."""
        return subprocess.run(
            ["kcat", "-b", self._bootstrap, *arguments],
            input=data,
            capture_output=True,
            timeout=self._timeout_s,
            check=False,
        )

    def write(self, topic: str, jobs: Sequence[Job]) -> None:
        for job in jobs:
            # Headers are per call, so each run of records with the same headers is one call.
            for headers, records in itertools.groupby(job.records, key=lambda r: r.headers):
                self._produce(topic, job, headers, list(records))

    def _produce(self, topic: str, job: Job, headers: Headers, records: Sequence[Record]) -> None:
        options = [part for name, value in headers for part in ("-H", f"{name}={(value or b'').decode()}")]
        lines = "".join(f"{(r.key or b'').decode()}\t{(r.value or b'').decode()}\n" for r in records)
        self.run("-P", "-t", topic, "-p", str(job.partition), "-z", job.codec, "-K\t", "-Z", *options, text=lines)

    def read(self, topic: str, count: int) -> list[Message]:
        # The sizes come first (-1 is null), so that binary keys and values need no quoting; headers do not have one.
        form = "%p %o %T %K %S %k%s%h" + _END.decode()
        done = self.run_bytes("-C", "-q", "-e", "-t", topic, "-o", "beginning", "-f", form)
        assert done.returncode == 0, done.stderr.decode()[-2000:]
        messages: list[Message] = []
        data, position = done.stdout, 0
        while position < len(data) and len(messages) < count:
            end = position
            numbers: list[int] = []
            for _ in range(5):
                position, end = end, data.index(b" ", end) + 1
                numbers.append(int(data[position:end]))
            partition, offset, timestamp, key_size, value_size = numbers
            key_end = end + max(key_size, 0)
            value_end = key_end + max(value_size, 0)
            line_end = data.index(_END, value_end)
            messages.append(
                Message(
                    partition,
                    offset,
                    timestamp,
                    None if key_size < 0 else data[end:key_end],
                    None if value_size < 0 else data[key_end:value_end],
                    _kcat_headers(data[value_end:line_end]),
                )
            )
            position = line_end + len(_END)
        return messages


def _kcat_headers(text: bytes) -> Headers:
    """kcat's `name=value,name=value`; a null value is printed as NULL. Values with commas cannot be told apart."""
    pairs = (part.partition(b"=") for part in text.split(b",") if part)
    return tuple((name.decode(), None if value == b"NULL" else value) for name, _, value in pairs)
