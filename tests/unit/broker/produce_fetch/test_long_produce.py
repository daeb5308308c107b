"""Parts of a long request are the whole of it, in order; over a socket: tests/client/test_many_names.py."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tidelog.broker.produce_fetch.long_produce import Topics, long_produce, slices_of
from tidelog.broker.requests.bulk_lane import BulkRequestLane
from tidelog.broker.runtime.cooperative import CHUNK_UNITS
from tidelog.broker.runtime.exceptions import ConnectionAborted, RequestDeferred

SIZES = st.one_of(st.integers(0, 3), st.sampled_from([CHUNK_UNITS - 2, CHUNK_UNITS - 1, CHUNK_UNITS, 3 * CHUNK_UNITS]))


@given(st.lists(st.one_of(SIZES, st.integers(0, 2 * CHUNK_UNITS)), max_size=6))
def test_slices_together_are_the_request(sizes: list[int]) -> None:
    topics: Topics = [(f"t{number}", [(index, 0, 0) for index in range(size)]) for number, size in enumerate(sizes)]
    together: Topics = []
    for some, goes_on in slices_of(topics):
        assert 0 < len(some) + sum(len(partitions) for _, partitions in some) <= CHUNK_UNITS + 1
        for position, (name, partitions) in enumerate(some):
            if goes_on and position == 0:
                assert together[-1][0] == name
                together[-1][1].extend(partitions)
            else:
                together.append((name, list(partitions)))
    assert together == topics


async def test_a_second_one_waits_with_its_bytes_where_they_are() -> None:
    loop = asyncio.get_running_loop()
    requests = BulkRequestLane(loop)
    muted: list[Any] = []
    broker: Any = SimpleNamespace(long_changes=requests, loop=loop)
    connection: Any = SimpleNamespace(mute_in=lambda join: muted.append(join(lambda: None)))
    frame = bytearray(b"\0\0\0\3\0\0\0\7")
    first = asyncio.ensure_future(long_produce(broker, frame, 0, len(frame), 3, 7, connection))
    with pytest.raises(RequestDeferred):
        long_produce(broker, frame, 0, len(frame), 3, 7, connection)
    assert len(muted) == len(requests) == 1
    with pytest.raises(ConnectionAborted, match="malformed PRODUCE v3"):
        await first
    await asyncio.sleep(0)
    assert len(requests) == 0, "who waited goes on"
