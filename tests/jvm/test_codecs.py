"""Compressed data that is damaged, joined or unusual gets the verdict of the reader in Python: behind a right checksum, so
that the codec alone decides.
"""

from __future__ import annotations

import gzip
import shutil
import struct
import tempfile
import zlib
from pathlib import Path

import lz4.frame
import pytest
import snappy
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.columns import Row, rows_of
from support.jvm import Jvm, JvmError
from support.record_strategies import records
from support.segment_dirs import write_segment
from tidelog.pipeline.exceptions import CorruptLogError
from tidelog.pipeline.planning.splits import Split
from tidelog.pipeline.reading.segment_files import list_segments
from tidelog.pipeline.reading.segment_reader import read_split
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.compression import compress
from tidelog.protocol.records.crc import crc32c
from tidelog.protocol.records.record_batch import ATTRIBUTES_AT, CRC_AT, LENGTH_AT, LOG_OVERHEAD, Record

RECORDS_AT = 61

one_jvm = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


def batch_of(content: list[Record], codec: int, payload: bytes) -> bytes:
    """The records' batch with another payload and codec, and a right length and checksum."""
    batch = bytearray(build_batch(content, base_offset=0)[:RECORDS_AT] + payload)
    struct.pack_into(">i", batch, LENGTH_AT, len(batch) - LOG_OVERHEAD)
    struct.pack_into(">h", batch, ATTRIBUTES_AT, codec)
    struct.pack_into(">I", batch, CRC_AT, crc32c(memoryview(batch)[ATTRIBUTES_AT:]))
    return bytes(batch)


def both(jvm: Jvm, batch: bytes, how: str = "") -> tuple[list[Row] | str, list[Row] | str]:
    """Verdicts of the readers in Python and in Java."""
    home = Path(tempfile.mkdtemp())
    try:
        write_segment(home / "t-0", 0, [batch])
        found: list[list[Row] | str] = []
        try:
            split = Split("t", 0, 0, 1 << 40, list_segments(home / "t-0")[0], 0)
            parts = list(read_split(split, skip_corrupt="s" in how, fail_on_data_loss=False))
            found.append([row for columns in parts for row in rows_of(columns)])
        except CorruptLogError:
            found.append("CorruptLogException")
        try:
            found.append(jvm.rows(home, "t", 0, 0, 1 << 40, how=f"{how}g"))
        except JvmError as error:
            found.append(error.kind)
        return found[0], found[1]
    finally:
        shutil.rmtree(home)


def plain_of(content: list[Record]) -> bytes:
    return build_batch(content, base_offset=0)[RECORDS_AT:]


def gzip_with_everything(data: bytes) -> bytes:
    """A member with an extra field, a name, a comment and a checksum of its header."""
    head = b"\x1f\x8b\x08\x1e" + bytes(6) + b"\x03\x00abc" + b"name\x00" + b"words\x00"
    member = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = member.compress(data) + member.flush()
    return head + struct.pack("<H", zlib.crc32(head) & 0xFFFF) + body + struct.pack("<II", zlib.crc32(data), len(data))


def lz4_frame(data: bytes, **options: object) -> bytes:
    return bytes(lz4.frame.compress(data, **{"block_size": lz4.frame.BLOCKSIZE_MAX64KB, **options}))  # type: ignore[arg-type]


def halves(data: bytes) -> tuple[bytes, bytes]:
    return data[: len(data) // 2], data[len(data) // 2 :]


#: Other streams of the same bytes than those that we write: (codec, how it is made).
STREAMS = {
    "gzip": (1, lambda data: compress(1, data)),
    "gzip members": (1, lambda data: b"".join(gzip.compress(half) for half in halves(data))),
    "gzip header": (1, gzip_with_everything),
    "snappy": (2, lambda data: compress(2, data)),
    "snappy raw": (2, lambda data: snappy.compress(data)),
    "snappy joined": (2, lambda data: b"".join(compress(2, half) for half in halves(data))),
    "lz4": (3, lambda data: compress(3, data)),
    "lz4 linked": (3, lambda data: lz4_frame(data, block_linked=True)),
    "lz4 sums": (3, lambda data: lz4_frame(data, content_checksum=True, block_checksum=True, block_linked=False)),
    "lz4 size": (3, lambda data: lz4_frame(data, store_size=True, content_checksum=True)),
    "lz4 frames": (3, lambda data: b"".join(lz4_frame(half) for half in halves(data))),
    "zstd": (4, lambda data: compress(4, data)),
    "zstd sum": (4, lambda data: zstandard.ZstdCompressor(write_checksum=True).compress(data)),
    "zstd no size": (4, lambda data: zstandard.ZstdCompressor(write_content_size=False).compress(data)),
    "zstd frames": (4, lambda data: b"".join(compress(4, half) for half in halves(data))),
    "zstd nothing first": (4, lambda data: compress(4, b"") + compress(4, data)),
    "zstd skipped first": (4, lambda data: struct.pack("<II", 0x184D2A50, 3) + b"abc" + compress(4, data)),
    "no codec": (5, lambda data: data),
}


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("size", [10, 200_000])
def test_a_stream_of_another_writer_is_read_as_in_python(jvm: Jvm, name: str, size: int) -> None:
    codec, make = STREAMS[name]
    content = [Record(at, 5, b"k%d" % at, bytes(range(7)) * size, ()) for at in range(3)]
    expected, found = both(jvm, batch_of(content, codec, make(plain_of(content))))
    assert found == expected
    assert name in ("lz4 frames", "no codec") or len(found) == 3


@pytest.mark.parametrize("name", STREAMS)
def test_the_end_of_a_stream_is_checked_as_in_python(jvm: Jvm, name: str) -> None:
    codec, make = STREAMS[name]
    content = [Record(at, 5, b"k", b"%d" % at * 30, ()) for at in range(40)]
    payload = make(plain_of(content))
    ends = [payload + bytes(1), payload + bytes(8), payload + b"x", payload[:-1], payload[:-4]]
    ends += [payload[:-at] + bytes([payload[-at] ^ 0x10]) + payload[len(payload) - at + 1 :] for at in range(1, 13)]
    for end in ends:
        expected, found = both(jvm, batch_of(content, codec, end))
        assert found == expected


@one_jvm
@given(st.data())
def test_damaged_data_gets_the_same_verdict(jvm: Jvm, data: st.DataObject) -> None:
    content = data.draw(records(max_size=6))
    codec, make = STREAMS[data.draw(st.sampled_from(sorted(STREAMS)))]
    payload = bytearray(make(plain_of(content)))
    at = data.draw(st.integers(0, len(payload) - 1))
    match data.draw(st.sampled_from(["flip", "cut", "append", "zeros", "insert", "empty", "twice"])):
        case "flip":
            payload[at] ^= 1 << data.draw(st.integers(0, 7))
        case "cut":
            del payload[at:]
        case "append":
            payload += data.draw(st.binary(min_size=1, max_size=9))
        case "zeros":
            payload += bytes(data.draw(st.integers(1, 9)))
        case "insert":
            payload[at:at] = data.draw(st.binary(min_size=1, max_size=9))
        case "empty":
            payload.clear()
        case "twice":
            payload = payload * 2
    how = data.draw(st.sampled_from(["", "s"]))
    expected, found = both(jvm, batch_of(content, codec, bytes(payload)), how)
    assert found == expected
