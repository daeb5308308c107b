"""Members of a share group (KIP-932), and the promise that a record is with one of them at a time, and with none once it is
accepted."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from simulation.client import Channel, Lost
from simulation.history import Broken, Place
from simulation.plan import Part
from simulation.scheduler import MILLISECOND, SECOND
from simulation.work import OF_GROUPS, PASSING, UNCERTAIN, Client
from simulation.world import World
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages import share_acknowledge as acks
from tidelog.protocol.messages import share_fetch as fetches
from tidelog.protocol.messages import share_group_heartbeat as beats
from tidelog.protocol.records.record_batch import iterate_batches, iterate_records

GROUP, TOPIC = "share group", "other"
ACCEPT, RELEASE, REJECT = 1, 2, 3
LOCK_MS, SESSION_S = 2000, 6.0
MOST_DELIVERIES = 5
ALONE_S = 45.0
OLD_MEMBER = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND}
OLD_SESSION = {
    ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH, ErrorCode.SHARE_SESSION_LIMIT_REACHED,
}  # fmt: skip


@dataclass
class Lock:
    """A record that a member has: until then, in that life of the daemon, on that connection."""

    member: str
    until: int
    life: int
    channel: Channel
    connection: int

    def holds(self, now: int, life: int) -> bool:
        sound = self.channel.is_sound and self.channel.connections == self.connection
        return sound and self.life == life and now < self.until


class Deliveries:
    """Oracle of the share group. Times: virtual ns."""

    def __init__(self) -> None:
        self._locks: dict[tuple[Place, int], Lock] = {}
        self._accepted: set[tuple[Place, int]] = set()
        self.unheard = 0
        """Fetches whose answer was lost: each may have given any record once more."""
        self._given: dict[tuple[Place, int], tuple[int, int]] = {}
        """Records that nobody has begun to accept or to reject: in which life of the daemon they were given, and how often, less
        `unheard` by then."""

    def acquired(self, place: Place, offset: int, count: int, lock: Lock, now: int) -> None:
        """A member was given a record, for the so-manieth time."""
        if (place, offset) in self._accepted:
            raise Broken(f"{place}: {offset} was accepted, and is given to {lock.member}")
        other = self._locks.get((place, offset))
        if other is not None and other.member != lock.member and other.holds(now, lock.life):
            raise Broken(f"{place}: {offset} is with {other.member}, and is given to {lock.member}")
        if not 1 <= count <= MOST_DELIVERIES:
            raise Broken(f"{place}: {offset} is given to {lock.member} for the {count}th time")
        self._locks[place, offset] = lock
        self._given[place, offset] = lock.life, count - self.unheard

    def lets_go(self, member: str, place: Place | None = None, offset: int = -1) -> None:
        """A member is about to give back a record, or all that it has."""
        if place is None:
            self._locks = {at: lock for at, lock in self._locks.items() if lock.member != member}
        else:
            self._locks.pop((place, offset), None)

    def ends(self, place: Place, offset: int) -> None:
        """A member is about to accept or to reject a record."""
        self._given.pop((place, offset), None)

    def owed(self, life: int) -> set[tuple[Place, int]]:
        """Records that were given to somebody in this life, and have to be given again. A later life may begin at the log's end,
        where nothing was accepted yet (share.auto.offset.reset)."""
        return {at for at, (of, count) in self._given.items() if of == life and count + self.unheard < MOST_DELIVERIES}

    def lock(self, place: Place, offset: int) -> Lock | None:
        """What is known of who has a record."""
        return self._locks.get((place, offset))

    def accepted(self, place: Place, offset: int) -> None:
        """A member has accepted a record, and was told that this holds."""
        self._accepted.add((place, offset))


class ShareMember(Client):
    """Joins, takes records, accepts, releases or rejects them, or lets their time go by."""

    def __init__(self, world: World, part: Part) -> None:
        super().__init__(world, part)
        self._incarnation = 0
        self._epoch = self._session = 0
        self._topic_id = b""
        self._places: list[Place] = []
        self._held: list[tuple[Place, int]] = []
        self._last_sent = 0

    @property
    def _member(self) -> str:
        return f"{self.name}-{self._incarnation}"

    one_settles = True

    async def settled(self) -> None:
        """Locks and sessions of all others are over: who comes now is given what is owed."""
        if not self._topic_id or self.world.commits.is_doubted(GROUP):
            return
        self._begins_anew()
        self._incarnation += 1
        deliveries, life = self.world.deliveries, self.world.machine.lives
        starts = {place: self.world.history.log(place).asked for place in self.world.places}
        owed = {at for at in deliveries.owed(life) if at[1] >= starts[at[0]]}
        left, until = len(owed) + 1, 0
        while still := owed.intersection(deliveries.owed(life)):
            if len(still) < left:
                left, until = len(still), self.world.sim.now_ns + int(ALONE_S * SECOND)
            if self.world.sim.now_ns > until:
                raise Broken(
                    f"share group: {sorted(still)[:10]} are owed, and who is alone for {ALONE_S:g} s is not given them"
                )
            if self._held:
                await self._acknowledge((ACCEPT,))
            elif self._places and self._epoch and self.rng.random() < 0.8:
                await self._fetch()
            else:
                await self._beat()
            await asyncio.sleep(0.3)
        self.world.history.note("given what is owed", count=len(owed))

    def pause(self) -> float:
        if self.rng.random() < 0.02:
            return SESSION_S + self.rng.random() * 4
        return self.rng.random() * 0.6

    def lost(self) -> None:
        self._drop_session()

    def _drop_session(self) -> None:
        self._session = 0
        self._held = []
        self.world.deliveries.lets_go(self._member)

    def _begins_anew(self) -> None:
        self._drop_session()
        self._epoch = 0
        self._places = []

    async def step(self) -> None:
        if not self._topic_id:
            found = await self.topic_ids((TOPIC,))
            await self.find_coordinator(GROUP, OF_GROUPS)
            (self._topic_id,) = found
        elif self._epoch == 0 or self.rng.random() < 0.3:
            await self._beat()
        elif self.rng.random() < 0.03:
            await self._leave()
        elif self._held and self.rng.random() < 0.6:
            await self._acknowledge((ACCEPT, ACCEPT, ACCEPT, RELEASE, REJECT))
        elif self._places:
            await self._fetch()
        else:
            await self._beat()

    async def _beat(self) -> None:
        request = beats.ShareGroupHeartbeatRequest(
            group_id=GROUP, member_id=self._member, member_epoch=self._epoch, subscribed_topic_names=[TOPIC]
        )
        sent = self.world.sim.now_ns
        answer = await self.channel.ask(request, beats.ShareGroupHeartbeatResponse, 1)
        if answer.error_code:
            self.refuses("a heartbeat", answer.error_code, PASSING | UNCERTAIN | OLD_MEMBER)
            if answer.error_code in OLD_MEMBER:
                self._begins_anew()
            return
        self._last_sent, self._epoch = sent, answer.member_epoch
        if answer.assignment is not None:
            rows = answer.assignment.topic_partitions
            self._places = [(TOPIC, number) for row in rows for number in row.partitions]

    async def _leave(self) -> None:
        request = beats.ShareGroupHeartbeatRequest(
            group_id=GROUP, member_id=self._member, member_epoch=-1, subscribed_topic_names=None
        )
        self._begins_anew()
        self._incarnation += 1
        await self.channel.ask(request, beats.ShareGroupHeartbeatResponse, 1)
        self.channel.close()

    async def _fetch(self) -> None:
        rng = self.rng
        rows = [
            fetches.FetchPartition(partition_index=number, acknowledgement_batches=[]) for _, number in self._places
        ]
        request = fetches.ShareFetchRequest(
            group_id=GROUP, member_id=self._member, share_session_epoch=self._session, max_wait_ms=rng.choice((0, 300)),
            min_bytes=1, max_bytes=1 << 20, max_records=rng.choice((1, 5, 500)), batch_size=rng.choice((1, 5, 500)),
            topics=[fetches.FetchTopic(topic_id=self._topic_id, partitions=rows)] if self._session == 0 else [],
        )  # fmt: skip
        sent = self.world.sim.now_ns
        try:
            answer = await self.channel.ask(request, fetches.ShareFetchResponse, 1, 0.3)
        except Lost:
            self.world.deliveries.unheard += 1
            raise
        if answer.error_code:
            self.refuses("a fetch", answer.error_code, PASSING | UNCERTAIN | OLD_MEMBER | OLD_SESSION)
            self._drop_session()
            return
        self._session += 1
        for topic in answer.responses:
            for row in topic.partitions:
                self._take((TOPIC, row.partition_index), row, sent)

    def _take(self, place: Place, row: fetches.PartitionData, sent: int) -> None:
        if row.error_code:
            allowed = PASSING | {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
            if self.world.commits.is_doubted(GROUP):  # nothing is kept of a group that is deleted: Kafka's answer
                allowed |= {ErrorCode.UNKNOWN_SERVER_ERROR}
            self.refuses(f"a fetch of {place}", row.error_code, allowed)
            return
        world, now = self.world, self.world.sim.now_ns
        lock_ends = min(sent + LOCK_MS * MILLISECOND, self._last_sent + int(SESSION_S * SECOND))
        got = set()
        for lot in row.acquired_records:
            for offset in range(lot.first_offset, lot.last_offset + 1):
                lock = Lock(self._member, lock_ends, world.machine.lives, self.channel, self.channel.connections)
                world.deliveries.acquired(place, offset, lot.delivery_count, lock, now)
                got.add(offset)
                self._held.append((place, offset))
        data = bytes(row.records or b"")
        for header in iterate_batches(data):
            if not header.is_control:
                for record in iterate_records(data, header.position):
                    if record.offset in got:
                        world.history.read(place, record, 0, is_hidden=False)
        if got:
            world.history.note("acquired", place=place, by=self._member, first=min(got), count=len(got))

    async def _acknowledge(self, kinds: tuple[int, ...]) -> None:
        """One kind of word for all records of a place that it has."""
        place = self.rng.choice(self._held)[0]
        offsets = sorted({offset for at, offset in self._held if at == place})
        offsets = offsets[: self.rng.randrange(1, len(offsets) + 1)]
        kind = self.rng.choice(kinds)
        self._held = [(at, offset) for at, offset in self._held if at != place or offset not in offsets]
        batches = [
            fetches.AcknowledgementBatch(first_offset=offset, last_offset=offset, acknowledge_types=[kind])
            for offset in offsets
        ]
        part = acks.AcknowledgePartition(partition_index=place[1], acknowledgement_batches=batches)
        request = acks.ShareAcknowledgeRequest(
            group_id=GROUP, member_id=self._member, share_session_epoch=self._session,
            topics=[acks.AcknowledgeTopic(topic_id=self._topic_id, partitions=[part])],
        )  # fmt: skip
        deliveries, life = self.world.deliveries, self.world.machine.lives
        locks = [deliveries.lock(place, offset) for offset in offsets]
        for offset in offsets:
            deliveries.lets_go(self._member, place, offset)
            if kind != RELEASE:
                deliveries.ends(place, offset)
        answer = await self.channel.ask(request, acks.ShareAcknowledgeResponse, 1)
        if answer.error_code:
            self.refuses("an acknowledgement", answer.error_code, PASSING | UNCERTAIN | OLD_MEMBER | OLD_SESSION)
            self._drop_session()
            return
        self._session += 1
        error = answer.responses[0].partitions[0].error_code
        allowed = (
            PASSING | UNCERTAIN | {ErrorCode.NONE, ErrorCode.INVALID_RECORD_STATE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        )
        self.refuses(f"an acknowledgement for {place}", error, allowed)
        member, now = self._member, self.world.sim.now_ns
        held = all(lock is not None and lock.member == member and lock.holds(now, life) for lock in locks)
        if error == ErrorCode.INVALID_RECORD_STATE and held and not self.world.history.log(place).asked:
            raise Broken(f"{place}: {offsets} are with {self._member}, whose acknowledgement is refused")
        self.world.history.note("acknowledged to share", place=place, kind=kind, count=len(offsets), error=error)
        if not error and kind == ACCEPT:
            for offset in offsets:
                self.world.deliveries.accepted(place, offset)
