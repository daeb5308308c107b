"""The quick way of Produce and Fetch gives what the general way gives: answers, bytes on disk, counts, sessions.

Two nodes without sockets get the same requests, one by its quick path first, as connections do, and one by its dispatcher
alone, which is the oracle. Their clocks move together, and each change of a setting is made in both.
"""

from __future__ import annotations

import asyncio
import inspect
import random
import tempfile
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from time import perf_counter_ns
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from support.cleaning import append_marker
from support.logs import World, batch
from support.mock_time import MockTimer
from support.topic_world import topic_world
from tidelog.broker.network.outbound import FileSlice, SendCounters
from tidelog.broker.partitions.fetch_session import FetchSessions
from tidelog.broker.partitions.purgatory import FetchPurgatory
from tidelog.broker.produce_fetch._quick import QuickPath
from tidelog.broker.quotas.quota import CLIENT_ID, CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE
from tidelog.broker.requests.counters import RequestCounters
from tidelog.broker.requests.dispatcher import Dispatcher
from tidelog.broker.requests.registry import load_apis
from tidelog.broker.runtime.exceptions import ConnectionAborted
from tidelog.protocol.api_keys import ApiKey
from tidelog.protocol.headers import RequestHeader, request_header_bytes
from tidelog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from tidelog.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tidelog.protocol.records.attributes import Compression
from tidelog.protocol.records.legacy_record import build_legacy_set
from tidelog.protocol.records.record_batch import LAST_OFFSET_DELTA_AT, Record
from tidelog.protocol.schema import encode
from tidelog.storage.io.filesystem import File, RealFileSystem

# An example is some tens of requests to two nodes on a disk.
SETTINGS = settings(max_examples=30, deadline=None, phases=[Phase.reuse, Phase.generate])

PRODUCES, FETCHES = range(3, 14), range(4, 19)
TOPICS: dict[str, dict[str, str]] = {
    "plain": {},
    "small": {"segment.bytes": "1500", "index.interval.bytes": "0"},
    "compacted": {"cleanup.policy": "compact"},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
    "two": {"min.insync.replicas": "2"},
    "little": {"max.message.bytes": "300"},
    "old": {"message.format.version": "0.10.0"},
    "squeezed": {"compression.type": "zstd"},
}
NAMES = [*TOPICS, "__consumer_offsets", "nobody's", *["plain"] * 8, *["small"] * 4]


class Rights:
    """Rules that know at once what they allow, or only when they are asked in earnest."""

    def __init__(self) -> None:
        self.denied: set[str] = set()
        self.slow = False
        self.asked: list[str] = []

    def allows(self, _principal: str, _host: str, _operation: Any, _kind: Any, name: str) -> bool:
        self.asked.append(name)
        return name not in self.denied

    def is_known_to_allow(self, *question: Any) -> bool:
        return not self.slow and question[-1] not in self.denied and self.allows(*question)


class Client:
    """A connection, as far as requests look at it."""

    principal = "User:c"
    user = "c"
    client = "c"
    peer_host = "127.0.0.1"
    pending_key = pending_since = 0

    def __init__(self) -> None:
        self.muted: list[int] = []

    @property
    def last_active(self) -> int:
        """Each request has just come."""
        return perf_counter_ns()

    def mute(self, milliseconds: int) -> None:
        self.muted.append(milliseconds)


class Way:
    """A node, and the one way by which it is asked."""

    def __init__(self, world: Any, machine: World, *, is_quick: bool, rights: Rights | None) -> None:
        self.world, self.machine = world, machine
        world.time = machine.time
        world.fetch_sessions = FetchSessions(100, machine.time, random.Random(1))
        world.purgatory = FetchPurgatory(world.loop, MockTimer(machine.time))
        world.counters = RequestCounters()
        world.fetch_max_bytes = 1 << 20
        world.authorizer = rights
        world.audit = SimpleNamespace(get=lambda: SimpleNamespace(denied=lambda *_: None))
        world.socket_server = SimpleNamespace(send_counters=SendCounters())
        self.dispatcher = Dispatcher(world, load_apis())
        self.path = QuickPath(world, self.dispatcher.metered)
        self.is_quick = is_quick
        self.client = Client()

    async def ask(self, frame: bytes) -> tuple[str, bytes]:
        """How it was answered, and the answer. The request lies in the middle of a buffer, as where several came."""
        buffer = bytearray(b"before" + frame + b"behind")
        first, end = 6, 6 + len(frame)
        try:
            answer: Any = NotImplemented
            if self.is_quick:
                answer = self.path.take(buffer, first, end, self.client)  # type: ignore[arg-type]
            if answer is NotImplemented:
                answer = self.dispatcher.dispatch(buffer, first, end, self.client)  # type: ignore[arg-type]
            if inspect.isawaitable(answer):
                waiting = asyncio.ensure_future(answer)
                if frame[1] == ApiKey.PRODUCE:  # a thread has it
                    await asyncio.wait([waiting], timeout=30)
                for _ in range(5):
                    await asyncio.sleep(0)
                if not waiting.done():
                    waiting.cancel()
                    return "waits", b""
                answer = waiting.result()
        except ConnectionAborted as error:
            return f"closed: {error}", b""
        assert bytes(buffer[:6] + buffer[-6:]) == b"beforebehind"
        if answer is None:
            return "nothing", b""
        data = b""
        for part in answer if isinstance(answer, list) else [answer]:
            if isinstance(part, FileSlice):
                data += part.file.pread(part.count, part.position)
                part.release()
            else:
                data += part
        return "answered", data

    def counts(self) -> Any:
        counters = self.world.counters
        return (
            counters.produced_bytes, counters.produced_records, counters.fetched_bytes, counters.errors, counters.produce_errors,
            [sum(row) for row in counters.latencies], self.client.muted,
            self.world.authorizer and self.world.authorizer.asked,
        )  # fmt: skip

    def files(self) -> dict[str, bytes]:
        """What lies in the log files and their indexes, as far as they are used."""
        found = {}
        for name in TOPICS:
            log = self.world.partitions.get(name, 0).log
            for segment in log.segments:
                path = Path(log.directory) / f"{segment.base_offset:020}"
                found[f"{name} {segment.base_offset}"] = path.with_suffix(".log").read_bytes()[
                    : segment.size
                ] + b"".join(path.with_suffix(suffix).read_bytes().rstrip(b"\0") for suffix in (".index", ".timeindex"))
        return found

    def state(self) -> Any:
        sessions = self.world.fetch_sessions._sessions
        told = [
            (number, session.epoch, key, *(getattr(part, name) for name in part.__slots__))
            for number, session in sessions.items()
            for key, part in session.partitions.items()
        ]
        logs = [
            (log.log_start_offset, log.high, log.last_stable_offset, log.log_end_offset, log.producer_summaries())
            for log in (self.world.partitions.get(name, 0).log for name in TOPICS)
        ]
        return told, logs


def both_ways(
    work: Callable[[Way, Way], Coroutine[Any, Any, None]], *, authorized: bool = False, first: str = ""
) -> None:
    """Run `work` with two nodes that are alike, and compare what they leave behind."""

    async def run() -> None:
        async with AsyncExitStack() as stack:
            ways = []
            for is_quick in (True, False):
                root = Path(stack.enter_context(tempfile.TemporaryDirectory()))
                (root / "logs").mkdir()
                machine = World(RealFileSystem(), directories=[str(root / "logs")])
                stack.callback(machine.stop)
                world = await stack.enter_async_context(topic_world(root, machine.start()))
                for name, configs in TOPICS.items():
                    await world.topics.create(name, 1, configs)
                    world.partitions.get(name, 0)
                    world.partitions.name_of(world.topics.get(name).topic_id.bytes)  # asked for once, as by any client
                ways.append(Way(world, machine, is_quick=is_quick, rights=Rights() if authorized else None))
            await work(ways[0], ways[1])
            assert ways[0].counts() == ways[1].counts(), first
            assert ways[0].state() == ways[1].state()
            assert ways[0].files() == ways[1].files()

    asyncio.run(run())


def id_of(way: Way, name: str) -> bytes:
    topic = way.world.topics.get(name)
    return bytes(16) if topic is None else bytes(topic.topic_id.bytes)


def produce(way: Way, version: int, name: str, records: bytes | None, **fields: Any) -> bytes:
    part = PartitionProduceData(index=fields.pop("index", 0), records=records)
    topic = TopicProduceData(name=name, topic_id=id_of(way, name), partition_data=[part] * fields.pop("parts", 1))
    request = ProduceRequest(**{"acks": -1, "timeout_ms": 1000, "topic_data": [topic], **fields})
    return request_header_bytes(RequestHeader(0, version, 7, "client")) + encode(request, version)


def fetch(way: Way, version: int, name: str | None, offset: int, most: int = 1 << 20, **fields: Any) -> bytes:
    topics = []
    index, epoch = fields.pop("index", 0), fields.pop("leader_epoch", -1)
    if name is not None:
        part = FetchPartition(
            partition=index, fetch_offset=offset, partition_max_bytes=most, current_leader_epoch=epoch
        )
        topics = [FetchTopic(topic=name, topic_id=id_of(way, name), partitions=[part])]
    request = FetchRequest(**{"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, "topics": topics, **fields})
    return request_header_bytes(RequestHeader(1, version, 9, "client")) + encode(request, version)


@pytest.mark.parametrize("authorized", [False, True])
def test_the_common_produce_and_fetch_of_each_version_are_quick(authorized: bool) -> None:
    async def work(quick: Way, general: Way) -> None:
        offset = 0
        for version in PRODUCES:
            for acks in (-1, 0, 1):
                data = bytes(batch("a", "b"))
                answers = [await way.ask(produce(way, version, "plain", data, acks=acks)) for way in (quick, general)]
                assert answers[0] == answers[1]
        made = quick.path.produces
        assert made == 3 * len(PRODUCES)
        for version in FETCHES:
            for most, isolation in ((1, 0), (200, 0), (1 << 20, 0), (300, 1)):
                asked = {"isolation_level": isolation}
                answers = [
                    await way.ask(fetch(way, version, "plain", offset, most, **asked)) for way in (quick, general)
                ]
                assert answers[0] == answers[1]
                assert answers[0][0] == "answered"
            offset += 2
        assert quick.path.fetches == 4 * len(FETCHES) - 1, "all but the first that looks for aborted transactions"
        for version in range(7, 19):
            session = 0
            for epoch in range(1, 4):
                if not session:
                    first = [
                        await way.ask(fetch(way, version, "plain", 0, session_epoch=0)) for way in (quick, general)
                    ]
                    assert first[0] == first[1]
                    at = 4 + 4 + 4 + 2 + (1 if version >= 12 else 0)
                    session = int.from_bytes(first[0][1][at : at + 4], "big")
                    assert session
                name = "plain" if epoch != 3 else None
                asked = {"session_id": session, "session_epoch": epoch}
                before = quick.path.fetches
                answers = [await way.ask(fetch(way, version, name, epoch * 2, **asked)) for way in (quick, general)]
                assert answers[0] == answers[1]
                assert quick.path.fetches == before + 1, "a session of one partition is quick too"

    both_ways(work, authorized=authorized)


def say_that_the_second_batch_ends_at_9(file: File, size: int) -> None:
    with open(file.path, "r+b") as damaged:
        damaged.seek(size + LAST_OFFSET_DELTA_AT)
        damaged.write((7).to_bytes(4, "big"))


def test_a_header_that_is_damaged_sends_no_later_reader_back() -> None:
    async def work(quick: Way, general: Way) -> None:
        for way in (quick, general):
            for _ in range(9):
                await way.ask(produce(way, 9, "plain", bytes(batch("a", "b"))))
            log = way.world.partitions.get("plain", 0).log
            file = log.segments[-1].lease_file()
            size = log.size // 9
            say_that_the_second_batch_ends_at_9(file, size)
            file.release()
        before = quick.path.fetches
        asked = [await way.ask(fetch(way, 12, "plain", 2, 1)) for way in (quick, general)]
        assert asked[0] == asked[1]
        assert quick.path.fetches == before, "the general way sends that batch alone"
        for way in (quick, general):
            assert way.world.partitions.get("plain", 0).log.segments[-1].hint(10) == 5 * size
            assert (await way.ask(fetch(way, 12, "plain", 10, 1)))[1].count((10).to_bytes(8, "big")) == 1

    both_ways(work)


def test_a_reader_of_large_slices_goes_the_quick_way_from_batch_to_batch_and_in_older_segments() -> None:
    async def work(quick: Way, general: Way) -> None:
        for size in (20_000, 300):  # one slice holds three, or two hundred
            count = 12 if size == 20_000 else 400
            for way in (quick, general):
                first = way.world.partitions.get("plain", 0).log.high_watermark
                for _ in range(count):
                    await way.ask(produce(way, 9, "plain", bytes(batch("x" * size))))
            for is_old in (False, True):
                offset, slow = first, 0
                while offset < first + count:
                    before = quick.path.fetches
                    asked = [await way.ask(fetch(way, 12, "plain", offset, 65_536)) for way in (quick, general)]
                    assert asked[0] == asked[1]
                    slow += quick.path.fetches == before
                    data = asked[0][1]
                    offset += sum(data.count(start) for start in (b"x" * size,))
                assert offset == first + count
                # A slice of very many batches ends where nobody has looked.
                assert slow <= (1 if size == 20_000 else 2 + count * size // 65_536), (size, is_old)
                for way in (quick, general):
                    if not is_old:
                        way.world.partitions.get("plain", 0).log.local.roll()
                        await way.ask(produce(way, 9, "plain", bytes(batch("new"))))

    both_ways(work)


def test_a_compressed_batch_goes_the_general_way() -> None:
    async def work(quick: Way, general: Way) -> None:
        for codec in CODECS:
            data = bytes(batch(*["v" * 100] * 100, compression=codec))
            answers = [await way.ask(produce(way, 9, "plain", data)) for way in (quick, general)]
            assert answers[0] == answers[1]
            assert quick.path.produces == 0

    both_ways(work)


def test_a_batch_that_is_refused_is_told_so_and_of_a_late_sync_is_waited_for() -> None:
    async def work(quick: Way, general: Way) -> None:
        broken = bytearray(batch("a"))
        broken[20] ^= 1
        out_of_order = [batch("a", producer_id=5, producer_epoch=0, base_sequence=at) for at in (0, 1, 1, 7)]
        for data in (broken, *out_of_order, batch("a" * 400)):
            for name in ("plain", "little"):
                for acks in (-1, 0):
                    asked = [await way.ask(produce(way, 9, name, bytes(data), acks=acks)) for way in (quick, general)]
                    assert asked[0] == asked[1]

    both_ways(work)


CODECS = [codec for codec in Compression if codec is not Compression.NONE]
KINDS = [
    *["plain"] * 8, "one", "large", "compressed", "compressed", "dense", "transactional",
    "broken", "keyless", "null", "empty", "short", "two",
    "set", "producer", "producer", "control", "future",
]  # fmt: skip


def records_of(kind: str, rng: random.Random) -> bytes | None:
    values = ["v" * rng.choice([0, 1, 10, 300]) for _ in range(rng.randint(1, 5))]
    match kind:
        case "null":
            return None
        case "empty":
            return b""
        case "short":
            return bytes(batch(*values))[: rng.randint(1, 61)]
        case "two":
            return bytes(batch(*values)) * 2
        case "set":
            return build_legacy_set([Record(0, 5, b"k", b"v")], magic=1)
        case "large":
            return bytes(batch("x" * rng.choice([17_000, 65_000, 66_000])))
        case "compressed":
            return bytes(batch(*values, compression=rng.choice(CODECS)))
        case "dense":  # holds more than the loop looks at
            return bytes(batch(*["x" * 100_000] * 4, compression=rng.choice(CODECS)))
        case "transactional":
            return bytes(batch(*values, producer_id=9, producer_epoch=0, base_sequence=0, is_transactional=True))
        case "producer":
            return bytes(
                batch(*values, producer_id=7, producer_epoch=rng.choice([0, 0, 0, 1]), base_sequence=rng.randint(0, 5))
            )
        case "control":
            return bytes(batch("v", is_control=True))
        case "future":
            return bytes(batch(*values, timestamp=4_000_000_000_000))
        case "keyless":
            from tidelog.protocol.records.builder import build_batch

            return build_batch([Record(0, 1_700_000_000_000, None, b"v")])
    data = bytearray(batch(*values[: 1 if kind == "one" else 5]))
    if kind == "broken":
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


class Requests:
    """Random requests, and changes between them, of two nodes alike."""

    def __init__(self, rng: random.Random, quick: Way, general: Way) -> None:
        self.rng = rng
        self.ways = (quick, general)
        #: Those that the nodes hold, and their epochs.
        self.sessions: dict[int, int] = {}

    async def seed(self) -> None:
        for name in ("plain", "small", "stamped") * 3:
            data = bytes(batch(*"abc"[: self.rng.randint(1, 3)]))
            for way in self.ways:
                await way.ask(produce(way, 9, name, data))

    async def step(self) -> None:
        rng = self.rng
        kind = rng.choice(
            ["produce"] * 6
            + ["fetch"] * 6
            + ["session"] * 4
            + ["time", "quota", "rights", "delete", "roll", "transaction"]
        )
        name = rng.choice(NAMES)
        if kind not in ("produce", "fetch", "session"):
            await self.change(kind, name)
            return
        frames = self.produces(name) if kind == "produce" else self.fetches(name, in_session=kind == "session")
        if rng.random() < 0.1:
            frames = self.damaged(frames)
        asked = [await way.ask(frame) for way, frame in zip(self.ways, frames, strict=True)]
        assert asked[0] == asked[1], (kind, name, frames[0].hex())
        held = self.ways[1].world.fetch_sessions._sessions
        self.sessions = {number: session.epoch for number, session in held.items()}

    def produces(self, name: str) -> list[bytes]:
        rng = self.rng
        version, data = rng.choice(PRODUCES), records_of(rng.choice(KINDS), rng)
        fields: dict[str, Any] = {"acks": rng.choice([-1, -1, 1, 0, 2])}
        if rng.random() < 0.1:
            fields |= {"index": rng.choice([1, -1])}
        if rng.random() < 0.1:
            fields |= {"parts": rng.choice([0, 2])}
        return [produce(way, version, name, data, **fields) for way in self.ways]

    def fetches(self, name: str, *, in_session: bool) -> list[bytes]:
        rng = self.rng
        version = rng.choice([7, 12, 13, 18] if in_session else FETCHES)
        fields: dict[str, Any] = {
            "max_wait_ms": rng.choice([0, 500]),
            "min_bytes": rng.choice([0, 1, 1, 1, 200, 5000]),
            "max_bytes": rng.choice([1 << 20, 1 << 20, 300, 0]),
            "isolation_level": rng.choice([0, 0, 1]),
        }
        if rng.random() < 0.1:
            fields |= {"leader_epoch": rng.choice([0, 1])}
        if rng.random() < 0.1:
            fields |= {"index": 1}
        told: str | None = name
        if in_session:
            session = rng.choice([0, *self.sessions])
            epoch = self.sessions.get(session, 0) + rng.choice([0] * 9 + [1])
            fields |= {"session_id": session, "session_epoch": epoch}
            if session and rng.random() < 0.4:
                told = None
            if rng.random() < 0.1:
                gone = [ForgottenTopic(topic=name, topic_id=id_of(self.ways[0], name), partitions=[0])]
                fields |= {"forgotten_topics_data": gone}
        partition = self.ways[1].world.partitions.get(name, 0)
        end = 0 if partition is None else partition.log.high_watermark
        starts = [0] if partition is None else [*rng.choice(partition.log.segments).hints, 0]
        offset = rng.choice([*[rng.choice(starts)] * 8, *[rng.randint(0, end)] * 3, -1])
        most = rng.choice([1, 100, 300, 4000, 20_000, 70_000, 1 << 20, 1 << 20])
        return [fetch(way, version, told, offset, most, **fields) for way in self.ways]

    def damaged(self, frames: list[bytes]) -> list[bytes]:
        cut, how, bit = (
            self.rng.randrange(len(frames[0])),
            self.rng.choice(["cut", "flip", "more"]),
            1 << self.rng.randrange(8),
        )
        if how == "cut":
            return [frame[:cut] for frame in frames]
        if how == "more":
            return [frame + b"\0" for frame in frames]
        return [frame[:cut] + bytes([frame[cut] ^ bit]) + frame[cut + 1 :] for frame in frames]

    async def change(self, kind: str, name: str) -> None:
        rng = self.rng
        milliseconds, rate = rng.choice([1, 1, 1000]), rng.choice([100.0, 1e9, None])
        key, is_denied = rng.choice([PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE]), rng.random() < 0.5
        for way in self.ways:
            match kind:
                case "time":
                    way.machine.time.advance(milliseconds)
                case "quota":
                    await way.world.quotas.alter([(CLIENT_ID, "client")], {key: rate}, False)
                case "rights" if way.world.authorizer is not None:
                    way.world.authorizer.denied = {"plain"} if is_denied else set()
                    way.world.authorizer.slow = name == "small"
                case "delete":
                    log = way.world.partitions.get("small", 0).log
                    log.increment_log_start_offset(log.high_watermark // 2)
                case "transaction":
                    log = way.world.partitions.get("plain", 0).log
                    if log.producers.has_open_transaction(9, 0):
                        append_marker(log, 9, 0, commit=is_denied)
                    else:
                        known = log.producers.entry(9)
                        data = batch(
                            "in it",
                            producer_id=9,
                            producer_epoch=0,
                            base_sequence=0 if known is None else known.last_sequence + 1,
                            is_transactional=True,
                        )
                        log.append_as_leader(data, 0, len(data))
                case "roll":
                    way.world.partitions.get("plain", 0).log.local.roll()


@SETTINGS
@given(st.integers(0, 2**32), st.booleans())
def test_any_requests_get_the_same_either_way(seed: int, authorized: bool) -> None:
    rng = random.Random(seed)

    async def work(quick: Way, general: Way) -> None:
        requests = Requests(rng, quick, general)
        await requests.seed()
        for _ in range(rng.randint(5, 40)):
            await requests.step()

    both_ways(work, authorized=authorized)
