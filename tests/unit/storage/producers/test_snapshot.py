from __future__ import annotations

from pathlib import Path

import pytest
from tidelog.storage.exceptions import CorruptSnapshotError
from tidelog.storage.producers.entry import BatchMetadata, ProducerStateEntry
from tidelog.storage.producers.snapshot import decode_snapshot, encode_snapshot

GOLDEN = Path(__file__).parents[3] / "golden" / "storage"

# As DumpLogSegments prints them.
AT_95 = [
    ProducerStateEntry(11, 0, -1, 1700000013144, 0, (BatchMetadata(44, 74, 14, 1700000013144),)),
    ProducerStateEntry(12, 0, -1, 1700000013754, 15, (BatchMetadata(44, 89, 14, 1700000013754),)),
]
AT_383 = [
    ProducerStateEntry(11, 0, 0, 1795253425955, None, (BatchMetadata(179, 365, 14, 1795253425955),)),
    ProducerStateEntry(12, 0, 0, 1795253425957, None, (BatchMetadata(179, 380, 14, 1795253425957),)),
]
FILES = [
    ("00000000000000000095.snapshot", AT_95),
    ("00000000000000000383.snapshot", AT_383),
    ("00000000000000000015.snapshot", []),
]


@pytest.mark.parametrize(("name", "entries"), FILES)
def test_reads_what_kafka_wrote(name: str, entries: list[ProducerStateEntry]) -> None:
    found = decode_snapshot((GOLDEN / name).read_bytes())
    assert found == entries
    assert [entry.batches[0].first_sequence for entry in found] == [entry.last_sequence - 14 for entry in found]


@pytest.mark.parametrize(("name", "entries"), FILES)
def test_writes_the_bytes_that_kafka_wrote(name: str, entries: list[ProducerStateEntry]) -> None:
    assert encode_snapshot(entries) == (GOLDEN / name).read_bytes()


def test_a_producer_without_batches() -> None:
    entry = ProducerStateEntry(7, 3, 2, 1000)
    assert decode_snapshot(encode_snapshot([entry])) == [entry]


def test_every_prefix_is_refused() -> None:
    data = encode_snapshot(AT_95)
    for length in range(len(data)):
        with pytest.raises(CorruptSnapshotError):
            decode_snapshot(data[:length])


def test_every_flipped_byte_is_refused() -> None:
    data = bytearray(encode_snapshot(AT_95))
    for position in range(len(data)):
        data[position] ^= 0x41
        with pytest.raises(CorruptSnapshotError):
            decode_snapshot(bytes(data))
        data[position] ^= 0x41


@pytest.mark.parametrize("version", [0, 2, 65535])
def test_other_versions_are_refused(version: int) -> None:
    data = version.to_bytes(2, "big") + encode_snapshot(AT_95)[2:]
    with pytest.raises(CorruptSnapshotError, match="version"):
        decode_snapshot(data)


def test_a_count_that_lies_is_refused_before_anything_is_made() -> None:
    from crc32c import crc32c

    for count in (-1, 1, 2**31 - 1):
        body = count.to_bytes(4, "big", signed=True) + bytes(45)
        with pytest.raises(CorruptSnapshotError, match="can't hold"):
            decode_snapshot(b"\0\1" + crc32c(body).to_bytes(4, "big") + body)
