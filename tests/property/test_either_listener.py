"""A log read through either listener, at any offset and size, gives the same records.

The oracle is the list of records that were put into the log's file, entry by entry: formats 0, 1 and 2 in one log, every
codec, gaps as compaction leaves them within entries and between them, emptied batches, transaction markers. What comes by the
wire is read by kafka-python.
"""

from __future__ import annotations

import asyncio
import inspect
import random
import struct
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import takewhile
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from kafka.record.memory_records import MemoryRecords
from support import message_sets as by_hand
from support.fake_logs import InlineExecutor
from support.logs import ROOT, World
from support.message_sets import FETCH, ListenerWorld
from support.mock_time import START_MS, MockTimer
from tidelog.broker.apis.fetch import fetch
from tidelog.broker.monitoring.collector import RequestCounters
from tidelog.broker.partitions.fetch_session import FetchSessions
from tidelog.broker.partitions.partition import Partition
from tidelog.broker.partitions.purgatory import FetchPurgatory
from tidelog.broker.runtime.fair_places import FairPlaces
from tidelog.config.broker_config import BrokerConfig
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.headers import RequestHeader, request_header_bytes, response_header_bytes
from tidelog.protocol.message_set.cursor import FetchCursor
from tidelog.protocol.message_set.wire import MessageSetError
from tidelog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tidelog.protocol.records.attributes import Compression
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.legacy_record import build_legacy_set
from tidelog.protocol.records.memory_records import iterate_batches, iterate_records
from tidelog.protocol.records.record_batch import Record
from tidelog.protocol.schema import decode, encode
from tidelog.storage.log.unified_log import UnifiedLog

# An example is a whole log, and shrinking one takes longer than a test may.
SETTINGS = settings(max_examples=60, deadline=None, phases=[Phase.reuse, Phase.generate])
FETCH_VERSION = 11
#: Versions of Fetch whose clients know formats up to this one.
OLD_VERSIONS = {0: (0, 1), 1: (2, 3)}


class Entry(NamedTuple):
    """What stands in the log at one place: its bytes, format, offsets, and what a consumer gets of it."""

    data: bytes
    magic: int
    codec: Compression
    last_offset: int
    records: list[Record]


DATA = st.none() | st.binary(max_size=30) | st.sampled_from([b"", bytes(500)])


@st.composite
def entries(draw: st.DrawFn) -> list[Entry]:
    """Up to ten entries, in order, with gaps."""
    made: list[Entry] = []
    offset = draw(st.integers(0, 3))
    for _ in range(draw(st.integers(1, 10))):
        offset += draw(st.sampled_from([0, 0, 0, 1, 5]))
        magic = draw(st.integers(0, 2))
        codec = draw(st.sampled_from(list(Compression)[: 5 if magic == 2 else 4]))
        kind = draw(st.sampled_from(["records"] * 6 + ["marker", "emptied"])) if magic == 2 else "records"
        if kind != "records":
            codec = Compression.NONE  # as Kafka writes them; kafka-python takes lz4 without a byte for broken
        count = 0 if kind == "emptied" else 1 if kind == "marker" else draw(st.integers(1, 4))
        if magic < 2 and codec is Compression.NONE:
            count = 1
        offsets = []
        for _ in range(count):
            offsets.append(offset)
            offset += 1 + draw(st.sampled_from([0, 0, 0, 2]))
        headers = st.lists(st.tuples(st.binary(max_size=3).filter(bytes.isascii), DATA), max_size=2).map(tuple)
        records = [
            Record(at, START_MS + draw(st.integers(-9, 9)), draw(DATA), draw(DATA), draw(headers) if magic == 2 else ())
            for at in offsets
        ]
        last = (offset + draw(st.integers(0, 2)) if magic == 2 else offsets[-1]) if kind != "marker" else offsets[-1]
        if kind == "marker":
            data = build_batch(
                [Record(0, START_MS, b"\0\0\0\1", b"\0\0\0\0\0\0")], base_offset=offsets[0], is_control=True,
                is_transactional=True, producer_id=5, producer_epoch=0,
            )  # fmt: skip
            records = []
        elif magic == 2:
            base = offsets[0] if offsets else offset
            data = build_batch(records, base_offset=base, offsets=offsets, last_offset=last, compression=codec)
        else:
            data = build_legacy_set(records, magic=magic, base_offset=offsets[0], offsets=offsets, compression=codec)
            if magic == 0:
                records = [record._replace(timestamp=-1) for record in records]
        made.append(Entry(data, magic, codec, last, records))
        offset = last + 1
    return made


class BothListeners:
    """Both listeners on one log, without sockets."""

    def __init__(self, log: UnifiedLog, machine: World, max_magic: int) -> None:
        loop = asyncio.get_running_loop()
        offload: Any = SimpleNamespace(active=False)
        partition = Partition(log, loop, None, offload, None)  # type: ignore[arg-type]
        broker: Any = SimpleNamespace(
            loop=loop,
            time=machine.time,
            config=BrokerConfig(message_set_max_magic=max_magic),
            io_pool=InlineExecutor(),
            partitions=SimpleNamespace(
                fence=None,
                get=lambda topic, index: partition if (topic, index) == ("t", 0) else None,
                name_of=lambda _: "t",
            ),
            counters=RequestCounters(),
            authorizer=None,
            quotas=SimpleNamespace(active=False),
            fetch_sessions=FetchSessions(10, machine.time, random.Random(1)),
            purgatory=FetchPurgatory(loop, MockTimer(machine.time)),
        )
        self.message_sets = ListenerWorld(broker, machine)
        self.broker = broker

    async def kafka(self, offset: int, size: int, version: int = FETCH_VERSION) -> tuple[int, bytes]:
        """(error, records) by Kafka's protocol."""
        part = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=size)
        request = FetchRequest(
            max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, topics=[FetchTopic(topic="t", partitions=[part])]
        )
        header = request_header_bytes(RequestHeader(1, version, 7, "c"))
        frame = bytearray(header + encode(request, version))
        answer: Any = fetch(self.broker, frame, 0, len(frame), version, 7, SimpleNamespace(client=""))  # type: ignore[arg-type]
        parts = await answer if inspect.isawaitable(answer) else answer
        data = b"".join(
            part if isinstance(part, bytes) else (part.file.pread(part.count, part.position), part.release())[0]
            for part in parts
        )
        response, _ = decode(FetchResponse, version, data, 4 + len(response_header_bytes(1, version, 7)))
        row = response.responses[0].partitions[0]
        return row.error_code, bytes(row.records or b"")

    async def message_set(self, offset: int, size: int) -> tuple[int, bytes]:
        return await self.message_sets.ask(FETCH, by_hand.fetch("t", 0, offset, size))


@contextmanager
def log_of(made: list[Entry], rolls: set[int]) -> Iterator[tuple[UnifiedLog, World]]:
    """The entries as files, opened as any directory is: what stands in them is not what an append would have made."""
    machine = World()
    directory = f"{ROOT}/t-0"
    for path in (ROOT, directory):
        machine.file_system.make_directory(path)
    segments: list[list[Entry]] = []
    for index, entry in enumerate(made):
        if not segments or index in rolls:
            segments.append([])
        segments[-1].append(entry)
    base = 0
    for segment in segments:
        machine.file_system.write_new(f"{directory}/{base:020}.log", b"".join(entry.data for entry in segment))
        base = segment[-1].last_offset + 1
    machine.start(cleanup_policy=frozenset({"compact"}))  # there are gaps
    yield machine.log(), machine
    machine.stop()


class InlineConversions:
    """`Conversions` without its thread."""

    def __init__(self) -> None:
        self.answers = FairPlaces(1)

    async def run(self, work: Callable[[], Any], client: str) -> Any:
        return work()


def told(entry: Entry, max_magic: int) -> list[Record]:
    """What is left of an entry's records for a client that knows formats up to `max_magic`."""
    if entry.magic <= max_magic:
        return entry.records
    return [record._replace(timestamp=record.timestamp if max_magic else -1, headers=()) for record in entry.records]


def read_by_kafka_python(data: bytes, offset: int) -> tuple[list[Record], int]:
    """(records from `offset` on, offset behind the last whole entry) of what a fetch gave."""
    records: list[Record] = []
    following = offset
    for header in iterate_batches(data):
        entry = data[header.position : header.position + header.size]
        following = header.last_offset + 1
        if (header.magic, header.compression) == (0, Compression.LZ4):
            found = list(iterate_records(entry))  # the one that kafka-python needs another package for
        else:
            batch = MemoryRecords(entry).next_batch()
            marker = getattr(batch, "is_control_batch", False)
            found = [] if marker else [as_record(one) for one in batch]
        records += [record for record in found if record.offset >= offset]
    return records, following


def as_record(one: Any) -> Record:
    headers = tuple((key.encode(), value) for key, value in one.headers)
    return Record(one.offset, -1 if one.timestamp is None else one.timestamp, one.key, one.value, headers)


Ask = Callable[[int, int], Awaitable[tuple[int, bytes]]]


async def read_on(ask: Ask, offset: int, size: int) -> tuple[list[Record], int]:
    """(records, error) from `offset` to the end of the log or the first error; the size is doubled where it must be."""
    records: list[Record] = []
    for _ in range(200):
        error, data = await ask(offset, size)
        if error or not data:
            return records, error
        more, following = read_by_kafka_python(data, offset)
        if following == offset:
            size *= 2
        assert not more or following > more[-1].offset
        records += more
        offset = following
    raise AssertionError("no end")


@pytest.mark.damaged("made up, with gaps that no pass of a cleaner has left")
@SETTINGS
@given(
    entries(),
    st.sets(st.integers(1, 9), max_size=3),
    st.sampled_from([2, 2, 1, 0]),
    st.lists(
        st.tuples(st.integers(-1, 60), st.sampled_from([1, 12, 17, 60, 100, 300, 1 << 20])), min_size=1, max_size=4
    ),
)
def test_either_listener_gives_the_same_records(
    made: list[Entry], rolls: set[int], max_magic: int, asked: list[tuple[int, int]]
) -> None:
    end = made[-1].last_offset + 1

    async def both() -> None:
        with log_of(made, rolls) as (log, machine):
            listeners = BothListeners(log, machine, max_magic)
            listeners.broker.conversions = InlineConversions()
            for offset, size in asked:
                error, data = await listeners.message_set(offset, size)
                kafka_error, kafka_data = await listeners.kafka(offset, size)
                if not 0 <= offset <= end:
                    assert (error, kafka_error, data, kafka_data) == (1, 1, b"", b"")
                    continue
                assert len(data) <= size
                if max_magic == 2:
                    assert data == kafka_data[:size]
                wanted = [record for entry in made for record in entry.records if record.offset >= offset]
                assert await read_on(listeners.kafka, offset, size) == (wanted, 0)
                left = [entry for entry in made if entry.last_offset >= offset]
                # Below format 2 there is no zstd: reading ends in front of it with an error.
                readable = list(takewhile(lambda one: max_magic == 2 or one.codec is not Compression.ZSTD, left))
                wanted = [r for entry in readable for r in told(entry, max_magic) if r.offset >= offset]
                expected = (wanted, 0 if len(readable) == len(left) else ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
                assert await read_on(listeners.message_set, offset, size) == expected
                for version in OLD_VERSIONS.get(max_magic, ()):  # Kafka's clients that know no newer formats either
                    assert await read_on(partial(listeners.kafka, version=version), offset, size) == expected
                assert await read_with_cursor(listeners, offset, size) == expected
            sends = listeners.message_sets.sends
            if all(entry.magic <= max_magic for entry in made):
                assert sends.copy_fetch_bytes == 0, "nothing is copied unless it is converted"
            if max_magic == 2 and any(0 <= offset < end for offset, _ in asked):
                assert sends.sendfile_bytes > 0

    asyncio.run(both())


async def read_with_cursor(listeners: BothListeners, offset: int, size: int) -> tuple[list[Record], int]:
    """The same, by the client of this package, with requests and answers as they are on the wire."""
    cursor = FetchCursor("t", 0, offset, fetch_size=size)
    records: list[Record] = []
    while not cursor.at_end:
        answer = listeners.message_sets.start(cursor.request())
        error, data = listeners.message_sets.taken(await answer if inspect.isawaitable(answer) else answer)
        assert 2 + len(data) <= cursor.answer_limit
        try:
            records += cursor.receive(struct.pack(">h", error) + data)
        except MessageSetError as refused:
            return records, refused.code
    return records, 0
