from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.logs import World, append, batch
from support.mock_time import MockTimer
from support.topic_world import topic_world
from tidelog.broker.apis.fetch import fetch
from tidelog.broker.network.outbound import FileSlice
from tidelog.broker.partitions.conversion_thread import LoopBudget
from tidelog.broker.partitions.fetch_session import FetchSessions
from tidelog.broker.partitions.purgatory import FetchPurgatory
from tidelog.broker.quotas.quota import CLIENT_ID, CONSUMER_BYTE_RATE
from tidelog.broker.requests.counters import RequestCounters
from tidelog.broker.requests.dispatcher import Dispatcher
from tidelog.broker.requests.registry import load_apis
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.headers import RequestHeader, request_header_bytes, response_header_bytes
from tidelog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic
from tidelog.protocol.records.record_batch import iterate_batches
from tidelog.protocol.schema import decode, encode

VERSION = 11
SIZE = len(batch("a", "b"))


class FetchWorld:
    """Topics `t` (five batches of two records) and `u` (empty), and fetches of them."""

    def __init__(self, world: Any, machine: World) -> None:
        self.world = world
        self.machine = machine
        world.fetch_sessions = FetchSessions(10, machine.time, random.Random(1))
        world.purgatory = FetchPurgatory(world.loop, MockTimer(machine.time))
        world.counters = RequestCounters()
        world.fetch_max_bytes = 50 << 20

    @staticmethod
    def frame(version: int = VERSION, **fields: Any) -> bytearray:
        request = FetchRequest(**{"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, **fields})
        return bytearray(request_header_bytes(RequestHeader(1, version, 7, "c")) + encode(request, version))

    def ask(self, version: int = VERSION, **fields: Any) -> Any:
        frame = self.frame(version, **fields)
        return fetch(self.world, frame, 0, len(frame), version, 7, None)  # type: ignore[arg-type]

    def answer(self, version: int = VERSION, **fields: Any) -> FetchResponse:
        return self.read(self.ask(version, **fields), version)

    @staticmethod
    def read(parts: list[Any], version: int = VERSION) -> FetchResponse:
        """What a client receives; gives the leases back."""
        data = b""
        for part in parts:
            if isinstance(part, FileSlice):
                data += part.file.pread(part.count, part.position)
                part.release()
            else:
                data += part
        assert int.from_bytes(data[:4], "big") == len(data) - 4
        return decode(FetchResponse, version, data, 4 + len(response_header_bytes(1, version, 7)))[0]


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[FetchWorld]:
    @asynccontextmanager
    async def make() -> AsyncIterator[FetchWorld]:
        machine = World()
        async with topic_world(tmp_path, machine.start()) as topics:
            await topics.topics.create("t", 1, {})
            await topics.topics.create("u", 1, {})
            for _ in range(5):
                append(machine.log(), "a", "b")
            yield FetchWorld(topics, machine)
        machine.stop()

    async with make() as made:
        yield made


def of(topic: str, offset: int, max_bytes: int = 1 << 20, *, partition: int = 0, epoch: int = -1) -> FetchTopic:
    part = FetchPartition(
        partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes, current_leader_epoch=epoch
    )
    return FetchTopic(topic=topic, partitions=[part])


def only(response: FetchResponse) -> Any:
    assert response.error_code == ErrorCode.NONE
    ((row,),) = [topic.partitions for topic in response.responses]
    return row


@pytest.mark.parametrize("version", range(4, 19))
async def test_the_rest_of_the_log_from_the_batch_that_has_the_offset(world: FetchWorld, version: int) -> None:
    topic = of("t", 3)
    if version >= 13:
        topic.topic_id = world.world.topics.get("t").topic_id.bytes
    row = only(world.answer(version, topics=[topic]))
    assert [(b.base_offset, b.last_offset) for b in iterate_batches(row.records)] == [(2, 3), (4, 5), (6, 7), (8, 9)]
    assert (row.error_code, row.high_watermark) == (ErrorCode.NONE, 10)
    assert row.log_start_offset == (0 if version >= 5 else -1)
    assert world.world.counters.fetched_bytes == 4 * SIZE


@pytest.mark.parametrize(("max_bytes", "got"), [(1, SIZE), (SIZE, SIZE), (SIZE + 1, SIZE + 1), (3 * SIZE, 3 * SIZE)])
async def test_limits_cut_anywhere_but_the_first_batch_comes_whole(world: FetchWorld, max_bytes: int, got: int) -> None:
    assert len(only(world.answer(topics=[of("t", 0, max_bytes)])).records) == got
    assert len(only(world.answer(topics=[of("t", 0)], max_bytes=max_bytes)).records) == got
    # The second partition gets no batch above what is left.
    rows = world.answer(topics=[of("t", 0, 1), of("t", 0, 1)], max_bytes=SIZE).responses
    assert sum(len(row.records or b"") for topic in rows for row in topic.partitions) == SIZE


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (of("none", 0), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (of("t", 0, partition=7), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (of("t", 11), ErrorCode.OFFSET_OUT_OF_RANGE),
        (of("t", -1), ErrorCode.OFFSET_OUT_OF_RANGE),
        (of("t", 0, epoch=5), ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
async def test_an_error_does_not_wait_and_is_its_partitions_own(
    world: FetchWorld, topic: FetchTopic, code: ErrorCode
) -> None:
    row = only(world.answer(topics=[topic], max_wait_ms=60_000))
    assert (row.error_code, row.high_watermark) == (code, -1)
    assert not row.records
    both = world.answer(topics=[topic, of("u", 0)], max_wait_ms=60_000)
    assert [p.error_code for t in both.responses for p in t.partitions] == [code, ErrorCode.NONE]


async def test_an_id_that_nobody_has(world: FetchWorld) -> None:
    topic = of("t", 0)
    topic.topic_id = bytes(15) + b"\1"
    assert only(world.answer(13, topics=[topic])).error_code == ErrorCode.UNKNOWN_TOPIC_ID


async def test_too_little_waits_for_more_or_for_the_time(world: FetchWorld) -> None:
    waiting = world.ask(topics=[of("u", 0)], max_wait_ms=500, min_bytes=SIZE + 1)
    assert world.world.purgatory.waiting == 1
    for _ in range(2):
        assert not waiting.done()
        data = batch("a", "b")
        world.world.partitions.get("u", 0).append(data, 0, len(data), LoopBudget("", 0))
    assert len(only(world.read(await waiting)).records) == 2 * SIZE
    waiting = world.ask(topics=[of("u", 4)], max_wait_ms=500)
    world.machine.time.advance(499)
    assert not waiting.done()
    world.machine.time.advance(1)
    assert not only(world.read(await waiting)).records
    await asyncio.sleep(0)  # done futures tell it in the next turn
    assert world.world.purgatory.waiting == 0


async def test_who_is_behind_does_not_wait_for_what_cannot_come_into_the_answer(world: FetchWorld) -> None:
    """An answer ends with its segment. At the end of the last one is the only place where waiting makes it longer."""
    log = world.machine.log()
    log.roll()
    append(log, "c")
    least = {"max_wait_ms": 60_000, "min_bytes": 1 << 19}
    assert len(only(world.answer(topics=[of("t", 0)], **least)).records) == 5 * SIZE
    assert len(only(world.answer(topics=[of("t", 8)], **least)).records) == SIZE
    both = world.answer(topics=[of("u", 0), of("t", 8)], **least).responses
    assert [len(topic.partitions[0].records or b"") for topic in both] == [0, SIZE]
    waiting = world.ask(topics=[of("t", 11)], max_wait_ms=60_000)
    assert not waiting.done()
    log.roll()  # which brings nothing: what it waits for may come there
    world.world.partitions.get("t", 0).wake()
    await asyncio.sleep(0)
    assert not waiting.done()
    data = batch("d")
    world.world.partitions.get("t", 0).append(data, 0, len(data), LoopBudget("", 0))
    assert [b.base_offset for b in iterate_batches(only(world.read(await waiting)).records)] == [11]


async def test_committed_data_up_to_an_older_segment_is_waited_for(world: FetchWorld) -> None:
    """What is behind the last stable offset is not there for its reader: he is at his end."""
    log = world.machine.log()
    append(log, "open", producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
    log.roll()
    append(log, "e")
    log.load_aborted()
    waiting = world.ask(topics=[of("t", 8)], max_wait_ms=60_000, min_bytes=1 << 19, isolation_level=1)
    assert not waiting.done()
    waiting.cancel()
    assert world.answer(topics=[of("t", 8)], max_wait_ms=60_000, min_bytes=1 << 19).responses, "the other is behind"


@pytest.mark.parametrize("by_broker", [False, True])
async def test_no_more_is_waited_for_than_an_answer_may_hold(world: FetchWorld, by_broker: bool) -> None:
    most = 3 * SIZE
    world.world.fetch_max_bytes = most if by_broker else 50 << 20
    row = only(
        world.answer(
            topics=[of("t", 0)], max_wait_ms=60_000, min_bytes=most + 1, max_bytes=1 << 20 if by_broker else most
        )
    )
    assert len(row.records) == most


async def test_a_session_tells_only_news(world: FetchWorld) -> None:
    first = world.answer(topics=[of("t", 0), of("u", 0)], session_epoch=0)
    session = first.session_id
    assert session
    assert [topic.topic for topic in first.responses] == ["t", "u"]
    # Nothing is named again but what changes.
    second = world.answer(session_id=session, session_epoch=1, topics=[of("t", 10)])
    assert second.responses == []
    append(world.machine.log("u"), "x")
    assert [topic.topic for topic in world.answer(session_id=session, session_epoch=2).responses] == ["u"]
    forgotten = [ForgottenTopic(topic="u", partitions=[0])]
    assert world.answer(session_id=session, session_epoch=3, forgotten_topics_data=forgotten).responses == []
    wrong = world.answer(session_id=session, session_epoch=9)
    assert wrong.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert world.answer(session_id=session + 1, session_epoch=1).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.parametrize("way", ["cold", "metered"])
async def test_a_client_that_goes_in_the_moment_in_which_its_answer_comes_keeps_no_file_open(
    world: FetchWorld, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deleted segment that somebody holds would take its room on the disk for as long as the daemon runs."""
    partition = world.world.partitions.get("u", 0)
    if way == "cold":
        monkeypatch.setattr(type(partition), "is_warm", lambda _self, _offset: False)
        task = asyncio.ensure_future(world.ask(topics=[of("u", 0)], max_wait_ms=500))
    else:
        await world.world.quotas.alter([(CLIENT_ID, "c")], {CONSUMER_BYTE_RATE: 1e9}, False)
        frame = world.frame(topics=[of("u", 0)], max_wait_ms=500)
        connection: Any = SimpleNamespace(user="ANONYMOUS", last_active=0, client="c")
        dispatcher = Dispatcher(world.world, load_apis())
        task = asyncio.ensure_future(dispatcher.dispatch(frame, 0, len(frame), connection))  # type: ignore[arg-type]
    while not world.world.purgatory.waiting:  # noqa: ASYNC110 - the fetch says it by this alone
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    data = batch("a", "b")
    partition.append(data, 0, len(data), LoopBudget("", 0))
    own = partition.log.read(0, SIZE)
    held = own.file.leases
    asyncio.get_running_loop().call_soon(task.cancel)  # behind the look that makes the answer
    with pytest.raises(asyncio.CancelledError):
        await task
    assert own.file.leases == held
    own.release()


async def test_what_may_be_cold_is_found_by_the_pool_first(world: FetchWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    partition = world.world.partitions.get("t", 0)
    warmed: list[int] = []
    monkeypatch.setattr(type(partition), "is_warm", lambda _self, offset: offset in warmed)
    monkeypatch.setattr(type(partition), "warm", lambda _self, offset: warmed.append(offset))
    row = only(world.read(await world.ask(topics=[of("t", 4)])))
    assert warmed == [4]
    assert len(row.records) == 3 * SIZE


async def test_what_waits_with_a_large_session_counts_until_it_is_answered(
    world: FetchWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidelog.broker.apis.fetch.CHUNK_UNITS", 2)
    await world.world.topics.create("many", 3, {})
    connection: Any = SimpleNamespace(wait_turn=lambda go_on: go_on())

    async def ask(session_id: int, epoch: int, **fields: Any) -> FetchResponse:
        frame = world.frame(session_id=session_id, session_epoch=epoch, **fields)
        return world.read(await fetch(world.world, frame, 0, len(frame), VERSION, 7, connection))  # type: ignore[misc]

    parts = [FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=100) for number in range(3)]
    mine = (await ask(0, 0, topics=[FetchTopic(topic="many", partitions=parts)])).session_id
    sessions = world.world.fetch_sessions
    assert sessions.partition_count == 3
    waiting = [asyncio.ensure_future(ask(mine, epoch, max_wait_ms=1000)) for epoch in (1, 2, 3)]
    while world.world.purgatory.waiting < len(waiting):  # noqa: ASYNC110 - a few turns of the loop
        await asyncio.sleep(0)
    assert sessions.partition_count == 3 * 3
    waiting.pop().cancel()
    await asyncio.sleep(0)
    world.world.purgatory.expire_all()
    assert [answer.responses for answer in await asyncio.gather(*waiting)] == [[], []]
    assert sessions.partition_count == 3
