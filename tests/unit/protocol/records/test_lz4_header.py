from __future__ import annotations

import lz4.frame
import pytest
from tidelog.protocol.records.exceptions import CorruptRecordError
from tidelog.protocol.records.lz4_header import with_historical_check, with_right_check, xxh32


@pytest.mark.parametrize(
    ("data", "expected"),
    # From the reference implementation (xxhsum -H0).
    [(b"", 0x02CC5D05), (b"a", 0x550D7456), (b"abc", 0x32D153FF)],
)
def test_hash(data: bytes, expected: int) -> None:
    assert xxh32(data) == expected


def test_hash_of_what_no_header_has() -> None:
    with pytest.raises(ValueError, match="more than"):
        xxh32(bytes(16))


def test_there_and_back() -> None:
    frame = lz4.frame.compress(b"kafka" * 50, store_size=False)
    historical = with_historical_check(frame)
    assert historical != frame
    assert [at for at, byte in enumerate(frame) if byte != historical[at]] == [6]
    assert historical[6] == xxh32(frame[:6]) >> 8 & 0xFF
    with pytest.raises(RuntimeError):
        lz4.frame.decompress(historical)
    assert with_right_check(historical) == frame
    assert with_right_check(frame) == frame


def test_header_with_a_content_size() -> None:
    """Other writers state it; the check byte stands behind it then."""
    frame = lz4.frame.compress(b"kafka" * 50, store_size=True)
    broken = frame[:14] + bytes([frame[14] ^ 0xFF]) + frame[15:]
    assert with_right_check(broken) == frame


@pytest.mark.parametrize("length", [0, 4, 6])
def test_too_short(length: int) -> None:
    with pytest.raises(CorruptRecordError):
        with_right_check(lz4.frame.compress(b"x", store_size=False)[:length])
