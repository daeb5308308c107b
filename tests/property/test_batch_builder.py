"""Batches that the kernel builds from columns are those that plain Python builds from the rows, byte for byte."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st
from support.batches import PlainBuilder, Row, columns_of
from tidelog.protocol.records._batches import BatchBuilder

NOW = 1_700_000_000_000
SHORT = st.one_of(st.none(), st.binary(max_size=80))
HEADERS = st.one_of(st.none(), st.lists(st.tuples(st.binary(max_size=9), SHORT), max_size=3).map(tuple))
TIMES = st.one_of(st.none(), st.integers(-(2**50), 2**53), st.integers(NOW * 1000, NOW * 1000 + 10**7))
PARTITIONS = 3
ROWS = st.lists(
    st.builds(Row, SHORT, SHORT, HEADERS, TIMES, st.one_of(st.none(), st.integers(0, PARTITIONS - 1))), max_size=30
)


@given(
    st.lists(st.tuples(ROWS, st.integers(0, 9)), max_size=4), st.sampled_from([1, 200, 1000, 10_000]), st.integers(0, 4),
    st.booleans(),
)  # fmt: skip
def test_batches_are_those_of_plain_python(
    groups: list[tuple[list[Row], int]], batch_bytes: int, codec: int, idempotent: bool
) -> None:
    stamp = {"producer_id": 77, "epoch": 5, "transactional": True} if idempotent else {}
    fast = BatchBuilder(PARTITIONS, itertools.cycle([2, 0, 1]).__next__, batch_bytes=batch_bytes, codec=codec, **stamp)
    plain = PlainBuilder(PARTITIONS, itertools.cycle([2, 0, 1]).__next__, batch_bytes=batch_bytes, codec=codec, **stamp)
    for rows, shift in groups:
        fast.add(len(rows), **columns_of(rows, shift), now=NOW)
        plain.add(rows, NOW)
    found = [(partition, count, bytes(data)) for partition, count, data in fast.take(True)]
    assert found == plain.take()
    assert fast.open_bytes == 0
    assert fast.take(True) == []
