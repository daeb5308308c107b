"""The table of keys against a dict; and what it does with columns that are none."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tidelog.pipeline.reading._key_table import KeyTable
from tidelog.protocol.records._batches import first_elsewhere, murmur2

KEYS = st.none() | st.binary(max_size=12) | st.integers(0, 5).map(lambda number: b"key %d" % number)


def column(keys: list[bytes | None]) -> Any:
    bits = bytearray(-(-len(keys) // 8))
    positions, data = [0], b""
    for row, key in enumerate(keys):
        if key is not None:
            bits[row // 8] |= 1 << row % 8
            data += key
        positions.append(len(data))
    return keys.count(None), bytes(bits), struct.pack(f"<{len(positions)}i", *positions), data


def replace(table: KeyTable, keys: list[bytes | None], values: list[int]) -> list[int]:
    previous = bytearray(8 * len(keys))
    table.replace(len(keys), column(keys), struct.pack(f"<{len(values)}q", *values), previous)
    return list(struct.unpack(f"<{len(keys)}q", previous))


@given(st.lists(st.lists(st.tuples(KEYS, st.integers(0, 2**62)), max_size=100), max_size=5))
def test_it_is_a_dict(columns: list[list[tuple[bytes | None, int]]]) -> None:
    table, model = KeyTable(bytes(range(16))), dict[bytes, int]()
    for rows in columns:
        expected = []
        for key, value in rows:
            expected.append(-1 if key is None else model.get(key, -1))
            if key is not None:
                model[key] = value
        assert replace(table, [key for key, _ in rows], [value for _, value in rows]) == expected
    assert table.keys == len(model)


def test_it_grows_with_its_keys_and_no_further() -> None:
    table = KeyTable(bytes(16))
    keys: list[bytes | None] = [b"%d" % number for number in range(10_000)]
    assert set(replace(table, keys, list(range(10_000)))) == {-1}
    assert replace(table, keys, [5] * 10_000) == list(range(10_000))
    assert table.keys == 10_000
    assert table.memory == 24 * 32_768


def test_columns_that_are_none_are_refused() -> None:
    table = KeyTable(bytes(16))
    good = column([b"a", b"b"])
    with pytest.raises(ValueError, match="negative"):
        table.replace(2, good, struct.pack("<2q", 1, -1), bytearray(16))
    with pytest.raises(ValueError, match="too small"):
        table.replace(3, good, bytes(24), bytearray(24))
    for positions in ((0, 9, 9), (-1, 0, 1), (1, 0, 1)):
        with pytest.raises(ValueError, match="outside"):
            table.replace(2, (0, b"\3", struct.pack("<3i", *positions), b"ab"), bytes(16), bytearray(16))
    with pytest.raises(BufferError):
        table.replace(2, good, bytes(16), bytes(16))
    with pytest.raises(ValueError, match="16 bytes"):
        KeyTable(b"short")


@given(st.lists(KEYS, max_size=20), st.integers(1, 7), st.data())
def test_keys_that_are_elsewhere_are_found(keys: list[bytes | None], partitions: int, data: st.DataObject) -> None:
    partition = data.draw(st.integers(0, partitions - 1))
    elsewhere = [
        row for row, key in enumerate(keys) if key is not None and (murmur2(key) & 0x7FFFFFFF) % partitions != partition
    ]
    assert first_elsewhere(len(keys), column(keys), partition, partitions) == min(elsewhere, default=-1)


@given(st.lists(KEYS, max_size=40), st.integers(1, 100))
def test_a_keys_bucket_is_its_own(keys: list[bytes | None], count: int) -> None:
    table = KeyTable(bytes(range(16)))
    found = bytearray(8 * len(keys))
    table.buckets(len(keys), column(keys), count, found)
    buckets = struct.unpack(f"<{len(keys)}q", found)
    assert all(
        (bucket == -1) if key is None else 0 <= bucket < count for key, bucket in zip(keys, buckets, strict=True)
    )
    assert len(set(zip(keys, buckets, strict=True))) == len(set(keys)), "a key has one bucket, wherever it stands"
    assert table.keys == 0, "nothing is said of them"


def test_keys_go_to_all_buckets_and_what_is_no_column_is_refused() -> None:
    table, keys = KeyTable(bytes(16)), [b"key %d" % number for number in range(2000)]
    found = bytearray(8 * len(keys))
    table.buckets(len(keys), column(keys), 64, found)
    assert len(set(struct.unpack(f"<{len(keys)}q", found))) == 64
    with pytest.raises(ValueError, match="there are no buckets"):
        table.buckets(len(keys), column(keys), 0, found)
    with pytest.raises(ValueError, match="too small"):
        table.buckets(len(keys), column(keys), 64, found[:-1])
    nulls, validity, positions, data = column(keys)
    with pytest.raises(ValueError, match="outside of the keys' bytes"):
        table.buckets(len(keys), (nulls, validity, positions, data[:-1]), 64, found)
