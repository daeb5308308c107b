from __future__ import annotations

import random
from pathlib import Path

import pytest
from support.fake_filesystem import FakeFileSystem
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.record_batch import Record
from tidelog.storage.segment import batch_walk
from tidelog.storage.segment.batch_walk import Found, Stretch, computed_crc, stored_crc, walk

PATH = "/00000000000000000000.log"


def batches(count: int, size: int = 20) -> list[bytes]:
    return [
        build_batch([Record(0, 1_700_000_000_000 + n, b"key", bytes([n % 250]) * size)], base_offset=n)
        for n in range(count)
    ]


def found(data: bytes, start: int = 0) -> list[Found]:
    system = FakeFileSystem()
    system.put(PATH, data)
    file = system.open(PATH, writable=False)
    try:
        return [one._replace(data=memoryview(bytes(one.data))) for one in walk(file, start)]
    finally:
        file.close()


def stretches(data: bytes) -> list[tuple[Stretch, int, int]]:
    """What the walk says, checked to cover the file without a gap."""
    result = found(data)
    position = 0
    for one in result:
        assert one.position == position
        position += one.size
    assert position == len(data)
    return [(one.stretch, one.position, one.size) for one in result]


def test_whole_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_walk, "CHUNK_BYTES", 128)  # batches lie across the borders of chunks
    data = batches(20)
    result = found(b"".join(data))
    assert [bytes(one.data) for one in result] == data
    assert {(one.stretch, one.is_whole, one.magic, one.reason) for one in result} == {(Stretch.BATCH, True, 2, "")}
    assert all(stored_crc(one.data, 2) == computed_crc(one.data, 2) for one in result)
    assert [bytes(one.data) for one in found(b"".join(data), len(data[0]))] == data[1:]
    assert found(b"") == []


def test_cut_off_at_every_length() -> None:
    first, last = batches(2)
    for length in range(1, len(last)):
        assert stretches(first + last[:length])[1:] in (
            [(Stretch.CUT_OFF, len(first), length)],
            # The first bytes of an offset are zeros, and say no more.
            [(Stretch.ZEROS, len(first), length)] if length < 8 else None,
        )


def test_zeros_at_the_end() -> None:
    data = b"".join(batches(2))
    for zeros in (1, 16, 17, 61, 3_000_000):
        assert stretches(data + bytes(zeros))[2:] == [(Stretch.ZEROS, len(data), zeros)]


def test_zeros_and_garbage_between_batches() -> None:
    first, second, third = batches(3)
    noise = random.Random(1).randbytes(5000)
    for gap in (bytes(5000), noise, bytes(100) + noise, noise + bytes(100), b"\xff"):
        kinds = stretches(first + gap + second + third)
        assert kinds[0] == (Stretch.BATCH, 0, len(first))
        assert kinds[-2:] == [
            (Stretch.BATCH, len(first + gap), len(second)),
            (Stretch.BATCH, len(first + gap + second), len(third)),
        ]
        assert {kind for kind, _, _ in kinds[1:-2]} <= {Stretch.GARBAGE, Stretch.ZEROS}


def test_a_wrong_checksum_is_a_batch_all_the_same() -> None:
    first, second, third = batches(3)
    broken = bytearray(second)
    broken[-1] ^= 1
    assert [kind for kind, _, _ in stretches(first + broken + third)] == [Stretch.BATCH] * 3


@pytest.mark.parametrize(
    ("position", "value", "reason"),
    [
        (16, b"\x03", "no message format has the magic 3"),
        (8, b"\0\0\0\x10", "a batch of format 2 can't have 28 bytes"),
        (8, b"\xff\xff\xff\xff", "a batch of format 2 can't have 11 bytes"),
        (8, b"\x7f\0\0\0", "is cut off after"),
    ],
)
def test_impossible_headers(position: int, value: bytes, reason: str) -> None:
    first, second, third = batches(3)
    broken = bytearray(second)
    broken[position : position + len(value)] = value
    result = found(first + broken + third)
    assert [one.stretch for one in result] == [Stretch.BATCH, Stretch.GARBAGE, Stretch.BATCH]
    assert reason in result[1].reason
    assert result[1].size == len(broken)


def test_a_batch_too_large_to_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_walk, "LARGEST_BATCH", 500)
    small, large = batches(1)[0], batches(1, 600)[0]
    result = found(small + large + small)
    assert [(one.is_whole, len(one.data)) for one in result] == [(True, len(small)), (False, 61), (True, len(small))]
    assert bytes(result[1].data) == large[:61]


def test_random_bytes_never_raise() -> None:
    randomness = random.Random(7)
    for _ in range(50):
        data = bytearray(b"".join(batches(4)))
        for _ in range(randomness.randrange(1, 30)):
            data[randomness.randrange(len(data))] = randomness.randrange(256)
        stretches(bytes(data[: randomness.randrange(len(data))]))


def test_kafkas_old_formats(tmp_path: Path) -> None:
    """One message of format 0, one of 1: CRC-32 from the magic on."""
    for magic, times in ((0, b""), (1, (1_500_000_000_000).to_bytes(8, "big"))):
        body = bytes([magic, 0]) + times + b"\0\0\0\1k\0\0\0\1v"
        crc = computed_crc(bytes(16) + body, magic)
        message = (5).to_bytes(8, "big") + (4 + len(body)).to_bytes(4, "big") + crc.to_bytes(4, "big") + body
        [one] = found(message)
        assert (one.stretch, one.magic, stored_crc(one.data, magic)) == (Stretch.BATCH, magic, crc)
