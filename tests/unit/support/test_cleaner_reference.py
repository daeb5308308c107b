"""The twin by itself, byte by byte: what the kernel is held against must not be wrong in the kernel's way."""

from __future__ import annotations

from types import ModuleType

import pytest
from support import cleaner_reference as reference
from support.cleaner_reference import OffsetMap, RecordFilter, Transactions
from tidelog.cleaner.kernel import _kernel
from tidelog.protocol.records.crc import crc32c

NOW, DAY = 1000, 500


def batch(tail: bytes, *, base: int, delta: int, attributes: int, times: tuple[int, int], count: int) -> bytes:
    """A batch of format 2 written out field by field."""
    counted = (
        attributes.to_bytes(2, "big")
        + delta.to_bytes(4, "big")
        + times[0].to_bytes(8, "big", signed=True)
        + times[1].to_bytes(8, "big", signed=True)
        + b"\xff" * 8  # producer id
        + b"\xff" * 2  # epoch
        + b"\xff" * 4  # sequence
        + count.to_bytes(4, "big")
        + tail
    )
    head = base.to_bytes(8, "big") + (len(counted) + 9).to_bytes(4, "big") + bytes(4) + b"\x02"
    return head + crc32c(counted).to_bytes(4, "big") + counted


#       length attr time delta offset delta key len key  value len value headers
FIRST = b"\x10\x00" b"\x00" b"\x00" b"\x02" b"a" b"\x02" b"1" b"\x00"  # fmt: skip
SECOND = b"\x0e\x00" b"\x02" b"\x02" b"\x02" b"b" b"\x01" b"\x00"  # fmt: skip
THIRD = b"\x10\x00" b"\x04" b"\x04" b"\x02" b"a" b"\x02" b"2" b"\x00"  # fmt: skip


def test_one_batch_loses_a_record_and_gets_a_horizon() -> None:
    """Three records a, b (a tombstone), a at 10, 11, 12 and times 3, 4, 5; horizon 1500: deltas 4 − 1500, 5 − 1500."""
    data = batch(FIRST + SECOND + THIRD, base=10, delta=2, attributes=0, times=(3, 5), count=3)
    map_ = OffsetMap(240)
    map_.reset(bytes(16))
    map_.build(data, 0, len(data), 0, 13, Transactions())
    record_filter = RecordFilter(map_, 13, Transactions(), NOW, DAY)
    out = bytearray(200)
    step = record_filter.filter(data, 0, len(data), out)
    second = b"\x10\x00" + zigzag(4 - 1500) + SECOND[3:]
    third = b"\x12\x00" + zigzag(5 - 1500) + THIRD[3:]
    expected = batch(second + third, base=10, delta=2, attributes=0x40, times=(1500, 5), count=2)
    assert bytes(out[: step.produced]) == expected
    assert record_filter.counts().superseded == 1
    assert record_filter.counts().earliest_horizon == 1500


@pytest.mark.parametrize("module", [_kernel, reference], ids=["kernel", "twin"])
@pytest.mark.parametrize("has_tombstone", [False, True])
def test_what_stays_of_a_batch_keeps_its_bytes_but_for_times(module: ModuleType, has_tombstone: bool) -> None:
    """Attributes that nobody has defined, and numbers longer than need be: the twin wrote both anew (found by fuzzing)."""
    second = b"\x12\x09\x02\x82\x00\x02b\x01\x80\x00" if has_tombstone else b"\x14\x09\x02\x82\x00\x02b\x02v\x80\x00"
    data = batch(FIRST + second + THIRD, base=10, delta=2, attributes=0, times=(3, 5), count=3)
    map_ = module.OffsetMap(240)
    map_.reset(bytes(16))
    map_.build(data, 0, len(data), 0, 13, module.Transactions())
    record_filter = module.RecordFilter(map_, 13, module.Transactions(), NOW, DAY)
    out = bytearray(200)
    step = record_filter.filter(data, 0, len(data), out)
    if has_tombstone:
        left = b"\x14\x09" + zigzag(4 - 1500) + second[3:] + b"\x12\x00" + zigzag(5 - 1500) + THIRD[3:]
        expected = batch(left, base=10, delta=2, attributes=0x40, times=(1500, 5), count=2)
    else:
        expected = batch(second + THIRD, base=10, delta=2, attributes=0, times=(3, 5), count=2)
    assert bytes(out[: step.produced]) == expected


@pytest.mark.parametrize("module", [_kernel, reference], ids=["kernel", "twin"])
@pytest.mark.parametrize("others", [[], [5]])
def test_a_horizon_before_1970_is_past_and_not_none(module: ModuleType, others: list[int]) -> None:
    """The kernel took a later one instead, so that nothing was due; what was noted could not be read again (found by fuzzing)."""
    horizons = [-4_021_268_400, *others]
    data = b"".join(
        batch(FIRST, base=10 + index, delta=0, attributes=0x40, times=(horizon, 5), count=1)
        for index, horizon in enumerate(horizons)
    )
    map_ = module.OffsetMap(240)
    map_.reset(bytes(16))
    record_filter = module.RecordFilter(map_, 0, module.Transactions(), NOW, DAY)
    assert record_filter.filter(data, 0, len(data), bytearray(400)).produced == len(data)
    assert record_filter.counts().earliest_horizon == 0


def zigzag(value: int) -> bytes:
    raw = value << 1 ^ value >> 63
    assert 1 << 7 <= raw < 1 << 14
    return bytes([raw & 0x7F | 0x80, raw >> 7])
