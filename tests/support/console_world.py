"""Daemons for the console to show: one with all that its pages can have to tell, one that has nothing.

The full one has logs with clean, dirty and active sections and tombstones, segments that retention takes soon, open and
aborted transactions, groups that lag and one that is empty, names and records that try to be markup, names as long as they
may be, and a partition that the cleaner had to give up.
"""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from support.daemon import Daemon
from support.patience import PATIENCE_S, until
from tidelog.storage.manager.data_directory import SCRUB_FILE

LONG_NAME = "a-topic-whose-name-is-as-long-as-Kafka-lets-it-be." + "x" * 199
#: The cleaner does what it is asked to and nothing in between, so that the pages have the same sections each time.
SETTINGS: dict[str, str | int] = {
    "log.cleaner.backoff.ms": 3_600_000,
    # The scrubber has ended its first pass before anybody looks.
    "tidelog.log.scrub.bytes.per.second": 1 << 30,
    "log.initial.task.delay.ms": 0,
}

#: Keys and values that must be shown as what they are.
HOSTILE: tuple[tuple[bytes | None, bytes | None], ...] = (
    (b"<script>alert(1)</script>", b"</td></table><img src=x onerror=alert(2)>"),
    (b"'\"><b onmouseover=alert(3)>", b"&lt;script&gt;already escaped&amp;"),
    ("مفتاح‮ right to left".encode(), "‏עברית and back".encode()),
    (b"\x00\x01\x1b[31mred\x1b[0m\x7f", bytes(range(256))),
    (b"\xff\xfe not UTF-8 \xc3\x28", b"\xed\xa0\x80"),
    (b"k" * 2000, b"one-word-without-a-break-" * 400),
    (("e\u0301\u0302" * 20 + "👩‍👩‍👧‍👦").encode(), "\u200b\u2028".encode()),
    (None, b"no key"),
    (b"", b""),
)


def fill(daemon: Daemon) -> None:
    """Fills a running daemon, restarts it once, and returns when its cleaner has given one partition up."""
    admin = AdminClient({"bootstrap.servers": daemon.bootstrap})
    day = 24 * 3600 * 1000
    small = {"segment.bytes": "20000"}
    compacted = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.9", **small}
    topics = {
        "customers": compacted,
        "orders": {"retention.ms": str(day), **small},
        "payments": {},
        "hostile": {},
        "broken": compacted | {"min.cleanable.dirty.ratio": "0.01"},
        "both.policies": {"cleanup.policy": "compact,delete", "retention.bytes": "60000", **small},
        LONG_NAME: {},
        "one_record": {},
        "no-records": {},
    }
    wanted = [NewTopic(name, 12 if name == "no-records" else 1, 1, config=config) for name, config in topics.items()]
    for future in admin.create_topics(wanted).values():
        future.result(PATIENCE_S)
    now = int(time.time() * 1000)
    records(daemon, "customers", ((b"customer-%d" % (n % 100), b"v" * 300, now) for n in range(600)))
    records(daemon, "customers", ((b"customer-%d" % n, None, now) for n in range(15)))
    clean(daemon, "customers")
    records(daemon, "customers", ((b"customer-%d" % (n % 10), b"w" * 300, now) for n in range(250)))
    # Due in an hour, in two, ...: the last segment alone is of today.
    records(daemon, "orders", ((b"%d" % n, b"v" * 300, now - day + 3_600_000 + n * 100_000) for n in range(300)))
    records(daemon, "both.policies", ((b"key-%d" % (n % 20), b"v" * 300, now) for n in range(300)))
    records(daemon, "hostile", ((key, value, now) for key, value in HOSTILE))
    records(daemon, LONG_NAME, ((b"key", b"value", now) for _ in range(3)))
    records(daemon, "one_record", [(b"key", b"value", now)])
    records(daemon, "broken", ((b"key-%d" % (n % 20), b"v" * 300, now) for n in range(300)))
    transactions(daemon)
    for group, topic, offset in (
        ("billing", "customers", 5),
        ("billing", "orders", 299),
        ("<b>reports</b> & co", "hostile", 2),
        ("g" * 200, LONG_NAME, 3),
    ):
        commit(daemon, group, topic, offset)
    daemon.stop()
    spoil(daemon.directory / "broken-0")
    (daemon.directory / SCRUB_FILE).unlink(missing_ok=True)  # or its next pass begins an hour after the first
    daemon.damaged = "a bit is flipped, so that there is a partition that no pass can clean"
    daemon.start()
    clean(daemon, "broken", is_well=False)
    until(lambda: "damaged_file" in asked(daemon, "/health/ready"), "the scrubber finds the flipped bit")
    clean(daemon, "orders")


def records(daemon: Daemon, topic: str, given: Iterable[tuple[bytes | None, bytes | None, int]]) -> None:
    """Produces in batches small enough that segments close. Timestamps in milliseconds."""
    producer = Producer({"bootstrap.servers": daemon.bootstrap, "linger.ms": 5})
    for number, (key, value, timestamp) in enumerate(given):
        headers = [("trace", b"<i>%d</i>" % number)] if number % 3 == 0 else None
        producer.produce(topic, key=key, value=value, timestamp=timestamp, headers=headers)
        if number % 20 == 19:
            assert producer.flush(30) == 0
    assert producer.flush(30) == 0


def transactions(daemon: Daemon) -> None:
    """One committed, one aborted, one left open for as long as it may be."""
    for outcome in ("commit", "abort", "open"):
        settings: dict[str, Any] = {
            "bootstrap.servers": daemon.bootstrap, "transactional.id": f"payer-{outcome}", "transaction.timeout.ms": 900_000
        }  # fmt: skip
        producer = Producer(settings)
        producer.init_transactions(30)
        producer.begin_transaction()
        for number in range(3):
            producer.produce("payments", key=b"%d" % number, value=outcome.encode())
        assert producer.flush(30) == 0
        if outcome == "commit":
            producer.commit_transaction(30)
        elif outcome == "abort":
            producer.abort_transaction(30)


def commit(daemon: Daemon, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": daemon.bootstrap, "group.id": group, "enable.auto.commit": False})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def clean(daemon: Daemon, topic: str, *, is_well: bool = True) -> None:
    """Asks for a pass and waits for its end."""
    deadline = time.monotonic() + PATIENCE_S
    headers = {"Content-Type": "application/json"}
    url = f"http://{daemon.http}/clean/{topic}"
    request: urllib.request.Request | str = urllib.request.Request(f"{url}?wait=5", b"{}", headers, method="POST")
    while True:
        with urllib.request.urlopen(request, timeout=60) as answer:
            said = json.load(answer)
        if said["state"] in ("done", "failed"):
            break
        assert time.monotonic() < deadline, said
        request = f"{url}/{said['request']}?wait=5"
    assert (said["state"] == "done", bool(said["errors"])) == (is_well, not is_well), said


def spoil(directory: Path) -> None:
    """Makes the second closed segment one that no pass can read: a bit of a record is flipped."""
    segment = sorted(directory.glob("*.log"))[1]
    content = bytearray(segment.read_bytes())
    content[200] ^= 0x40
    segment.write_bytes(content)


def asked(daemon: Daemon, path: str) -> str:
    """Text of an answer over HTTP."""
    with urllib.request.urlopen(f"http://{daemon.http}{path}", timeout=60) as answer:
        text: str = answer.read().decode()
    return text
