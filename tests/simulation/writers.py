"""Clients that write: plain and idempotent producers, those that send ahead, old ones with message sets, and transactional
ones."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from simulation.client import Lost
from simulation.history import NO_OFFSET, Broken, Outcome, Place, Sent, Transaction
from simulation.plan import TRANSACTION_S, Part
from simulation.scheduler import SECOND
from simulation.work import (
    FENCED,
    GONE,
    NO_RIGHT,
    NONE,
    OF_TRANSACTIONS,
    PASSING,
    PAUSE_S,
    UNCERTAIN,
    Client,
    Limit,
    Right,
)
from simulation.world import World
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages import add_offsets_to_txn as add_offsets
from tidelog.protocol.messages import add_partitions_to_txn as add_partitions
from tidelog.protocol.messages import end_txn, init_producer_id, list_offsets, offset_fetch, produce
from tidelog.protocol.messages import fetch as fetches
from tidelog.protocol.messages import txn_offset_commit as txn_commit
from tidelog.protocol.records.attributes import Compression
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.legacy_record import build_legacy_set
from tidelog.protocol.records.record_batch import Record
from tidelog.protocol.schema import ApiMessage

KEYS = 8
FORMAT_2 = 3
"""Version of Produce from which on batches are of the present format."""
CODECS = (Compression.NONE, Compression.NONE, Compression.GZIP)


class Writer(Client):
    """Writes batches to any partition; an idempotent one sends again what it is not sure of."""

    is_idempotent = False
    versions = (3, 12)

    def __init__(self, world: World, part: Part) -> None:
        super().__init__(world, part)
        self.producer_id, self.epoch = -1, -1
        self.sequences: dict[Place, int] = {}
        self._numbers: dict[Place, int] = {}
        self.version = self.rng.randrange(*self.versions)
        self.transaction: Transaction | None = None

    async def step(self) -> None:
        if self.is_idempotent and self.producer_id < 0:
            await self.begin_id(None)
        else:
            await self.write(self.pick())

    async def begin_id(self, transactional_id: str | None) -> None:
        """A producer id. Lost."""
        if transactional_id is not None:
            await self.find_coordinator(transactional_id, OF_TRANSACTIONS)
        request = init_producer_id.InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=int(1000 * TRANSACTION_S)
        )
        answer = await self.channel.ask(request, init_producer_id.InitProducerIdResponse, 3)
        if answer.error_code in PASSING | UNCERTAIN:
            await asyncio.sleep(PAUSE_S)
            return
        if answer.error_code:
            self.refuses("no producer id", answer.error_code, set())
            return
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
            key = b"k%d" % rng.randrange(KEYS) if self.world.history.log(place).rules.is_keyed else None
            is_tombstone = key is not None and rng.random() < 0.2 and self.may_bury
            value = None if is_tombstone else name.encode() + b"|" + bytes(rng.randrange(1, 400))
            sent.append(
                Sent(
                    name,
                    place,
                    key,
                    is_tombstone,
                    self.name,
                    number,
                    self.transaction,
                    at_ms=now,
                    has_time=self.has_time,
                    connection=0 if self.producer_id >= 0 else self.channel.number,
                )
            )
            records.append(Record(0, now, key, value, ((b"n", name.encode()),)))
        return sent, records

    has_time = True
    may_bury = True
    """Its records may be tombstones: their names stand in headers."""

    def build(self, records: list[Record], sequence: int) -> bytes:
        """The bytes of a batch."""
        return bytes(
            build_batch(
                records,
                compression=self.rng.choice(CODECS),
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                base_sequence=sequence if self.producer_id >= 0 else -1,
                is_transactional=self.transaction is not None,
            )
        )

    async def write(self, place: Place) -> bool:
        """One batch, or two at once where they are numbered; False where one was refused. Lost, of a writer that does not send
        again."""
        numbered = self.producer_id >= 0
        acks = -1 if numbered else self.rng.choice((-1, -1, 1, 0))
        sent, request = self._batch(place, acks, 0)
        if acks == 0:
            await self.channel.tell(request, produce.ProduceResponse, self.version)
            return True
        if not numbered or self.rng.random() < 0.7:
            return await self._insist(place, sent, request)
        later, another = self._batch(place, acks, len(sent))
        answers: list[Any] = []
        try:
            asked = [(each, produce.ProduceResponse, self.version) for each in (request, another)]
            await self.channel.ask_all(asked, told=answers)
        except Lost:
            if self.transaction is not None or self.world.is_over:
                raise
        rows = [answer.responses[0].partition_responses[0] for answer in answers]
        excuses = (NO_RIGHT, ErrorCode.MESSAGE_TOO_LARGE)
        is_excused = bool(rows) and (rows[0].error_code in excuses or not self.world.is_sound)
        if is_excused and len(rows) == 2 and rows[0].error_code and not rows[1].error_code:
            # The second one is the first of this producer there, and the other one can't be sent again before it.
            self._answered(place, later, NONE, rows[1].base_offset)
            self.producer_id = -1
            return False
        for index, (batch, again) in enumerate(((sent, request), (later, another))):
            found = rows[index] if index < len(rows) else None
            if found is not None and not found.error_code:
                self._answered(place, batch, NONE, found.base_offset)
            elif not await self._insist(place, batch, again, is_again=True):
                return False
        return True

    def _batch(self, place: Place, acks: int, ahead: int) -> tuple[list[Sent], produce.ProduceRequest]:
        """What is about to be sent, with so many records under way ahead of it."""
        sent, records = self.records(place)
        batch = self.build(records, self.sequences.get(place, 0) + ahead)
        for one in sent:
            self.world.history.sends(one)
        data = produce.PartitionProduceData(index=place[1], records=batch)
        request = produce.ProduceRequest(
            transactional_id=self.name if self.transaction is not None else None, acks=acks, timeout_ms=30_000,
            topic_data=[produce.TopicProduceData(name=place[0], partition_data=[data])],
        )  # fmt: skip
        return sent, request

    async def _insist(
        self, place: Place, sent: list[Sent], request: produce.ProduceRequest, *, is_again: bool = False
    ) -> bool:
        """Sends a batch until that is answered; see `write`. `is_again`: it was sent before, and may have been written."""
        numbered = self.producer_id >= 0
        rights, host = self.world.rights, self.channel.host
        while True:
            before, limit = rights.before(host, place[0]), self.world.limits.before(place[0])
            try:
                patience_s = self.patience_s if numbered else 0.0
                answer = await self.channel.ask(request, produce.ProduceResponse, self.version, patience_s=patience_s)
            except Lost:
                if not numbered or self.transaction is not None or self.world.is_over:
                    raise
                is_again = True
                await asyncio.sleep(PAUSE_S)
                continue
            found = answer.responses[0].partition_responses[0]
            self.blames_the_disk(f"a batch for {place}", found.error_code)
            self._holds_to(limit, place, request.topic_data[0].partition_data[0].records, found.error_code)
            if not found.error_code:
                rights.granted(self.name, host, place[0], before)
            if found.error_code == NO_RIGHT:
                self.has_no_right(place, before)
                if not numbered:
                    self.world.history.refused(sent, NO_RIGHT)
                if not numbered or self.transaction is not None or self.world.is_over:
                    return False  # of one that is sent again nobody knows: it may have been written before
                await asyncio.sleep(PAUSE_S)
                continue
            if self.awaits_coordinator(found.error_code):
                if self.world.is_over:
                    return False  # as where it has no right
                await asyncio.sleep(PAUSE_S)
                continue
            if found.error_code in PASSING | UNCERTAIN and numbered and not self.world.is_over:
                await asyncio.sleep(PAUSE_S)
                continue
            if is_again and found.error_code == ErrorCode.MESSAGE_TOO_LARGE and self.world.limits.is_altered:
                self.producer_id = -1  # its number is taken, or it is not
                return False
            return self._answered(place, sent, found.error_code, found.base_offset)

    def _holds_to(self, limit: Limit, place: Place, records: Any, error: int) -> None:
        """Broken where a batch is taken, or refused, for a size that it has not. `limit`: what was known when it was sent.

        Of old formats, and of topics that compress anew, the batch that is written is another one.
        """
        limits, topic = self.world.limits, place[0]
        if self.version < FORMAT_2 or (topic, "compression.type") in self.world.altered:
            return
        if not error:
            limits.taken(self.name, topic, len(records), limit)
        elif error == ErrorCode.MESSAGE_TOO_LARGE:
            limits.refused(self.name, topic, len(records), limit)

    def fences(self) -> set[ErrorCode]:
        """Errors that may tell this one that it is fenced."""
        return FENCED

    def awaits_coordinator(self, error: int) -> bool:
        """True where the batch is to come again, since who has to admit it is not ready to. Nothing was written."""
        return False

    def has_no_right(self, place: Place, before: Right) -> None:
        """Broken unless the right to write there was taken. `before`: what was known of it when it was asked for."""
        self.world.rights.refused(self.name, self.channel.host, place[0], before)
        self.world.history.note("no right", of=self.name, place=place)

    def _answered(self, place: Place, sent: list[Sent], error: int, base_offset: int) -> bool:
        history = self.world.history
        if error in (NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            self.sequences[place] = self.sequences.get(place, 0) + len(sent)
            history.acknowledged(sent, NO_OFFSET if error else base_offset)
            return True
        if error in UNCERTAIN or error == ErrorCode.UNKNOWN_SERVER_ERROR:
            self.refuses(f"a batch for {place} is refused", error, UNCERTAIN)
            return False
        if error in (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID):
            raise Broken(f"{place}: the next batch of {self.name} is refused: {ErrorCode(error).name}")
        allowed = PASSING | self.fences() | GONE
        if self.world.limits.is_altered:
            allowed |= {ErrorCode.MESSAGE_TOO_LARGE}
        if not history.trusts_clock:  # it may be sent more than an hour ahead (message.timestamp.after.max.ms)
            allowed |= {ErrorCode.INVALID_TIMESTAMP}
        self.refuses(f"a batch for {place} is refused", error, allowed)
        history.refused(sent, error)
        return False


class AheadWriter(Writer):
    """Sends several requests before it reads the first answer, some of them for two partitions, and others between them."""

    def pause(self) -> float:
        return self.rng.random() * 0.3

    async def step(self) -> None:
        rng, world = self.rng, self.world
        asked: list[tuple[ApiMessage, type[ApiMessage], int]] = []
        batches: list[list[tuple[Place, list[Sent], Right, Limit, bytes]]] = []
        for _ in range(rng.randrange(2, 6)):
            if rng.random() < 0.15:
                asked.append((all_of(rng.choice(world.places)), fetches.FetchResponse, 11))
                batches.append([])
                continue
            if rng.random() < 0.2:
                part = list_offsets.ListOffsetsPartition(partition_index=0, timestamp=-1)
                topic = list_offsets.ListOffsetsTopic(name=rng.choice(world.places)[0], partitions=[part])
                request = list_offsets.ListOffsetsRequest(replica_id=-1, topics=[topic])
                asked.append((request, list_offsets.ListOffsetsResponse, 3))
                batches.append([])
                continue
            rows, mine = [], []
            for place in rng.sample(world.places, min(len(world.places), rng.randrange(1, 4))):
                sent, records = self.records(place)
                batch = self.build(records, -1)
                data = produce.PartitionProduceData(index=place[1], records=batch)
                rows.append(produce.TopicProduceData(name=place[0], partition_data=[data]))
                known = world.rights.before(self.channel.host, place[0]), world.limits.before(place[0])
                mine.append((place, sent, *known, batch))
                for one in sent:
                    world.history.sends(one)
            produces = produce.ProduceRequest(
                transactional_id=None, acks=rng.choice((-1, 1)), timeout_ms=30_000, topic_data=rows
            )
            asked.append((produces, produce.ProduceResponse, self.version))
            batches.append(mine)
        answers: list[Any] = []
        try:
            await self.channel.ask_all(asked, told=answers)
        finally:
            for mine, answer in zip(batches, answers, strict=False):
                for (place, sent, *known, batch), row in zip(mine, answer.responses if mine else (), strict=True):
                    found = row.partition_responses[0]
                    self._holds_to(known[1], place, batch, found.error_code)
                    self._told(place, sent, found, known[0])

    def _told(self, place: Place, sent: list[Sent], found: Any, before: Right) -> None:
        """What one partition's part of an answer says."""
        self.blames_the_disk(f"a batch for {place}", found.error_code)
        if found.error_code == NO_RIGHT:
            self.has_no_right(place, before)
            self.world.history.refused(sent, NO_RIGHT)
            return
        if not found.error_code:
            self.world.rights.granted(self.name, self.channel.host, place[0], before)
        self._answered(place, sent, found.error_code, found.base_offset)


def all_of(place: Place) -> fetches.FetchRequest:
    """A Fetch of a partition from its beginning, without waiting: a large answer."""
    part = fetches.FetchPartition(partition=place[1], fetch_offset=0, partition_max_bytes=1 << 20)
    return fetches.FetchRequest(
        max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, topics=[fetches.FetchTopic(topic=place[0], partitions=[part])]
    )


class IdempotentWriter(Writer):
    """See `Writer`."""

    is_idempotent = True


class OldWriter(Writer):
    """Writes sets of format 0 and 1, which the daemon converts."""

    versions = (0, 3)
    may_bury = False

    def __init__(self, world: World, part: Part) -> None:
        super().__init__(world, part)
        self.has_time = self.version == 2

    def build(self, records: list[Record], sequence: int) -> bytes:
        return build_legacy_set(records, magic=self.version // 2, compression=self.rng.choice(CODECS))


class TransactionalWriter(Writer):
    """Writes in transactions, and commits offsets in them; begins anew with a higher epoch when in doubt, and looks whether
    its old
    self is fenced. What is open when it loses its connection is aborted by the next producer id of its name.

    Half of them are of version 2 (KIP-890): Produce adds partitions, and the end of a transaction gives the next epoch.
    """

    def __init__(self, world: World, part: Part) -> None:
        super().__init__(world, part)
        self._is_second = self.rng.random() < 0.5
        if self._is_second:
            self.version = 12
        self._began = self._jumps = 0
        self._doubted: set[Place] = set()
        """Partitions to which a batch may still be under way."""
        self._is_fenced = self._lost_a_batch = False
        self._count = 0
        self._group = f"group of {self.name}"
        self._offsets: dict[int, Transaction] = {}
        """Offsets that were committed within transactions: each is the transaction's number."""

    def pause(self) -> float:
        return self.rng.random() * 0.3

    async def step(self) -> None:
        if self.producer_id < 0:
            await self.begin_id(self.name)
        elif self._offsets and self.rng.random() < 0.2:
            await self._look({ErrorCode.UNSTABLE_OFFSET_COMMIT})
        else:
            await self._transaction()

    async def write(self, place: Place) -> bool:
        try:
            return await super().write(place)
        except Lost:
            self._doubted.add(place)
            self._lost_a_batch = True
            raise

    def lost(self) -> None:
        txn = self.transaction
        if txn is None:  # nothing was under way: it is who it was
            return
        if txn.outcome is Outcome.OPEN:
            txn.outcome = Outcome.REFUSED
        self.transaction, self.producer_id = None, -1
        self._doubted.clear()

    def fences(self) -> set[ErrorCode]:
        """Nobody else has its name: it is fenced when its time was over, or by itself."""
        age_s = (self.world.sim.now_ns - self._began) / SECOND
        if self._is_fenced or age_s > TRANSACTION_S / 2 or self._jumps != self.world.clock_jumps:
            return FENCED
        return FENCED - {ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH}

    def awaits_coordinator(self, error: int) -> bool:
        """A batch that adds its partition may be the first that a daemon is asked which still reads the coordinator's log."""
        return error == ErrorCode.NOT_ENOUGH_REPLICAS and self._is_second and self.channel.life > 1

    waits_for_transactions = True

    async def settled(self) -> None:
        if self._offsets:
            await self._look(set())

    async def _until_settled(self, ask: Callable[[], object]) -> int:
        """Asks until the error is none of a moment. Lost."""
        while True:
            error: int = await ask()  # type: ignore[misc]
            if error not in PASSING | UNCERTAIN:
                return error
            await self.rest()

    async def _transaction(self) -> None:
        self._count += 1
        self._began, self._jumps = self.world.sim.now_ns, self.world.clock_jumps
        self._lost_a_batch = False
        self.transaction = txn = Transaction(f"{self.name}#{self._count}")
        self.world.open_transactions += 1
        try:
            await self._within(txn)
        except Lost:
            # A client that has waited long enough aborts, and goes on where it knows what was written.
            if not self._lost_a_batch or self._is_second or self.world.is_over or self.rng.random() < 0.5:
                raise
            await asyncio.sleep(PAUSE_S)
            await self._end(txn, commits=False)
        finally:
            self.world.open_transactions -= 1
        if self.rng.random() < 0.2 and self.producer_id >= 0:
            await self._fence()

    async def _within(self, txn: Transaction) -> None:
        if self._is_second and self.rng.random() < 0.15:  # it has changed its mind
            await self._end(txn, commits=False)
            return
        places = [place for place in self.world.places if place not in self._doubted]
        if not places:
            self.lost()
            return
        for place in self.rng.sample(places, min(len(places), self.rng.randrange(1, 4))):
            if not (self._is_second or await self._add(place)) or not await self.write(place):
                self.lost()
                return
        if self.rng.random() < 0.3 and not await self._commit_offset(txn):
            self.lost()
            return
        if self.rng.random() < 0.2:
            await asyncio.sleep(self.rng.random() * 3)
        await self._end(txn, self.rng.random() < 0.6)

    async def _end(self, txn: Transaction, commits: bool) -> None:
        txn.outcome = Outcome.UNKNOWN if commits else Outcome.REFUSED
        request = end_txn.EndTxnRequest(
            transactional_id=self.name, producer_id=self.producer_id, producer_epoch=self.epoch, committed=commits
        )

        async def ask() -> int:
            nonlocal answer
            try:
                answer = await self.channel.ask(request, end_txn.EndTxnResponse, 5 if self._is_second else 3)
            except Lost:
                if self.world.is_over or not is_patient:
                    raise
                return int(ErrorCode.REQUEST_TIMED_OUT)
            return answer.error_code

        is_patient = self.rng.random() < 0.5

        answer = end_txn.EndTxnResponse()
        error = await self._until_settled(ask)
        self.world.history.note("ended", transaction=txn.name, commits=commits, error=error)
        if error:
            self.refuses(f"{txn.name} is not ended", error, self.fences())
            self.producer_id = -1
        else:
            if commits:
                txn.outcome = Outcome.DONE
            if self._is_second:
                self.producer_id, self.epoch, self.sequences = answer.producer_id, answer.producer_epoch, {}
        self.transaction = None

    async def _add(self, place: Place) -> bool:
        topic = add_partitions.AddPartitionsToTxnTopic(name=place[0], partitions=[place[1]])
        request = add_partitions.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name, v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch, v3_and_below_topics=[topic],
        )  # fmt: skip

        async def ask() -> int:
            answer = await self.channel.ask(request, add_partitions.AddPartitionsToTxnResponse, 3)
            return answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code

        before = self.world.rights.before(self.channel.host, place[0])
        error = await self._until_settled(ask)
        if error == NO_RIGHT:
            self.has_no_right(place, before)
        elif error:
            self.refuses(f"{place} is not added to a transaction", error, self.fences() | GONE)
        return not error

    async def _commit_offset(self, txn: Transaction) -> bool:
        """The transaction's number, as an offset of the group of this writer."""
        request = add_offsets.AddOffsetsToTxnRequest(
            transactional_id=self.name, producer_id=self.producer_id, producer_epoch=self.epoch, group_id=self._group
        )

        async def add() -> int:
            return (await self.channel.ask(request, add_offsets.AddOffsetsToTxnResponse, 3)).error_code

        if not self._is_second and (error := await self._until_settled(add)):
            self.refuses("offsets are not added to a transaction", error, self.fences())
            return False
        part = txn_commit.TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=self._count, committed_metadata=""
        )
        commit = txn_commit.TxnOffsetCommitRequest(
            transactional_id=self.name, group_id=self._group, producer_id=self.producer_id, producer_epoch=self.epoch,
            topics=[txn_commit.TxnOffsetCommitRequestTopic(name="other", partitions=[part])],
        )  # fmt: skip
        self._offsets[self._count] = txn

        async def ask() -> int:
            answer = await self.channel.ask(commit, txn_commit.TxnOffsetCommitResponse, 5 if self._is_second else 2)
            return answer.topics[0].partitions[0].error_code

        error = await self._until_settled(ask)
        if error:
            self.refuses("offsets are not committed in a transaction", error, self.fences())
        else:
            self.world.history.note("committed in a transaction", group=self._group, offset=self._count)
        return not error

    async def _look(self, allowed: set[ErrorCode]) -> None:
        """The offset is that of the last committed transaction, or of one of which that is not known."""
        done = max((number for number, txn in self._offsets.items() if txn.outcome is Outcome.DONE), default=-1)
        topics = [offset_fetch.OffsetFetchRequestTopic(name="other", partition_indexes=[0])]
        request = offset_fetch.OffsetFetchRequest(group_id=self._group, topics=topics, require_stable=True)
        answer = await self.channel.ask(request, offset_fetch.OffsetFetchResponse, 7)
        error = answer.error_code or answer.topics[0].partitions[0].error_code
        if error:
            self.refuses("no offset is read", error, PASSING | allowed)
            return
        found = answer.topics[0].partitions[0].committed_offset
        self.world.history.note("offset read", group=self._group, offset=found)
        if found < 0 and self.world.commits.is_doubted(self._group):
            return
        txn = self._offsets.get(found)
        if found < done or (txn is not None and txn.outcome is Outcome.REFUSED) or (found >= 0 and txn is None):
            told = "" if txn is None else f", of {txn.name} ({txn.outcome.name})"
            raise Broken(f"{self._group}: {done} was committed, and {found} is read{told}")

    async def _fence(self) -> None:
        """Another instance takes over; what this one then asks for and writes must be refused."""
        old, sequences = (self.producer_id, self.epoch), self.sequences
        self.producer_id = -1
        await self.begin_id(self.name)
        if self.producer_id < 0:
            return
        new = self.producer_id, self.epoch, self.sequences
        self.producer_id, self.epoch, self.sequences = *old, sequences
        self.transaction = txn = Transaction(f"{self.name}#{self._count} fenced", Outcome.REFUSED)
        place = self.pick()
        self._is_fenced = True
        try:
            if not self._is_second and self.rng.random() < 0.5 and await self._add(place):
                raise Broken(f"{txn.name}: a fenced producer adds a partition to a transaction")
            if await self.write(place):
                raise Broken(f"{txn.name}: a fenced producer writes to {place}")
            self.world.history.note("fenced", producer=self.name)
        finally:
            self.transaction, self._is_fenced = None, False
            self.producer_id, self.epoch, self.sequences = new
