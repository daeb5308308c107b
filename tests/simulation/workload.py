"""What happens in one run: writers, readers and committers at work, while chaos restarts, kills and cuts, all by the seed.

`Profile.of` draws what kind of run it is. No part serves one defect: a profile mixes all of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from simulation.client import Channel, Lost
from simulation.history import COMMITTED, NO_OFFSET, Broken, History, Marks, Outcome, Place, Sent, Transaction
from simulation.machine import Machine
from simulation.network import Network
from simulation.scheduler import MICROSECOND, MILLISECOND, Simulation
from support.left_behind import faults_of
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages import add_partitions_to_txn as add_partitions
from tidelog.protocol.messages import (
    create_topics,
    delete_records,
    delete_topics,
    end_txn,
    init_producer_id,
    list_offsets,
    offset_commit,
    offset_fetch,
    produce,
)
from tidelog.protocol.messages import fetch as fetches
from tidelog.protocol.messages import find_coordinator as find
from tidelog.protocol.records.attributes import Compression
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.record_batch import Record

NONE = int(ErrorCode.NONE)
#: Errors of a moment: the same request may succeed a little later, and has not been carried out.
PASSING = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.KAFKA_STORAGE_ERROR,
}  # fmt: skip
#: Errors after which a record may stand in the log all the same.
UNCERTAIN = {ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.KAFKA_STORAGE_ERROR}
GONE = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER}
FENCED = {
    ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_TXN_STATE,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
}  # fmt: skip
PAUSE_S = 0.05
EARLIEST, LATEST = -2, -1
OF_GROUPS, OF_TRANSACTIONS = 0, 1


@dataclass
class Profile:
    """What kind of run a seed is.

    Attributes:
        durable: the log is synced before an answer (log.flush.interval.messages=1); the power may be cut.
        seconds: virtual time of the work.
    """

    durable: bool
    seconds: float
    partitions: int
    writers: int
    transactional: int
    readers: int
    committers: int
    chaos: int
    segment_bytes: int
    settings: dict[str, str]

    @classmethod
    def of(cls, sim: Simulation) -> Profile:
        rng = sim.rng
        durable = rng.random() < 0.6
        segment_bytes = rng.choice((2 << 10, 8 << 10, 64 << 10))
        settings = {
            "log.retention.check.interval.ms": str(rng.choice((300, 2000, 20_000))),
            "log.initial.task.delay.ms": "200",
            "log.cleaner.backoff.ms": str(rng.choice((200, 1500))),
            "log.segment.delete.delay.ms": str(rng.choice((0, 500, 60_000))),
            "log.flush.offset.checkpoint.interval.ms": str(rng.choice((500, 5000))),
            "offsets.topic.num.partitions": "2",
            "transaction.state.log.num.partitions": "2",
            "offsets.topic.segment.bytes": str(rng.choice((4 << 10, 1 << 20))),
            "transaction.state.log.segment.bytes": str(rng.choice((4 << 10, 1 << 20))),
            "log.index.size.max.bytes": str(rng.choice((240, 4 << 10))),
        }
        if durable:
            settings["log.flush.interval.messages"] = "1"
        delays = Network.of(sim).delays
        delays.most = rng.choice((100, 1000, 10_000)) * MICROSECOND
        delays.late_chance = rng.choice((0.0, 0.01, 0.1))
        delays.late_most = rng.choice((20, 500)) * MILLISECOND
        delays.segment = rng.choice((50, 500, 1460, 1460))
        delays.window = rng.choice((900, 16 << 10, 256 << 10))
        return cls(
            durable, rng.choice((2.0, 5.0, 12.0)), rng.choice((1, 2)), rng.randrange(1, 4), rng.randrange(3), rng.randrange(1, 4),
            rng.randrange(2), rng.randrange(0, 8), segment_bytes, settings,
        )  # fmt: skip


class World:
    """One run: its machine, its history and its clients. The world's thread."""

    def __init__(self, sim: Simulation) -> None:
        self.sim = sim
        self.rng = random.Random(f"work {sim.seed}")
        self.profile = Profile.of(sim)
        self.machine = Machine(sim, self.profile.settings)
        self.history = History(sim)
        self.places: list[Place] = []
        self.is_over = False
        self._clients = 0
        self._cuts = 0

    async def run(self) -> None:
        """The whole run. Raises Broken."""
        await self.machine.start()
        await self._make_topics()
        profile = self.profile
        work: list[Awaitable[None]] = [Writer(self, self.rng.random() < 0.6).run() for _ in range(profile.writers)]
        work += [TransactionalWriter(self, number).run() for number in range(profile.transactional)]
        work += [Reader(self).run() for _ in range(profile.readers)]
        work += [Committer(self, number).run() for number in range(profile.committers)]
        work.append(self._chaos())
        async with asyncio.timeout(10 * profile.seconds + 3600):
            async with asyncio.TaskGroup() as group:
                for part in work:
                    group.create_task(part)  # type: ignore[arg-type]
        await self._judge()

    def channel(self, name: str) -> Channel:
        self._clients += 1
        return Channel(self.machine, f"{name}-{self._clients}")

    async def _make_topics(self) -> None:
        rng, segment = self.rng, self.profile.segment_bytes
        common = {"segment.bytes": segment, "index.interval.bytes": rng.choice((100, 4096))}
        topics = {
            "plain": {**common, **rng.choice(({}, {"retention.bytes": 4 * segment}, {"retention.ms": 4000}))},
            "keyed": {**common, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "1000",
                      "delete.retention.ms": rng.choice((0, 3000))},
            "other": common,
        }  # fmt: skip
        for name, settings in topics.items():
            await self.create(name, settings)

    async def create(self, name: str, settings: dict[str, object]) -> None:
        """Makes a topic, with patience."""
        configs = [create_topics.CreatableTopicConfig(name=key, value=str(value)) for key, value in settings.items()]
        topic = create_topics.CreatableTopic(
            name=name, num_partitions=self.profile.partitions, replication_factor=1, configs=configs
        )
        request = create_topics.CreateTopicsRequest(topics=[topic])
        channel = self.channel("admin")
        while True:
            with contextlib.suppress(Lost):
                answer = await channel.ask(request, create_topics.CreateTopicsResponse, 4)
                error = answer.topics[0].error_code
                if error in (NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                    break
                if error not in PASSING | UNCERTAIN:
                    raise Broken(f"topic {name} is not made: {ErrorCode(error).name}")
            await asyncio.sleep(PAUSE_S)
        channel.close()
        self.history.note("topic", name=name)
        for number in range(self.profile.partitions):
            self.places.append((name, number))
            self.history.log((name, number), is_cleaned="compact" in str(settings.get("cleanup.policy")))

    # --- chaos ---

    async def _chaos(self) -> None:
        rng, profile = self.rng, self.profile
        crash = self._power_cut if profile.durable else self._kill
        acts: list[Callable[[], Awaitable[None]]] = [
            crash, crash, self._kill, self._restart, self._resets, self._resets, self._silences, self._slow_disk,
            self._delete_records, self._delete_records, self._remake_topic,
        ]  # fmt: skip
        for _ in range(profile.chaos):
            await asyncio.sleep(rng.random() * 2 * profile.seconds / (profile.chaos + 1))
            act = rng.choice(acts)
            self.history.note(f"chaos: {act.__name__.strip('_')}")
            await act()
        await asyncio.sleep(max(profile.seconds - self.sim.now_ns / 1e9, 0))
        self.is_over = True

    async def _power_cut(self) -> None:
        self._cuts += 1
        self.machine.cut_power(1000 * self.sim.seed + self._cuts)
        await self._again()

    async def _kill(self) -> None:
        self.machine.kill()
        await self._again()

    async def _restart(self) -> None:
        await self.machine.stop()
        self.verify()
        await self._again()

    async def _again(self) -> None:
        await asyncio.sleep(self.rng.choice((0.0, 0.3, 3.0)))
        await self.machine.start()

    async def _resets(self) -> None:
        ends = list(self.machine.network.streams)
        for end in self.rng.sample(ends, min(len(ends), self.rng.randrange(1, 4))):
            end.reset()

    async def _silences(self) -> None:
        ends = list(self.machine.network.streams)
        if ends:
            self.rng.choice(ends).silence()

    async def _slow_disk(self) -> None:
        weather = self.machine.disk.weather
        before = weather.slow_chance, weather.slow_most, weather.sync_most
        weather.slow_chance, weather.slow_most, weather.sync_most = 0.3, 400 * MILLISECOND, 900 * MILLISECOND
        await asyncio.sleep(self.rng.random() * 3)
        weather.slow_chance, weather.slow_most, weather.sync_most = before

    async def _delete_records(self) -> None:
        place = self.rng.choice([place for place in self.places if place[0] != "keyed"])
        log = self.history.log(place)
        if not log.end:
            return
        upto = self.rng.choice((-1, self.rng.randrange(log.end + 1)))
        topic, number = place
        part = delete_records.DeleteRecordsPartition(partition_index=number, offset=upto)
        request = delete_records.DeleteRecordsRequest(
            topics=[delete_records.DeleteRecordsTopic(name=topic, partitions=[part])], timeout_ms=30_000
        )
        channel = self.channel("admin")
        with contextlib.suppress(Lost):
            answer = await channel.ask(request, delete_records.DeleteRecordsResponse, 2)
            found = answer.topics[0].partitions[0]
            self.history.note(
                "deleted records", place=place, upto=upto, error=found.error_code, start=found.low_watermark
            )
            if not found.error_code and found.low_watermark < upto:
                raise Broken(f"{place}: records below {upto} were deleted, and the log starts at {found.low_watermark}")
        channel.close()

    async def _remake_topic(self) -> None:
        """A topic that nobody else uses comes and goes."""
        name = f"short-{self.rng.randrange(3)}"
        request = delete_topics.DeleteTopicsRequest(topic_names=[name], timeout_ms=30_000)
        channel = self.channel("admin")
        with contextlib.suppress(Lost):
            config = [create_topics.CreatableTopicConfig(name="segment.bytes", value="4096")]
            topic = create_topics.CreatableTopic(name=name, num_partitions=3, replication_factor=1, configs=config)
            await channel.ask(create_topics.CreateTopicsRequest(topics=[topic]), create_topics.CreateTopicsResponse, 4)
            await channel.ask(request, delete_topics.DeleteTopicsResponse, 4)
        channel.close()

    # --- the end ---

    def verify(self) -> None:
        """What a clean stop leaves, by `log verify` and `log scrub`: no fault."""
        disk = self.machine.disk
        disk.is_quiet = True
        faults = faults_of(disk, str(self.machine.directory))
        disk.is_quiet = False
        self.history.note("verified")
        if faults:
            raise Broken("log verify after a clean stop: " + "; ".join(faults))

    async def _judge(self) -> None:
        """Stops, looks, starts again, and reads everything."""
        await self.machine.stop()
        self.verify()
        await self.machine.start()
        for place in self.places:
            _, found = await self._read_whole(place, 0)
            start, committed = await self._read_whole(place, COMMITTED)
            self.history.judge_log(place, start, found, set(committed.values()))
        await self.machine.stop()
        self.verify()

    async def _read_whole(self, place: Place, isolation: int) -> tuple[int, dict[int, str]]:
        """The name of each record in a log, and the log's start afterwards: retention goes on meanwhile."""
        reader = Reader(self, place, isolation)
        start = await reader.offset_of(EARLIEST)
        end = await reader.offset_of(LATEST)
        reader.position = start
        while reader.position < end:
            before = reader.position
            await reader.step(max_wait_ms=100)
            if reader.position == before:
                # Only a transaction that is still open holds a reader of committed data.
                if isolation == COMMITTED and reader.marks.stable <= before:
                    break
                raise Broken(f"{place}: nothing is read at {before}, and the log ends at {end}")
            end = max(end, reader.marks.high) if isolation == 0 else end
        start = await reader.offset_of(EARLIEST)
        reader.channel.close()
        return start, reader.found


async def find_coordinator(world: World, channel: Channel, key: str, kind: int) -> None:
    """What a client asks first; the first one has the internal topic made. With patience. Lost."""
    request = find.FindCoordinatorRequest(key=key, key_type=kind)
    error: int = ErrorCode.COORDINATOR_NOT_AVAILABLE
    while error in PASSING:
        error = (await channel.ask(request, find.FindCoordinatorResponse, 3)).error_code
        await asyncio.sleep(PAUSE_S)
    if error:
        raise Broken(f"{key}: no coordinator: {ErrorCode(error).name}")
    world.history.note("coordinator", key=key)


class Writer:
    """Writes batches to any partition of `plain`, `keyed` and `other`; an idempotent one sends again what it is not sure of."""

    def __init__(self, world: World, is_idempotent: bool, name: str = "") -> None:
        self.world = world
        self.rng = random.Random(f"{world.rng.random()}")
        self.channel = world.channel("writer")
        self.is_idempotent = is_idempotent
        self.name = name or self.channel.name
        self.producer_id, self.epoch = -1, -1
        self.sequences: dict[Place, int] = {}
        self._numbers: dict[Place, int] = {}
        self.version = self.rng.randrange(3, 12)
        self.transaction: Transaction | None = None

    async def run(self) -> None:
        while not self.world.is_over:
            try:
                if self.is_idempotent and self.producer_id < 0:
                    await self.begin_id(None)
                    continue
                await self.write(self.rng.choice(self.world.places))
            except Lost:
                await asyncio.sleep(PAUSE_S)
            if self.rng.random() < 0.5:
                await asyncio.sleep(self.rng.random() * 0.2)
        self.channel.close()

    async def begin_id(self, transactional_id: str | None) -> None:
        """A producer id. Lost."""
        if transactional_id is not None:
            await find_coordinator(self.world, self.channel, transactional_id, OF_TRANSACTIONS)
        request = init_producer_id.InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=60_000
        )
        answer = await self.channel.ask(request, init_producer_id.InitProducerIdResponse, 3)
        if answer.error_code in PASSING | UNCERTAIN:
            await asyncio.sleep(PAUSE_S)
            return
        if answer.error_code:
            raise Broken(f"{self.name} gets no producer id: {ErrorCode(answer.error_code).name}")
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        self.sequences = {}
        self.world.history.note("producer id", of=self.name, id=self.producer_id, epoch=self.epoch)

    def records(self, place: Place) -> tuple[list[Sent], list[Record]]:
        """Some new records, and what they are called."""
        rng, now = self.rng, self.world.machine.time.milliseconds()
        sent, records = [], []
        for _ in range(rng.randrange(1, 6)):
            number = self._numbers[place] = self._numbers.get(place, 0) + 1
            name = f"{self.name}/{place[0]}-{place[1]}/{number}"
            key = b"k%d" % rng.randrange(8) if place[0] == "keyed" else None
            is_tombstone = key is not None and rng.random() < 0.2
            value = None if is_tombstone else bytes(rng.randrange(1, 400))
            sent.append(Sent(name, place, key, is_tombstone, self.name, number, self.transaction))
            records.append(Record(0, now, key, value, ((b"n", name.encode()),)))
        return sent, records

    async def write(self, place: Place) -> bool:
        """One batch; False where it was refused. Lost, of a writer that does not send again."""
        sent, records = self.records(place)
        sequence = self.sequences.get(place, 0)
        numbered = self.producer_id >= 0
        batch = build_batch(
            records, compression=self.rng.choice((Compression.NONE, Compression.NONE, Compression.GZIP)),
            producer_id=self.producer_id, producer_epoch=self.epoch, base_sequence=sequence if numbered else -1,
            is_transactional=self.transaction is not None,
        )  # fmt: skip
        for one in sent:
            self.world.history.sends(one)
        acks = -1 if numbered else self.rng.choice((-1, -1, 1, 0))
        request = produce.ProduceRequest(
            transactional_id=self.name if self.transaction is not None else None, acks=acks, timeout_ms=30_000,
            topic_data=[
                produce.TopicProduceData(
                    name=place[0], partition_data=[produce.PartitionProduceData(index=place[1], records=batch)]
                )
            ],
        )  # fmt: skip
        if acks == 0:
            await self.channel.tell(request, produce.ProduceResponse, self.version)
            return True
        while True:
            try:
                answer = await self.channel.ask(request, produce.ProduceResponse, self.version)
            except Lost:
                if not numbered or self.transaction is not None or self.world.is_over:
                    raise
                await asyncio.sleep(PAUSE_S)
                continue
            found = answer.responses[0].partition_responses[0]
            if found.error_code in PASSING | UNCERTAIN and numbered and not self.world.is_over:
                await asyncio.sleep(PAUSE_S)
                continue
            return self._answered(place, sent, found.error_code, found.base_offset)

    def _answered(self, place: Place, sent: list[Sent], error: int, base_offset: int) -> bool:
        history = self.world.history
        if error in (NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self.sequences[place] = self.sequences.get(place, 0) + len(sent)
            history.acknowledged(sent, NO_OFFSET if error else base_offset)
            return True
        if error in UNCERTAIN:
            return False
        if error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER or error == ErrorCode.UNKNOWN_PRODUCER_ID:
            raise Broken(f"{place}: the next batch of {self.name} is refused: {ErrorCode(error).name}")
        if error not in PASSING | FENCED | GONE:
            raise Broken(f"{place}: a batch of {self.name} is refused: {ErrorCode(error).name}")
        history.refused(sent, error)
        return False


class TransactionalWriter(Writer):
    """Writes in transactions; begins anew with a higher epoch when in doubt, and then looks whether its old self is fenced."""

    def __init__(self, world: World, number: int) -> None:
        super().__init__(world, True, f"txn-{number}")
        self.version = self.rng.randrange(3, 12)
        self._count = 0

    async def run(self) -> None:
        while not self.world.is_over:
            try:
                if self.producer_id < 0:
                    await self.begin_id(self.name)
                    continue
                await self._transaction()
            except Lost:
                await asyncio.sleep(PAUSE_S)
                self._in_doubt()
            await asyncio.sleep(self.rng.random() * 0.3)
        self.channel.close()

    def _in_doubt(self) -> None:
        """What is open is aborted by the next producer id of this name; a commit that was asked for may have been made."""
        txn = self.transaction
        if txn is not None and txn.outcome is Outcome.OPEN:
            txn.outcome = Outcome.REFUSED
        self.transaction, self.producer_id = None, -1

    async def _transaction(self) -> None:
        self._count += 1
        self.transaction = txn = Transaction(f"{self.name}#{self._count}")
        history = self.world.history
        for place in self.rng.sample(self.world.places, min(len(self.world.places), self.rng.randrange(1, 4))):
            if place[0] == "keyed":
                continue
            if not await self._add(place) or not await self.write(place):
                self._in_doubt()
                return
        commits = self.rng.random() < 0.6
        txn.outcome = Outcome.UNKNOWN if commits else Outcome.REFUSED
        request = end_txn.EndTxnRequest(
            transactional_id=self.name, producer_id=self.producer_id, producer_epoch=self.epoch, committed=commits
        )
        while True:
            answer = await self.channel.ask(request, end_txn.EndTxnResponse, 3)
            if answer.error_code not in PASSING | UNCERTAIN:
                break
            await asyncio.sleep(PAUSE_S)
        history.note("ended", transaction=txn.name, commits=commits, error=answer.error_code)
        if answer.error_code:
            if answer.error_code not in FENCED:
                raise Broken(f"{txn.name} is not ended: {ErrorCode(answer.error_code).name}")
            self.producer_id = -1
        elif commits:
            txn.outcome = Outcome.DONE
        self.transaction = None
        if self.rng.random() < 0.2:
            await self._fence()

    async def _add(self, place: Place) -> bool:
        topic = add_partitions.AddPartitionsToTxnTopic(name=place[0], partitions=[place[1]])
        request = add_partitions.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name, v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch, v3_and_below_topics=[topic],
        )  # fmt: skip
        while True:
            answer = await self.channel.ask(request, add_partitions.AddPartitionsToTxnResponse, 3)
            error = answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
            if error not in PASSING | UNCERTAIN:
                break
            await asyncio.sleep(PAUSE_S)
        if error and error not in FENCED | GONE:
            raise Broken(f"{place} is not added to a transaction of {self.name}: {ErrorCode(error).name}")
        return not error

    async def _fence(self) -> None:
        """Another instance takes over; what this one then writes must be refused."""
        old, sequences = (self.producer_id, self.epoch), self.sequences
        self.producer_id = -1
        await self.begin_id(self.name)
        if self.producer_id < 0:
            return
        new = self.producer_id, self.epoch, self.sequences
        self.producer_id, self.epoch, self.sequences = *old, sequences
        self.transaction = txn = Transaction(f"{self.name}#{self._count} fenced", Outcome.REFUSED)
        place = self.rng.choice(self.world.places)
        try:
            if await self._add(place):
                raise Broken(f"{txn.name}: a fenced producer adds a partition to a transaction")
        finally:
            self.transaction = None
            self.producer_id, self.epoch, self.sequences = new


class Reader:
    """Reads one partition from its start, and again from wherever it was."""

    def __init__(self, world: World, place: Place | None = None, isolation: int | None = None) -> None:
        self.world = world
        self.rng = random.Random(f"{world.rng.random()}")
        self.channel = world.channel("reader")
        self.place = place or self.rng.choice(world.places)
        self.isolation = self.rng.randrange(2) if isolation is None else isolation
        self.version = self.rng.randrange(5, 13)
        self.position = 0
        self.marks = Marks()
        self.found: dict[int, str] = {}
        """Names of the records that this one has read."""
        self._connection = (0, 0)

    async def run(self) -> None:
        while not self.world.is_over:
            try:
                await self.step(self.rng.choice((0, 50, 500, 3000)))
            except Lost:
                await asyncio.sleep(PAUSE_S)
            if self.rng.random() < 0.3:
                await asyncio.sleep(self.rng.random() * 0.3)
            if self.rng.random() < 0.02:
                self.position = 0
        self.channel.close()

    async def step(self, max_wait_ms: int) -> None:
        """One Fetch. Lost."""
        rng, (topic, number) = self.rng, self.place
        part = fetches.FetchPartition(
            partition=number, fetch_offset=self.position, partition_max_bytes=rng.choice((1, 900, 1 << 20))
        )
        request = fetches.FetchRequest(
            max_wait_ms=max_wait_ms, min_bytes=rng.choice((0, 1, 1, 5000)), max_bytes=rng.choice((600, 1 << 20)),
            isolation_level=self.isolation, topics=[fetches.FetchTopic(topic=topic, partitions=[part])],
        )  # fmt: skip
        answer = await self.channel.ask(request, fetches.FetchResponse, self.version, max_wait_ms / 1000)
        if answer.error_code or not answer.responses:
            return
        data = answer.responses[0].partitions[0]
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            start = await self.offset_of(EARLIEST)
            if start <= self.position:
                end = await self.offset_of(LATEST)
                if self.position <= end:
                    raise Broken(f"{self.place}: {self.position} is out of range, of {start} to {end}")
            self.position = start
            return
        if data.error_code:
            if data.error_code not in PASSING | GONE:
                raise Broken(f"{self.place}: a fetch is refused: {ErrorCode(data.error_code).name}")
            await asyncio.sleep(PAUSE_S)
            return
        life = self.world.machine.lives, self.channel.connections
        if life != self._connection:
            self._connection, self.marks = life, Marks()
        self.position = self.world.history.fetched(
            self.place, self.position, self.isolation, data, self.marks, self.found
        )

    async def offset_of(self, timestamp: int) -> int:
        """By ListOffsets, with patience."""
        topic, number = self.place
        part = list_offsets.ListOffsetsPartition(partition_index=number, timestamp=timestamp)
        request = list_offsets.ListOffsetsRequest(
            replica_id=-1, topics=[list_offsets.ListOffsetsTopic(name=topic, partitions=[part])]
        )
        while True:
            with contextlib.suppress(Lost):
                answer = await self.channel.ask(request, list_offsets.ListOffsetsResponse, 3)
                found = answer.topics[0].partitions[0]
                if not found.error_code:
                    return found.offset
                if found.error_code not in PASSING | GONE:
                    raise Broken(f"{self.place}: no offset: {ErrorCode(found.error_code).name}")
            await asyncio.sleep(PAUSE_S)


class Committer:
    """Commits rising offsets for a group of its own, and reads them back: never one from before the last acknowledged."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.rng = random.Random(f"{world.rng.random()}")
        self.channel = world.channel("committer")
        self.group = f"group-{number}"
        self.place = self.rng.choice(world.places)
        self.done = self.asked = -1

    async def run(self) -> None:
        is_known = False
        while not self.world.is_over:
            try:
                if not is_known:
                    await find_coordinator(self.world, self.channel, self.group, OF_GROUPS)
                    is_known = True
                await (self._commit() if self.rng.random() < 0.6 else self._look())
            except Lost:
                await asyncio.sleep(PAUSE_S)
            await asyncio.sleep(self.rng.random() * 0.3)
        self.channel.close()

    async def _commit(self) -> None:
        self.asked += 1
        topic, number = self.place
        part = offset_commit.OffsetCommitRequestPartition(
            partition_index=number, committed_offset=self.asked, committed_metadata=""
        )
        request = offset_commit.OffsetCommitRequest(
            group_id=self.group, topics=[offset_commit.OffsetCommitRequestTopic(name=topic, partitions=[part])]
        )
        answer = await self.channel.ask(request, offset_commit.OffsetCommitResponse, 7)
        error = answer.topics[0].partitions[0].error_code
        if not error:
            self.done = self.asked
            self.world.history.note("committed", group=self.group, offset=self.done)
        elif error not in PASSING | UNCERTAIN:
            raise Broken(f"{self.group}: a commit is refused: {ErrorCode(error).name}")

    async def _look(self) -> None:
        topic, number = self.place
        request = offset_fetch.OffsetFetchRequest(
            group_id=self.group, topics=[offset_fetch.OffsetFetchRequestTopic(name=topic, partition_indexes=[number])]
        )
        answer = await self.channel.ask(request, offset_fetch.OffsetFetchResponse, 6)
        if answer.error_code in PASSING:
            return
        found = answer.topics[0].partitions[0]
        if found.error_code:
            if found.error_code not in PASSING:
                raise Broken(f"{self.group}: no offset is read: {ErrorCode(found.error_code).name}")
            return
        self.world.history.note("offset read", group=self.group, offset=found.committed_offset)
        if not self.done <= found.committed_offset <= self.asked:
            raise Broken(
                f"{self.group}: {self.done} was committed, {self.asked} at most, and {found.committed_offset} is read"
            )
