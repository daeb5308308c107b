"""The batch builder in plain Python: rows in, batches out, with nothing but `build_batch`; and columns as Arrow lays them out."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tidelog.protocol.records.attributes import Compression
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.record_batch import Record

#: What the kernel reckons for a record besides its bytes, and for a header.
RECORD_MARGIN, HEADER_MARGIN = 48, 10


class Row(NamedTuple):
    """What a caller wants written; None for what it does not say. The timestamp in microseconds."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...] | None = None
    timestamp: int | None = None
    partition: int | None = None


def murmur2(data: bytes) -> int:
    """Hash of a key, as Kafka's clients compute it."""
    mask, m = 0xFFFFFFFF, 0x5BD1E995
    h = 0x9747B28C ^ len(data)
    whole = len(data) // 4 * 4
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        k = word * m & mask
        k = (k ^ k >> 24) * m & mask
        h = h * m & mask ^ k
    if rest := data[whole:]:
        h = (h ^ int.from_bytes(rest, "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    return h ^ h >> 15


def binary(values: Sequence[bytes | None], shift: int = 0) -> tuple[bytes | None, bytes, bytes, int]:
    """A binary column; the first `shift` rows of its buffers are not its own."""
    every = [b"not ours"] * shift + list(values)
    ends = [0]
    for value in every:
        ends.append(ends[-1] + len(value or b""))
    return bits(every), struct.pack(f"<{len(ends)}i", *ends), b"".join(value or b"" for value in every), shift


def bits(values: Sequence[object]) -> bytes | None:
    """Validity: none where nothing is null."""
    if None not in values:
        return None
    found = bytearray((len(values) + 7) // 8)
    for i, value in enumerate(values):
        found[i // 8] |= (value is not None) << i % 8
    return bytes(found)


def numbers(values: Sequence[int | None], code: str, shift: int = 0) -> tuple[bytes | None, bytes, int]:
    every = [7] * shift + list(values)
    return bits(every), struct.pack(f"<{len(every)}{code}", *(value or 0 for value in every)), shift


def columns_of(rows: Sequence[Row], shift: int = 0) -> dict[str, Any]:
    """Arguments of `BatchBuilder.add` besides the number of rows and the time."""
    lists = [one.headers for one in rows]
    ends = [0] * (shift + 1)
    for headers in lists:
        ends.append(ends[-1] + len(headers or ()))
    pairs = [pair for headers in lists for pair in headers or ()]
    every: list[object] = [0] * shift + list(lists)
    return {
        "values": binary([row.value for row in rows], shift),
        "keys": binary([row.key for row in rows], shift),
        "headers": (
            bits(every),
            struct.pack(f"<{len(ends)}i", *ends),
            shift,
            binary([name for name, _ in pairs]),
            binary([content for _, content in pairs]),
        ),
        "timestamps": numbers([row.timestamp for row in rows], "q", shift),
        "partitions": numbers([row.partition for row in rows], "i", shift),
    }


class PlainBuilder:
    """The same as `BatchBuilder`, of rows alone."""

    def __init__(
        self, partitions: int, choose: Callable[[], int], *, batch_bytes: int, codec: int = 0, producer_id: int = -1,
        epoch: int = -1, transactional: bool = False,
    ) -> None:  # fmt: skip
        self._partitions, self._choose, self._batch_bytes = partitions, choose, batch_bytes
        self._stamp = {"producer_id": producer_id, "producer_epoch": epoch, "is_transactional": transactional}
        self._codec = Compression(codec)
        self._open: dict[int, list[Record]] = {}
        self._sequences: dict[int, int] = {}
        self._sticky = -1
        self._closed: list[tuple[int, int, bytes]] = []

    def add(self, rows: Sequence[Row], now: int) -> None:
        if self._sticky < 0:
            self._sticky = self._choose()
        for row in rows:
            record = Record(
                0, now if row.timestamp is None else row.timestamp // 1000, row.key, row.value, row.headers or ()
            )
            size = self._size(record)
            while self._is_full(partition := self._partition(row), size):
                self._close(partition)
                if partition == self._sticky:
                    self._sticky = self._choose()
            self._open.setdefault(partition, []).append(record)

    def _partition(self, row: Row) -> int:
        if row.partition is not None:
            return row.partition
        return self._sticky if row.key is None else (murmur2(row.key) & 0x7FFFFFFF) % self._partitions

    def _is_full(self, partition: int, more: int) -> bool:
        records = self._open.get(partition)
        return bool(records) and len(build_batch(records or [])) - 61 + more > self._batch_bytes

    @staticmethod
    def _size(record: Record) -> int:
        more = sum(HEADER_MARGIN + len(name) + len(content or b"") for name, content in record.headers)
        return RECORD_MARGIN + len(record.key or b"") + len(record.value or b"") + more

    def _close(self, partition: int) -> None:
        if records := self._open.pop(partition, None):
            sequence = self._sequences.get(partition, 0)
            self._sequences[partition] = (sequence + len(records)) % (1 << 31)
            stamp: Any = self._stamp | ({"base_sequence": sequence} if self._stamp["producer_id"] != -1 else {})
            self._closed.append((partition, len(records), build_batch(records, compression=self._codec, **stamp)))

    def take(self) -> list[tuple[int, int, bytes]]:
        for partition in sorted(self._open):
            self._close(partition)
        taken, self._closed = self._closed, []
        return taken
