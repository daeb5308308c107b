"""What all clients of a run have in common: a connection, numbers of their own, pauses, and patience with errors of a moment."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

from simulation.client import Channel, Lost
from simulation.history import Broken, Place
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages import find_coordinator as find
from tidelog.protocol.messages import metadata

if TYPE_CHECKING:
    from simulation.plan import Part
    from simulation.world import World

NONE = int(ErrorCode.NONE)
#: Errors of a moment: the same request may succeed a little later, and has not been carried out.
PASSING = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.KAFKA_STORAGE_ERROR,
}  # fmt: skip
#: Errors after which what was asked may have been done all the same.
UNCERTAIN = {ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.KAFKA_STORAGE_ERROR}
LARGEST = 1 << 20
"""Bytes of a batch at most, where nobody has changed that; no client comes near."""
NO_RIGHT = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
GONE = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_ID}
FENCED = {
    ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_TXN_STATE,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
}  # fmt: skip
#: What a daemon may answer while its disk fails, whatever was asked.
OF_THE_DISK = {ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NOT_ENOUGH_REPLICAS}
PAUSE_S = 0.05
HANGS = 0.3
"""Clients that end without closing their connection."""
OF_GROUPS, OF_TRANSACTIONS = 0, 1


class Client:
    """One part of a run: `run` does `step` after `step`. The world's thread.

    A kind says in `pause` how long it rests between two steps, in `lost` what it does when its connection is gone.
    """

    def __init__(self, world: World, part: Part) -> None:
        self.world = world
        self.part = part
        self.rng = world.plan.part_rng(part)
        self.name = f"{part.kind}-{part.number}"
        self.channel = Channel(world.machine, self.name, host_of(part))
        self.patience_s = world.plan.patience_of(part)
        """For requests that may come twice, or late: batches that are numbered, and fetches."""
        self._left = world.plan.steps_of(part)

    async def run(self) -> None:
        while not self.world.is_over:
            await self.world.turn()
            if self.channel.is_gone:  # who has nothing to ask looks at his connection too
                self.channel.close()
                self.lost()
            try:
                await self.step()
            except Lost:
                self.lost()
                await asyncio.sleep(PAUSE_S)
            if self._left:
                self._left -= 1
                if not self._left:
                    break
            pause = self.pause()
            await asyncio.sleep(pause * self.world.plan.pace if pause < 1 else pause)
        await self.end()
        if self.rng.random() < HANGS:
            self.world.hung.append(self.channel)
        else:
            self.channel.close()

    async def step(self) -> None:
        """One operation. Lost, Broken."""
        raise NotImplementedError

    def lost(self) -> None:
        """The connection is gone."""

    def pause(self) -> float:
        """Seconds between two operations."""
        return self.rng.random() * 0.2 if self.rng.random() < 0.5 else 0.0

    async def end(self) -> None:
        """What is done last."""

    one_settles = False
    """Of those of a kind, one alone has `settled` called."""

    waits_for_transactions = False
    """What `settled` looks at is so only once all transactions are ended."""

    async def settled(self) -> None:
        """Nobody has worked for a while: looks whether all is as it must be then. Lost, Broken."""

    def pick(self) -> Place:
        if self.world.plan.favourite is not None and self.rng.random() < 0.7:
            return self.world.plan.favourite
        return self.rng.choice(self.world.places)

    def refuses(self, what: str, error: int, allowed: set[ErrorCode]) -> None:
        """Broken, unless the error is among those, or the disk is the reason."""
        if error in allowed or (not self.world.is_sound and error in OF_THE_DISK):
            return
        raise Broken(f"{self.name}: {what}: {ErrorCode(error).name}")

    def blames_the_disk(self, what: str, error: int) -> None:
        """Broken where it does, though the disk has not failed in this life of the daemon, which is not about to stop either."""
        world = self.world
        is_sound = world.is_sound and not world.is_stopping and self.channel.life == world.machine.lives
        if error == ErrorCode.KAFKA_STORAGE_ERROR and is_sound:
            raise Broken(f"{self.name}: {what}: the disk is to blame, and it has not failed")

    async def find_coordinator(self, key: str, kind: int) -> None:
        """What a client asks first; the first one has the internal topic made. With patience. Lost."""
        request = find.FindCoordinatorRequest(key=key, key_type=kind)
        while True:
            error = (await self.channel.ask(request, find.FindCoordinatorResponse, 3)).error_code
            if error not in PASSING | UNCERTAIN:
                break
            await self.rest()
        if error:
            self.refuses(f"no coordinator of {key}", error, set())
            raise Lost(f"no coordinator of {key}")
        self.world.history.note("coordinator", key=key)

    async def rest(self) -> None:
        """Before asking again. Lost when the run is over."""
        await asyncio.sleep(PAUSE_S)
        if self.world.is_over:
            raise Lost("the run is over")

    async def topic_ids(self, names: tuple[str, ...]) -> dict[bytes, str]:
        """Names of topics by their ids. Lost."""
        topics = [metadata.MetadataRequestTopic(name=name) for name in names]
        request = metadata.MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        answer = await self.channel.ask(request, metadata.MetadataResponse, 12)
        found = {topic.topic_id: topic.name or "" for topic in answer.topics if not topic.error_code}
        if len(found) < len(names):
            await self.rest()
            raise Lost("a topic is not there")
        return found


def host_of(part: Part) -> str:
    """Each client has an address of its own, by which rights are told apart."""
    return f"127.0.1.{part.index + 2}"


class Right(NamedTuple):
    """What was known of a right when a request was about to be sent.

    Attributes:
        changes: how often it had been taken, or given back.
        is_lost: it was taken: that was answered, and nobody had begun to give it back.
        is_unsure: it was being taken, or given back.
    """

    changes: int
    is_lost: bool
    is_unsure: bool


class Rights:
    """Who may write where, as an administrator was answered. A host and a topic; what is under way counts as neither."""

    def __init__(self) -> None:
        self._changes: Counter[tuple[str, str]] = Counter()
        self._lost: set[tuple[str, str]] = set()
        self._unsure: set[tuple[str, str]] = set()

    def asks(self, host: str, topic: str) -> None:
        """The right is about to be taken, or given back."""
        self._changes[host, topic] += 1
        self._lost.discard((host, topic))
        self._unsure.add((host, topic))

    def lost(self, host: str, topic: str) -> None:
        """It was taken: that was answered."""
        self._unsure.remove((host, topic))
        self._lost.add((host, topic))

    def given_back(self, host: str, topic: str) -> None:
        """Nobody has taken it: that was answered."""
        self._unsure.remove((host, topic))

    def before(self, host: str, topic: str) -> Right:
        """To be asked before a request is sent, and given to `granted` or `refused` with its answer."""
        right = host, topic
        return Right(self._changes[right], right in self._lost, right in self._unsure)

    def granted(self, who: str, host: str, topic: str, before: Right) -> None:
        """Broken where the right was gone all the time between a request and its answer."""
        if before.is_lost and before == self.before(host, topic):
            raise Broken(f"{who}: writes to {topic}, though the right to write there was lost before it asked")

    def refused(self, who: str, host: str, topic: str, before: Right) -> None:
        """Broken where it had the right all that time. Whoever took it, and gave it back meanwhile, is in `changes`."""
        if not before.is_lost and not before.is_unsure and before == self.before(host, topic):
            raise Broken(f"{who}: has no right to write to {topic}, which nobody has taken")


class Limit(NamedTuple):
    """What was known of the largest batch of a topic when a request was about to be sent.

    Attributes:
        changes: how often somebody had begun to change it.
        size: bytes; None where that is not known.
    """

    changes: int
    size: int | None


class Limits:
    """How large batches may be (max.message.bytes), as administrators were answered, by topic."""

    def __init__(self) -> None:
        self._changes: Counter[str] = Counter()
        self._sizes: dict[str, int | None] = {}
        self._under_way: defaultdict[str, set[int]] = defaultdict(set)
        self._beside_others: set[tuple[str, int]] = set()
        self.is_altered = False
        """Some topic's was changed, or may have been."""

    def asks(self, topic: str) -> int:
        """It is about to be changed. A number for `holds`."""
        self.is_altered = True
        self._changes[topic] += 1
        self._sizes[topic] = None
        change, others = self._changes[topic], self._under_way[topic]
        if others:
            self._beside_others.update((topic, each) for each in (*others, change))
        others.add(change)
        return change

    def holds(self, topic: str, size: int | None, change: int) -> None:
        """The change was answered; None: with an error. Where another was under way beside it, which may be done later, nobody
        knows which holds."""
        self._under_way[topic].discard(change)
        if (topic, change) not in self._beside_others:
            self._sizes[topic] = size

    def before(self, topic: str) -> Limit:
        """To be asked before a request is sent, and given to `taken` or `refused` with its answer."""
        return Limit(self._changes[topic], self._sizes.get(topic, LARGEST))

    def taken(self, who: str, topic: str, size: int, before: Limit) -> None:
        """Broken where a batch was larger than what held all the time between its request and the answer."""
        if before == self.before(topic) and before.size is not None and size > before.size:
            raise Broken(f"{who}: {size} bytes are taken for {topic}, where {before.size} were the limit before")

    def refused(self, who: str, topic: str, size: int, before: Limit) -> None:
        """Broken where it was not."""
        if before == self.before(topic) and before.size is not None and size <= before.size:
            raise Broken(f"{who}: {size} bytes are too large for {topic}, where the limit is {before.size}")


class Commits:
    """What is known of the committed offsets of groups: none goes back.

    Offsets of a place are committed in rising order, one at a time. `acknowledged` is the last one whose answer came, `asked`
    the highest.
    """

    def __init__(self) -> None:
        self.acknowledged: dict[tuple[str, Place], int] = {}
        self.asked: dict[tuple[str, Place], int] = {}
        self._doubted: set[str] = set()
        self._deleted: set[str] = set()

    def asks(self, group: str, place: Place, offset: int) -> None:
        self.asked[group, place] = max(offset, self.asked.get((group, place), -1))

    def done(self, group: str, place: Place, offset: int) -> None:
        self.acknowledged[group, place] = max(offset, self.acknowledged.get((group, place), -1))

    def before(self, group: str, place: Place) -> int:
        """To be asked before a read is sent, and given to `read`."""
        return self.acknowledged.get((group, place), -1)

    def doubts(self, group: str) -> None:
        """The group is about to be deleted: its offsets may be gone, from now on."""
        self._doubted.add(group)

    def is_doubted(self, group: str) -> bool:
        return group in self._doubted

    def deleted(self, group: str) -> None:
        """It may have been, whoever asked for it: it is doubted for good."""
        self._deleted.add(group)

    def trusts(self, group: str) -> None:
        """It was not deleted, that time."""
        if group not in self._deleted:
            self._doubted.discard(group)

    def read(self, group: str, place: Place, offset: int, before: int) -> None:
        most = self.asked.get((group, place), -1)
        if group in self._doubted:
            before = -1
        if not before <= offset <= most:
            raise Broken(f"{group}: of {place} {before} was committed, {most} at most, and {offset} is read")
