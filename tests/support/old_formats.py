"""The logs of formats 0, 1 and 2 that Kafka's own classes wrote (tests/golden/old-formats), with Kafka's account of them."""

from __future__ import annotations

import functools
import re
import tarfile
from pathlib import Path
from typing import NamedTuple

ARCHIVE = Path(__file__).parent.parent / "golden" / "old-formats" / "old-formats.tar.gz"

_FIELD = re.compile(r"(\w+): (\S+)")
_RECORD = re.compile(
    r"\| offset: (?P<offset>\d+) \w+: (?P<timestamp>-?\d+) keySize: (?P<key_size>-?\d+) valueSize: (?P<value_size>-?\d+)"
    r"(?: isValid: true crc: (?P<crc>\d+))?(?: sequence: -?\d+ headerKeys: \[(?P<headers>.*?)\])?"
    r"(?: key: (?P<key>\S*))?(?: payload: (?P<value>.*))?"
)


class DumpedRecord(NamedTuple):
    """One record as Kafka told of it."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    header_keys: tuple[str, ...]


class DumpedBatch(NamedTuple):
    """One batch, wrapper or message as Kafka told of it."""

    position: int
    size: int
    magic: int
    codec: str
    crc: int
    last_offset: int
    timestamp_type: str
    max_timestamp: int
    records: list[DumpedRecord]


class OldLog(NamedTuple):
    """One log: its bytes, and what they are."""

    data: bytes
    batches: list[DumpedBatch]

    @property
    def records(self) -> list[DumpedRecord]:
        return [record for batch in self.batches for record in batch.records]


@functools.cache
def old_logs() -> dict[str, OldLog]:
    """By name: `v0-gzip`, `v1-none-append`, `raised` …"""
    files: dict[str, dict[str, bytes]] = {}
    with tarfile.open(ARCHIVE) as archive:
        for member in archive:
            if member.isfile():
                _, directory, name = member.name.split("/")
                content = archive.extractfile(member)
                assert content is not None
                files.setdefault(directory.removesuffix("-0"), {})[name] = content.read()
    return {
        name: OldLog(content["00000000000000000000.log"], _batches(content["dump.txt"].decode()))
        for name, content in files.items()
    }


def _batches(dump: str) -> list[DumpedBatch]:
    batches: list[DumpedBatch] = []
    for line in dump.splitlines():
        if line.startswith("| "):
            batches[-1].records.append(_record(line))
        elif line.startswith(("offset: ", "baseOffset: ")):
            fields = dict(_FIELD.findall(line))
            assert fields["isvalid"] == "true"
            kind = next(name for name in ("NoTimestampType", "CreateTime", "LogAppendTime") if name in fields)
            batches.append(
                DumpedBatch(
                    int(fields["position"]),
                    int(fields["size"]),
                    int(fields["magic"]),
                    fields["compresscodec"],
                    int(fields["crc"]),
                    int(fields["lastOffset"] if "lastOffset" in fields else fields["offset"]),
                    kind,
                    int(fields[kind]),
                    [],
                )
            )
        else:
            # The gaps are told once more at the end.
            assert line.startswith(("Dumping ", "Log starting offset: ", "Non-consecutive offsets", "  ")), line
    return batches


def _record(line: str) -> DumpedRecord:
    match = _RECORD.fullmatch(line)
    assert match, line
    key = None if match["key_size"] == "-1" else (match["key"] or "").encode()
    value = None if match["value_size"] == "-1" else (match["value"] or "").encode()
    assert len(key or b"") == max(0, int(match["key_size"]))
    assert len(value or b"") == max(0, int(match["value_size"]))
    headers = tuple(match["headers"].split(",")) if match["headers"] else ()
    return DumpedRecord(int(match["offset"]), int(match["timestamp"]), key, value, headers)
