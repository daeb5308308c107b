"""Members of groups: of the classic protocol, where a member assigns, and of consumer groups (KIP-848), where the daemon does.

The promise is the same: at one time a partition has one owner, and only its owner commits for it. `Ownership` judges that by
what members
were told, and by the time until which each may rely on it: a session after it last sent a heartbeat that was answered.
"""

from __future__ import annotations

import asyncio
import struct
from dataclasses import dataclass, field

from simulation.history import Broken, Place
from simulation.plan import Part
from simulation.readers import commit, look
from simulation.scheduler import SECOND
from simulation.work import OF_GROUPS, PASSING, UNCERTAIN, Client
from simulation.world import World
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages import consumer_group_describe as consumer_describe
from tidelog.protocol.messages import consumer_group_heartbeat as beats
from tidelog.protocol.messages import consumer_protocol as subscriptions
from tidelog.protocol.messages import describe_groups, heartbeat, join_group, leave_group, sync_group
from tidelog.protocol.schema import decode, encode_into

TOPICS = ("plain", "other")
SESSION_S = 6.0
REBALANCE_S = 5.0
ALONE_S = 45.0
PATIENCE_S = 20.0
"""Of who looks for members that have fallen silent when all is at rest."""
"""Within which who is alone in a group has all: a rebalance, and the session of one that was just thought to be there."""
OLD_MEMBER = frozenset(
    {
        ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND,
    }
)  # fmt: skip
_VERSION = struct.Struct(">h")


@dataclass
class Generations:
    """What is known of a classic group: who was handed what in which generation, and the latest one that members have."""

    handed: dict[int, list[dict[str, frozenset[Place]]]] = field(default_factory=dict)
    owners: dict[int, dict[Place, str]] = field(default_factory=dict)
    latest: int = -1
    is_doubted: bool = False


class ClassicGroups:
    """Oracle of all classic groups of a run."""

    def __init__(self) -> None:
        self._groups: dict[str, Generations] = {}

    def of(self, group: str) -> Generations:
        return self._groups.setdefault(group, Generations())

    def doubts(self, group: str) -> None:
        """The group is about to be deleted: one of its name begins at the first generation again."""
        self.of(group).is_doubted = True

    def trusts(self, group: str) -> None:
        """It was not deleted, that time."""
        self.of(group).is_doubted = False

    def latest(self, group: str) -> int:
        """To be asked before a request is sent."""
        return self.of(group).latest

    def handed_in(self, group: str, generation: int, assignments: dict[str, frozenset[Place]]) -> None:
        """A leader is about to hand in what each member gets."""
        self.of(group).handed.setdefault(generation, []).append(assignments)

    def assigned(self, group: str, generation: int, member: str, places: frozenset[Place], before: int) -> None:
        """A member has its assignment; `before`: `latest` when it asked."""
        known = self.of(group)
        if generation < before and not self.of(group).is_doubted:
            raise Broken(f"{group}: {member} is in generation {generation} though others were in {before} before")
        if not any(handed.get(member, frozenset()) == places for handed in known.handed.get(generation, [])):
            raise Broken(f"{group}: {member} gets {sorted(places)} in {generation}, which no leader handed in")
        owners = known.owners.setdefault(generation, {})
        for place in places:
            if owners.setdefault(place, member) != member and not known.is_doubted:
                raise Broken(f"{group}: {place} belongs to {owners[place]} and to {member} in generation {generation}")
        known.latest = max(known.latest, generation)

    def committed(self, group: str, generation: int, member: str, before: int) -> None:
        """A commit was taken."""
        if generation < before and not self.of(group).is_doubted:
            raise Broken(f"{group}: {member} of generation {generation} has committed; {before} had begun before")


class Ownership:
    """Oracle of consumer groups: no partition has two owners that may both rely on it. Times: virtual ns."""

    def __init__(self) -> None:
        self._owners: dict[tuple[str, Place], dict[str, int]] = {}

    def owns(self, group: str, member: str, places: set[Place], now: int, until: int) -> None:
        """A member was told that it owns exactly these, and may rely on it until then, or until it says otherwise."""
        for (of, place), owners in self._owners.items():
            if of == group and place not in places:
                owners.pop(member, None)
        for place in places:
            owners = self._owners.setdefault((group, place), {})
            owners[member] = until
            others = [other for other, its in owners.items() if other != member and its > now]
            if others:
                raise Broken(f"{group}: {place} belongs to {member}, and still to {', '.join(others)}")


class GroupMember(Client):
    """What both kinds do with the partitions that they own: commit, each time one more, from what they read at first."""

    group = ""
    one_settles = True

    def __init__(self, world: World, part: Part) -> None:
        super().__init__(world, part)
        self.owned: set[Place] = set()
        self._positions: dict[Place, int] = {}
        self._is_found = False

    def pause(self) -> float:
        if self.rng.random() < 0.02:
            return SESSION_S + self.rng.random() * 4  # it is thought to be dead
        return self.rng.random() * 0.8

    @property
    def rests(self) -> bool:
        """True where it leaves, and comes again."""
        return self.rng.random() < 0.03

    async def work(self, member: tuple[str, int], version: int) -> int | None:
        """Commits for one of its own; the error, None where there was nothing to commit."""
        if not self.owned:
            return None
        place = self.rng.choice(sorted(self.owned))
        if place not in self._positions:
            found = await look(self, self.group, place)
            if found is not None and place in self.owned:
                self._positions[place] = found
            return None
        self._positions[place] += 1
        return await commit(self, self.group, place, self._positions[place], member, OLD_MEMBER, version)

    async def settled(self) -> None:
        """Sessions of all others are over: who joins now owns everything soon."""
        if not self._is_found:
            return
        await self._judge_silent()
        everything = {place for place in self.world.places if place[0] in TOPICS}
        until = self.world.sim.now_ns + int(ALONE_S * SECOND)
        self.comes_anew()
        while not everything <= self.owned:
            if self.world.sim.now_ns > until:
                raise Broken(
                    f"{self.group}: alone for {ALONE_S:g} s, and owns {sorted(self.owned)} of {sorted(everything)}"
                )
            await self.join_alone()
            await asyncio.sleep(0.5)
        self.world.history.note("owns everything", group=self.group)

    async def _judge_silent(self) -> None:
        """Broken where the group still has one that was not heard of for longer than a session, and a rebalance, may take."""
        until = self.world.sim.now_ns + int(PATIENCE_S * SECOND)
        while left := await self.members():
            if self.world.sim.now_ns > until:
                raise Broken(f"{self.group}: nobody has said anything for long, and {sorted(left)} are members")
            await asyncio.sleep(1.0)
        self.world.history.note("nobody is left", group=self.group)

    async def members(self) -> list[str]:
        """Ids of those in the group, by a description of it; none while it can't be told. Lost."""
        raise NotImplementedError

    def comes_anew(self) -> None:
        """Nobody knows it."""
        raise NotImplementedError

    async def join_alone(self) -> None:
        """A step of one that has nothing else in mind."""
        raise NotImplementedError

    def keep(self, places: set[Place]) -> None:
        """These are its own now."""
        self.owned = places
        self._positions = {place: at for place, at in self._positions.items() if place in places}


class ClassicMember(GroupMember):
    """Joins, syncs, heartbeats, commits, leaves, falls silent. The first member of a generation assigns."""

    group = "classic group"

    def __init__(self, world: World, part: Part) -> None:
        super().__init__(world, part)
        self.member, self.generation = "", -1

    async def members(self) -> list[str]:
        request = describe_groups.DescribeGroupsRequest(groups=[self.group])
        answer = await self.channel.ask(request, describe_groups.DescribeGroupsResponse, 5)
        self.refuses("no description", answer.groups[0].error_code, PASSING | {ErrorCode.NONE})
        return [member.member_id for member in answer.groups[0].members]

    def comes_anew(self) -> None:
        self.member = ""
        self._leaves()

    async def join_alone(self) -> None:
        if self.generation < 0:
            await self._join()
        else:
            await self._beat()

    def _leaves(self) -> None:
        self.generation = -1
        self.keep(set())

    async def step(self) -> None:
        if not self._is_found:
            await self.find_coordinator(self.group, OF_GROUPS)
            self._is_found = True
        elif self.generation < 0:
            await self._join()
        elif self.rests:
            await self._leave()
        elif self.rng.random() < 0.5:
            before = self.world.classic.latest(self.group)
            generation = self.generation
            error = await self.work((self.member, generation), 7)
            if error == 0:
                self.world.classic.committed(self.group, generation, self.member, before)
            self._heard(error)
        else:
            await self._beat()

    async def _beat(self) -> None:
        request = heartbeat.HeartbeatRequest(group_id=self.group, generation_id=self.generation, member_id=self.member)
        error = (await self.channel.ask(request, heartbeat.HeartbeatResponse, 3)).error_code
        self.refuses("a heartbeat", error, PASSING | UNCERTAIN | OLD_MEMBER | {ErrorCode.NONE})
        self._heard(error)

    def _heard(self, error: int | None) -> None:
        if error == ErrorCode.UNKNOWN_MEMBER_ID:
            self.member = ""
        if error in OLD_MEMBER:
            self._leaves()

    async def _join(self) -> None:
        subscription = bytearray(_VERSION.pack(0))
        encode_into(subscriptions.ConsumerProtocolSubscription(topics=list(TOPICS)), 0, subscription)
        request = join_group.JoinGroupRequest(
            group_id=self.group, session_timeout_ms=int(SESSION_S * 1000), rebalance_timeout_ms=int(REBALANCE_S * 1000),
            member_id=self.member, protocol_type="consumer",
            protocols=[join_group.JoinGroupRequestProtocol(name="range", metadata=bytes(subscription))],
        )  # fmt: skip
        answer = await self.channel.ask(request, join_group.JoinGroupResponse, 5, 2 * REBALANCE_S + SESSION_S)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member = answer.member_id
            return
        if answer.error_code:
            self.refuses("a join", answer.error_code, PASSING | UNCERTAIN | OLD_MEMBER)
            self._heard(answer.error_code)
            return
        self.member = answer.member_id
        await self._sync(answer)

    async def _sync(self, joined: join_group.JoinGroupResponse) -> None:
        assignments: dict[str, frozenset[Place]] = {}
        if joined.leader == self.member:
            places = [place for place in self.world.places if place[0] in TOPICS]
            members = [member.member_id for member in joined.members]
            assignments = {member: frozenset(places[number :: len(members)]) for number, member in enumerate(members)}
            self.world.classic.handed_in(self.group, joined.generation_id, assignments)
        before = self.world.classic.latest(self.group)
        request = sync_group.SyncGroupRequest(
            group_id=self.group, generation_id=joined.generation_id, member_id=self.member,
            assignments=[
                sync_group.SyncGroupRequestAssignment(member_id=member, assignment=_packed(places))
                for member, places in assignments.items()
            ],
        )  # fmt: skip
        answer = await self.channel.ask(request, sync_group.SyncGroupResponse, 3, 2 * REBALANCE_S)
        if answer.error_code:
            self.refuses("a sync", answer.error_code, PASSING | UNCERTAIN | OLD_MEMBER)
            self._heard(answer.error_code)
            return
        mine = _unpacked(answer.assignment)
        self.world.history.note("assigned", group=self.group, generation=joined.generation_id, to=self.name)
        self.world.classic.assigned(self.group, joined.generation_id, self.member, mine, before)
        self.generation = joined.generation_id
        self._positions = {}
        self.keep(set(mine))

    async def _leave(self) -> None:
        member, self.member = self.member, ""
        self._leaves()
        request = leave_group.LeaveGroupRequest(
            group_id=self.group, members=[leave_group.MemberIdentity(member_id=member)]
        )
        await self.channel.ask(request, leave_group.LeaveGroupResponse, 3)


def _packed(places: frozenset[Place]) -> bytes:
    topics: dict[str, list[int]] = {}
    for topic, number in sorted(places):
        topics.setdefault(topic, []).append(number)
    assigned = [subscriptions.TopicPartition(topic=topic, partitions=rows) for topic, rows in topics.items()]
    out = bytearray(_VERSION.pack(0))
    encode_into(subscriptions.ConsumerProtocolAssignment(assigned_partitions=assigned), 0, out)
    return bytes(out)


def _unpacked(data: bytes) -> frozenset[Place]:
    if not data:
        return frozenset()
    found, _ = decode(subscriptions.ConsumerProtocolAssignment, 0, data, _VERSION.size)
    return frozenset((row.topic, number) for row in found.assigned_partitions for number in row.partitions)


class ConsumerMember(GroupMember):
    """Says what it owns in each heartbeat; gives up at once what it is told to, and takes what it is given."""

    group = "consumer group"

    def __init__(self, world: World, part: Part) -> None:
        super().__init__(world, part)
        self.epoch = 0
        self._incarnation = 0
        self._names: dict[bytes, str] = {}
        self._last_sent = 0

    async def members(self) -> list[str]:
        request = consumer_describe.ConsumerGroupDescribeRequest(group_ids=[self.group])
        answer = await self.channel.ask(request, consumer_describe.ConsumerGroupDescribeResponse, 1)
        allowed = PASSING | {ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND}
        self.refuses("no description", answer.groups[0].error_code, allowed)
        return [member.member_id for member in answer.groups[0].members]

    @property
    def _member(self) -> str:
        return f"{self.name}-{self._incarnation}"

    def comes_anew(self) -> None:
        self._begins_anew()
        self._incarnation += 1

    async def join_alone(self) -> None:
        await self._beat()

    def _begins_anew(self) -> None:
        self.epoch = 0
        self._own(set())

    def _own(self, places: set[Place]) -> None:
        self.keep(places)
        now, until = self.world.sim.now_ns, self._last_sent + int(SESSION_S * SECOND)
        self.world.owners.owns(self.group, self._member, places, now, until)

    async def step(self) -> None:
        if not self._is_found:
            self._names = await self.topic_ids(TOPICS)
            await self.find_coordinator(self.group, OF_GROUPS)
            self._is_found = True
        elif self.epoch > 0 and self.rests:
            await self._leave()
        elif self.epoch > 0 and self.rng.random() < 0.4:
            error = await self.work((self._member, self.epoch), 9)
            if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND):
                self._begins_anew()
        else:
            await self._beat()

    def _owned(self) -> list[beats.TopicPartitions]:
        rows = []
        for topic_id, name in self._names.items():
            numbers = sorted(number for topic, number in self.owned if topic == name)
            if numbers:
                rows.append(beats.TopicPartitions(topic_id=topic_id, partitions=numbers))
        return rows

    async def _beat(self) -> None:
        request = beats.ConsumerGroupHeartbeatRequest(
            group_id=self.group, member_id=self._member, member_epoch=self.epoch, rebalance_timeout_ms=20_000,
            subscribed_topic_names=list(TOPICS), topic_partitions=self._owned(),
        )  # fmt: skip
        sent = self.world.sim.now_ns
        answer = await self.channel.ask(request, beats.ConsumerGroupHeartbeatResponse, 1)
        error = answer.error_code
        if error:
            self.refuses("a heartbeat", error, PASSING | UNCERTAIN | OLD_MEMBER)
            if error in OLD_MEMBER:
                self._begins_anew()
            return
        self._last_sent, self.epoch = sent, answer.member_epoch
        if answer.assignment is None:
            self._own(self.owned)
            return
        new = {
            (self._names[row.topic_id], number)
            for row in answer.assignment.topic_partitions
            for number in row.partitions
        }
        self.world.history.note("owns", group=self.group, member=self._member, epoch=self.epoch, places=sorted(new))
        self._own(new)

    async def _leave(self) -> None:
        request = beats.ConsumerGroupHeartbeatRequest(
            group_id=self.group, member_id=self._member, member_epoch=-1, topic_partitions=[]
        )
        self._begins_anew()
        self._incarnation += 1
        await self.channel.ask(request, beats.ConsumerGroupHeartbeatResponse, 1)
