"""What all clients of a run have in common: a connection, numbers of their own, pauses, and patience with errors of a moment."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

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
GONE = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_ID}
FENCED = {
    ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_TXN_STATE,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
}  # fmt: skip
#: What a daemon may answer while its disk fails, whatever was asked.
OF_THE_DISK = {ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NOT_ENOUGH_REPLICAS}
PAUSE_S = 0.05
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
        self.channel = Channel(world.machine, self.name)
        self._left = part.most

    async def run(self) -> None:
        while not self.world.is_over:
            await self.world.turn()
            try:
                await self.step()
            except Lost:
                self.lost()
                await asyncio.sleep(PAUSE_S)
            if self._left:
                self._left -= 1
                if not self._left:
                    break
            await asyncio.sleep(self.pause())
        await self.end()
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

    def pick(self) -> Place:
        return self.rng.choice(self.world.places)

    def refuses(self, what: str, error: int, allowed: set[ErrorCode]) -> None:
        """Broken, unless the error is among those, or the disk is the reason."""
        if error in allowed or (not self.world.is_sound and error in OF_THE_DISK):
            return
        raise Broken(f"{self.name}: {what}: {ErrorCode(error).name}")

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


class Commits:
    """What is known of the committed offsets of groups: none goes back.

    Offsets of a place are committed in rising order, one at a time. `acknowledged` is the last one whose answer came, `asked`
    the highest.
    """

    def __init__(self) -> None:
        self.acknowledged: dict[tuple[str, Place], int] = {}
        self.asked: dict[tuple[str, Place], int] = {}
        self._doubted: set[str] = set()

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

    def trusts(self, group: str) -> None:
        """It was not deleted, that time."""
        self._doubted.discard(group)

    def read(self, group: str, place: Place, offset: int, before: int) -> None:
        most = self.asked.get((group, place), -1)
        if group in self._doubted:
            before = -1
        if not before <= offset <= most:
            raise Broken(f"{group}: of {place} {before} was committed, {most} at most, and {offset} is read")
