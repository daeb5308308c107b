from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tidelog.protocol.records.exceptions import InvalidRecordError
from tidelog.protocol.records.varint import append_varint, read_varint, read_varlong

# Bytes as in the Protocol Buffers encoding guide's table of zigzag values, and the extremes of both widths.
KNOWN = [
    (0, "00"),
    (-1, "01"),
    (1, "02"),
    (-2, "03"),
    (63, "7e"),
    (64, "8001"),
    (-64, "7f"),
    (-65, "8101"),
    (300, "d804"),
    (2147483647, "feffffff0f"),
    (-2147483648, "ffffffff0f"),
    (9223372036854775807, "feffffffffffffffff01"),
    (-9223372036854775808, "ffffffffffffffffff01"),
]


@pytest.mark.parametrize(("value", "text"), KNOWN)
def test_known_values(value: int, text: str) -> None:
    out = bytearray()
    append_varint(out, value)
    assert out.hex() == text
    assert read_varlong(out, 0, len(out)) == (value, len(out))
    if -(1 << 31) <= value < 1 << 31:
        assert read_varint(out, 0, len(out)) == (value, len(out))


# Where the size changes: one byte up to 63, two up to 8191, three up to 1048575, and so on in steps of seven bits.
EDGES = [63, 8191, 1_048_575, *((1 << bits) - 1 for bits in (27, 34, 41, 48, 55, 62))]
assert EDGES[:3] == [(1 << bits) - 1 for bits in (6, 13, 20)]


@pytest.mark.parametrize(("size", "edge"), list(enumerate(EDGES, 1)))
def test_sizes_on_both_sides_of_each_edge(size: int, edge: int) -> None:
    """Zig-zag: −n − 1 takes as much as n. A value within 32 bits is the same bytes in either width."""
    for value, expected in [(edge, size), (-edge - 1, size), (edge + 1, size + 1), (-edge - 2, size + 1)]:
        out = bytearray()
        append_varint(out, value)
        assert len(out) == expected
        assert read_varlong(out, 0, len(out)) == (value, expected)
        if -(1 << 31) <= value < 1 << 31:
            assert read_varint(out, 0, len(out)) == (value, expected)
        else:
            with pytest.raises(InvalidRecordError):
                read_varint(out, 0, len(out))
        for cut in range(expected):
            with pytest.raises(InvalidRecordError):
                read_varlong(out, 0, cut)


def test_widest_of_both_widths() -> None:
    """More than the fixed four and eight bytes would take."""
    for value, size in [((1 << 31) - 1, 5), (-(1 << 31), 5), ((1 << 63) - 1, 10), (-(1 << 63), 10)]:
        out = bytearray()
        append_varint(out, value)
        assert len(out) == size


def test_zig_zag_of_minus_one_is_one() -> None:
    """The document's example: (n << 1) ^ (n >> 31) of 32 ones is 1."""
    out = bytearray()
    append_varint(out, -1)
    assert out == b"\x01"


@given(st.integers(-(1 << 63), (1 << 63) - 1), st.binary(max_size=3), st.binary(max_size=3))
def test_round_trip_between_other_bytes(value: int, before: bytes, behind: bytes) -> None:
    out = bytearray(before)
    append_varint(out, value)
    end = len(out)
    out += behind
    assert read_varlong(out, len(before), len(out)) == (value, end)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "80",
        "8080808080",  # five bytes, and more to come
        "808080808000",  # overlong
        "ffffffff1f",  # a 33rd bit
    ],
)
def test_malformed_varint_is_refused(text: str) -> None:
    data = bytes.fromhex(text)
    with pytest.raises(InvalidRecordError):
        read_varint(data, 0, len(data))


@pytest.mark.parametrize("text", ["", "80" * 9, "80" * 10 + "00", "ff" * 9 + "02"])
def test_malformed_varlong_is_refused(text: str) -> None:
    data = bytes.fromhex(text)
    with pytest.raises(InvalidRecordError):
        read_varlong(data, 0, len(data))


def test_padded_but_short_enough_is_read() -> None:
    assert read_varint(b"\x80\x00", 0, 2) == (0, 2)
