from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support import message_sets as by_hand
from support.logs import append, batch
from support.message_sets import FETCH, MULTIFETCH, ListenerWorld, listener_world
from tidelog.broker.message_set import fetch as message_set_fetch
from tidelog.protocol.records.attributes import Compression
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.legacy_record import build_legacy_set
from tidelog.protocol.records.memory_records import iterate_batches, iterate_records
from tidelog.protocol.records.record_batch import Record
from tidelog.storage.values import AppendOrigin

SIZE = len(batch("a", "b"))
OUT_OF_RANGE, UNKNOWN, BAD_SIZE, NO_CODEC = 1, 3, 4, 76


@pytest.fixture
def listening(listening: ListenerWorld) -> ListenerWorld:
    """`t-0` has five batches of two records."""
    for _ in range(5):
        append(listening.machine.log(), "a", "b")
    return listening


@pytest.fixture
async def old(tmp_path: Path) -> AsyncIterator[ListenerWorld]:
    """The same, and a listener that sends format 1 at most."""
    (tmp_path / "old").mkdir()
    async with listener_world(tmp_path / "old", max_magic=1) as made:
        for _ in range(5):
            append(made.machine.log(), "a", "b")
        yield made


def offsets_in(data: bytes, magic: int | None = None) -> list[int]:
    found = []
    for header in iterate_batches(data):
        assert magic is None or header.magic == magic
        found += [r.offset for r in iterate_records(data, header.position, header.position + header.size)]
    return found


async def fetch(listening: ListenerWorld, offset: int, max_size: int, topic: str = "t", partition: int = 0) -> Any:
    return await listening.ask(FETCH, by_hand.fetch(topic, partition, offset, max_size))


async def test_the_logs_own_bytes_from_the_entry_that_holds_the_offset(listening: ListenerWorld) -> None:
    error, whole = await fetch(listening, 0, 1 << 20)
    assert error == 0
    log = listening.machine.log()
    info = log.read(0, 1 << 20)
    assert info.file is not None
    assert whole == info.file.pread(info.size, info.position)
    info.release()
    assert offsets_in(whole, 2) == list(range(10))
    for offset in range(10):
        assert await fetch(listening, offset, 1 << 20) == (0, whole[offset // 2 * SIZE :])
    assert listening.sends.copy_fetch_bytes == 0
    assert listening.broker.counters.fetched_bytes == listening.sends.sendfile_bytes > 0


async def test_the_answer_is_cut_at_the_size_within_an_entry_too(listening: ListenerWorld) -> None:
    _, whole = await fetch(listening, 0, 1 << 20)
    for size in (0, 1, 11, 12, 17, SIZE - 1, SIZE, SIZE + 1, 3 * SIZE, 5 * SIZE - 1, 5 * SIZE, 5 * SIZE + 1):
        assert await fetch(listening, 0, size) == (0, whole[:size])


async def test_the_log_end_is_an_empty_set(listening: ListenerWorld) -> None:
    assert await fetch(listening, 10, 1000) == (0, b"")
    assert await fetch(listening, 0, 1000, "u") == (0, b"")
    log = listening.machine.log()
    log.needs_sync = True  # what comes now may be read when it is durable
    append(log, "c")
    assert (log.high_watermark, log.log_end_offset) == (10, 11)
    assert await fetch(listening, 10, 1000) == (0, b""), "what may not be read yet is not there yet"


@pytest.mark.parametrize(
    ("offset", "size", "topic", "partition", "code"),
    [
        (11, 100, "t", 0, OUT_OF_RANGE),
        (-1, 100, "t", 0, OUT_OF_RANGE),
        (-(1 << 63), 100, "t", 0, OUT_OF_RANGE),
        ((1 << 63) - 1, 100, "t", 0, OUT_OF_RANGE),
        (0, 100, "x", 0, UNKNOWN),
        (0, 100, "t", 9, UNKNOWN),
        (0, 100, "t", -1, UNKNOWN),
        (0, -1, "t", 0, BAD_SIZE),
    ],
)
async def test_errors(
    listening: ListenerWorld, old: ListenerWorld, offset: int, size: int, topic: str, partition: int, code: int
) -> None:
    for each in (listening, old):
        assert await fetch(each, offset, size, topic, partition) == (code, b"")
        assert each.listener.errors == {("fetch", code): 1}


async def test_below_the_log_start_is_out_of_range(listening: ListenerWorld) -> None:
    listening.machine.log().increment_log_start_offset(3)
    assert await fetch(listening, 2, 1000) == (OUT_OF_RANGE, b"")
    error, data = await fetch(listening, 3, SIZE)
    assert (error, offsets_in(data)) == (0, [2, 3])


async def test_no_answer_is_above_fetch_max_bytes(listening: ListenerWorld) -> None:
    listening.broker.fetch_max_bytes = SIZE + 10
    assert len((await fetch(listening, 0, 1 << 20))[1]) == SIZE + 10


async def test_multi_fetch_gives_each_its_own_set(listening: ListenerWorld) -> None:
    bodies = [("t", 0, 0, SIZE), ("x", 0, 0, 1), ("t", 0, 10, 99), ("t", 0, 5, 7), ("t", 0, 99, 9), ("t", 0, 4, 999)]
    error, data = await listening.ask(MULTIFETCH, by_hand.many(*(by_hand.fetch(*body) for body in bodies)))
    assert error == 0
    single = b""
    for topic, partition, offset, size in bodies:
        one, messages = await fetch(listening, offset, size, topic, partition)
        single += struct.pack(">ih", 2 + len(messages), one) + messages
    assert data == single
    assert await listening.ask(MULTIFETCH, by_hand.many()) == (0, b"")


async def test_a_multi_fetch_never_says_more_than_its_total_can(
    listening: ListenerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_set_fetch, "MAX_TOTAL", 6 + 3 * 50)
    error, data = await listening.ask(MULTIFETCH, by_hand.many(*[by_hand.fetch("t", 0, 0, 1 << 30)] * 3))
    assert error == 0
    assert len(data) == 3 * 50
    for position in (0, 50, 100):
        assert struct.unpack_from(">ih", data, position) == (46, 0)


async def test_what_might_block_is_looked_up_in_the_pool(
    listening: ListenerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = listening.broker.partitions.get("t", 0)
    warmed: list[int] = []
    monkeypatch.setattr(type(partition), "is_warm", lambda self, offset: False)
    monkeypatch.setattr(type(partition), "warm", lambda self, offset: warmed.append(offset))
    pending = listening.start(by_hand.request(FETCH, by_hand.fetch("t", 0, 4, SIZE)))
    assert asyncio.iscoroutine(pending)
    error, data = listening.taken(await pending)
    assert (error, offsets_in(data), warmed) == (0, [4, 5], [4])
    _, data = await listening.ask(MULTIFETCH, by_hand.many(by_hand.fetch("x", 0, 0, 1), by_hand.fetch("t", 0, 6, SIZE)))
    assert (offsets_in(data[12:]), warmed) == ([6, 7], [4, 6])


# -- down-conversion


async def test_newer_entries_are_converted_and_older_ones_sent_from_the_file(old: ListenerWorld) -> None:
    error, data = await fetch(old, 1, 1 << 20)
    assert (error, offsets_in(data, 1)) == (0, list(range(1, 10)))
    assert old.sends.copy_fetch_bytes == old.broker.counters.fetched_bytes == len(data)
    assert old.sends.sendfile_bytes == 0


async def test_what_needs_no_conversion_is_not_copied(tmp_path: Path) -> None:
    async with listener_world(tmp_path, max_magic=1, message_format_version="0.10.0") as listening:
        log = listening.machine.log()
        for codec in (Compression.NONE, Compression.GZIP):
            made = build_legacy_set([Record(0, 5, b"k", b"v")] * 3, magic=1, compression=codec)
            log.append_message_set(made, 0, len(made))
        error, data = await fetch(listening, 0, 1 << 20)
        assert (error, offsets_in(data, 1)) == (0, list(range(6)))
        assert await fetch(listening, 0, 30) == (0, data[:30])
        assert (listening.sends.copy_fetch_bytes, listening.sends.sendfile_bytes) == (0, len(data) + 30)


async def test_a_converted_set_is_cut_at_the_size(old: ListenerWorld) -> None:
    _, whole = await fetch(old, 0, 1 << 20)
    for size in (0, 1, 12, 40, len(whole) // 2):
        error, data = await fetch(old, 0, size)
        assert (error, whole[:size].startswith(data), bool(data)) == (0, True, bool(size))
        # As much of the log is looked at as may be answered, but for a first entry: what comes of it may be less.
        assert len(data) == size or len(data) >= len(whole) // 5


async def test_control_batches_are_walked_over_to_the_next_record(old: ListenerWorld) -> None:
    log = old.machine.log("u")
    for number in range(3):
        marker = bytearray(
            build_batch(
                [Record(0, 1, b"\0\0\0\1", b"\0\0\0\0\0\0")], is_control=True, is_transactional=True, producer_id=7,
                producer_epoch=number,
            )
        )  # fmt: skip
        log.append_as_leader(marker, 0, len(marker), origin=AppendOrigin.COORDINATOR)
    assert await fetch(old, 0, 30, "u") == (0, b""), "nothing but markers up to the end"
    append(log, "a")
    error, data = await fetch(old, 0, 30, "u")
    assert (error, len(data), struct.unpack_from(">q", data)) == (0, 30, (3,))


async def test_zstd_ends_a_set_and_is_an_error_in_front(old: ListenerWorld) -> None:
    append(old.machine.log(), "z", compression=Compression.ZSTD)
    append(old.machine.log(), "a")
    error, data = await fetch(old, 8, 1 << 20)
    assert (error, offsets_in(data, 1)) == (0, [8, 9])
    assert await fetch(old, 10, 1 << 20) == (NO_CODEC, b"")
    error, data = await fetch(old, 11, 1 << 20)
    assert (error, offsets_in(data, 1)) == (0, [11])


async def test_converted_sets_of_a_multi_fetch_have_a_bound(
    old: ListenerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, whole = await fetch(old, 0, 1 << 20)
    monkeypatch.setattr(message_set_fetch, "CONVERTED_ANSWER_BYTES", 2 * len(whole))
    error, data = await old.ask(MULTIFETCH, by_hand.many(*[by_hand.fetch("t", 0, 0, 1 << 20)] * 4))
    sets = []
    while data:
        total, code = struct.unpack_from(">ih", data)
        sets.append((code, data[6 : 4 + total]))
        data = data[4 + total :]
    assert error == 0
    assert sets[:2] == [(0, whole)] * 2
    # Less than an entry, but not nothing, which would be the end of the log.
    assert [(code, len(rest)) for code, rest in sets[2:]] == [(0, 12)] * 2


async def test_a_client_that_leaves_takes_no_lease_with_it(old: ListenerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cancelled while the pool looks: the slice comes all the same, and its file is given back."""
    log = old.machine.log()
    made = build_legacy_set([Record(0, 5, b"k", b"v")], magic=1)
    info = log.read(0, 100)
    held = info.file
    assert held is not None
    released: list[int] = []
    gate: asyncio.Future[Any] = old.broker.loop.create_future()

    def later(_pool: Any, _work: Any, *_arguments: Any) -> asyncio.Future[Any]:
        return gate

    monkeypatch.setattr(old.broker, "loop", SimpleNamespace(run_in_executor=later))
    looking = asyncio.ensure_future(old.start(by_hand.request(FETCH, by_hand.fetch("t", 0, 0, 100))))
    await asyncio.sleep(0)
    looking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await looking

    class File:
        def release(self) -> None:
            released.append(1)

    gate.set_result(message_set_fetch.ReadableSlice(info._replace(file=File()), None))  # type: ignore[arg-type]
    await asyncio.sleep(0)
    assert released == [1]
    info.release()
    assert made
