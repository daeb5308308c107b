"""One run of the benchmarks: where it works, which sides and rows it measures, the brokers it has started.

A benchmark module has `ROWS` and `run(session)`. It asks the session for brokers (`pair` for two that stand side by
side, warm; `fresh` for one of its own), takes its rounds in `session.rounds()`, which turns the order of the sides
round each time, and hands every figure to `session.add`. The session cleans up whatever happens.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import sysconfig
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import wire
from brokers import Broker, BrokerError, Tidelog
from kafka_peer import KafkaPeer
from measure import KAFKA, OURS, Row, Samples, figure

HERE = Path(__file__).resolve().parent
BUILD = HERE.parent / ".cache" / "bench"
# Deleted topics leave the disk at once, on both sides; a run writes more than a small disk keeps.
SETTINGS = {"log.segment.delete.delay.ms": 100, "auto.create.topics.enable": "false"}
BATCH_64K = ("--value-bytes", 1024, "--records", 62)  # 62 KiB of values: the batch is just below 64 KiB
KAFKA_WARM_UP_S = 14.0


class LoadError(Exception):
    """The load generator could not run, or what came back failed its checks."""


class Session:
    """The state of one run; used by one thread."""

    def __init__(
        self, directory: Path, *, quick: bool, rounds: int, sides: tuple[str, ...], only: tuple[str, ...]
    ) -> None:
        self.directory = directory
        self.quick = quick
        self.round_count = rounds
        self.sides = sides
        self.only = only
        self.samples: dict[str, Samples] = {}
        self._awake: subprocess.Popen[bytes] | None = None
        self._begin = time.monotonic()
        self._pair: dict[str, Broker] = {}
        self._stack = contextlib.ExitStack()
        self._numbers = itertools.count(1)
        directory.mkdir(parents=True)
        self._stack.callback(shutil.rmtree, directory, ignore_errors=True)

    def close(self) -> None:
        self._stack.close()

    def at_end(self, action: Callable[[], object]) -> None:
        """Have `action` called when the run is over, however it ends."""
        self._stack.callback(action)

    def keep_awake(self) -> None:
        """Keep every processor from sleeping until the run is over (`keep_awake.c`)."""
        awake = self._awake = subprocess.Popen([built("keep_awake")], process_group=0)
        self._stack.callback(awake.wait)
        self._stack.callback(awake.kill)  # its children go with it

    @contextlib.contextmanager
    def may_sleep(self) -> Iterator[None]:
        """Processors may sleep in the block, where waits are measured and no CPU.

        A host that bounds a virtual machine's processor time counts those that are kept awake as busy. What its disk costs the
        host comes on top, and the whole machine stands still until the bound's next period: 37 ms of each 100 were seen.
        """
        awake = self._awake
        if awake is None:
            yield
            return
        os.killpg(awake.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.killpg(awake.pid, signal.SIGCONT)

    @contextlib.contextmanager
    def standing_still(self) -> Iterator[dict[str, float]]:
        """How long the machine itself stood still in the block (`hiccup.c`): `machine_p99_us` is in the facts when it is left."""
        facts: dict[str, float] = {}
        process = subprocess.Popen([built("hiccup")], stdout=subprocess.PIPE, text=True)
        try:
            yield facts
        finally:
            process.terminate()
            output, _ = process.communicate()
        facts["machine_p99_us"] = json.loads(output)["p99_us"]

    # Progress and results.

    def say(self, text: str) -> None:
        seconds = int(time.monotonic() - self._begin)
        print(f"[{seconds // 60:2d}:{seconds % 60:02d}] {text}", flush=True)

    def wants(self, *rows: Row) -> bool:
        return not self.only or any(row.name in self.only for row in rows)

    def add(self, row: Row, side: str, value: float, details: Mapping[str, float] | None = None) -> None:
        samples = self.samples.setdefault(row.name, Samples())
        samples.values.setdefault(side, []).append(value)
        if details:
            samples.details.setdefault(side, []).append(dict(details))
        self.say(f"{row.name:<18} {side:<8} {figure(value):>8} {row.unit}")

    def rounds(self, at_most: int | None = None) -> Iterator[tuple[str, ...]]:
        """The sides in turn: first us then them, then them and us, so that neither always finds the machine warmer."""
        for number in range(min(self.round_count, at_most or self.round_count)):
            yield self.sides if number % 2 == 0 else self.sides[::-1]

    def seconds(self, quick: float, full: float) -> float:
        return quick if self.quick else full

    # Brokers.

    def fresh(self, side: str, settings: Mapping[str, object] | None = None) -> Broker:
        """A broker with an empty directory, not started; removed at the end of the run if not before."""
        kind: type[Broker] = {OURS: Tidelog, KAFKA: KafkaPeer}[side]
        broker = kind(self.directory / f"{next(self._numbers):03d}-{side}", {**SETTINGS, **(settings or {})})
        self._stack.callback(broker.remove)
        return broker

    def pair(self) -> dict[str, Broker]:
        """The long-running brokers, one a side, warmed up; started on first use."""
        if not self._pair:
            for side in self.sides:
                broker = self.fresh(side)
                self.say(f"{side} answers after {broker.start():.2f} s")
                self._pair[side] = broker
            for side, broker in self._pair.items():
                self.warm_up(broker, KAFKA_WARM_UP_S if side == KAFKA else 1.5)
        return self._pair

    def drop_pair(self) -> None:
        """Kills and removes the long-running brokers: after a failure nobody knows their state."""
        for broker in self._pair.values():
            broker.remove()
        self._pair = {}

    def warm_up(self, broker: Broker, seconds: float) -> None:
        """Every kind of request for a while: a JVM's cost per request halves in its first ten seconds of work."""
        self.say(f"warming {broker.name} up for {seconds:g} s")
        share = seconds / 7
        many, few = ("--connections", 16), ("--depth", 4)
        lz4 = ("--codec", "lz4", "--value-bytes", 100, "--records", 500)
        with self.topic(broker) as large, self.topic(broker) as small:
            self.load(broker, "produce", large, *BATCH_64K, *few, "--seconds", share * 2)
            self.load(broker, "produce", large, *lz4, *few, "--seconds", share)
            self.load(broker, "produce", small, *many, "--seconds", share * 2)
            self.load(broker, "fetch", large, "--max-bytes", 65536, "--seconds", share)
            self.load(broker, "fetch", small, "--max-bytes", 1, "--seconds", share)

    @contextlib.contextmanager
    def topic(self, broker: Broker, partitions: int = 1, settings: Mapping[str, object] | None = None) -> Iterator[str]:
        """A new topic, deleted behind the block."""
        name = f"bench-{next(self._numbers)}"
        wire.create_topic(broker.port, name, partitions, settings)
        yield name
        wire.delete_topic(broker.port, name)

    # Load.

    def load(self, broker: Broker, mode: str, topic: str, *options: object) -> dict[str, Any]:
        """Runs the load generator against a broker; its result. LoadError when a check failed."""
        return finish_load(self.begin_load(broker, mode, topic, *options))

    def begin_load(self, broker: Broker, mode: str, topic: str, *options: object) -> subprocess.Popen[str]:
        where = ("--port", broker.port, "--pid", broker.pid, "--topic", topic)
        return begin_command(mode, *where, *options)

    def verify(self, broker: Broker, topic: str, produced: Mapping[str, Any], partitions: int = 1) -> dict[str, Any]:
        """Reads a topic back once: as many records as were acknowledged, every batch's CRC right, the same CRCs."""
        read = self.load(broker, "fetch", topic, "--once", "--partitions", partitions)
        for what in ("all_records", "all_bytes", "checksum"):
            if read[what] != produced[what]:
                raise LoadError(f"{broker.name}: {what} {produced[what]} went in and {read[what]} came out of {topic}")
        return read


def begin_command(mode: str, *options: object) -> subprocess.Popen[str]:
    command = [str(built("loadgen")), mode, *map(str, options)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish_load(process: subprocess.Popen[str]) -> dict[str, Any]:
    output, errors = process.communicate()
    if process.returncode:
        raise LoadError(f"{' '.join(map(str, process.args))}\n{errors.strip()}")  # type: ignore[arg-type]
    result: dict[str, Any] = json.loads(output)
    return result


def built(name: str) -> Path:
    """One of the C programs beside this file, compiled when its source is newer; a module where it includes Python.h."""
    source, target = HERE / f"{name}.c", BUILD / name
    newest = max(path.stat().st_mtime for path in (source, *HERE.glob("*.h")))
    if not target.exists() or target.stat().st_mtime < newest:
        compiler = shutil.which("cc") or shutil.which("gcc")
        if not compiler:
            raise BrokerError("the load generator is C: install a compiler (Debian: gcc libc6-dev)")
        BUILD.mkdir(parents=True, exist_ok=True)
        command = [compiler, "-O2", "-std=gnu11", "-o", str(target), str(source), "-ldl"]
        if "<Python.h>" in source.read_text():
            command += ["-shared", "-fPIC", f"-I{sysconfig.get_path('include')}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BrokerError(f"cannot compile {source.name}:\n{done.stderr}")
    return target


KEPT_DETAILS = ("requests_per_s", "MB_per_s", "p50_us", "p99_us", "p999_us", "server_cpu_s", "own_cpu_s", "seconds")


def details(result: Mapping[str, Any]) -> dict[str, float]:
    """What is worth keeping of a load generator's result beside the row's own figure."""
    return {name: result[name] for name in KEPT_DETAILS if name in result}


def each_side(session: Session, action: Callable[[str], None], *, at_most: int | None = None) -> None:
    for order in session.rounds(at_most):
        for side in order:
            action(side)
