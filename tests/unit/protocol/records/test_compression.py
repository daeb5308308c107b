from __future__ import annotations

import contextlib
import gzip
import random
import struct
import threading

import lz4.frame
import pytest
import snappy
import zstandard
from tidelog.protocol.records import compression
from tidelog.protocol.records.compression import LEVELS, Compression, compress, decompress, snappy_raw
from tidelog.protocol.records.exceptions import (
    CorruptRecordError,
    RecordError,
    RecordTooLargeError,
    UnsupportedCompressionError,
)

RANDOM = random.Random(7)
SAMPLES = [
    b"",
    b"a",
    b"text " * 1000,
    RANDOM.randbytes(100_000),
    bytes(300_000),
    b"".join(b"%d flights left %d late;" % (i, i % 13) for i in range(20_000)),
]
CODECS = [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD]


@pytest.mark.parametrize("codec", [Compression.NONE, *CODECS])
@pytest.mark.parametrize("data", SAMPLES, ids=len)
def test_round_trip(codec: Compression, data: bytes) -> None:
    assert decompress(codec, compress(codec, data), len(data)) == data


@pytest.mark.parametrize("codec", CODECS)
def test_takes_any_buffer(codec: Compression) -> None:
    data = bytearray(SAMPLES[2])
    packed = compress(codec, memoryview(data))
    assert decompress(codec, memoryview(bytearray(packed)), 1 << 20) == data


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", [999, 1000, 1001, 5000, 40_000, 270_000])
def test_what_is_large_comes_in_pieces(codec: Compression, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """No copy of all of it is made at its end, and the bound is the same."""
    monkeypatch.setattr(compression, "_JOINED_BYTES", 1000)
    monkeypatch.setattr(compression, "_QUICK_BYTES", 700)
    monkeypatch.setattr(compression, "_GZIP_STEP", 300)
    data = RANDOM.randbytes(size // 2) + bytes(size - size // 2)
    streams = [compress(codec, data)]
    if codec is Compression.SNAPPY:
        streams.append(snappy_raw(data))
    elif codec is Compression.ZSTD:
        stream = zstandard.ZstdCompressor().compressobj()
        streams.append(stream.compress(data) + stream.flush())  # which does not say how much it is
    elif codec is Compression.GZIP:
        streams.append(gzip.compress(data[:333]) + gzip.compress(data[333:]))
    for packed in streams:
        for bound in (size, size + 1, 10 * size):
            assert decompress(codec, packed, bound) == data
        with pytest.raises(RecordTooLargeError):
            decompress(codec, packed, size - 1)


@pytest.mark.parametrize("codec", LEVELS)
def test_levels_of_kafkas_ranges_work(codec: Compression) -> None:
    lowest, highest, default = LEVELS[codec]
    for level in (lowest, highest, default):
        assert decompress(codec, compress(codec, SAMPLES[2], level), 1 << 20) == SAMPLES[2]


def test_a_higher_level_packs_tighter() -> None:
    data = b"".join(
        b'{"id":%d,"name":"user-%d","balance":%d}\n' % (i, i * 7919 % 1000, i * i % 100_003) for i in range(5000)
    )
    for codec, low, high in ((Compression.GZIP, 1, 9), (Compression.LZ4, 9, 12), (Compression.ZSTD, 1, 19)):
        assert len(compress(codec, data, high)) < len(compress(codec, data, low))


def test_reads_what_other_writers_make() -> None:
    data = SAMPLES[5]
    assert decompress(Compression.GZIP, gzip.compress(data[:1000]) + gzip.compress(data[1000:])) == data
    assert decompress(Compression.SNAPPY, snappy.compress(data)) == data
    assert decompress(Compression.SNAPPY, snappy_raw(data)) == data
    for linked in (False, True):
        for sized in (False, True):
            framed = lz4.frame.compress(data, block_linked=linked, store_size=sized, content_checksum=True)
            assert decompress(Compression.LZ4, framed) == data
    unsized = zstandard.ZstdCompressor(write_content_size=False)
    assert decompress(Compression.ZSTD, unsized.compress(data)) == data
    assert decompress(Compression.ZSTD, unsized.compress(data[:99]) + unsized.compress(data[99:])) == data
    sized = zstandard.ZstdCompressor(write_checksum=True)
    assert decompress(Compression.ZSTD, sized.compress(data[:99]) + sized.compress(data[99:])) == data


def test_what_we_write_is_what_other_readers_take() -> None:
    data = SAMPLES[5]
    assert gzip.decompress(compress(Compression.GZIP, data)) == data
    assert lz4.frame.decompress(compress(Compression.LZ4, data)) == data
    assert zstandard.ZstdDecompressor().decompress(compress(Compression.ZSTD, data)) == data
    packed = compress(Compression.SNAPPY, data)
    magic, version, compatible = struct.unpack_from(">8sii", packed)
    assert (magic, version, compatible) == (b"\x82SNAPPY\x00", 1, 1)
    position, out = 16, b""
    while position < len(packed):
        (size,) = struct.unpack_from(">i", packed, position)
        block = snappy.uncompress(packed[position + 4 : position + 4 + size])
        assert len(block) <= 32 * 1024
        out += block
        position += 4 + size
    assert out == data


def test_joined_xerial_streams() -> None:
    joined = compress(Compression.SNAPPY, b"one") + compress(Compression.SNAPPY, b"two")
    assert decompress(Compression.SNAPPY, joined) == b"onetwo"


@pytest.mark.parametrize("codec", [Compression.NONE, *CODECS])
@pytest.mark.parametrize("size", [1, 1000, 5_000_000])
def test_output_is_bounded(codec: Compression, size: int) -> None:
    packed = compress(codec, bytes(size))
    assert len(decompress(codec, packed, size)) == size
    with pytest.raises(RecordTooLargeError):
        decompress(codec, packed, size - 1)


def test_unsized_zstd_is_bounded() -> None:
    bomb = zstandard.ZstdCompressor(level=19, write_content_size=False).compress(bytes(50_000_000))
    assert len(bomb) < 10_000
    with pytest.raises(RecordTooLargeError):
        decompress(Compression.ZSTD, bomb, 1_000_000)


def test_large_lz4_is_decompressed_in_bounded_steps() -> None:
    noise = RANDOM.randbytes(600_000)
    packed = lz4.frame.compress(noise + bytes(9_000_000), store_size=False)
    assert decompress(Compression.LZ4, packed, 9_600_000) == noise + bytes(9_000_000)
    with pytest.raises(RecordTooLargeError):
        decompress(Compression.LZ4, packed, 9_599_999)
    with pytest.raises(CorruptRecordError):
        decompress(Compression.LZ4, packed[:-20_000], 9_600_000)
    with pytest.raises(CorruptRecordError):
        decompress(Compression.LZ4, packed + b"tail", 9_600_000)


def test_claims_take_no_memory() -> None:
    claim = 1 << 40
    with pytest.raises(RecordError):
        decompress(Compression.LZ4, struct.pack("<IBBQB", 0x184D2204, 0x68, 0x40, claim, 0) + bytes(100))
    with pytest.raises(RecordError):
        decompress(Compression.SNAPPY, b"\xff\xff\xff\xff\x0f" + bytes(100))
    with pytest.raises(RecordError):
        decompress(Compression.ZSTD, struct.pack("<IBQ", 0xFD2FB528, 0xE0, claim) + bytes(100))


@pytest.mark.parametrize("codec", CODECS)
def test_cut_off_data_is_corrupt(codec: Compression) -> None:
    packed = compress(codec, SAMPLES[5])
    for keep in [*range(40), len(packed) // 2, len(packed) - 1]:
        if codec is Compression.SNAPPY and keep == 16:
            continue  # a xerial header alone is an empty stream
        with pytest.raises(CorruptRecordError):
            decompress(codec, packed[:keep], 1 << 24)


@pytest.mark.parametrize("codec", CODECS)
def test_damaged_data_raises_nothing_but_record_errors(codec: Compression) -> None:
    original = SAMPLES[2]
    packed = compress(codec, original)
    chance = random.Random(codec)
    for _ in range(500):
        damaged = bytearray(packed)
        for _ in range(chance.randint(1, 3)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        with contextlib.suppress(RecordError):
            assert len(decompress(codec, damaged, 1 << 20)) <= 1 << 20
        noise = chance.randbytes(chance.randint(0, 200))
        with contextlib.suppress(RecordError):
            decompress(codec, noise, 1 << 20)


@pytest.mark.parametrize("codec", [5, 6, 7, -1])
def test_unknown_codec(codec: int) -> None:
    with pytest.raises(UnsupportedCompressionError):
        compress(codec, b"x")
    with pytest.raises(UnsupportedCompressionError):
        decompress(codec, b"x", 10)


def test_threads_do_not_share_contexts() -> None:
    data = SAMPLES[5]
    failures: list[object] = []

    def work(seed: int) -> None:
        mine = data[seed * 1000 :]
        results = [decompress(Compression.ZSTD, compress(Compression.ZSTD, mine)) for _ in range(20)]
        failures.extend(result for result in results if result != mine)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
