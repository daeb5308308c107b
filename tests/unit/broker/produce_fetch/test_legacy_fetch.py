"""Fetch versions 0 to 3: what the log has newer is turned down, what is old enough goes as it stands."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

import pytest
from support.fake_logs import InlineExecutor
from support.logs import World, append, batch
from support.mock_time import START_MS, MockTimer
from support.patience import PATIENCE_S
from tidelog.broker.apis.fetch import fetch
from tidelog.broker.network.outbound import FileSlice, SendCounters
from tidelog.broker.partitions.append_offload import AppendOffload
from tidelog.broker.partitions.conversion_thread import ANSWERS, Conversions, LoopBudget
from tidelog.broker.partitions.fetch_session import FetchSessions
from tidelog.broker.partitions.partition import Partition
from tidelog.broker.partitions.purgatory import FetchPurgatory
from tidelog.broker.produce_fetch import legacy_fetch as old_fetch
from tidelog.broker.requests.counters import RequestCounters
from tidelog.config.log_config import LogConfig
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.headers import RequestHeader, request_header_bytes
from tidelog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tidelog.protocol.records.attributes import Compression
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.legacy_record import build_legacy_set
from tidelog.protocol.records.memory_records import iterate_batches, iterate_records
from tidelog.protocol.records.record_batch import Record
from tidelog.protocol.schema import decode, encode
from tidelog.storage.log.unified_log import UnifiedLog
from tidelog.storage.values import AppendOrigin

VERSIONS = range(4)
VALUE = bytes(100)


class Syncer:
    """Nobody here waits for a sync."""

    def submit(self, *_: Any) -> None:
        raise AssertionError


class Rig:
    """Topics `t` and `u`, empty, and fetches of them."""

    def __init__(self, machine: World) -> None:
        loop = asyncio.get_running_loop()
        self.machine = machine
        self.log, other = machine.log("t"), machine.log("u")
        self.partitions = {
            log.topic: Partition(log, loop, Syncer(), AppendOffload(log.log_directory.pace, Syncer(), loop), None)  # type: ignore[arg-type]
            for log in (self.log, other)
        }
        self.sent = SendCounters()
        self.world: Any = SimpleNamespace(
            loop=loop,
            io_pool=InlineExecutor(),
            time=machine.time,
            partitions=SimpleNamespace(get=lambda topic, _: self.partitions.get(topic), name_of=lambda _: None),
            fetch_sessions=FetchSessions(10, machine.time, random.Random(1)),
            purgatory=FetchPurgatory(loop, MockTimer(machine.time)),
            counters=RequestCounters(),
            authorizer=None,
            fetch_max_bytes=50 << 20,
            conversions=Conversions(loop),
            quotas=SimpleNamespace(active=False),
            socket_server=SimpleNamespace(send_counters=self.sent),
        )

    def leases(self) -> int:
        """On the logs' files, but for their own."""
        total = 0
        for log in (self.log, self.machine.log("u")):
            file: Any = log.segments[0].lease_file()
            total += file.leases - 2
            file.release()
        return total

    def ask(self, version: int, *topics: FetchTopic, **fields: Any) -> asyncio.Task[Any]:
        request = FetchRequest(**{"max_wait_ms": 0, "min_bytes": 1, "topics": topics, **fields})
        frame = bytearray(request_header_bytes(RequestHeader(1, version, 7, "c")) + encode(request, version))
        awaited = fetch(self.world, frame, 0, len(frame), version, 7, SimpleNamespace(client=""))  # type: ignore[arg-type]
        return asyncio.ensure_future(awaited)  # type: ignore[arg-type]

    async def answer(self, version: int, *topics: FetchTopic, **fields: Any) -> list[Any]:
        """The rows, by (error, records)."""
        data = b""
        for part in await self.ask(version, *topics, **fields):
            if isinstance(part, FileSlice):
                data += part.file.pread(part.count, part.position)
                part.release()
            else:
                data += part
        assert int.from_bytes(data[:4], "big") == len(data) - 4
        response, end = decode(FetchResponse, version, data, 8)
        assert end == len(data)
        return [(row.error_code, bytes(row.records or b"")) for topic in response.responses for row in topic.partitions]


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    machine = World()
    machine.start()
    made = Rig(machine)
    before = made.leases()
    yield made
    assert made.leases() == before, "a file was not given back"
    made.world.conversions.close()
    machine.stop()


def of(topic: str, offset: int, max_bytes: int = 1 << 20) -> FetchTopic:
    return FetchTopic(
        topic=topic, partitions=[FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)]
    )


def write(log: UnifiedLog, count: int, codec: Compression = Compression.NONE) -> None:
    """`count` records of 100 random bytes as one batch."""
    start = log.log_end_offset
    values = [random.Random(start + n).randbytes(100) for n in range(count)]
    data = bytearray(build_batch([Record(0, START_MS, None, value) for value in values], compression=codec))
    log.append_as_leader(data, 0, len(data))


def write_marker(log: UnifiedLog) -> None:
    marker = build_batch([Record(0, START_MS, b"\0\0\0\1", b"\0\0\0\0\0\0")], is_control=True, is_transactional=True,
                         producer_id=1, producer_epoch=0)  # fmt: skip
    data = bytearray(marker)
    log.append_as_leader(data, 0, len(data), origin=AppendOrigin.COORDINATOR)


def offsets(data: bytes) -> list[int]:
    return [record.offset for header in iterate_batches(data) for record in iterate_records(data, header.position)]


def magics(data: bytes) -> set[int]:
    return {header.magic for header in iterate_batches(data)}


@pytest.mark.parametrize("codec", list(Compression)[:4])
@pytest.mark.parametrize("version", VERSIONS)
async def test_records_come_in_the_versions_format(rig: Rig, version: int, codec: Compression) -> None:
    for _ in range(3):
        write(rig.log, 4, codec)
    ((error, data),) = await rig.answer(version, of("t", 5))
    assert (error, magics(data)) == (ErrorCode.NONE, {version // 2})
    # Within a wrapper the client passes over what it has.
    assert offsets(data) == list(range(5 if codec is Compression.NONE else 4, 12))
    assert rig.sent.copy_fetch_bytes == rig.world.counters.fetched_bytes == len(data)


@pytest.mark.parametrize(("version", "magic", "copied"), [(1, 0, False), (1, 1, True), (2, 0, False), (2, 1, False)])
async def test_what_is_old_enough_goes_by_sendfile(rig: Rig, version: int, magic: int, copied: bool) -> None:
    rig.log.update_config(LogConfig(message_format_version=("0.9.0", "0.10.2")[magic], segment_index_bytes=4096))
    data = build_legacy_set([Record(0, START_MS, None, b"a"), Record(0, START_MS, None, b"b")], magic=magic)
    rig.log.append_message_set(data, 0, len(data))
    parts = await rig.ask(version, of("t", 1))
    slices = [part for part in parts if isinstance(part, FileSlice)]
    assert len(slices) == (0 if copied else 1)
    for part in slices:
        part.release()
    assert bool(rig.sent.copy_fetch_bytes) is copied


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_limit_is_hard_before_version_3(rig: Rig, version: int) -> None:
    write(rig.log, 10)
    for limit in (0, 5, 30, 120, 500):
        ((_, data),) = await rig.answer(version, of("t", 2, limit))
        if version < 3:
            assert len(data) == limit
        else:
            assert len(data) == max(limit, len(VALUE) + 34)
            assert offsets(data)[0] == 2
    # Nobody is held up by a batch that is larger than what he asks for.
    read: list[int] = []
    while len(read) < 10:
        ((_, data),) = await rig.answer(version, of("t", len(read), 300))
        read += offsets(data)
    assert read == list(range(10))


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.LZ4])
@pytest.mark.parametrize("version", VERSIONS)
async def test_a_wrapper_that_is_too_large_comes_unpacked(rig: Rig, version: int, codec: Compression) -> None:
    write(rig.log, 10, codec)
    ((_, data),) = await rig.answer(version, of("t", 3, 300))
    assert offsets(data) == [3, 4]


@pytest.mark.parametrize("version", VERSIONS)
async def test_every_partition_has_its_turn(rig: Rig, version: int) -> None:
    write(rig.log, 10)
    write(rig.machine.log("u"), 10)
    rows = await rig.answer(version, of("t", 0, 300), of("u", 0, 300), of("none", 0))
    assert [offsets(data) for _, data in rows] == [[0, 1], [0, 1], []]
    assert [error for error, _ in rows] == [0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    rig.world.fetch_max_bytes = 400
    rows = await rig.answer(version, of("t", 0, 300), of("u", 0, 300))
    assert [len(data) for _, data in rows] == [300, 100]
    rows = await rig.answer(version, of("t", 0, 400), of("u", 0, 300))
    assert [len(data) for _, data in rows] == [400, 0]


async def test_what_waits_in_memory_is_bounded(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("t", "u"):
        for _ in range(5):
            write(rig.machine.log(name), 10)
    size = 10 * (len(VALUE) + 26)
    monkeypatch.setattr(old_fetch, "CONVERTED_SLICE_BYTES", 2500)
    rows = await rig.answer(1, of("t", 0), of("u", 20))
    assert [offsets(data) for _, data in rows] == [list(range(20)), list(range(20, 40))]
    monkeypatch.setattr(old_fetch, "CONVERTED_SLICE_BYTES", 30)  # the first batch is looked at all the same
    rows = await rig.answer(1, of("t", 0), of("u", 20))
    assert [offsets(data) for _, data in rows] == [list(range(10)), list(range(20, 30))]
    monkeypatch.setattr(old_fetch, "CONVERTED_ANSWER_BYTES", size)
    rows = await rig.answer(1, of("t", 0), of("u", 20))
    assert [len(data) for _, data in rows] == [size, 0]
    assert [offsets(data) for _, data in await rig.answer(1, of("t", 50), of("u", 20))] == [[], list(range(20, 30))]


async def test_version_3_limits_the_answer(rig: Rig) -> None:
    write(rig.log, 10)
    write(rig.machine.log("u"), 10)
    rows = await rig.answer(3, of("t", 0), of("u", 0), max_bytes=1)
    assert [offsets(data) for _, data in rows] == [[0], []]


@pytest.mark.parametrize("version", VERSIONS)
async def test_markers_are_passed_over(rig: Rig, version: int) -> None:
    """They convert to nothing: a client that got nothing would ask for the same again, for ever."""
    for _ in range(3):
        write_marker(rig.log)
    leaving = rig.ask(version, of("t", 0, 1), max_wait_ms=500)
    await _until(lambda: rig.world.purgatory.waiting)
    leaving.cancel()  # what it had read until then was given back already
    await asyncio.wait([leaving])
    assert not rig.world.purgatory.waiting
    waiting = rig.ask(version, of("t", 0, 1), max_wait_ms=500)
    await _until(lambda: rig.world.purgatory.waiting)
    append(rig.log, "late")
    rig.partitions["t"].wake()
    assert b"".join(await waiting)
    ((_, data),) = await rig.answer(version, of("t", 0))
    assert offsets(bytes(data)) == [3]


async def test_a_clock_that_is_set_back_makes_no_wait_longer(rig: Rig) -> None:
    waiting = rig.ask(1, of("t", 0), max_wait_ms=500)
    await _until(lambda: rig.world.purgatory.waiting)
    rig.machine.time.set_wall_clock(START_MS - 3_600_000)
    write_marker(rig.log)
    (first,) = rig.partitions["t"].waiters
    rig.partitions["t"].wake()
    # For what comes behind the marker. Between the two nobody waits, too short to be looked for.
    await _until(lambda: rig.partitions["t"].waiters - {first})
    rig.machine.time.advance(500)
    await _until(lambda: not rig.world.purgatory.waiting)
    assert await waiting


async def _until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.to_thread(lambda: None)


@pytest.mark.parametrize("version", VERSIONS)
async def test_too_little_waits_for_more_or_for_the_time(rig: Rig, version: int) -> None:
    waiting = rig.ask(version, of("t", 0), max_wait_ms=500)
    await asyncio.sleep(0)
    assert rig.world.purgatory.waiting == 1
    rig.machine.time.advance(500)
    assert await waiting
    waiting = rig.ask(version, of("t", 0), max_wait_ms=500)
    await asyncio.sleep(0)
    data = batch("a", "b")
    rig.partitions["t"].append(data, 0, len(data), LoopBudget("", 0))
    answer = b"".join(await waiting)
    assert answer.endswith(b"b")
    await asyncio.sleep(0)


@pytest.mark.parametrize("version", VERSIONS)
async def test_zstd_is_refused(rig: Rig, version: int) -> None:
    write(rig.log, 2)
    write(rig.log, 2, Compression.ZSTD)
    ((error, data),) = await rig.answer(version, of("t", 0))
    assert (error, offsets(data)) == (ErrorCode.NONE, [0, 1])
    assert await rig.answer(version, of("t", 2)) == [(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, b"")]
    assert await rig.answer(version, of("t", 9)) == [(ErrorCode.OFFSET_OUT_OF_RANGE, b"")]


async def test_a_client_that_leaves_takes_no_file_with_it(rig: Rig) -> None:
    """Nor from under the thread that reads it: the lease ends when that is done, as the fixture looks at."""
    write(rig.log, 10)
    for turns in range(4):
        task = rig.ask(1, of("t", 0))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await rig.world.conversions.run(lambda: None, "")
    await asyncio.sleep(0)


async def test_answers_that_are_made_in_memory_wait_for_places_and_clients_take_turns(rig: Rig) -> None:
    """What is ready of an answer waits for the rest of it: so few are in work, and the others hold a file and no memory."""
    write(rig.log, 10)
    places = rig.world.conversions.answers
    for _ in range(ANSWERS):
        await places.enter("others")
    tasks = [rig.ask(1, of("t", 0)) for _ in range(3)]
    for _ in range(10):
        await asyncio.sleep(0)
    assert places.waiting == 3
    assert rig.world.conversions.under_way == 0
    tasks[0].cancel()
    with pytest.raises(asyncio.CancelledError):
        await tasks[0]
    places.leave()
    for task in tasks[1:]:
        assert sum(len(part) for part in await task if isinstance(part, bytes)) > 1000
    assert await rig.answer(1, of("t", 10)) == [(ErrorCode.NONE, b"")], "what has nothing to convert needs no place"
    for _ in range(ANSWERS - 1):
        places.leave()
    assert places.free == ANSWERS
