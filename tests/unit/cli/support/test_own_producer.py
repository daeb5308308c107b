"""Where a record of the input went to, and columns for the kernel. On the wire: tests/client/test_records.py."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tidelog.cli.support.own_producer import Origins, _binary, _headers, _times
from tidelog.protocol.records._batches import BatchBuilder
from tidelog.protocol.records.memory_records import iterate_records

Texts = st.lists(st.none() | st.binary(max_size=4), max_size=20)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 5), st.integers(0, 30)), max_size=30))
def test_origins_are_those_of_a_list(steps: list[tuple[int, int, int]]) -> None:
    origins, model, following, dropped = Origins(), list[int](), 1, 0
    for gap, count, drop in steps:
        following += gap
        origins.add(following, count)
        model += range(following, following + count)
        following += count
        dropped = min(max(dropped, drop), len(model))
        origins.drop(dropped)
        for ordinal in range(dropped, len(model)):
            assert origins.index(ordinal) == model[ordinal]
    with pytest.raises(LookupError):
        origins.index(len(model))


def test_origins_of_what_is_acknowledged_take_no_memory() -> None:
    origins = Origins()
    for number in range(1000):
        origins.add(3 * number)
        origins.drop(number - 4)
    assert len(origins) <= 6
    origins = Origins()
    for number in range(1000):
        origins.add(number)
    assert len(origins) == 1, "records in a row are one entry"


@given(st.data())
def test_columns_come_out_as_the_records_that_went_in(data: st.DataObject) -> None:
    values = data.draw(Texts)
    keys = data.draw(st.lists(st.none() | st.binary(max_size=4), min_size=len(values), max_size=len(values)))
    header = st.tuples(st.binary(max_size=3), st.none() | st.binary(max_size=3))
    headers = data.draw(st.lists(st.lists(header, max_size=3), min_size=len(values), max_size=len(values)))
    times = data.draw(st.lists(st.none() | st.integers(0, 1 << 40), min_size=len(values), max_size=len(values)))
    builder = BatchBuilder(1, lambda: 0)
    builder.add(
        len(values), _binary(values), keys=_binary(keys), headers=_headers(headers), timestamps=_times(times),
        partitions=(None, array("i", [0] * len(values)), 0), now=77,
    )  # fmt: skip
    found = [record for _, _, batch in builder.take(everything=True) for record in iterate_records(batch)]
    expected = [
        (value, key, tuple(own), 77 if time is None else time)
        for value, key, own, time in zip(values, keys, headers, times, strict=True)
    ]
    assert [(r.value, r.key, tuple(r.headers), r.timestamp) for r in found] == expected
