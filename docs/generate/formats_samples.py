"""Bytes for the page about formats (`formats_page.py`): made by the code that writes them, each field named.

A sample is its bytes and the fields that they fall into, in order and without a gap. Sizes of fields come from the same
Structs that the storage engine packs with; values are read back from the bytes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from struct import Struct, calcsize
from typing import NamedTuple

from tidelog.broker.groups.store.records import OffsetAndMetadata, offset_key, offset_value
from tidelog.protocol.records.attributes import Compression
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.legacy_record import HEADER_V0, HEADER_V1, append_legacy_record, build_legacy_set
from tidelog.protocol.records.record_batch import HEADER, RECORDS_AT, Record
from tidelog.protocol.records.varint import read_varint, read_varlong
from tidelog.storage.index.offset_index import OffsetIndex
from tidelog.storage.index.time_index import TimeIndex
from tidelog.storage.index.transaction_index import AbortedTxn, TransactionIndex
from tidelog.storage.io.filesystem import RealFileSystem
from tidelog.storage.producers.entry import BatchMetadata, ProducerStateEntry
from tidelog.storage.producers.snapshot import encode_snapshot
from tidelog.storage.producers.transaction_marker import TransactionMarker

TIME = 1_700_000_000_000
BASE_OFFSET = 114514
_ROW = 16


class Field(NamedTuple):
    """A stretch of bytes: its name, its size, its value as text (empty: the bytes say it)."""

    name: str
    size: int
    value: str = ""


class Sample(NamedTuple):
    """Bytes with their fields."""

    data: bytes
    fields: tuple[Field, ...]


def annotate(sample: Sample) -> str:
    """Position, bytes, name and value, a row for each field."""
    assert sum(field.size for field in sample.fields) == len(sample.data)
    lines = []
    position = 0
    for field in sample.fields:
        for start in range(position, position + max(field.size, 1), _ROW):
            row = sample.data[start : min(start + _ROW, position + field.size)]
            text = f"{field.name:<22} {field.value}" if start == position else ""
            lines.append(f"{start:04x}  {row.hex(' '):<47}  {text}".rstrip())
        position += field.size
    return "\n".join(lines)


def struct_fields(data: bytes, layout: Struct, names: Sequence[str], position: int = 0) -> list[Field]:
    """The fields that `layout` packs, with the values that stand in `data`."""
    letters = layout.format.removeprefix(">")
    values = layout.unpack_from(data, position)
    return [
        Field(name, calcsize(f">{letter}"), f"{value:#010x}" if name == "crc" else str(value))
        for name, letter, value in zip(names, letters, values, strict=True)
    ]


def _text(data: bytes) -> str:
    return repr(data.decode()) if data else ""


# --- format 2 ---

_BATCH_FIELDS = (
    "baseOffset",
    "length",
    "partitionLeaderEpoch",
    "magic",
    "crc",
    "attributes",
    "lastOffsetDelta",
    "baseTimestamp",
    "maxTimestamp",
    "producerId",
    "producerEpoch",
    "baseSequence",
    "recordCount",
)


def batch() -> Sample:
    """Two records of an idempotent producer: one with a header, one a tombstone."""
    data = build_batch(
        [Record(0, TIME, b"city", b"Ulm", ((b"lang", b"de"),)), Record(1, TIME + 64, b"city", None)],
        base_offset=BASE_OFFSET,
        partition_leader_epoch=5,
        producer_id=9001,
        producer_epoch=0,
        base_sequence=0,
    )
    return Sample(data, (*struct_fields(data, HEADER, _BATCH_FIELDS), *_records(data, RECORDS_AT)))


def compressed_batch() -> Sample:
    """One record that compresses well; the attributes say how."""
    data = build_batch([Record(0, TIME, None, b"tide " * 20)], base_offset=0, compression=Compression.LZ4)
    size = len(data) - RECORDS_AT
    return Sample(data, (*struct_fields(data, HEADER, _BATCH_FIELDS), Field("records", size, "one lz4 frame")))


def _records(data: bytes, position: int) -> list[Field]:
    fields: list[Field] = []

    def varint(name: str, *, is_long: bool = False) -> int:
        nonlocal position
        value, end = (read_varlong if is_long else read_varint)(data, position, len(data))
        fields.append(Field(name, end - position, str(value)))
        position = end
        return value

    def nullable(name: str) -> None:
        nonlocal position
        length = varint(f"{name}Length")
        if length >= 0:
            fields.append(Field(name, length, _text(data[position : position + length])))
            position += length

    index = 0
    while position < len(data):
        varint(f"record {index}: length")
        fields.append(Field("attributes", 1, str(data[position])))
        position += 1
        varint("timestampDelta", is_long=True)
        varint("offsetDelta")
        nullable("key")
        nullable("value")
        for _ in range(varint("headerCount")):
            nullable("headerKey")
            nullable("headerValue")
        index += 1
    return fields


# --- formats 0 and 1 ---

_LENGTH = Struct(">i")


def message(magic: int) -> Sample:
    """One message of format 0 or 1."""
    out = bytearray()
    append_legacy_record(out, magic, BASE_OFFSET, TIME, b"city", b"Ulm")
    return Sample(bytes(out), tuple(_message(bytes(out), magic)))


def wrapper() -> Sample:
    """Two messages of format 1 at offsets 114514 and 114515, compressed: relative inner offsets 0 and 1."""
    records = [Record(0, TIME, b"city", b"Ulm"), Record(1, TIME + 64, b"city", b"Bonn")]
    data = build_legacy_set(records, magic=1, base_offset=BASE_OFFSET, compression=Compression.LZ4)
    return Sample(data, tuple(_message(data, 1, "one lz4 frame with both messages")))


def inner() -> Sample:
    """What is in the wrapper."""
    out = bytearray()
    fields: list[Field] = []
    for offset, value in enumerate((b"Ulm", b"Bonn")):
        start = len(out)
        append_legacy_record(out, 1, offset, TIME + 64 * offset, b"city", value)
        fields += _message(bytes(out[start:]), 1)
    return Sample(bytes(out), tuple(fields))


def _message(data: bytes, magic: int, value_text: str = "") -> list[Field]:
    names = ("offset", "size", "crc", "magic", "attributes", "timestamp")
    layout = HEADER_V1 if magic else HEADER_V0
    fields = struct_fields(data, layout, names[: len(layout.format) - 1])
    position = layout.size
    for name in ("key", "value"):
        (length,) = _LENGTH.unpack_from(data, position)
        fields.append(Field(f"{name}Length", _LENGTH.size, str(length)))
        position += _LENGTH.size
        if length >= 0:
            text = value_text if name == "value" and value_text else _text(data[position : position + length])
            fields.append(Field(name, length, text))
            position += length
    return fields


# --- the files beside a log ---


class Lookups(NamedTuple):
    """Index files and what is found in them."""

    offset_index: Sample
    time_index: Sample
    found_at: int
    """Position for offset 23."""
    time_found: int
    """Offset for a timestamp between the entries."""
    size_of_67: int
    """Bytes of an index file whose limit is 67."""


_OFFSETS = ((6, 0), (14, 459), (22, 656), (26, 838), (31, 1050))
_TIMES = ((TIME, 14), (TIME + 500, 26))
SOUGHT_TIME = TIME + 300


def lookups() -> Lookups:
    """The worked examples: written and asked by the real classes, in a temporary directory."""
    file_system = RealFileSystem()
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory)
        offsets = OffsetIndex(file_system, path / "00000000000000000000.index", 0, 67)
        offsets.open()
        size = (path / "00000000000000000000.index").stat().st_size
        for entry in _OFFSETS:
            offsets.append(*entry)
        found = offsets.lookup(23)
        times = TimeIndex(file_system, path / "00000000000000000000.timeindex", 0, 67)
        for timestamp, offset in _TIMES:
            times.maybe_append(timestamp, offset)
        time_found = times.lookup(SOUGHT_TIME)
        offsets.close()
        times.close()
        offset_bytes = (path / "00000000000000000000.index").read_bytes()
        time_bytes = (path / "00000000000000000000.timeindex").read_bytes()
    return Lookups(
        _entries(offset_bytes, OffsetIndex.ENTRY, ("relativeOffset", "position")),
        _entries(time_bytes, TimeIndex.ENTRY, ("timestamp", "relativeOffset")),
        found.position,
        time_found.offset,
        size,
    )


def _entries(data: bytes, layout: Struct, names: Sequence[str]) -> Sample:
    fields = [field for at in range(0, len(data), layout.size) for field in struct_fields(data, layout, names, at)]
    return Sample(data, tuple(fields))


def aborted_transaction() -> Sample:
    """An entry of a transaction index."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "00000000000000000000.txnindex"
        index = TransactionIndex(RealFileSystem(), path, 0)
        index.append(AbortedTxn(9001, 100, 160, 120))
        index.close()
        data = path.read_bytes()
    names = ("version", "producerId", "firstOffset", "lastOffset", "lastStableOffset")
    return _entries(data, Struct(">hqqqq"), names)


def snapshot() -> Sample:
    """A producer in the middle of a transaction."""
    data = encode_snapshot([ProducerStateEntry(9001, 0, -1, TIME, 100, (BatchMetadata(1, 101, 1, TIME),))])
    header, entry = Struct(">hIi"), Struct(">qhiqiqiq")
    names = (
        "producerId",
        "producerEpoch",
        "lastSequence",
        "lastOffset",
        "offsetDelta",
        "timestamp",
        "coordinatorEpoch",
        "currentTxnFirstOffset",
    )
    fields = struct_fields(data, header, ("version", "crc", "count"))
    return Sample(data, (*fields, *struct_fields(data, entry, names, header.size)))


def marker() -> tuple[Sample, Sample]:
    """Key and value of an abort marker."""
    abort = TransactionMarker(False, 3)
    key, value = abort.key(), abort.value()
    return (
        Sample(key, tuple(struct_fields(key, Struct(">hh"), ("version", "type")))),
        Sample(value, tuple(struct_fields(value, Struct(">hi"), ("version", "coordinatorEpoch")))),
    )


def offset_commit() -> tuple[Sample, Sample]:
    """Key and value of a committed offset in `__consumer_offsets`."""
    key = offset_key("g", "orders", 0)
    value = offset_value(OffsetAndMetadata(42, 5, "", TIME))
    key_fields = (
        Field("version", 2, str(int.from_bytes(key[:2], "big"))),
        Field("group", 2 + len("g"), "'g', after its length"),
        Field("topic", 2 + len("orders"), "'orders', after its length"),
        Field("partition", 4, str(int.from_bytes(key[-4:], "big"))),
    )
    value_fields = (
        Field("version", 2, str(int.from_bytes(value[:2], "big"))),
        Field("offset", 8, str(int.from_bytes(value[2:10], "big"))),
        Field("leaderEpoch", 4, str(int.from_bytes(value[10:14], "big"))),
        Field("metadata", 1, "'', as its length + 1"),
        Field("commitTimestamp", 8, str(int.from_bytes(value[15:23], "big"))),
        Field("tagged fields", len(value) - 23, "none"),
    )
    return Sample(key, key_fields), Sample(value, value_fields)


# --- sizes ---

COUNTS = (1, 10, 100, 1000)
VALUE_SIZES = (10, 100, 1024, 10_240)


def stored_bytes(magic: int, count: int, size: int) -> int:
    """Bytes of `count` records with null keys and values of `size` bytes, a millisecond apart, uncompressed."""
    value = bytes(size)
    records = [Record(n, TIME + n, None, value) for n in range(count)]
    return len(build_batch(records) if magic == 2 else build_legacy_set(records, magic=magic))
