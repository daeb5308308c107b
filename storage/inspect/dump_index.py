"""Explains the binary files beside a segment's log: both indexes, aborted transactions, producers (see `dump.py`).

Layouts and rulers are with their owners: `offset_index.py`, `time_index.py`, `transaction_index.py`,
`producers/snapshot.py`. Here they are read one entry at a time, so that one damaged entry hides no other.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

from ...protocol.records.crc import crc32c
from ..index.offset_index import OffsetIndex
from ..index.time_index import TimeIndex
from ..index.transaction_index import TransactionIndex
from ..producers.snapshot import VERSION
from .part import Part, Value, part_of

_TRANSACTION = Struct(">hqqqq")
_SNAPSHOT_HEADER = Struct(">hIi")
_PRODUCER = Struct(">qhiqiqiq")
_SEQUENCES = 0x7FFF_FFFF

assert _TRANSACTION.size == TransactionIndex.ENTRY_SIZE


def explain_offset_index(data: bytes, base_offset: int) -> Iterator[Part]:
    """Explain entries, then the preallocated rest."""
    size = OffsetIndex.ENTRY_SIZE
    used = _used(data, size)
    before = (-1, -1)
    for at in range(0, used, size):
        relative, position = OffsetIndex.ENTRY.unpack_from(data, at)
        problem = ""
        if relative < 0 or position < 0:
            problem = "a number below 0"
        elif relative <= before[0] or position <= before[1]:
            problem = "does not rise above the entry before it"
        before = (relative, position)
        yield part_of("entry", at, size, {"offset": base_offset + relative, "position": position}, problem)
    yield from _rest(data, used, size)


def explain_time_index(data: bytes, base_offset: int) -> Iterator[Part]:
    """Explain entries, then the preallocated rest."""
    size = TimeIndex.ENTRY_SIZE
    used = _used(data, size)
    before = (-2, -1)
    for at in range(0, used, size):
        timestamp, relative = TimeIndex.ENTRY.unpack_from(data, at)
        problem = ""
        if relative < 0:
            problem = "an offset below the segment's"
        elif timestamp <= before[0] or relative < before[1]:
            problem = "does not rise above the entry before it"
        before = (timestamp, relative)
        yield part_of("entry", at, size, {"timestamp": timestamp, "offset": base_offset + relative}, problem)
    yield from _rest(data, used, size)


def explain_transaction_index(data: bytes, base_offset: int) -> Iterator[Part]:
    """Explain the entries, which are aborted transactions."""
    size = _TRANSACTION.size
    whole = len(data) - len(data) % size
    before = base_offset - 1
    for at in range(0, whole, size):
        version, producer_id, first, last, stable = _TRANSACTION.unpack_from(data, at)
        problem = ""
        if version != 0:
            problem = f"version {version} is unknown"
        elif first > last or last <= before:
            problem = f"can't end at {last} behind {before}"
        before = last
        fields: dict[str, Value] = {
            "version": version,
            "producerId": producer_id,
            "firstOffset": first,
            "lastOffset": last,
            "lastStableOffset": stable,
        }
        yield part_of("aborted transaction", at, size, fields, problem)
    yield from _rest(data, whole, size)


def explain_snapshot(data: bytes, base_offset: int) -> Iterator[Part]:
    """Explain the header, then producers as they stood before `base_offset`."""
    head, size = _SNAPSHOT_HEADER.size, _PRODUCER.size
    if len(data) < head:
        yield part_of("cut off", 0, len(data), {"bytes": len(data)}, f"a header has {head} bytes")
        return
    version, crc, count = _SNAPSHOT_HEADER.unpack_from(data)
    computed = crc32c(memoryview(data)[6:])
    problem = ""
    if version != VERSION:
        problem = f"version {version} is unknown"
    elif crc != computed:
        problem = f"the bytes have the crc {computed}"
    elif count < 0 or head + count * size != len(data):
        problem = f"{len(data)} bytes don't hold {count} producers"
    fields: dict[str, Value] = {"version": version, "crc": crc, "isvalid": crc == computed, "producers": count}
    yield part_of("header", 0, head, fields, problem)
    whole = head + (len(data) - head) // size * size
    for at in range(head, whole, size):
        yield _producer(data, at, base_offset)
    yield from _rest(data, whole, size)


def _producer(data: bytes, at: int, base_offset: int) -> Part:
    producer_id, epoch, last_sequence, last, delta, timestamp, coordinator, txn = _PRODUCER.unpack_from(data, at)
    fields: dict[str, Value] = {
        "producerId": producer_id,
        "producerEpoch": epoch,
        "coordinatorEpoch": coordinator,
        "currentTxnFirstOffset": txn if txn >= 0 else None,
        "lastTimestamp": timestamp,
    }
    has_batch = last >= 0
    if has_batch:
        # Sequence numbers go from 2^31 − 1 on to 0.
        fields["firstSequence"] = (last_sequence - delta) & _SEQUENCES if last_sequence >= 0 else last_sequence
        fields |= {"lastSequence": last_sequence, "lastOffset": last, "offsetDelta": delta, "timestamp": timestamp}
    part = part_of("producer", at, _PRODUCER.size, fields)
    problem = f"offset {max(last, txn)} is not below the snapshot's" if max(last, txn) >= base_offset else ""
    spelling = "OptionalLong.empty" if txn < 0 else f"OptionalLong[{txn}]"
    text = part.text.replace(
        f"currentTxnFirstOffset: {'null' if txn < 0 else txn}", f"currentTxnFirstOffset: {spelling}"
    )
    return part._replace(text=text, problem=problem)


def _used(data: bytes, size: int) -> int:
    """Number of bytes of entries: all whole ones before the preallocated zeros."""
    whole = data[: len(data) - len(data) % size].rstrip(b"\0")
    return -(-len(whole) // size) * size


def _rest(data: bytes, used: int, size: int) -> Iterator[Part]:
    """The parts behind the entries: preallocated zeros, then a torn entry."""
    torn = (len(data) - used) % size
    if not any(data[len(data) - torn :]):
        torn = 0
    zeros = len(data) - used - torn
    if zeros:
        yield Part("unused", used, zeros, f"{zeros} zero bytes from position {used} on", {"zeroBytes": zeros})
    if torn:
        at = used + zeros
        text = f"Found {torn} invalid bytes at the end"
        fields: dict[str, Value] = {"bytes": torn, "hex": data[at:].hex()}
        yield Part("cut off", at, torn, text, fields, f"an entry has {size} bytes")
