"""The life that all coordinators have: who is asked to come again, what is loaded when, what is done every so often."""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Iterator

import pytest
from support.groups import MemoryCoordinatorLog, make_runtime
from support.mock_time import MockTime
from tidelog.broker.coordinator.internal_topic import CoordinatorRecord, ReplayBatch
from tidelog.broker.coordinator.runtime import (
    RELOAD_MS,
    CoordinatorRuntime,
    append_failure,
    java_hash,
    partition_for,
    when_durable,
)
from tidelog.protocol.errors import ErrorCode, ProtocolError
from tidelog.protocol.records.exceptions import RecordTooLargeError
from tidelog.storage.exceptions import KafkaStorageError

E = ErrorCode
RECORD = CoordinatorRecord(b"k", b"v")


class Shard:
    def __init__(self, index: int) -> None:
        self.index = index
        self.loaded = False
        self.keys: list[bytes | None] = []


class Rig:
    def __init__(self, log: MemoryCoordinatorLog | None = None, *, exists: bool = True) -> None:
        self.log = log or MemoryCoordinatorLog(asyncio.get_running_loop(), exists=exists)
        self.time = MockTime()
        self.runtime: CoordinatorRuntime[Shard] = make_runtime(self.log, Shard, self.time)

    async def load(self) -> None:
        def taken(shard: Shard, keys: list[bytes | None]) -> None:
            assert shard.loaded, "what is taken over may be written to at once"
            shard.keys = keys

        await self.runtime.load(lambda _, batches: [key for batch in batches for _, key, _ in batch.records], taken)


def code(call: object, *arguments: object) -> ErrorCode:
    with pytest.raises(ProtocolError) as caught:
        call(*arguments)  # type: ignore[operator]
    return caught.value.code


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("Hello, World!", 1498789909),
        ("polygenelubricants", -(2**31)),  # the known string whose hash has no absolute value
        ("\U0001f600", 31 * 0xD83D + 0xDE00),
    ],
)
def test_java_hash(text: str, expected: int) -> None:
    assert java_hash(text) == expected


def test_partition_of_a_key() -> None:
    assert partition_for("hello", 50) == 99162322 % 50
    assert partition_for("polygenelubricants", 50) == 0
    assert {partition_for(f"group-{i}", 50) for i in range(2000)} == set(range(50))


def test_what_clients_are_told_of_failed_writes() -> None:
    assert append_failure(KafkaStorageError("x")).code is E.NOT_COORDINATOR
    assert append_failure(RecordTooLargeError("x")).code is E.UNKNOWN_SERVER_ERROR
    assert append_failure(ProtocolError(E.UNKNOWN_TOPIC_OR_PARTITION)).code is E.COORDINATOR_NOT_AVAILABLE


async def test_who_is_asked_to_come_again() -> None:
    rig = Rig()
    runtime, invalid = rig.runtime, ProtocolError(E.INVALID_GROUP_ID)
    assert code(runtime.find, "g") is E.NOT_COORDINATOR
    assert code(runtime.find, "", invalid) is E.INVALID_GROUP_ID
    runtime.open()
    assert code(runtime.find, "g") is code(runtime.check_complete) is E.COORDINATOR_LOAD_IN_PROGRESS
    assert runtime.loading_count == 4
    await rig.load()
    assert runtime.find("g").index == partition_for("g", 4)
    assert code(runtime.find, "", invalid) is E.INVALID_GROUP_ID
    runtime.check_complete()
    assert runtime.loading_count == 0
    runtime.close()
    assert code(runtime.find, "", invalid) is code(runtime.check_complete) is E.COORDINATOR_NOT_AVAILABLE


async def test_the_topic_is_made_once_and_has_nothing_to_load() -> None:
    rig = Rig(exists=False)
    rig.runtime.open()
    assert not rig.runtime.is_open
    await asyncio.gather(rig.runtime.ensure_topic(), rig.runtime.ensure_topic())
    await rig.runtime.ensure_topic()
    assert (rig.log.made, len(rig.runtime), rig.runtime.is_loaded) == (1, 4, True)


async def test_a_closed_coordinator_makes_no_topic() -> None:
    rig = Rig(exists=False)
    rig.runtime.close()
    await rig.runtime.ensure_topic()
    assert (rig.log.made, rig.runtime.is_open) == (0, False)


async def test_what_was_written_is_loaded_and_an_unreadable_partition_is_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rig = Rig()
    rig.runtime.open(loaded=True)
    for shard in rig.runtime:
        rig.runtime.append(shard, [CoordinatorRecord(b"%d" % shard.index, b"")])
    replay = rig.log.replay

    def broken(partition: int) -> Iterator[object]:
        if partition == 2:
            raise KafkaStorageError("no")
        return replay(partition)

    rig.log.replay = broken  # type: ignore[method-assign,assignment]
    again = Rig(rig.log)
    again.runtime.open()
    await again.load()
    assert [shard.keys for shard in again.runtime] == [[b"0"], [b"1"], [], [b"3"]]
    assert [shard.loaded for shard in again.runtime] == [True, True, False, True]
    assert "topic-2 cannot be loaded: no" in caplog.text


@pytest.mark.parametrize("failing", ["reading", "taking over"])
async def test_a_partition_that_cannot_be_loaded_is_nobodys_and_the_others_serve(
    failing: str, caplog: pytest.LogCaptureFixture
) -> None:
    """As in Kafka: NOT_COORDINATOR for its keys, not "loading" for ever; lists of all keys are made without it."""
    rig = Rig()
    rig.runtime.open()
    for partition in range(4):
        rig.log.put(partition, -1, [(b"k", b"v")])

    def fail(partition: int, where: str) -> None:
        if where == failing and partition == 1:
            raise ZeroDivisionError("a defect")

    def taken(shard: Shard, keys: list[bytes | None]) -> None:
        shard.keys = keys
        fail(shard.index, "taking over")

    def replay(name: str, batches: Iterator[ReplayBatch]) -> list[bytes | None]:
        fail(int(name[-1]), "reading")
        return [key for batch in batches for _, key, _ in batch.records]

    await rig.runtime.load(replay, taken)
    assert [(shard.loaded, shard.keys) for shard in rig.runtime] == [
        (True, [b"k"]), (False, []), (True, [b"k"]), (True, [b"k"]),
    ]  # fmt: skip
    key = next(name for name in "abcdefgh" if partition_for(name, 4) == 1)
    assert code(rig.runtime.find, key) is E.NOT_COORDINATOR
    assert code(rig.runtime.append, rig.runtime[1], [RECORD]) is E.NOT_COORDINATOR, (
        "a timer must not write to it either"
    )
    rig.runtime.check_complete()
    assert rig.runtime.loading_count == 0, "what cannot be loaded is not loading"
    assert "topic-1 cannot be loaded: a defect" in caplog.text
    assert "ZeroDivisionError" in caplog.text, "with its traceback"


@pytest.mark.parametrize("error", [KafkaStorageError("no"), OSError(errno.EMFILE, "no"), MemoryError()])
async def test_a_partition_that_the_disk_would_not_give_is_read_again_until_it_does(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """A lack of descriptors or memory passes; nobody would be served from there until the next start. Kafka's leadership would
    move.
    """
    caplog.set_level(logging.INFO)
    why = str(error) or "MemoryError"
    rig = Rig()
    runtime, refused = rig.runtime, {1, 2}
    runtime.open()
    for partition in range(4):
        rig.log.put(partition, -1, [(b"k", b"v")])
    reads: list[str] = []

    def replay(name: str, batches: Iterator[ReplayBatch]) -> list[bytes | None]:
        reads.append(name[-1])
        if int(name[-1]) in refused:
            raise error
        return [key for batch in batches for _, key, _ in batch.records]

    def taken(shard: Shard, keys: list[bytes | None]) -> None:
        shard.keys = keys
        runtime.append(shard, [RECORD])

    async def later() -> None:
        rig.time.advance(RELOAD_MS)
        for _ in range(4):
            await asyncio.sleep(0)

    await runtime.load(replay, taken)
    assert runtime.unloaded == {"topic-1": why, "topic-2": why}
    assert code(runtime.append, runtime[1], [RECORD]) is E.NOT_COORDINATOR
    refused.remove(1)
    await later()
    assert ("".join(reads), dict(runtime.failed)) == ("012312", {2: why})
    assert [(shard.loaded, shard.keys) for shard in runtime][1:3] == [(True, [b"k"]), (False, [])]
    runtime.append(runtime[1], [RECORD])
    await later()
    assert ("".join(reads), set(runtime.failed)) == ("0123122", {2})
    runtime.close()
    await later()
    assert "".join(reads) == "0123122"
    assert [record.message for record in caplog.records] == [
        f"topic-1 cannot be loaded: {why}",
        f"topic-2 cannot be loaded: {why}",
        "topic-1 can be read again",
    ]


async def test_a_load_that_fails_as_a_whole_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig()

    async def fail() -> None:
        raise ZeroDivisionError("a defect")

    await rig.runtime.start(fail(), 1)
    await asyncio.sleep(0)
    assert "the loading of topic failed" in caplog.text
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize("sliced", [False, True])
async def test_a_job_that_fails_is_logged_and_done_again_next_time(
    sliced: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Transactions whose time is over would never be aborted any more."""
    rig = Rig()
    done: list[float] = []

    def work() -> Iterator[None] | None:
        done.append(rig.time.monotonic_ms())
        return slices() if sliced else fail()

    def fail() -> None:
        raise ZeroDivisionError("a defect")

    def slices() -> Iterator[None]:
        yield
        fail()

    rig.runtime.every(1000, work)
    for _ in range(2):
        rig.time.advance(1000)
        rig.time.advance(0)
    assert done == [1000, 2000]
    assert caplog.text.count("ZeroDivisionError: a defect") == 2
    rig.runtime.close()


async def test_a_start_waits_as_long_as_it_has_patience_and_a_close_ends_the_loading() -> None:
    rig = Rig()

    async def never() -> None:
        await asyncio.Event().wait()

    await rig.runtime.start(never(), 0)
    assert rig.runtime.is_open
    assert rig.runtime.loading is not None
    assert not rig.runtime.loading.done()
    rig.runtime.close()
    await asyncio.sleep(0)
    assert rig.runtime.loading.cancelled()


async def test_what_has_been_read_when_it_is_closed_is_not_taken_over() -> None:
    rig = Rig()
    rig.runtime.open()
    rig.log.put(1, -1, [(b"k", b"v")])
    rig.log.put(2, -1, [(b"k", b"v")])

    def replay(_: str, batches: Iterator[object]) -> None:
        rig.runtime.close()

    await rig.runtime.load(replay, lambda shard, _: pytest.fail(f"{shard.index} was taken over"))
    assert [shard.loaded for shard in rig.runtime] == [True, False, False, False]


async def test_what_is_done_every_so_often_is_done_in_slices_until_closed() -> None:
    rig = Rig()
    done: list[object] = []

    def sliced() -> Iterator[None]:
        for number in range(3):
            done.append((number, rig.time.monotonic_ms()))
            yield

    rig.runtime.every(1000, sliced)
    rig.runtime.every(700, lambda: done.append("whole"))
    rig.time.advance(1000)
    rig.time.advance(0)
    assert done == ["whole", (0, 1000), (1, 1000), (2, 1000)]
    rig.time.advance(1000)
    assert done[4:] == ["whole", (0, 2000), (1, 2000), (2, 2000)]
    rig.runtime.close()
    rig.time.advance(10_000)
    assert len(done) == 8


async def test_a_write_is_told_in_the_words_of_coordinators() -> None:
    rig = Rig()
    rig.runtime.open(loaded=True)
    shard = rig.runtime[1]
    assert rig.runtime.append(shard, [RECORD, RECORD]) == (0, None)
    assert rig.runtime.append(shard, [RECORD]) == (2, None)
    rig.log.failure = KafkaStorageError("no")
    assert code(rig.runtime.append, shard, [RECORD]) is E.NOT_COORDINATOR


async def test_who_waits_for_durability_does_not_end_it_for_others() -> None:
    rig = Rig()
    rig.runtime.open(loaded=True)
    rig.log.durable = False
    _, unsynced = rig.runtime.append(rig.runtime[0], [RECORD])
    assert unsynced is not None
    gone = asyncio.ensure_future(when_durable(unsynced, 1))
    stays = asyncio.ensure_future(when_durable(unsynced, 2))
    await asyncio.sleep(0)
    gone.cancel()
    rig.log.sync()
    assert await stays == 2
    assert await when_durable(None, 3) == 3
    _, failed = rig.runtime.append(rig.runtime[0], [RECORD])
    rig.log.sync(KafkaStorageError("no"))
    with pytest.raises(ProtocolError) as caught:
        await when_durable(failed, 4)
    assert caught.value.code is E.NOT_COORDINATOR
