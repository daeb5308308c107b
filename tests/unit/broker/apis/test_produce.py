from __future__ import annotations

import asyncio
import inspect
import random
import struct
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.fake_filesystem import Operation
from support.logs import World, batch, read_records, values_of
from support.mock_time import START_MS
from support.nodes import made
from support.transactions import TOPIC_IDS, Node
from tidelog.broker.apis.produce import produce
from tidelog.broker.partitions import partition as partition_module
from tidelog.broker.partitions.append_offload import AppendOffload
from tidelog.broker.partitions.conversion_thread import (
    CONVERTIBLE_BYTES,
    MOST_QUICK_BYTES,
    QUICK_BYTES,
    Conversions,
    LoopBudget,
)
from tidelog.broker.partitions.partition import Partition
from tidelog.broker.requests.counters import RequestCounters
from tidelog.broker.runtime.exceptions import ConnectionAborted
from tidelog.config.log_config import LogConfig
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tidelog.protocol.records.attributes import Compression
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.compression import DEFAULT_MAX_BYTES
from tidelog.protocol.records.legacy_record import build_legacy_set
from tidelog.protocol.records.record_batch import Record
from tidelog.protocol.schema import decode, encode
from tidelog.storage.io.write_pace import SLOW_S
from tidelog.storage.values import LogAppendInfo

VERSION = 9
NOW = 1 << 62
"""When requests came: none has taken long."""


class FakePartition:
    """Takes every batch, at offset 0."""

    def __init__(self, config: LogConfig) -> None:
        self.log = SimpleNamespace(config=config, converts_batches=False, high_watermark=1)
        self.offload = SimpleNamespace(active=False)
        self.appended = 0

    def append(self, _buffer: bytearray, start: int, end: int, _budget: LoopBudget, _is_set: bool) -> LogAppendInfo:
        self.appended += 1
        return LogAppendInfo(0, 0, -1, 0, 1, end - start, False)


def ask(partition: FakePartition, acks: int, topic: str = "t", client_id: bytes | None = None) -> Any:
    broker: Any = SimpleNamespace(
        counters=RequestCounters(),
        authorizer=None,
        partitions=SimpleNamespace(fence=None, get=lambda topic, index: partition),
    )
    request = ProduceRequest(
        transactional_id=None,
        acks=acks,
        timeout_ms=1,
        topic_data=[TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=bytes(61))])],
    )
    client = struct.pack(">h", -1) if client_id is None else struct.pack(">h", len(client_id)) + client_id
    header = struct.pack(">hhi", 0, VERSION, 7) + client + b"\0"  # no tagged fields
    frame = bytearray(header + encode(request, VERSION))
    answer = produce(broker, frame, 0, len(frame), VERSION, 7, SimpleNamespace(last_active=NOW, client=""))  # type: ignore[arg-type]
    if answer is None:
        return None
    assert isinstance(answer, bytes)
    response, _ = decode(ProduceResponse, VERSION, answer, 9)  # size, correlation id, tagged fields
    return response.responses[0].partition_responses[0]


@pytest.mark.parametrize(("acks", "code"), [(-1, ErrorCode.NOT_ENOUGH_REPLICAS), (1, ErrorCode.NONE)])
def test_min_insync_replicas_above_one_refuses_acks_all_alone(acks: int, code: ErrorCode) -> None:
    """As a Kafka does when one broker is left: the setting is about acks=all."""
    partition = FakePartition(LogConfig(min_insync_replicas=2))
    assert ask(partition, acks).error_code == code
    assert partition.appended == (code is ErrorCode.NONE)
    assert ask(FakePartition(LogConfig()), acks).error_code == ErrorCode.NONE


def test_acks_0_has_no_answer() -> None:
    partition = FakePartition(LogConfig(min_insync_replicas=2))
    assert ask(partition, 0) is None
    assert partition.appended == 1


@pytest.mark.parametrize("acks", [2, -2])
def test_other_acks_are_refused(acks: int) -> None:
    assert ask(FakePartition(LogConfig()), acks).error_code == ErrorCode.INVALID_REQUIRED_ACKS


def test_an_error_with_acks_0_closes_the_connection() -> None:
    partition = FakePartition(LogConfig())
    partition.append = lambda *_: (_ for _ in ()).throw(OSError("disk"))  # type: ignore[method-assign]
    with pytest.raises(ConnectionAborted, match="acks=0 failed: t-0: KAFKA_STORAGE_ERROR"):
        ask(partition, 0)


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
def test_internal_topics_are_for_coordinators(topic: str) -> None:
    """And for Kafka's own tools, by the client id that they have."""
    partition = FakePartition(LogConfig())
    assert ask(partition, 1, topic, b"anybody").error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert ask(partition, 1, topic).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert partition.appended == 0
    assert ask(partition, 1, topic, b"__admin_client").error_code == ErrorCode.NONE
    assert partition.appended == 1


# -- versions 0 to 2, by wire, on a real log


def old_request(version: int, records: bytes, count: int = 1, acks: int = 1) -> bytearray:
    """`count` times the same set for one partition."""
    data = [PartitionProduceData(index=0, records=records)] * count
    request = ProduceRequest(acks=acks, timeout_ms=1, topic_data=[TopicProduceData(name="t", partition_data=data)])
    return bytearray(struct.pack(">hhih", 0, version, 7, -1) + encode(request, version))


class OldRig:
    """A partition of a real log, asked in old versions. While its disk is slow, `writer` does what it is handed."""

    def __init__(self, machine: World, **config: Any) -> None:
        self.loop = asyncio.get_running_loop()
        self.log = machine.log()
        self.log.update_config(LogConfig(segment_index_bytes=4096, **config))
        self.syncer = HeldSyncer()
        offload = AppendOffload(self.log.log_directory.pace, Writer(self.loop), self.loop)
        conversions = Conversions(self.loop)
        self.partition = Partition(self.log, self.loop, self.syncer, offload, conversions)  # type: ignore[arg-type]
        self.broker: Any = SimpleNamespace(
            counters=RequestCounters(),
            authorizer=None,
            partitions=SimpleNamespace(fence=None, get=lambda *_: self.partition),
            conversions=conversions,
        )

    async def ask(self, version: int, records: bytes, acks: int = 1) -> Any:
        frame = old_request(version, records, acks=acks)
        answer = produce(self.broker, frame, 0, len(frame), version, 7, SimpleNamespace(last_active=NOW, client=""))  # type: ignore[arg-type]
        if inspect.isawaitable(answer):
            frame[:] = bytes(len(frame))  # the buffer is the next request's by now
            answer = await answer
        if answer is None:
            return None
        assert isinstance(answer, bytes)
        assert int.from_bytes(answer[:4], "big") == len(answer) - 4
        response, end = decode(ProduceResponse, version, answer, 8)
        assert end == len(answer)
        return response.responses[0].partition_responses[0]

    def values(self) -> list[bytes]:
        return values_of(read_records(self.log, 0))


class HeldSyncer:
    """Syncs only in `run`."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Any, Any]] = []

    def submit(self, work: Any, done: Any) -> None:
        self.waiting.append((work, done))


class Writer:
    """A slow directory's, in a later turn of the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def submit(self, work: Any, done: Any) -> None:
        def run() -> None:
            try:
                outcome = work()
            except Exception as error:
                outcome = error
            done(outcome)

        self._loop.call_soon(run)


@pytest.fixture(params=["quick", "slow"])
def either_machine(request: pytest.FixtureRequest, machine: World) -> World:
    """With a disk that is quick, and with one whose last write was slow: what is taken must not depend on it."""
    if request.param == "slow":
        machine.log().log_directory.pace.note(SLOW_S)
    return machine


def old_set(magic: int, *values: bytes, codec: Compression = Compression.NONE) -> bytes:
    return build_legacy_set([Record(0, START_MS, None, value) for value in values], magic=magic, compression=codec)


@pytest.mark.parametrize("codec", list(Compression)[:4])
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("version", range(3))
async def test_a_message_set_of_either_format(
    either_machine: World, version: int, magic: int, codec: Compression
) -> None:
    rig = OldRig(either_machine, message_timestamp_type="LogAppendTime")
    for first, values in ((0, (b"a", b"b")), (2, (b"c", b"d" * (QUICK_BYTES + 1)))):
        row = await rig.ask(version, old_set(magic, *values, codec=codec))
        assert (row.error_code, row.base_offset) == (ErrorCode.NONE, first)
        assert row.log_append_time_ms == (START_MS if version >= 2 else -1)
    assert rig.values() == [b"a", b"b", b"c", b"d" * (QUICK_BYTES + 1)]
    assert rig.broker.counters.produced_records == 4
    rig.broker.conversions.close()


@pytest.mark.parametrize("version", range(3))
async def test_a_batch_of_format_2_is_taken_too(either_machine: World, version: int) -> None:
    """As Kafka did; what looks like a codec of it in a message set is none."""
    rig = OldRig(either_machine)
    assert (await rig.ask(version, bytes(batch("a")))).base_offset == 0
    assert (await rig.ask(version, old_set(0, b"b"))).base_offset == 1
    row = await rig.ask(version, build_batch([Record(0, START_MS, None, b"c")], compression=Compression.ZSTD))
    assert row.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    # Attributes of format 2 would be where a message has its key's length: one of 4 is no zstd.
    row = await rig.ask(version, build_legacy_set([Record(0, START_MS, b"k" * 4, b"d")], magic=0))
    assert row.error_code == ErrorCode.NONE
    assert rig.values() == [b"a", b"b", b"d"]


@pytest.mark.parametrize("version", [0, 2, 7])
async def test_a_topic_of_an_old_format_takes_what_comes(either_machine: World, version: int) -> None:
    rig = OldRig(either_machine, message_format_version="0.9.0")
    values = [b"%d" % n * 500 for n in range(20)]
    made = build_batch([Record(n, START_MS, None, v) for n, v in enumerate(values)]) if version > 2 else b""
    row = await rig.ask(version, made or old_set(0, *values, codec=Compression.GZIP))
    assert (row.error_code, row.base_offset, rig.values()) == (ErrorCode.NONE, 0, values)
    rig.broker.conversions.close()


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (b"", ErrorCode.INVALID_RECORD),
        (bytes(30), ErrorCode.CORRUPT_MESSAGE),
        (old_set(0, b"x")[:-1] + b"y", ErrorCode.CORRUPT_MESSAGE),
        (old_set(1, b"x" * 2000, codec=Compression.GZIP)[:-1], ErrorCode.INVALID_RECORD),
        (old_set(1, b"x" * 9000), ErrorCode.MESSAGE_TOO_LARGE),
    ],
)
async def test_a_set_that_is_refused(either_machine: World, records: bytes, code: ErrorCode) -> None:
    rig = OldRig(either_machine, max_message_bytes=8000)
    for version in range(3):
        assert (await rig.ask(version, records)).error_code == code
    assert rig.broker.counters.produce_errors[code] == 3
    with pytest.raises(ConnectionAborted, match=f"acks=0 failed: t-0: {code.name}"):
        await rig.ask(1, records, acks=0)
    assert rig.log.size == 0
    rig.broker.conversions.close()


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
async def test_acks_of_old_versions(either_machine: World, codec: Compression) -> None:
    rig = OldRig(either_machine)
    assert await rig.ask(0, old_set(0, b"a", codec=codec), acks=0) is None
    # Brokers of before 0.9 waited for so many copies; none since then does.
    assert (await rig.ask(0, old_set(0, b"b"), acks=2)).error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert rig.values() == [b"a"]
    rig.broker.conversions.close()


async def test_a_partition_that_is_named_twice_keeps_its_order(either_machine: World) -> None:
    rig = OldRig(either_machine)
    sets = [old_set(1, b"a" * (QUICK_BYTES + 1)), old_set(1, b"b"), old_set(1, b"c")]
    data = [PartitionProduceData(index=0, records=records) for records in sets]
    request = ProduceRequest(acks=1, topic_data=[TopicProduceData(name="t", partition_data=data)])
    frame = bytearray(struct.pack(">hhih", 0, 2, 7, -1) + encode(request, 2))
    answer: Any = await produce(rig.broker, frame, 0, len(frame), 2, 7, SimpleNamespace(last_active=NOW, client=""))  # type: ignore
    response, _ = decode(ProduceResponse, 2, answer, 8)
    assert [row.base_offset for row in response.responses[0].partition_responses] == [0, 1, 2]
    assert rig.values() == [b"a" * (QUICK_BYTES + 1), b"b", b"c"]
    rig.broker.conversions.close()


@pytest.mark.parametrize("version", range(3))
async def test_no_transaction_hides_in_an_old_request(either_machine: World, version: int) -> None:
    rig = OldRig(either_machine)
    records = batch("a", producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
    assert (await rig.ask(version, bytes(records))).error_code == ErrorCode.INVALID_TXN_STATE
    assert rig.log.size == 0


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2), st.integers(0, 1), st.integers(0, 3), st.data())
def test_garbage_is_refused_with_a_code(version: int, magic: int, codec: int, data: st.DataObject) -> None:
    """A message set with any of its bytes changed: taken, or refused by name; never an unexpected error."""
    good = bytearray(old_set(magic, b"first", b"second" * 20, codec=Compression(codec)))
    for _ in range(data.draw(st.integers(1, 4))):
        good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    records = bytes(good[: data.draw(st.integers(0, len(good)))])

    async def ask() -> int:
        world = World()
        world.start()
        rig = OldRig(world)
        row = await rig.ask(version, records)
        rig.broker.conversions.close()
        world.stop()
        return int(row.error_code)

    assert asyncio.run(ask()) in {
        ErrorCode.NONE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    }


async def test_many_quick_sets_of_one_request_do_not_hold_up_the_loop_together(machine: World) -> None:
    """Up to `MANY_ELEMENTS` of them would take a second: what comes after some goes to the thread."""
    rig = OldRig(machine)
    records = [Record(number, START_MS, None, bytes(3)) for number in range(100)]
    one = build_legacy_set(records, magic=1)
    assert len(one) <= QUICK_BYTES
    count = 2 * CONVERTIBLE_BYTES // len(one)
    frame = old_request(2, one, count)
    answer = produce(rig.broker, frame, 0, len(frame), 2, 7, SimpleNamespace(last_active=NOW, client=""))  # type: ignore[arg-type]
    assert 0 < rig.log.log_end_offset <= (CONVERTIBLE_BYTES // len(one) + 1) * len(records)
    frame[:] = bytes(len(frame))
    assert inspect.isawaitable(answer)
    response, _ = decode(ProduceResponse, 2, await answer, 8)  # type: ignore[arg-type]
    rows = [(row.error_code, row.base_offset) for row in response.responses[0].partition_responses]
    assert rows == [(0, number * len(records)) for number in range(count)]
    rig.broker.conversions.close()


# -- compressed batches that hold much


def full_request(*batches: bytes) -> bytearray:
    data = [PartitionProduceData(index=0, records=records) for records in batches]
    request = ProduceRequest(acks=1, timeout_ms=1, topic_data=[TopicProduceData(name="t", partition_data=data)])
    return bytearray(struct.pack(">hhihb", 0, VERSION, 7, -1, 0) + encode(request, VERSION))


async def outcomes(rig: OldRig, frame: bytearray, since: int = NOW) -> list[tuple[int, int]]:
    """(error code, base offset) of each batch of a request that came at `since`."""
    connection: Any = SimpleNamespace(last_active=since, client="")
    answer = produce(rig.broker, frame, 0, len(frame), VERSION, 7, connection)
    if inspect.isawaitable(answer):
        frame[:] = bytes(len(frame))
        answer = await answer
    assert isinstance(answer, bytes)
    response, _ = decode(ProduceResponse, VERSION, answer, 9)
    return [(row.error_code, row.base_offset) for row in response.responses[0].partition_responses]


COMPRESSED = [codec for codec in Compression if codec]


@pytest.mark.parametrize("codec", COMPRESSED)
async def test_what_holds_much_is_not_looked_at_on_the_loop(
    machine: World, codec: Compression, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = OldRig(machine)
    monkeypatch.setattr(partition_module, "CHECK_NS", 1 << 60)  # how much it is decides, however slow the machine
    conversions = rig.broker.conversions
    small = build_batch([Record(0, START_MS, None, b"small")], compression=codec)
    large = build_batch([Record(0, START_MS, None, bytes(2 << 20))], compression=codec)
    assert await outcomes(rig, full_request(small)) == [(0, 0)]
    assert conversions.checked == 0
    assert await outcomes(rig, full_request(small, large, small)) == [(0, 1), (0, 2), (0, 3)]
    assert conversions.checked == 2, "the last must not overtake the one before"
    assert [len(value) for value in rig.values()] == [5, 5, 2 << 20, 5]
    await asyncio.sleep(0)
    assert conversions.queued_bytes == 0
    conversions.close()


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.ZSTD])
async def test_a_bomb_is_refused_and_appended_nowhere(machine: World, codec: Compression) -> None:
    rig = OldRig(machine)
    bomb = build_batch([Record(0, START_MS, None, bytes(DEFAULT_MAX_BYTES + 1))], compression=codec)
    assert len(bomb) < 200_000
    assert await outcomes(rig, full_request(bomb)) == [(ErrorCode.MESSAGE_TOO_LARGE, -1)]
    assert rig.values() == []
    rig.broker.conversions.close()


async def test_behind_the_first_milliseconds_compressed_batches_go_to_the_thread(machine: World) -> None:
    rig = OldRig(machine)
    records = build_batch([Record(0, START_MS, None, b"v")], compression=Compression.GZIP)
    plain = bytes(batch("p"))
    assert await outcomes(rig, full_request(plain, records, plain), since=0) == [(0, 0), (0, 1), (0, 2)]
    assert rig.broker.conversions.checked == 2
    assert rig.values() == [b"p", b"v", b"p"]
    rig.broker.conversions.close()


@pytest.mark.parametrize("codec", COMPRESSED)
async def test_a_batch_that_takes_long_to_decompress_goes_to_the_thread(
    machine: World, codec: Compression, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However little it holds; and what is quick stays on the loop."""
    rig = OldRig(machine)
    noise = random.Random(5).randbytes(100_000)
    large = build_batch([Record(0, START_MS, None, noise)], compression=codec)
    monkeypatch.setattr(partition_module, "CHECK_NS", 1 << 60)
    assert await outcomes(rig, full_request(large)) == [(0, 0)]
    assert rig.broker.conversions.checked == 0
    monkeypatch.setattr(partition_module, "CHECK_NS", 0)
    assert await outcomes(rig, full_request(large)) == [(0, 1)]
    assert rig.broker.conversions.checked == 1
    assert rig.values() == [noise, noise]
    rig.broker.conversions.close()


async def test_a_very_large_batch_goes_to_the_thread_although_it_is_plain(machine: World) -> None:
    rig = OldRig(machine, max_message_bytes=20 << 20)
    plain = build_batch([Record(0, START_MS, None, bytes(MOST_QUICK_BYTES))])
    assert await outcomes(rig, full_request(plain)) == [(0, 0)]
    assert rig.broker.conversions.checked == 1
    rig.log.update_config(LogConfig(segment_index_bytes=4096, max_message_bytes=100))
    assert await outcomes(rig, full_request(plain)) == [(ErrorCode.MESSAGE_TOO_LARGE, -1)]
    assert rig.broker.conversions.checked == 1
    rig.broker.conversions.close()


async def test_large_plain_batches_of_a_request_that_has_taken_long_go_to_the_thread(machine: World) -> None:
    """And small ones, which take microseconds, do not."""
    rig = OldRig(machine)
    small, large = (build_batch([Record(0, START_MS, None, bytes(size))]) for size in (1000, 100_000))
    assert await outcomes(rig, full_request(small, large), since=NOW) == [(0, 0), (0, 1)]
    assert await outcomes(rig, full_request(small), since=0) == [(0, 2)]
    assert rig.broker.conversions.checked == 0
    assert await outcomes(rig, full_request(large, small), since=0) == [(0, 3), (0, 4)]
    assert rig.broker.conversions.checked == 2, "the second must not overtake the first"
    rig.broker.conversions.close()


async def test_one_above_max_message_bytes_is_not_even_copied(machine: World) -> None:
    rig = OldRig(machine, max_message_bytes=100)
    large = build_batch([Record(0, START_MS, None, bytes(2 << 20))], compression=Compression.GZIP)
    assert await outcomes(rig, full_request(large)) == [(ErrorCode.MESSAGE_TOO_LARGE, -1)]
    assert rig.broker.conversions.checked == 0


# -- transactions


def transactional(
    node: Node,
    *values: str,
    name: str | None = "tx",
    version: int = 12,
    epoch: int = 0,
    compression: Compression = Compression.NONE,
    last_active: int = NOW,
) -> Any:
    """A produce of one batch of producer 1 to t-0, through the wire: the error, or what has to be awaited for it.
    `last_active`: 0 where the client's requests have had the loop for too long already."""
    data = batch(
        *values, producer_id=1, producer_epoch=epoch, base_sequence=0, is_transactional=True, compression=compression
    )
    part = PartitionProduceData(index=0, records=bytes(data))
    topic = TopicProduceData(name="t", topic_id=TOPIC_IDS["t"], partition_data=[part])
    request = ProduceRequest(transactional_id=name, acks=-1, timeout_ms=1, topic_data=[topic])
    header = struct.pack(">hhih", 0, version, 7, -1) + b"\0"
    frame = bytearray(header + encode(request, version))
    broker: Any = SimpleNamespace(
        counters=RequestCounters(),
        authorizer=None,
        partitions=node.partitions,
        transactions=made(node.transactions),
        config=node.config,
    )
    connection: Any = SimpleNamespace(last_active=last_active, client="")
    answer = produce(broker, frame, 0, len(frame), version, 7, connection)
    frame[:] = bytes(len(frame))  # the connection uses its buffer again
    return error_of(answer, version) if isinstance(answer, bytes) else node.begin(answer)  # type: ignore[arg-type]


def error_of(answer: bytes, version: int) -> ErrorCode:
    response, _ = decode(ProduceResponse, version, answer, 9)
    return ErrorCode(response.responses[0].partition_responses[0].error_code)  # type: ignore[call-arg]


def test_a_batch_of_a_transaction_without_its_id_is_refused() -> None:
    node = Node()
    node.init()
    assert transactional(node, "a", name=None) is ErrorCode.INVALID_TXN_STATE
    assert node.log("t").log_end_offset == 0
    node.close()


@pytest.mark.parametrize("version", [11, 12])
def test_a_batch_of_a_transaction(version: int) -> None:
    node = Node()
    me = node.init()
    if version < 12:
        assert transactional(node, "a", version=version) is ErrorCode.TRANSACTION_ABORTABLE
        node.add("tx", me, ("t", 0))
    assert transactional(node, "a", version=version) is ErrorCode.NONE
    assert transactional(node, "b", version=version, epoch=1) is ErrorCode.INVALID_PRODUCER_EPOCH
    node.end("tx", me, commit=True)
    assert node.committed("t") == [b"a"]
    node.close()


def test_a_batch_for_a_topics_id_does_not_go_to_another_of_its_name_after_the_wait() -> None:
    node = Node(flush_messages=1, sync_at_once=False)
    node.init()
    waiting = transactional(node, "a", version=13)
    assert not waiting.done()
    node.partitions.name_of = {b"another".ljust(16): "t"}.get  # deleted meanwhile, and made anew
    node.settle()
    assert error_of(waiting.result(), 13) is ErrorCode.UNKNOWN_TOPIC_ID
    assert node.log("t").log_end_offset == 0
    node.close()


@pytest.mark.parametrize("fails", [False, True])
def test_a_batch_waits_until_its_partition_is_durably_in_the_transaction(fails: bool) -> None:
    node = Node(flush_messages=1, sync_at_once=False)
    me = node.init()
    waiting = transactional(node, "a")
    assert (waiting.done(), node.log("t").log_end_offset) == (False, 0)
    if fails:
        node.world.fake.fail_when(refuse_syncs)
    node.settle()
    assert error_of(waiting.result(), 12) is (ErrorCode.KAFKA_STORAGE_ERROR if fails else ErrorCode.NONE)
    assert node.log("t").log_end_offset == (not fails)
    if not fails:
        node.end("tx", me, commit=True)
        node.settle()
        assert node.committed("t") == [b"a"]
    node.close()


def test_a_batch_that_a_thread_has_looked_at_does_not_outlive_its_transaction() -> None:
    """Version 1 keeps the epoch at an abort; what came after its marker would be committed with the next transaction."""
    node = Node()
    me = node.init()
    node.add("tx", me, ("t", 0))
    known = node.partitions.get("t", 0)
    conversions = Conversions(node.loop)
    assert node.begin(conversions.thread.enter("others")).done()  # the thread is busy with others' batches
    node._table["t", 0] = Partition(known.log, node.loop, node.syncer, known.offload, conversions)  # type: ignore[arg-type]
    waiting = transactional(node, "late" * 100, version=11, compression=Compression.GZIP, last_active=0)
    assert not waiting.done()
    node.end("tx", me, commit=False, version=0)  # its client has closed the connection and gone on with another
    assert node.state() == "CompleteAbort"
    conversions.thread.leave()
    answer = node.loop.run_until_complete(asyncio.wait_for(waiting, 5))
    conversions.close()
    assert error_of(answer, 11) is ErrorCode.TRANSACTION_ABORTABLE
    assert node.log("t").last_stable_offset == node.log("t").log_end_offset
    following = node.init(expected=me)
    node.add("tx", following, ("t", 0))
    node.produce("tx", following, "t", 0, "b", version=10)
    node.end("tx", following, commit=True, version=0)
    assert node.committed("t") == [b"b"]
    node.close()


def refuse_syncs(operation: Operation) -> None:
    if operation.kind == "sync":
        raise OSError("no")
