"""Parts of a long request are the whole of it, in order; over a socket: tests/client/test_many_names.py."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import kafka07 as old
from tidelog.broker.produce_fetch import fetch_job, produce_job
from tidelog.broker.produce_fetch.produce_job import UNKNOWN, Topics, long_produce, slices_of
from tidelog.broker.requests.bulk_lane import BulkRequestLane
from tidelog.broker.requests.counters import RequestCounters
from tidelog.broker.runtime.cooperative import CHUNK_UNITS, MANY_ELEMENTS
from tidelog.broker.runtime.exceptions import ConnectionAborted, RequestDeferred
from tidelog.protocol.errors import ManyElements
from tidelog.protocol.messages._hot import parse_produce
from tidelog.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tidelog.protocol.schema import encode

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


async def test_what_waits_for_a_thread_is_taken_back_where_the_client_leaves_between_two_slices() -> None:
    """Else clients that give up and come again would fill the memory while a disk is slow."""
    loop = asyncio.get_running_loop()
    waiting: list[asyncio.Future[Any]] = []

    def append(*_: Any) -> asyncio.Future[Any]:
        waiting.append(loop.create_future())
        return waiting[-1]

    partition = SimpleNamespace(append=append)
    broker: Any = SimpleNamespace(
        loop=loop,
        long_changes=BulkRequestLane(loop),
        authorizer=None,
        counters=RequestCounters(),
        partitions=SimpleNamespace(fence=None, get=lambda *_: partition),
    )
    turns: list[Any] = []
    connection: Any = SimpleNamespace(client="10.0.0.1", wait_turn=turns.append, hold_back=lambda: False)
    parts = [PartitionProduceData(index=index, records=bytes(61)) for index in range(2 * CHUNK_UNITS)]
    request = ProduceRequest(acks=1, timeout_ms=1, topic_data=[TopicProduceData(name="t", partition_data=parts)])
    frame = bytearray(struct.pack(">hhih", 0, 3, 7, -1) + encode(request, 3))
    task: Any = long_produce(broker, frame, 0, len(frame), 3, 7, connection)
    for _ in range(2):  # before the first slice, and behind it
        while not turns:  # noqa: ASYNC110 - the task says it by a call
            await asyncio.sleep(0)
        if not waiting:
            turns.pop()()
    assert CHUNK_UNITS - 1 <= len(waiting) < len(parts)
    failed = waiting[0]
    failed.set_exception(OSError("disk"))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert all(future.cancelled() for future in waiting if future is not failed)


async def test_a_batch_for_a_topics_id_does_not_go_to_another_of_its_name_after_the_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = asyncio.get_running_loop()
    names = {b"1" * 16: "t", b"2" * 16: "u"}
    appended: list[str] = []

    async def refused(*_: Any) -> dict[Any, Any]:
        del names[b"1" * 16]  # the transaction is waited for; t is deleted meanwhile, and made anew
        names[b"3" * 16] = "t"
        return {}

    def get(name: str, _index: int) -> None:
        appended.append(name)

    monkeypatch.setattr(produce_job, "_refused", refused)
    broker: Any = SimpleNamespace(
        loop=loop,
        long_changes=BulkRequestLane(loop),
        authorizer=None,
        counters=RequestCounters(),
        partitions=SimpleNamespace(fence=None, get=get, name_of=names.get),
    )
    connection: Any = SimpleNamespace(client="10.0.0.1", wait_turn=lambda turn: turn(), hold_back=lambda: False)
    parts = [PartitionProduceData(index=0, records=bytes(61))]
    topics = [TopicProduceData(topic_id=topic_id, partition_data=parts) for topic_id in names]
    request = ProduceRequest(transactional_id="tx", acks=1, timeout_ms=1, topic_data=topics)
    frame = bytearray(struct.pack(">hhih", 0, 13, 7, -1) + b"\0" + encode(request, 13))
    await long_produce(broker, frame, 0, len(frame), 13, 7, connection)
    assert appended == [UNKNOWN, "u"]


@pytest.mark.parametrize(
    ("module", "begin", "copy"),
    [(produce_job, produce_job.long_produce, "bytearray"), (fetch_job, fetch_job.long_fetch, "bytes")],
    ids=["produce", "fetch"],
)
async def test_one_that_there_is_no_memory_for_leaves_its_lane_to_others(
    module: Any, begin: Callable[..., object], copy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connection ends; the requests behind it would wait for as long as the daemon runs."""

    def no_memory(_: object) -> bytes:
        raise MemoryError

    loop = asyncio.get_running_loop()
    lane = BulkRequestLane(loop)
    broker: Any = SimpleNamespace(long_changes=lane, long_requests=lane, loop=loop)
    monkeypatch.setattr(module, copy, no_memory, raising=False)
    frame = bytearray(8)
    with pytest.raises(MemoryError):
        begin(broker, frame, 0, len(frame), 3, 7, SimpleNamespace(hold_back=lambda: False))
    assert lane.try_acquire() is not None


async def test_a_second_one_waits_with_its_bytes_where_they_are() -> None:
    loop = asyncio.get_running_loop()
    requests = BulkRequestLane(loop)
    muted: list[Any] = []
    broker: Any = SimpleNamespace(long_changes=requests, loop=loop)
    connection: Any = SimpleNamespace(mute_in=lambda join: muted.append(join(lambda: None)), hold_back=lambda: False)
    frame = bytearray(b"\0\0\0\3\0\0\0\7")
    first = asyncio.ensure_future(long_produce(broker, frame, 0, len(frame), 3, 7, connection))
    with pytest.raises(RequestDeferred):
        long_produce(broker, frame, 0, len(frame), 3, 7, connection)
    assert len(muted) == len(requests) == 1
    with pytest.raises(ConnectionAborted, match="malformed PRODUCE v3"):
        await first
    await asyncio.sleep(0)
    assert len(requests) == 0, "who waited goes on"


async def test_a_large_set_of_kafka_0_7_that_reads_as_very_many_topics_is_told_as_what_it_is() -> None:
    """Its bytes where a Produce has the number of topics say some 65,536, which the request has bytes for."""
    data = old.request(old.PRODUCE, old.produce("t", 0, [old.message(b"x" * 250)] * 3000))
    told: list[str] = []
    loop = asyncio.get_running_loop()
    lane = BulkRequestLane(loop)
    broker: Any = SimpleNamespace(long_changes=lane, loop=loop)
    connection: Any = SimpleNamespace(count_kafka07=lambda: told.append("0.7"), hold_back=lambda: False)
    with pytest.raises(ManyElements):
        parse_produce(bytearray(data), 0, len(data), 1, MANY_ELEMENTS)
    with pytest.raises(ConnectionAborted, match=r"PRODUCE of topic 't' as clients of Kafka 0\.7 send it"):
        await long_produce(broker, bytearray(data), 0, len(data), 1, 7, connection)
    assert told == ["0.7"]
