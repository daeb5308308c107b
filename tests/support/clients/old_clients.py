"""Clients of the years 2013 to 2018, each a program of tests/compat/old in an interpreter or on jars of its own.

All speak one text form, bytes in hex and `-` for null, fields apart by tabs:

    write   in:  topic, partition, codec, key, value
    read    in:  topic, partition, how many records there are      out: topic, partition, offset, timestamp, key, value
    group   the same, then out: `committed`, topic, partition, offset

The timestamp is -1 where the client knows none. `make compat-old` (or `compat-old-all`) installs what they need.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from .base import Message, Record
from .programs import MissingToolError, run

ROOT = Path(__file__).resolve().parents[3]
SOURCES = ROOT / "tests" / "compat" / "old"
CACHE = ROOT / ".cache" / "compat" / "old"
TIMEOUT_S = 100.0

#: Topic and partition.
Where = tuple[str, int]


class OldClient(NamedTuple):
    """One client, and the version of Kafka that it takes the broker for.

    Attributes:
        kind: which program and which environment it has.
        version: the client's, for Java, or the broker's that it is told.
        magic: the message format that it writes.
        codecs: that it can write and read.
        reads: whether it can read at all.
        groups: whether it keeps offsets in Kafka.
        nulls: whether it takes null and empty keys and values.
        in_slice: part of `make check`.
    """

    kind: str
    version: str
    magic: int
    codecs: Sequence[str] = ("none", "gzip", "snappy", "lz4")
    reads: bool = True
    groups: bool = True
    nulls: bool = True
    in_slice: bool = False

    @property
    def name(self) -> str:
        return f"Java {self.version}" if self.kind == "java" else f"{_TITLES[self.kind]} told {self.version}"

    @property
    def stem(self) -> str:
        """Name of the client and its version, of which names of topics are made."""
        return f"{self.kind}-{self.version}"

    def command(self, bootstrap: str) -> list[str]:
        """How it is run; MissingToolError where `make` has not installed it."""
        if self.kind == "java":
            jars = _there(CACHE / f"java-{self.version}" / ".fetched").parent
            classes = _there(CACHE / "classes" / "Old.class").parent
            # Their snappy and their old reflection look into java.lang.
            opened = "--add-opens=java.base/java.lang=ALL-UNNAMED"
            sized = ("-Xmx300m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
            return ["java", *sized, opened, "-cp", f"{classes}:{jars}/*", "Old", bootstrap]
        if self.kind == "kafka-node":
            return ["node", "--no-deprecation", str(_there(CACHE / "node" / "old.js")), bootstrap]
        if self.kind == "confluent-kafka":
            interpreter = sys.executable
        elif self.kind == "kafka-python-0.9":
            interpreter = str(_there(CACHE / "kafka-python-0.9" / "python"))
        else:
            interpreter = str(_there(CACHE / self.kind / "bin" / "python"))
        return [interpreter, str(SOURCES / "old.py"), self.kind, self.version, bootstrap]

    def write(self, bootstrap: str, sets: Mapping[tuple[str, int, str], Sequence[Record]]) -> None:
        """Writes the records of each (topic, partition, codec) and waits until all are acknowledged."""
        lines = [
            f"{topic}\t{partition}\t{codec}\t{_hex(record.key)}\t{_hex(record.value)}\n"
            for (topic, partition, codec), records in sets.items()
            for record in records
        ]
        run([*self.command(bootstrap), "write"], "".join(lines), TIMEOUT_S)

    def read(
        self, bootstrap: str, counts: Mapping[Where, int], group: str | None = None
    ) -> tuple[dict[Where, list[Message]], dict[Where, int]]:
        """(messages of each partition as they came, what is committed afterwards where there is a group)."""
        lines = "".join(f"{topic}\t{partition}\t{count}\n" for (topic, partition), count in counts.items())
        mode = ["read"] if group is None else ["group", group]
        messages: dict[Where, list[Message]] = {where: [] for where in counts}
        committed: dict[Where, int] = {}
        for line in run([*self.command(bootstrap), *mode], lines, TIMEOUT_S).splitlines():
            topic, partition, offset, *rest = line.split("\t")
            if topic == "committed":
                committed[partition, int(offset)] = int(rest[0])
                continue
            timestamp, key, value = rest
            message = Message(int(partition), int(offset), int(timestamp), _bytes(key), _bytes(value))
            messages[topic, int(partition)].append(message)
        return messages, committed


_TITLES = {
    "kafka-python": "kafka-python 1.4.7",
    "kafka-python-0.9": "kafka-python 0.9.5",
    "pykafka": "pykafka 2.8",
    "confluent-kafka": "librdkafka",
    "kafka-node": "kafka-node 5",
}
_PLAIN = ("none", "gzip")

OLD_CLIENTS = (
    OldClient("kafka-python-0.9", "0.8", 0, codecs=_PLAIN, nulls=False),
    OldClient("kafka-python", "0.8.2", 0, in_slice=True),
    OldClient("kafka-python", "0.9", 0),
    OldClient("kafka-python", "0.10.0", 1),
    OldClient("kafka-python", "0.10.1", 1),
    OldClient("kafka-python", "0.11.0", 2),
    OldClient("kafka-python", "1.0.0", 2),
    OldClient("kafka-python", "auto", 2),
    OldClient("pykafka", "0.8.2", 0, codecs=_PLAIN, nulls=False),
    OldClient("pykafka", "0.9.0", 0, codecs=_PLAIN, nulls=False),
    OldClient("pykafka", "0.10.2", 1, codecs=_PLAIN, nulls=False),
    OldClient("kafka-node", "0.10", 1, codecs=_PLAIN, nulls=False),
    OldClient("confluent-kafka", "0.8.2.2", 0),
    OldClient("confluent-kafka", "0.9.0", 0, in_slice=True),
    OldClient("confluent-kafka", "0.10.0", 2),
    OldClient("confluent-kafka", "0.11.0", 2),
    OldClient("java", "0.8.2.2", 0, reads=False, groups=False),
    OldClient("java", "0.9.0.1", 0),
    OldClient("java", "0.10.2.2", 1, in_slice=True),
    OldClient("java", "0.11.0.3", 2),
    OldClient("java", "1.0.2", 2, in_slice=True),
    OldClient("java", "2.0.1", 2),
)


def old_client(kind: str, version: str) -> OldClient:
    return next(client for client in OLD_CLIENTS if (client.kind, client.version) == (kind, version))


def has_python_2() -> bool:
    """True if kafka-python 0.9.5 could be installed, which knows no Python 3 of today."""
    return (CACHE / "kafka-python-0.9" / "python").exists()


def _there(path: Path) -> Path:
    if not path.exists():
        raise MissingToolError(f"{path} is not there: run `make compat-old-all`")
    return path


def _hex(value: bytes | None) -> str:
    return "-" if value is None else value.hex()


def _bytes(text: str) -> bytes | None:
    return None if text == "-" else bytes.fromhex(text)
