from __future__ import annotations

import contextlib
import gzip
import random
import struct
import threading
import time
import zlib

import lz4.frame
import pytest
import snappy
import zstandard
from tidelog.protocol.records import compression
from tidelog.protocol.records.compression import (
    FREE_PARTS,
    LEVELS,
    PART_BYTES,
    Compression,
    compress,
    decompress,
)
from tidelog.protocol.records.exceptions import (
    CorruptRecordError,
    InvalidRecordError,
    OutOfTimeError,
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
    monkeypatch.setattr(compression, "JOINED_BYTES", 1000)
    monkeypatch.setattr(compression, "QUICK_BYTES", 700)
    monkeypatch.setattr(compression, "GZIP_STEP", 300)
    data = RANDOM.randbytes(size // 2) + bytes(size - size // 2)
    streams = [compress(codec, data)]
    if codec is Compression.SNAPPY:
        streams.append(snappy.compress(data))
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


# -- streams that are made to take long


def member(data: bytes) -> bytes:
    """One gzip member."""
    return gzip.compress(data, mtime=0)


def frame(data: bytes) -> bytes:
    """One zstd frame that does not say how much it holds."""
    return zstandard.ZstdCompressor(write_content_size=False).compress(data)


XERIAL = struct.pack(">8sii", b"\x82SNAPPY\x00", 1, 1)
SKIPPED = struct.pack("<II", 0x184D2A50, 0)
"""A zstd frame that holds nothing for anybody."""


def block(data: bytes) -> bytes:
    """One block of xerial framing."""
    packed = bytes(snappy.compress(data))
    return struct.pack(">i", len(packed)) + packed


#: Codec → what its stream begins with, and one part that holds so many bytes.
PARTS = {
    "gzip members": (Compression.GZIP, b"", member),
    "xerial blocks": (Compression.SNAPPY, XERIAL, block),
    "zstd frames": (Compression.ZSTD, b"", frame),
    "sized zstd frames": (Compression.ZSTD, b"", zstandard.ZstdCompressor().compress),
}


@pytest.mark.parametrize("kind", PARTS)
def test_parts_that_hold_nothing_are_counted(kind: str) -> None:
    codec, begin, part = PARTS[kind]
    full = part(b"x" * 100)
    assert decompress(codec, begin + full + part(b"") * (FREE_PARTS - 2 if begin else FREE_PARTS - 1)) == b"x" * 100
    with pytest.raises(InvalidRecordError, match="hold 100 bytes: a batch may have 1024 parts"):
        decompress(codec, begin + full + part(b"") * FREE_PARTS)


@pytest.mark.parametrize("filler", [XERIAL, SKIPPED], ids=["xerial headers", "skippable zstd frames"])
def test_what_only_separates_parts_is_counted_too(filler: bytes) -> None:
    codec, begin = (Compression.SNAPPY, XERIAL + block(b"x")) if filler is XERIAL else (Compression.ZSTD, frame(b"x"))
    assert decompress(codec, begin + filler * 1000) == b"x"
    with pytest.raises(InvalidRecordError):
        decompress(codec, begin + filler * FREE_PARTS)


@pytest.mark.parametrize("kind", PARTS)
def test_a_first_part_that_holds_nothing_hides_nothing(kind: str) -> None:
    codec, begin, part = PARTS[kind]
    assert decompress(codec, begin + part(b"") + part(b"x")) == b"x"
    with pytest.raises(CorruptRecordError):
        decompress(codec, begin + part(b"") + b"what no codec knows")


@pytest.mark.parametrize("kind", PARTS)
def test_as_many_parts_as_any_writer_makes_are_read(kind: str) -> None:
    """Kafka's own producers before 0.10.1 had 1 KiB in a block; a part for each half of that is the bound."""
    codec, begin, part = PARTS[kind]
    for size, count in ((1024, 10_000), (PART_BYTES, 10_000), (1, FREE_PARTS - 1)):
        assert decompress(codec, begin + part(bytes(size)) * count) == bytes(size * count)
    with pytest.raises(InvalidRecordError):
        decompress(codec, begin + part(bytes(PART_BYTES // 2)) * 10_000)


LARGE = 4 << 20
US_PER_BYTE = 0.25
"""Of CPU, for each byte that comes and each that it gives: ten times what any of these takes, and a hundredth of what
gzip members took when the rest was copied for each."""


def pile(begin: bytes, part: bytes, size: int = LARGE) -> bytes:
    return begin + part * ((size - len(begin)) // len(part))


def stored_blocks(size: int) -> bytes:
    """A gzip member of deflate blocks that hold nothing."""
    return member(b"")[:10] + b"\0\0\0\xff\xff" * (size // 5) + b"\1\0\0\xff\xff" + bytes(8)


def small_blocks(size: int) -> bytes:
    """A gzip member of deflate blocks of few bytes, each with tables of its own."""
    stream = zlib.compressobj(9, zlib.DEFLATED, 31)
    text = SAMPLES[5][:160]
    part = stream.compress(text) + stream.flush(zlib.Z_FULL_FLUSH)
    count = size // len(part)
    again = stream.compress(text) + stream.flush(zlib.Z_FULL_FLUSH)
    whole = text * (count + 1)
    return part + again * count + b"\3\0" + struct.pack("<II", zlib.crc32(whole), len(whole))


NOISE = RANDOM.randbytes(600)
HOSTILE = {
    "empty gzip members": (Compression.GZIP, pile(member(b"x"), member(b""))),
    "gzip members as many as there may be": (Compression.GZIP, pile(b"", member(NOISE))),
    "empty deflate blocks": (Compression.GZIP, stored_blocks(LARGE)),
    "small deflate blocks": (Compression.GZIP, small_blocks(LARGE)),
    "empty xerial blocks": (Compression.SNAPPY, pile(XERIAL + block(b"x"), block(b""))),
    "xerial blocks as many as there may be": (Compression.SNAPPY, pile(XERIAL, block(NOISE))),
    "xerial headers": (Compression.SNAPPY, pile(XERIAL, XERIAL)),
    "snappy literals of a byte": (Compression.SNAPPY, b"\x80\x80\x80\1" + b"\0x" * (LARGE // 2)),
    "empty zstd frames": (Compression.ZSTD, pile(frame(b"x"), frame(b""))),
    "zstd frames as many as there may be": (Compression.ZSTD, pile(b"", frame(NOISE))),
    "skippable zstd frames": (Compression.ZSTD, pile(frame(b"x"), SKIPPED)),
    "empty zstd blocks": (Compression.ZSTD, b"\x28\xb5\x2f\xfd\0\x50" + bytes(LARGE // 3 * 3) + b"\1\0\0"),
    "empty lz4 blocks": (
        Compression.LZ4,
        compress(Compression.LZ4, b"")[:7] + struct.pack("<I", 0x80000000) * (LARGE // 4) + bytes(4),
    ),
    "lz4 that gives little at a time": (Compression.LZ4, compress(Compression.LZ4, RANDOM.randbytes(LARGE))),
}


@pytest.mark.parametrize("is_hurried", [False, True])
@pytest.mark.parametrize("kind", HOSTILE)
def test_time_is_in_proportion_to_the_bytes(kind: str, is_hurried: bool) -> None:
    codec, data = HOSTILE[kind]
    began = time.thread_time()
    size = 0
    with contextlib.suppress(RecordError):
        size = len(decompress(codec, data, is_due=(lambda: False) if is_hurried else None))
    taken = time.thread_time() - began
    assert taken < US_PER_BYTE * 1e-6 * (len(data) + size)


@pytest.mark.parametrize("kind", HOSTILE)
def test_time_that_is_up_ends_it_at_the_next_piece(kind: str) -> None:
    """Whoever asks does so often: no sixteenth of these megabytes is one piece, but for a block of raw snappy."""
    codec, data = HOSTILE[kind]
    asked = 0

    def is_due() -> bool:
        nonlocal asked
        asked += 1
        return asked == 17

    raised: type[Exception] | None = None
    try:
        decompress(codec, data, is_due=is_due)
    except RecordError as error:
        raised = type(error)
    if kind == "snappy literals of a byte":
        assert (asked, raised) == (0, None)
    else:
        assert raised is OutOfTimeError or (raised is InvalidRecordError and "as many" not in kind)
        assert asked <= 17


def test_a_quick_stream_is_read_although_somebody_asks() -> None:
    for codec in CODECS:
        for data in SAMPLES:
            assert decompress(codec, compress(codec, data), len(data), lambda: False) == data
