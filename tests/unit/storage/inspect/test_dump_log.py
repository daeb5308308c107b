from __future__ import annotations

import base64
import random

import pytest
from support.fake_filesystem import FakeFileSystem
from tidelog.protocol.records.attributes import Compression
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.crc import crc32c
from tidelog.protocol.records.record_batch import Record
from tidelog.storage.inspect.dump import explain
from tidelog.storage.inspect.part import Part
from tidelog.storage.producers.transaction_marker import TransactionMarker

PATH = "/00000000000000000100.log"
TIME = 1_700_000_000_000


def parts_of(data: bytes, *, records: bool = True) -> list[Part]:
    system = FakeFileSystem()
    system.put(PATH, data)
    return list(explain(system, PATH, records=records, data=records))


def batch(*records: Record, base_offset: int = 100, compression: Compression = Compression.NONE) -> bytes:
    return build_batch(
        records, base_offset=base_offset, compression=compression, producer_id=9, producer_epoch=1, base_sequence=0
    )


def sealed(data: bytes | bytearray) -> bytes:
    """With the checksum of what it holds now."""
    return bytes(data[:17]) + crc32c(bytes(data[21:])).to_bytes(4, "big") + bytes(data[21:])


PLAIN = batch(
    Record(0, TIME, b"k", b"v", ((b"h", b"1"), (b"h", None))),
    Record(1, TIME + 5, None, b"\xff\x00"),
    Record(2, TIME + 1, b"", None),
)


@pytest.mark.parametrize("compression", list(Compression))
def test_records(compression: Compression) -> None:
    data = batch(*(Record(n, TIME + n, b"k%d" % n, b"v" * 50) for n in range(3)), compression=compression)
    head, *records = parts_of(data)
    assert head.fields["compresscodec"] == compression.name.lower()
    assert [part.text for part in records] == [
        f"| offset: {100 + n} CreateTime: {TIME + n} keySize: 2 valueSize: 50 sequence: {n} headerKeys: [] "
        f"key: k{n} payload: {'v' * 50}"
        for n in range(3)
    ]
    if compression is Compression.NONE:
        assert records[0].position == 61
        assert sum(part.size for part in records) == len(data) - 61
    else:
        assert {(part.position, part.size) for part in records} == {(-1, 0)}


def test_contents_for_programs() -> None:
    _, first, second, third = parts_of(PLAIN)
    assert first.fields["headers"] == [{"key": "h", "value": "1"}, {"key": "h", "value": None}]
    assert first.fields["headerKeys"] == ["h", "h"]
    assert second.fields["key"] is None
    assert base64.b64decode(str(second.fields["valueBase64"])) == b"\xff\x00"
    assert (third.fields["key"], third.fields["value"]) == ("", None)
    assert third.text.endswith("key: ")


def test_without_records() -> None:
    [part] = parts_of(PLAIN, records=False)
    assert part.text == (
        "baseOffset: 100 lastOffset: 102 count: 3 baseSequence: 0 lastSequence: 2 producerId: 9 producerEpoch: 1 "
        "partitionLeaderEpoch: -1 isTransactional: false isControl: false deleteHorizonMs: OptionalLong.empty "
        f"position: 0 CreateTime: {TIME + 5} size: {len(PLAIN)} magic: 2 compresscodec: none "
        f"crc: {int.from_bytes(PLAIN[17:21], 'big')} isvalid: true"
    )


def test_markers() -> None:
    for commit, kind in ((True, "COMMIT"), (False, "ABORT")):
        marker = TransactionMarker(commit, 3)
        data = build_batch(
            [Record(0, TIME, marker.key(), marker.value())], base_offset=100, producer_id=9, is_control=True
        )
        assert parts_of(data)[1].text.endswith(f" endTxnMarker: {kind} coordinatorEpoch: 3")
    for kind in (2, 5, 99):
        data = build_batch([Record(0, TIME, bytes([0, 0, 0, kind]), b"")], base_offset=100, is_control=True)
        assert f"({kind})" in parts_of(data)[1].text
    data = build_batch([Record(0, TIME, b"\0", b"")], base_offset=100, is_control=True)
    assert "control record without" in parts_of(data)[1].problem


@pytest.mark.parametrize(
    ("position", "value", "problem"),
    [
        (7, b"\x63", "offset 99 is below the segment's, 100"),
        (26, b"\x01", "3 records in 2 offsets"),
        (23, b"\xff", "the last offset delta is -"),
        (60, b"\x07", "7 records in 3 offsets"),
        (22, b"\x07", "no codec has the id 7"),
    ],
)
def test_headers_that_contradict_themselves(position: int, value: bytes, problem: str) -> None:
    data = bytearray(PLAIN)
    data[position : position + 1] = value
    parts = parts_of(sealed(data))
    assert problem in parts[0].problem


def test_wrong_checksum() -> None:
    data = bytearray(PLAIN)
    data[-1] ^= 1
    part = parts_of(bytes(data))[0]
    assert part.text.endswith("isvalid: false")
    assert part.problem == f"the bytes have the crc {crc32c(bytes(data[21:]))}"


def test_what_is_no_batch() -> None:
    cut = parts_of(PLAIN + PLAIN[:-1], records=False)[1]
    assert (cut.kind, cut.text) == ("cut off", f"Found {len(PLAIN) - 1} invalid bytes at the end")
    assert cut.problem
    zeros = parts_of(PLAIN + bytes(1000), records=False)[1]
    assert (zeros.kind, zeros.problem) == ("unused", "")
    garbage = parts_of(PLAIN + b"\xff" * 20 + PLAIN, records=False)[1]
    assert garbage.text == f"Found 20 invalid bytes at position {len(PLAIN)}, batches go on at {len(PLAIN) + 20}"


def test_damage_anywhere_is_told_and_never_raised() -> None:
    randomness = random.Random(3)
    for compression in Compression:
        whole = batch(*(Record(n, TIME, b"k", b"value" * 9) for n in range(9)), compression=compression)
        for _ in range(60):
            data = bytearray(whole)
            data[randomness.randrange(21, len(data))] ^= 1 << randomness.randrange(8)
            assert any(part.problem for part in parts_of(bytes(data)))
            parts_of(sealed(data))  # whatever it says


def test_a_decoder_says_what_records_mean() -> None:
    def decode(key: bytes | None, value: bytes | None) -> tuple[str | None, str | None]:
        if key is None:
            raise ValueError("no key")
        return key.decode().upper(), None if value is None else "value\n"

    system = FakeFileSystem()
    system.put(PATH, PLAIN)
    _, first, second, third = explain(system, PATH, decode=decode)
    assert first.text.endswith(" key: K payload: value\\n")
    assert (first.fields["key"], first.fields["value"]) == ("K", "value\n")
    assert second.problem == "can't be decoded: no key"
    assert third.text.endswith(" key: ")
