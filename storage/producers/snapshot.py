"""Producer state on disk (`.snapshot` files): the state before the offset in the file's name.

    header    0     2         6         10
              +-----+---------+---------+     version 1; CRC-32C of all that follows it, so of count and entries
              | ver |   crc   |  count  |     big-endian int16, uint32, int32
              +-----+---------+---------+

    entry     0             8    10       14            22       26            34       38            46
              +-------------+----+--------+-------------+--------+-------------+--------+-------------+
              | producer id | ep | seq    | last offset | delta  | timestamp   | coord. | txn first   |
              +-------------+----+--------+-------------+--------+-------------+--------+-------------+
              int64, int16 epoch, int32 last sequence, int64, int32 offset delta, int64 ms, int32 coordinator epoch,
              int64

Only the last batch of a producer is kept; last sequence and offset are −1 when it has none, the coordinator epoch −1
when no marker came yet, the first offset −1 when no transaction is open. Without a last batch the delta is 0, or −1 when
a marker is all that was seen of the producer (`ProducerStateEntry.is_sequence_unknown`); Apache Kafka reads neither.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from struct import Struct

from ...protocol.records._kernel import crc32c
from ..exceptions import CorruptSnapshotError
from .entry import BatchMetadata, ProducerStateEntry

VERSION = 1

_HEADER = Struct(">hIi")
_COUNT = Struct(">i")
_ENTRY = Struct(">qhiqiqiq")
_CRC_COVERS_FROM = 6
_NOT_KNOWN = -1
"""In the place of the offset delta: of sequence numbers nothing is known."""

assert _HEADER.size == 10
assert _ENTRY.size == 46


def encode_snapshot(entries: Collection[ProducerStateEntry]) -> bytes:
    """Contents of a snapshot file with these entries."""
    body = bytearray(_COUNT.pack(len(entries)))
    for entry in entries:
        first = entry.current_txn_first_offset
        body += _ENTRY.pack(
            entry.producer_id,
            entry.producer_epoch,
            entry.last_sequence,
            entry.last_offset,
            _NOT_KNOWN if entry.is_sequence_unknown else entry.last_offset_delta,
            entry.last_timestamp,
            entry.coordinator_epoch,
            -1 if first is None else first,
        )
    return VERSION.to_bytes(2, "big") + crc32c(body).to_bytes(4, "big") + bytes(body)


def check_snapshot(data: bytes) -> None:
    """Raise CorruptSnapshotError for anything that is not exactly a snapshot file."""
    if len(data) < _HEADER.size:
        raise CorruptSnapshotError(f"a producer snapshot of {len(data)} bytes has no header")
    version, crc, count = _HEADER.unpack_from(data)
    if version != VERSION:
        raise CorruptSnapshotError(f"producer snapshot version {version} is unknown")
    computed = crc32c(memoryview(data)[_CRC_COVERS_FROM:])
    if crc != computed:
        raise CorruptSnapshotError(f"producer snapshot has CRC {crc:#010x} where its bytes give {computed:#010x}")
    if count < 0 or _HEADER.size + count * _ENTRY.size != len(data):
        raise CorruptSnapshotError(f"producer snapshot of {len(data)} bytes can't hold {count} entries")


def decode_snapshot(data: bytes) -> list[ProducerStateEntry]:
    """Entries of a snapshot file; CorruptSnapshotError for anything that is not exactly one."""
    if data == _empty():  # most are: a log that no idempotent producer writes to
        return []
    check_snapshot(data)
    entries = []
    for fields in _ENTRY.iter_unpack(memoryview(data)[_HEADER.size :]):
        producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator_epoch, txn_first = fields
        last = (BatchMetadata(last_sequence, last_offset, delta, timestamp),) if last_offset >= 0 else ()
        open_since = txn_first if txn_first >= 0 else None
        entry = ProducerStateEntry(producer_id, epoch, coordinator_epoch, timestamp, open_since, last)
        entry.is_sequence_unknown = not last and delta == _NOT_KNOWN
        entries.append(entry)
    return entries


@cache
def _empty() -> bytes:
    """An empty snapshot, made on first use: its checksum imports a package."""
    return encode_snapshot(())
