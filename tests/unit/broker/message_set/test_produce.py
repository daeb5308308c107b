from __future__ import annotations

import asyncio
import inspect
import struct
from pathlib import Path
from typing import Any

import pytest
from support import message_sets as by_hand
from support.logs import batch, read_records
from support.message_sets import MULTIPRODUCE, PRODUCE, ListenerWorld, listener_world
from support.mock_time import START_MS
from tidelog.broker.partitions.append_offload import QUEUE_BYTES, AppendOffload
from tidelog.broker.partitions.conversion_thread import QUICK_BYTES
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.records.attributes import Compression
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.legacy_record import build_legacy_set
from tidelog.protocol.records.record_batch import Record

RECORDS = [Record(0, START_MS + index, b"k%d" % index, b"v%d" % index) for index in range(3)]
GOOD = build_batch(RECORDS)


@pytest.fixture
def topic_settings() -> dict[str, Any]:
    return {"max_message_bytes": 1000}


async def produce(listening: ListenerWorld, data: bytes, topic: str = "t", partition: int = 0) -> tuple[int, int]:
    error, rest = await listening.ask(PRODUCE, by_hand.produce(topic, partition, data))
    return error, struct.unpack(">q", rest)[0]


def stored(listening: ListenerWorld, partition: int = 0) -> list[tuple[int, bytes | None]]:
    return [(record.offset, record.value) for record in read_records(listening.machine.log("t", partition), 0)]


async def test_every_format_and_codec_gets_offsets(listening: ListenerWorld) -> None:
    offset = 0
    for magic in (0, 1, 2):
        for codec in list(Compression)[: 5 if magic == 2 else 4]:
            data = (
                build_batch(RECORDS, compression=codec)
                if magic == 2
                else build_legacy_set(RECORDS, magic=magic, compression=codec)
            )
            assert await produce(listening, data) == (0, offset)
            offset += 3
    assert stored(listening) == [(index, b"v%d" % (index % 3)) for index in range(offset)]
    assert listening.broker.counters.produced_records == offset


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (flipped(GOOD, len(GOOD) - 1), ErrorCode.CORRUPT_MESSAGE),
        (flipped(build_legacy_set(RECORDS, magic=1), 20), ErrorCode.CORRUPT_MESSAGE),
        (b"", ErrorCode.INVALID_RECORD),
        (GOOD[:5], ErrorCode.INVALID_RECORD),
        (GOOD[:-1], ErrorCode.INVALID_RECORD),
        (GOOD + GOOD, ErrorCode.INVALID_RECORD),
        (GOOD[:16] + b"\3" + GOOD[17:], ErrorCode.CORRUPT_MESSAGE),
        (build_legacy_set(RECORDS, magic=0) + build_legacy_set(RECORDS, magic=1), ErrorCode.INVALID_RECORD),
        (build_batch([Record(0, 1, None, bytes(2000))]), ErrorCode.MESSAGE_TOO_LARGE),
        (build_legacy_set([Record(0, 1, None, bytes(2000))], magic=1), ErrorCode.MESSAGE_TOO_LARGE),
        (build_batch(RECORDS, is_control=True), ErrorCode.INVALID_RECORD),
        (
            build_batch(RECORDS, producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True),
            ErrorCode.INVALID_TXN_STATE,
        ),
        (build_batch(RECORDS, producer_id=1, producer_epoch=0, base_sequence=5), ErrorCode.NONE),
    ],
)
async def test_errors_are_kafkas(listening: ListenerWorld, data: bytes, code: ErrorCode) -> None:
    error, base_offset = await produce(listening, data)
    assert (ErrorCode(error), base_offset) == (code, -1 if code else 0)
    assert listening.listener.errors == ({("produce", code): 1} if code else {})
    assert listening.broker.counters.produce_errors == ({code: 1} if code else {})
    assert await produce(listening, GOOD) == (0, 0 if code else 3)


@pytest.mark.parametrize(
    ("topic", "partition", "code"),
    [("x", 0, 3), ("t", 2, 3), ("t", -1, 3), ("__consumer_offsets", 0, 17), ("__transaction_state", 0, 17)],
)
async def test_places_that_take_nothing(listening: ListenerWorld, topic: str, partition: int, code: int) -> None:
    if topic.startswith("__"):
        await listening.broker.topics.create(topic, 1, {"segment.index.bytes": "4096"})
    assert await produce(listening, GOOD, topic, partition) == (code, -1)


async def test_a_compacted_topic_wants_keys(tmp_path: Path) -> None:
    async with listener_world(tmp_path, cleanup_policy="compact") as listening:
        for magic in (0, 1, 2):
            records = [Record(0, START_MS, None, b"v")]
            data = build_batch(records) if magic == 2 else build_legacy_set(records, magic=magic)
            assert await produce(listening, data) == (ErrorCode.INVALID_RECORD, -1)


async def test_many_sets_each_have_their_outcome_in_order(listening: ListenerWorld) -> None:
    bodies = [
        by_hand.produce("t", 0, GOOD),
        by_hand.produce("t", 0, flipped(GOOD, 30)),
        by_hand.produce("x", 0, GOOD),
        by_hand.produce("t", 0, build_legacy_set(RECORDS, magic=0)),
        by_hand.produce("t", 1, GOOD),
    ]
    error, rest = await listening.ask(MULTIPRODUCE, by_hand.many(*bodies))
    assert error == 0
    assert list(struct.iter_unpack(">hq", rest)) == [(0, 0), (2, -1), (3, -1), (0, 3), (0, 0)]
    assert len(stored(listening)) == 6
    assert await listening.ask(MULTIPRODUCE, by_hand.many()) == (0, b"")


def queued_syncs(partition: Any) -> list[tuple[Any, Any]]:
    """What the partition gives to the disk's threads from now on, (work, done) each; nobody does it."""
    syncs: list[tuple[Any, Any]] = []
    partition.rebind(Queue(syncs), partition.offload)
    return syncs


def queued_appends(listening: ListenerWorld, partition: Any, queue_bytes: int = QUEUE_BYTES) -> list[tuple[Any, Any]]:
    """The same for appends, with a directory that is slow."""
    appends: list[tuple[Any, Any]] = []
    sync_workers, _ = partition.disk_binding
    offload = AppendOffload(partition.log.log_directory.pace, Queue(appends), listening.broker.loop, queue_bytes)
    offload.active = True
    partition.rebind(sync_workers, offload)
    return appends


class Queue:
    def __init__(self, works: list[tuple[Any, Any]]) -> None:
        self.works = works

    def submit(self, work: Any, done: Any) -> None:
        self.works.append((work, done))


async def test_answers_wait_for_the_sync_that_flush_messages_asks_for(tmp_path: Path) -> None:
    async with listener_world(tmp_path, flush_messages=1) as listening:
        syncs = queued_syncs(listening.broker.partitions.get("t", 0))
        one = asyncio.ensure_future(
            as_coroutine(listening.start(by_hand.request(PRODUCE, by_hand.produce("t", 0, GOOD))))
        )
        both = by_hand.many(by_hand.produce("t", 0, GOOD), by_hand.produce("x", 0, GOOD))
        two = asyncio.ensure_future(as_coroutine(listening.start(by_hand.request(MULTIPRODUCE, both))))
        await asyncio.sleep(0)
        assert not one.done()
        assert not two.done()
        while syncs:
            work, done = syncs.pop()
            done(work())
        assert listening.taken(await one) == (0, struct.pack(">q", 0))
        assert listening.taken(await two) == (0, struct.pack(">hqhq", 0, 3, 3, -1))


async def test_a_sync_that_fails_is_an_error(tmp_path: Path) -> None:
    async with listener_world(tmp_path, flush_messages=1) as listening:
        syncs = queued_syncs(listening.broker.partitions.get("t", 0))
        one = asyncio.ensure_future(
            as_coroutine(listening.start(by_hand.request(PRODUCE, by_hand.produce("t", 0, GOOD))))
        )
        await asyncio.sleep(0)
        _, done = syncs.pop()
        done(OSError("the disk is gone"))
        assert listening.taken(await one) == (ErrorCode.KAFKA_STORAGE_ERROR, struct.pack(">q", -1))


async def as_coroutine(answer: Any) -> Any:
    return await answer if inspect.isawaitable(answer) else answer


@pytest.mark.parametrize(("codec", "at_once"), [(Compression.NONE, 3), (Compression.GZIP, 1)])
async def test_while_a_directory_is_slow_appends_go_through_its_writer_in_order(
    listening: ListenerWorld, codec: Compression, at_once: int
) -> None:
    queued = queued_appends(listening, listening.broker.partitions.get("t", 0))
    sets = [GOOD, build_legacy_set(RECORDS, magic=1, compression=codec), flipped(GOOD, 30)]
    body = by_hand.many(*(by_hand.produce("t", 0, data) for data in sets))
    answer = asyncio.ensure_future(as_coroutine(listening.start(by_hand.request(MULTIPRODUCE, body))))
    await asyncio.sleep(0)
    assert (len(queued), stored(listening), answer.done()) == (at_once, [], False)
    while not answer.done():  # what takes long to convert is made ready by its own thread first
        await asyncio.sleep(0.001)
        while queued:
            work, done = queued.pop(0)
            try:
                outcome = work()
            except Exception as error:
                outcome = error
            done(outcome)
    assert listening.taken(await answer) == (0, struct.pack(">hqhqhq", 0, 0, 0, 3, 2, -1))
    assert len(stored(listening)) == 6
    assert listening.broker.counters.produced_records == 6


async def test_a_client_that_leaves_takes_back_what_the_writer_was_not_handed(listening: ListenerWorld) -> None:
    partition = listening.broker.partitions.get("t", 0)
    queued = queued_appends(listening, partition, queue_bytes=1)
    enough = partition.offload.submit(lambda: None, 1)  # the writer has that much
    body = by_hand.many(by_hand.produce("t", 0, GOOD), by_hand.produce("t", 0, bytes(batch("a"))))
    answer = asyncio.ensure_future(as_coroutine(listening.start(by_hand.request(MULTIPRODUCE, body))))
    await asyncio.sleep(0)
    assert (partition.offload.submitted, len(queued)) == (3, 1)
    answer.cancel()
    await asyncio.wait([answer])
    for _ in range(3):
        await asyncio.sleep(0)
    (_, done) = queued.pop()
    done(None)
    assert enough.done()
    assert (queued, stored(listening)) == ([], [])


async def test_large_sets_of_old_formats_are_made_ready_by_a_thread_and_nothing_overtakes_them(
    listening: ListenerWorld,
) -> None:
    many = [Record(0, START_MS, b"k", b"v" * 30)] * 200
    sets = [
        GOOD,
        build_legacy_set(many, magic=1, compression=Compression.GZIP),
        GOOD,
        build_legacy_set(RECORDS, magic=0),
        flipped(GOOD, 30),
        GOOD,
    ]
    body = by_hand.many(*(by_hand.produce("t", 0, data) for data in sets), by_hand.produce("t", 1, GOOD))
    answer = listening.start(by_hand.request(MULTIPRODUCE, body))
    assert (len(stored(listening)), len(stored(listening, 1))) == (3, 3), "another partition need not wait"
    error, rest = listening.taken(await answer)
    rows = [(0, 0), (0, 3), (0, 203), (0, 206), (2, -1), (0, 209), (0, 0)]
    assert (error, list(struct.iter_unpack(">hq", rest))) == (0, rows)
    assert len(stored(listening)) == 212
    assert await produce(listening, build_legacy_set(many, magic=0, compression=Compression.GZIP)) == (0, 212)


async def test_many_quick_sets_of_old_formats_do_not_hold_up_the_loop_together(listening: ListenerWorld) -> None:
    """Each would be converted on the loop, all of them would take a second: what comes after some goes to the thread."""
    message_set = build_legacy_set([Record(0, START_MS, b"k", b"v" * 800)], magic=1)
    count = 3 * QUICK_BYTES // len(message_set)
    body = by_hand.many(*[by_hand.produce("t", 0, message_set)] * count, by_hand.produce("t", 1, message_set))
    answer = listening.start(by_hand.request(MULTIPRODUCE, body))
    assert 0 < len(stored(listening)) <= QUICK_BYTES // len(message_set) + 1
    error, rest = listening.taken(await answer)
    assert (error, list(struct.iter_unpack(">hq", rest))) == (0, [*((0, offset) for offset in range(count)), (0, 0)])


async def test_sets_behind_a_converted_one_share_its_sync(tmp_path: Path) -> None:
    """With flush.messages=1, what waits its turn to be appended does not wait for the disk before that."""
    async with listener_world(tmp_path, flush_messages=1) as listening:
        partition = listening.broker.partitions.get("t", 0)
        syncs = queued_syncs(partition)
        packed = build_legacy_set(RECORDS, magic=1, compression=Compression.GZIP)
        sets = [packed, GOOD, packed, build_legacy_set(RECORDS, magic=0), GOOD]
        body = by_hand.many(*(by_hand.produce("t", 0, data) for data in sets))
        answer = asyncio.ensure_future(as_coroutine(listening.start(by_hand.request(MULTIPRODUCE, body))))
        while partition.log.log_end_offset < 15:  # noqa: ASYNC110 - threads are at it
            await asyncio.sleep(0.001)
        assert len(syncs) == 1
        assert not answer.done()
        while not answer.done():
            await asyncio.sleep(0.001)
            while syncs:
                work, done = syncs.pop()
                done(work())
        error, rest = listening.taken(await answer)
        assert (error, list(struct.iter_unpack(">hq", rest))) == (0, [(0, offset) for offset in range(0, 15, 3)])
