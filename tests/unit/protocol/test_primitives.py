from __future__ import annotations

import pytest
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


@pytest.mark.parametrize("encoded", ["", "80", "ffffffff", "ffffffff10", "8080808080", "808080808000", "ffffffffff01"])
def test_varints_that_are_cut_off_or_too_long(encoded: str) -> None:
    with pytest.raises(MalformedRequest):
        primitives.read_unsigned_varint(bytes.fromhex(encoded), 0)


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
