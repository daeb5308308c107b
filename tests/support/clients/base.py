"""What all client drivers share: records to write, messages as read, the text form that the Java and Go programs speak.

A driver wraps one client library or program behind `write` and `read`, so that what each writes every other can read
(tests/compat/test_cross.py). What only one client can do is called directly in its own test module.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Sequence
from typing import NamedTuple, Protocol

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
Headers = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """One record to produce; `timestamp` in ms, None for the client's own clock."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp: int | None = None


class Message(NamedTuple):
    """One record as a consumer saw it; `timestamp` in ms."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class Job(NamedTuple):
    """Records to write to one partition, in this order, with one codec."""

    partition: int
    codec: str
    records: Sequence[Record]


class Driver(Protocol):
    """One client against one broker. Everything it does is bounded in time and raises on failure."""

    name: str

    def write(self, topic: str, jobs: Sequence[Job]) -> None:
        """Writes all jobs and waits for the acknowledgements (acks=all)."""

    def read(self, topic: str, count: int) -> list[Message]:
        """Reads `count` messages from the start of all partitions, without a group; fewer when no more come."""


def sample_records(count: int = 60, *, full: bool = True) -> list[Record]:
    """Every shape that a codec or client gets wrong now and then: nulls, empties, binary, repeats, big and tiny.

    `full=False` leaves out what kafka-python and aiokafka refuse to write: a header without a value, a record with
    neither key nor value.
    """
    noise = random.Random(7)
    shapes: list[tuple[bytes | None, bytes | None, Headers]] = [
        (None, b"a value, no key, no headers", ()),
        (b"key", b"", (("a", b"1"), ("b", b""), ("a", b"2"))),
        (b"", b"x" * 2000, (("empty", b""),)),
        (
            bytes(range(256)),
            noise.randbytes(500),
            (("binary", b"\xff\xfe\x80\x01"), *((("null", None),) if full else ())),
        ),
        ("ключ".encode(), None, (("größe", "ü".encode()),)),
        (None, None if full else b"value", ()),
    ]
    return [Record(*shapes[i % len(shapes)], 1_600_000_000_000 + 1000 * i) for i in range(count)]


def messages_of(partition: int, records: Sequence[Record], first_offset: int = 0) -> list[Message]:
    """How `records` must come back when they were the first in `partition`."""
    return [
        Message(partition, first_offset + i, r.timestamp or 0, r.key, r.value, r.headers) for i, r in enumerate(records)
    ]


def in_order(messages: Sequence[Message]) -> list[Message]:
    """By partition, in each partition as they came."""
    return sorted(messages, key=lambda m: m.partition)


def random_name(stem: str) -> str:
    """A topic's or group's name that no run used before."""
    return f"{stem}-{secrets.token_hex(4)}"


# -- the text form: one record a line, fields apart by tabs, bytes in hex, `-` for null --------------------------------


def _hex(value: bytes | None) -> str:
    return "-" if value is None else value.hex()


def _bytes(text: str) -> bytes | None:
    return None if text == "-" else bytes.fromhex(text)


def job_lines(jobs: Sequence[Job]) -> str:
    """partition, codec, timestamp (- for now), key, value, headers as name=value with commas between."""
    return "".join(
        f"{job.partition}\t{job.codec}\t{'-' if r.timestamp is None else r.timestamp}\t{_hex(r.key)}\t{_hex(r.value)}\t"
        + ",".join(f"{name.encode().hex()}={_hex(value)}" for name, value in r.headers)
        + "\n"
        for job in jobs
        for r in job.records
    )


def parse_message(line: str) -> Message:
    """partition, offset, timestamp, key, value, headers."""
    partition, offset, timestamp, key, value, headers = line.rstrip("\n").split("\t")
    pairs = [part.split("=") for part in headers.split(",") if part]
    return Message(
        int(partition),
        int(offset),
        int(timestamp),
        _bytes(key),
        _bytes(value),
        tuple((bytes.fromhex(name).decode(), _bytes(v)) for name, v in pairs),
    )
