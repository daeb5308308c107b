from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tidelog.protocol import primitives
from tidelog.protocol.errors import MalformedRequest


@pytest.mark.parametrize(
    ("value", "encoded"),
    [(0, "00"), (1, "01"), (127, "7f"), (128, "8001"), (300, "ac02"), (16383, "ff7f"), (2**32 - 1, "ffffffff0f")],
)
def test_unsigned_varints(value: int, encoded: str) -> None:
    assert primitives.unsigned_varint(value).hex() == encoded
    assert primitives.read_unsigned_varint(b"\xee" + bytes.fromhex(encoded) + b"\xee", 1) == (
        value,
        1 + len(encoded) // 2,
    )


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (2**31 - 1, "feffffff0f"),
        (-(2**31), "ffffffff0f"),
    ],
)
def test_varints_are_zigzag(value: int, encoded: str) -> None:
    assert primitives.varint(value).hex() == encoded
    assert primitives.read_varint(bytes.fromhex(encoded), 0) == (value, len(encoded) // 2)
    assert primitives.varlong(value).hex() == encoded


@given(st.integers(-(2**63), 2**63 - 1))
def test_varlongs_come_back(value: int) -> None:
    encoded = primitives.varlong(value)
    assert len(encoded) <= 10
    assert primitives.read_varlong(encoded, 0) == (value, len(encoded))


@pytest.mark.parametrize("encoded", ["", "80", "ffffffff", "ffffffff10", "8080808080", "808080808000", "ffffffffff01"])
def test_varints_that_are_cut_off_or_too_long(encoded: str) -> None:
    for read in (primitives.read_unsigned_varint, primitives.read_varint):
        with pytest.raises(MalformedRequest):
            read(bytes.fromhex(encoded), 0)


@pytest.mark.parametrize("encoded", ["", "80", "ff" * 9, "ff" * 9 + "02", "80" * 10])
def test_varlongs_that_are_cut_off_or_too_long(encoded: str) -> None:
    with pytest.raises(MalformedRequest):
        primitives.read_varlong(bytes.fromhex(encoded), 0)


def test_a_negative_number_is_no_unsigned_varint() -> None:
    with pytest.raises(ValueError, match="-1"):
        primitives.unsigned_varint(-1)


@pytest.mark.parametrize(("encoded", "end"), [("00", 1), ("0100020708", 5), ("02000109050003", 6)])
def test_unknown_tagged_fields_are_skipped(encoded: str, end: int) -> None:
    assert primitives.skip_tagged_fields(bytes.fromhex(encoded), 0)[0] == end


@pytest.mark.parametrize("encoded", ["", "01", "0100", "010005aabb", "02000109", "ffffffff0f", "0100ffffffff0f"])
def test_tagged_fields_that_claim_more_than_there_is(encoded: str) -> None:
    with pytest.raises(MalformedRequest):
        primitives.skip_tagged_fields(bytes.fromhex(encoded), 0)
