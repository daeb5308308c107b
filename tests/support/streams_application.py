"""The Kafka Streams application of tests/compat/streams: its process, its orders, and what must come out of it.

`Orders.java` says what it computes. `expected` is the oracle: the same in a few lines of Python, without a broker.
"""

from __future__ import annotations

import random
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from .clients.programs import MissingToolError

CACHE = Path(__file__).resolve().parents[2] / ".cache" / "compat" / "streams"
WINDOW_MS = 10_000
#: The orders' timestamps are of this many windows.
WINDOWS = 6
#: Later than each window's end and its grace period of 20 minutes, and less than the hour that brokers accept.
CLOSING_MS = 40 * 60_000
REGIONS = 8
ACCOUNTS = 40
#: Short so that a killed instance's work is soon another's; Kafka's are 45 s and 3 s.
SETTINGS: dict[str, str | int] = {
    "num.stream.threads": 2,
    "consumer.session.timeout.ms": 6000,
    "consumer.heartbeat.interval.ms": 1000,
    "consumer.auto.offset.reset": "earliest",
    "reconnect.backoff.max.ms": 200,
    # Cleaned and purged while it runs.
    "repartition.purge.interval.ms": 1000,
    "topic.segment.ms": 1000,
    "topic.min.cleanable.dirty.ratio": 0.01,
}  # fmt: skip


class Order(NamedTuple):
    """One record of `orders`. Timestamp in ms."""

    account: int
    amount: int
    timestamp_ms: int

    @property
    def value(self) -> bytes:
        return f"account-{self.account} {self.amount}".encode()


class Expected(NamedTuple):
    """By key, the values in the order in which they were sent; only the last one of `closed`."""

    totals: Mapping[str, list[str]]
    windows: Mapping[str, int]
    """How many updates: the sums on the way depend on the order in which partitions are read."""
    closed: Mapping[str, str]


def region_of(account: int) -> str:
    return f"region-{account % REGIONS}"


def draw_order(chance: random.Random, base_ms: int) -> Order:
    """Any order of the windows that begin at `base_ms`."""
    return Order(chance.randrange(ACCOUNTS), chance.randrange(1, 100), base_ms + chance.randrange(WINDOWS * WINDOW_MS))


def closing_orders(base_ms: int) -> list[Order]:
    """One of each region, so that every window of `base_ms` closes."""
    return [Order(account, 1, base_ms + CLOSING_MS) for account in range(REGIONS)]


def expected(orders: Iterable[Order]) -> Expected:
    """What the application makes of these orders. `closed` has every window, the last ones too."""
    totals: dict[str, list[str]] = defaultdict(list)
    sums: dict[str, list[int]] = defaultdict(list)
    for order in orders:
        count = totals[f"account-{order.account}"]
        count.append(str(len(count) + 1))
        start_ms = order.timestamp_ms - order.timestamp_ms % WINDOW_MS
        sums[f"{region_of(order.account)}@{start_ms}"].append(order.amount)
    return Expected(
        totals,
        {key: len(amounts) for key, amounts in sums.items()},
        {key: f"{len(amounts)} {sum(amounts)}" for key, amounts in sums.items()},
    )


def wrong(seen: Mapping[str, Mapping[str, list[str]]], want: Expected, open_from_ms: int) -> list[str]:
    """What is wrong with what was read of the three topics, in words. Windows from `open_from_ms` on are still open."""
    said = differences("totals", seen["totals"], want.totals)
    counts = {key: [value.split()[0] for value in values] for key, values in seen["windows"].items()}
    said += differences(
        "windows", counts, {key: [str(n + 1) for n in range(count)] for key, count in want.windows.items()}
    )
    last = {key: values[-1:] for key, values in seen["windows"].items()}
    said += differences("the last of windows", last, {key: [value] for key, value in want.closed.items()})
    closed = {key: [value] for key, value in want.closed.items() if int(key.partition("@")[2]) < open_from_ms}
    return said + differences("closed", seen["closed"], closed)


def differences(topic: str, seen: Mapping[str, list[str]], want: Mapping[str, list[str]]) -> list[str]:
    return [
        f"{topic}: {key} is {_short(seen.get(key, []))}, not {_short(want.get(key, []))}"
        for key in sorted({*seen, *want})
        if seen.get(key) != want.get(key)
    ]


def _short(values: list[str]) -> str:
    return str(values) if len(values) < 9 else f"{values[:4]} … {values[-4:]} ({len(values)})"


class Application:
    """One instance: a process on a state directory of its own, started any number of times."""

    def __init__(self, bootstrap: str, application_id: str, directory: Path, settings: Mapping[str, str | int]) -> None:
        self._directory = directory
        self._arguments = [bootstrap, application_id, str(directory / "state")]
        self._arguments += [f"{name}={value}" for name, value in {**SETTINGS, **settings}.items()]
        self._process: subprocess.Popen[bytes] | None = None
        self._starts = 0

    def start(self) -> None:
        classes, jars = CACHE / "classes", CACHE / "lib"
        if not (classes / "Orders.class").exists():
            raise MissingToolError("the Streams application is not built: run `make compat-streams`")
        self._directory.mkdir(parents=True, exist_ok=True)
        self._starts += 1
        # A small heap and the cheap collector, no second compiler: it starts in half of the time.
        options = ["-Xmx300m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:CICompilerCount=1"]
        options += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dorg.slf4j.simpleLogger.showDateTime=true"]
        options += ["-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS", "--enable-native-access=ALL-UNNAMED"]
        with self.stdout.open("wb") as stdout, self.stderr.open("ab") as stderr:
            self._process = subprocess.Popen(
                ["java", *options, "-cp", f"{classes}:{jars}/*", "Orders", *self._arguments],
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )

    @property
    def stdout(self) -> Path:
        """What this start has printed: each change of state."""
        return self._directory / f"stdout-{self._starts}"

    @property
    def stderr(self) -> Path:
        """Warnings and errors of all starts."""
        return self._directory / "stderr"

    def states(self) -> list[tuple[int, str]]:
        """Milliseconds since this start, and the state that it then came into (or FAILED and why)."""
        lines = [line.split(" ", 1) for line in self.stdout.read_text().splitlines()]
        return [(int(at_ms), state) for at_ms, state in lines]

    @property
    def is_up(self) -> bool:
        """True if the process runs and was in RUNNING since its start."""
        if self._process is not None:
            assert self._process.poll() is None, f"the application ended: {self.stderr.read_text()[-2000:]}"
        return self._process is not None and any(state == "RUNNING" for _, state in self.states())

    def kill(self) -> None:
        """SIGKILL; nothing where nothing runs."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        """SIGTERM, and kills it if that takes long."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(60)
            except subprocess.TimeoutExpired:
                self.kill()
            self._process = None
