"""`make demo-backup`: a year of flights in, a mistake, the machine lost, and restored to the moment before.

A daemon backs itself up to another directory while the flights of 2013 are written and a consumer commits its offsets.
Then somebody deletes the topic; a moment later the machine is gone: kill -9, and its directory wiped. `tidelog restore
--to` brings back the moment before the mistake into a new directory, a daemon starts there, and every row must be there
once, byte for byte, at its offset, with the committed offsets. Exits with 1 and says what is wrong when not. Times are
of this machine, with what else runs.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from demo import PARTITIONS, STALL_S, Mismatch, Row, Topic, Worker, client_settings, create_topics, read_rows, write
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.daemon import Daemon

GROUP = "demo-backup"
COMMITTED = 4711
"""Offset that the group commits in partition 0."""


def tidelog(*arguments: str) -> str:
    """Output of a command; Mismatch with what it says when it fails."""
    done = subprocess.run(
        [sys.executable, "-m", "tidelog.broker", *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise Mismatch(f"tidelog {' '.join(arguments)}: {done.stdout}{done.stderr}")
    return done.stdout


def newest_cut(url: str) -> tuple[int, int]:
    """Number of the newest cut and when it was taken, ms since 1970; (-1, 0): there is none yet."""
    from tidelog.backup.restore.catalog import Catalog
    from tidelog.backup.store import open_store

    catalog = Catalog(open_store(url))
    if not catalog.numbers:
        return -1, 0
    header = catalog.newest().header
    return header.number, header.taken_ms


def await_cut(url: str, is_enough: Callable[[int, int], bool], change: Callable[[], object] = lambda: None) -> None:
    """Wait until number and time of the newest cut are enough. Where nothing is new there is one a minute: hence `change`."""
    deadline = time.monotonic() + STALL_S
    while not is_enough(*newest_cut(url)):
        if time.monotonic() > deadline:
            raise Mismatch(f"no cut within {STALL_S:g} s")
        change()
        time.sleep(0.1)


def read_back(bootstrap: str, topic: Topic) -> None:
    """Take every record of the topic, with its offset, key, value and time."""
    reader = Consumer({**client_settings(bootstrap), "group.id": "check", "enable.partition.eof": True})
    reader.assign([TopicPartition(topic.name, partition, 0) for partition in range(PARTITIONS)])
    left = set(range(PARTITIONS))
    deadline = time.monotonic() + STALL_S
    while left:
        if time.monotonic() > deadline:
            raise Mismatch(f"{topic.name}: nothing more comes of {sorted(left)}")
        for message in reader.consume(2000, 0.2):
            partition = message.partition()
            if message.error() is not None:
                left.discard(partition)
                continue
            rows = topic.read[partition]
            if message.offset() != len(rows):
                raise Mismatch(f"{topic.name}-{partition}: offset {message.offset()} came when {len(rows)} was next")
            rows.append(Row(message.key(), message.value(), message.timestamp()[1]))
            deadline = time.monotonic() + STALL_S
    reader.close()


def position(bootstrap: str, topic: str, offset: int | None = None) -> int:
    """The group's committed offset in partition 0, committed first if one is given."""
    member = Consumer({**client_settings(bootstrap), "group.id": GROUP, "enable.auto.commit": False})
    if offset is not None:
        member.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    [found] = member.committed([TopicPartition(topic, 0)], timeout=30)
    member.close()
    return int(found.offset)


def show(directory: Path, console: Console) -> None:
    """The whole story. Mismatch."""
    flights = Topic("flights", read_rows("flights.csv.zip", "tailnum"))
    store, machine, new_machine = directory / "elsewhere", directory / "machine", directory / "new-machine"
    store.mkdir()
    url = store.as_uri()
    table = Table("what", "took", "", title="lose the machine, not the log")
    with Daemon(machine, {"backup.url": url}) as daemon:
        create_topics(daemon.bootstrap, [flights])
        go_on = threading.Event()
        go_on.set()
        began = time.monotonic()
        writer = Worker("writer", partial(write, daemon.bootstrap, [flights], go_on, threading.Event()))
        writer.start()
        writer.join()
        if writer.error is not None:
            raise writer.error
        written_s = time.monotonic() - began
        position(daemon.bootstrap, flights.name, COMMITTED)
        megabytes = flights.size / 1e6
        table.add_row("flights written", f"{written_s:.1f} s", f"{len(flights.rows):,} rows, {megabytes:.0f} MB")
        now_ms, began = time.time_ns() // 1_000_000, time.monotonic()
        commit = partial(position, daemon.bootstrap, flights.name, COMMITTED)
        await_cut(url, lambda _, taken_ms: taken_ms > now_ms, commit)
        table.add_row("safe elsewhere", f"{time.monotonic() - began:.1f} s", "after the last of them, at most")
        moment = datetime.now(UTC)
        console.print(f"it is {moment:%H:%M:%S}; now somebody deletes the topic ...", highlight=False)
        before, _ = newest_cut(url)
        admin = AdminClient(client_settings(daemon.bootstrap))
        admin.delete_topics([flights.name])[flights.name].result(30)
        await_cut(url, lambda number, _: number > before)
        console.print("... and the machine is lost: kill -9, its directory wiped", highlight=False)
        daemon.kill()
        shutil.rmtree(machine)
        began = time.monotonic()
        said = tidelog("restore", "--from", url, "--to", moment.isoformat(), str(new_machine))
        took = time.monotonic() - began
        console.print(said.strip(), highlight=False)
        table.add_row("restored", f"{took:.1f} s", f"to {moment:%H:%M:%S}, the moment before the mistake")
        verdict = tidelog("log", "verify", str(new_machine)).strip().splitlines()[-1]
        table.add_row("log verify", "", verdict)
    with Daemon(new_machine) as daemon:
        table.add_row("daemon started", f"{daemon.start_s:.1f} s", "on the new directory")
        read_back(daemon.bootstrap, flights)
        flights.verify()
        if (found := position(daemon.bootstrap, flights.name)) != COMMITTED:
            raise Mismatch(f"the group is at {found}, and had committed {COMMITTED}")
    table.add_row(
        "checked", "", f"{len(flights.rows):,} rows, byte for byte, once, at their offsets; the group's offset"
    )
    console.print(table)


def main() -> int:
    console = Console()
    with tempfile.TemporaryDirectory(prefix="tidelog-demo-") as directory:
        try:
            show(Path(directory), console)
        except Mismatch as error:
            console.print(f"[red]wrong:[/red] {error}", highlight=False)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
