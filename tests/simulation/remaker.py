"""A topic that comes and goes under one name: what was in the last one is not in the next, whatever happens in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from simulation.client import Channel, Lost
from simulation.history import Broken, Marks, Place
from simulation.plan import Part
from simulation.readers import Reader, Target
from simulation.settled import judge_cleaned
from simulation.work import PASSING, PAUSE_S, UNCERTAIN
from simulation.world import World, rules_of
from simulation.writers import Writer, all_of
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages import create_partitions, create_topics, delete_topics, metadata
from tidelog.protocol.messages import fetch as fetches

PARTITIONS = 2


class Remaker(Writer):
    """Makes a topic, writes and reads it, deletes it, and begins again. Nobody else uses it.

    Attributes:
        is_to_delete: the next thing that it does is to delete it.
    """

    may_bury = True

    def __init__(self, world: World, part: Part) -> None:
        super().__init__(world, part)
        self.topic = f"short-{part.number}"
        self._is_there = False
        self._is_gone = False
        self._lives = 0
        self._settings: dict[str, object] = {"segment.bytes": self.rng.choice((1024, 4096))}
        if self.rng.random() < 0.5:
            self._settings |= {
                "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "1000", "delete.retention.ms": 0,
            }  # fmt: skip
        if self.rng.random() < 0.3:
            self._settings["retention.ms"] = self.rng.choice((700, 3000))
            if "cleanup.policy" in self._settings:
                self._settings["cleanup.policy"] = "compact,delete"
        self._deletes = self.rng.choice((0.04, 0.2))
        self.is_to_delete = False
        world.remakers.append(self)
        for number in range(PARTITIONS):
            world.history.log((self.topic, number), rules_of(self._settings))

    async def step(self) -> None:
        if not self._is_there:
            await self._make()
        elif self.rng.random() < self._deletes or self.is_to_delete:
            self.is_to_delete = False
            await self._delete()
        elif self.rng.random() < 0.08:
            await self._grow()
        elif self.rng.random() < 0.5:
            await self.write(self.pick())
        else:
            await self._read(self.pick())

    async def settled(self) -> None:
        if self._is_there and self.world.history.trusts_clock:
            for number in range(PARTITIONS):
                if self.world.history.log((self.topic, number)).rules.is_cleaned:
                    await judge_cleaned(self.world, (self.topic, number))
        elif self._is_gone:
            request = metadata.MetadataRequest(topics=None)
            answer = await self.channel.ask(request, metadata.MetadataResponse, 12)
            if any(topic.name == self.topic for topic in answer.topics):
                raise Broken(f"{self.topic} was deleted, and is there")

    def pick(self) -> Place:
        return self.topic, self.rng.randrange(PARTITIONS)

    async def _until(self, ask: Callable[[], Coroutine[Any, Any, int]], what: str, enough: set[ErrorCode]) -> None:
        """Asks until it is done: a request whose answer was lost may have been carried out, and is made again. Lost at the
        end."""
        while True:
            try:
                error = await ask()
            except Lost:
                await self.rest()
                continue
            if not error or error in enough:
                return
            self.refuses(what, error, PASSING | UNCERTAIN)
            await self.rest()

    async def _make(self) -> None:
        config = [
            create_topics.CreatableTopicConfig(name=name, value=str(value)) for name, value in self._settings.items()
        ]
        topic = create_topics.CreatableTopic(
            name=self.topic, num_partitions=PARTITIONS, replication_factor=1, configs=config
        )
        request = create_topics.CreateTopicsRequest(topics=[topic])

        async def ask() -> int:
            return (await self.channel.ask(request, create_topics.CreateTopicsResponse, 4)).topics[0].error_code

        self._is_gone = False
        await self._until(ask, "the topic is not made", {ErrorCode.TOPIC_ALREADY_EXISTS})
        self._is_there = True
        self._lives += 1
        self.world.history.note("made again", topic=self.topic, times=self._lives)

    async def _grow(self) -> None:
        """One partition more, that nobody uses; whether that is done does not matter."""
        row = create_partitions.CreatePartitionsTopic(name=self.topic, count=PARTITIONS + 1, assignments=None)
        request = create_partitions.CreatePartitionsRequest(topics=[row], timeout_ms=30_000)
        answer = await self.channel.ask(request, create_partitions.CreatePartitionsResponse, 1)
        self.world.history.note("grown", topic=self.topic, error=answer.results[0].error_code)

    async def _delete(self) -> None:
        request = delete_topics.DeleteTopicsRequest(topic_names=[self.topic], timeout_ms=30_000)

        async def ask() -> int:
            return (await self.channel.ask(request, delete_topics.DeleteTopicsResponse, 4)).responses[0].error_code

        self._is_there = False
        over = asyncio.Event()
        if self.rng.random() < 0.5:
            over.set()
        beside = asyncio.create_task(self._ask_beside(over))
        try:
            await self._until(ask, "the topic is not deleted", {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
        except Lost:  # the run is over: it may be there, with all it had, or not
            return
        finally:
            over.set()
            await beside
        self.sequences = {}
        self.world.history.note("deleted", topic=self.topic)
        self.world.history.forget(self.topic)
        for number in range(PARTITIONS):
            self.world.history.log((self.topic, number), rules_of(self._settings))
        self._is_gone = True

    async def _ask_beside(self, over: asyncio.Event) -> None:
        """Somebody else reads the topic while it goes; what he is told does not matter."""
        channel = Channel(self.world.machine, f"{self.name}-beside", self.channel.host)
        try:
            while not over.is_set():
                await channel.ask(all_of(self.pick()), fetches.FetchResponse, 11)
                await asyncio.sleep(self.rng.random() * 0.005)
        except Lost:
            pass
        finally:
            channel.close()

    async def _read(self, place: Place) -> None:
        """All of a partition, from its start."""
        reader = Reader(self.world, self.part, Target(place, 0))
        reader.channel, reader.marks = self.channel, Marks()
        acknowledged = [sent for sent in self.world.history.sent.values() if sent.place == place and sent.offset >= 0]
        for _ in range(100):
            before = reader.position
            await reader.fetch(0)
            if reader.position == before and 0 <= reader.marks.high <= before:
                break
            if reader.position == before:
                await asyncio.sleep(PAUSE_S)
        else:
            return
        names, history = set(reader.found.values()), self.world.history
        start = history.log(place).start
        newest = history.newest_of_keys(reader.found, names)
        mine = [sent for sent in history.sent.values() if sent.place == place]
        for sent in acknowledged:
            if (
                sent.name not in names
                and sent.offset >= start
                and not history.may_be_gone(sent, history.log(place), newest, mine)
            ):
                raise Broken(f"{place}: {sent.name} was acknowledged at {sent.offset}, and is not read")
        self.world.history.note("read whole", place=place, records=len(names))
