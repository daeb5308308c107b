"""A topic that comes and goes under one name: what was in the last one is not in the next, whatever happens in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from simulation.client import Lost
from simulation.history import Broken, Marks, Place
from simulation.plan import Part
from simulation.readers import Reader, Target
from simulation.work import PASSING, PAUSE_S, UNCERTAIN
from simulation.world import World
from simulation.writers import Writer
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages import create_topics, delete_topics

PARTITIONS = 2


class Remaker(Writer):
    """Makes a topic, writes and reads it, deletes it, and begins again. Nobody else uses it."""

    may_bury = True

    def __init__(self, world: World, part: Part) -> None:
        super().__init__(world, part)
        self.topic = f"short-{part.number}"
        self._is_there = False
        self._lives = 0

    async def step(self) -> None:
        if not self._is_there:
            await self._make()
        elif self.rng.random() < 0.2:
            await self._delete()
        elif self.rng.random() < 0.5:
            await self.write(self.pick())
        else:
            await self._read(self.pick())

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
        config = [create_topics.CreatableTopicConfig(name="segment.bytes", value="4096")]
        topic = create_topics.CreatableTopic(
            name=self.topic, num_partitions=PARTITIONS, replication_factor=1, configs=config
        )
        request = create_topics.CreateTopicsRequest(topics=[topic])

        async def ask() -> int:
            return (await self.channel.ask(request, create_topics.CreateTopicsResponse, 4)).topics[0].error_code

        await self._until(ask, "the topic is not made", {ErrorCode.TOPIC_ALREADY_EXISTS})
        self._is_there = True
        self._lives += 1
        self.world.history.note("made again", topic=self.topic, times=self._lives)

    async def _delete(self) -> None:
        request = delete_topics.DeleteTopicsRequest(topic_names=[self.topic], timeout_ms=30_000)

        async def ask() -> int:
            return (await self.channel.ask(request, delete_topics.DeleteTopicsResponse, 4)).responses[0].error_code

        self._is_there = False
        try:
            await self._until(ask, "the topic is not deleted", {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
        except Lost:  # the run is over: it may be there, with all it had, or not
            return
        self.sequences = {}
        self.world.history.note("deleted", topic=self.topic)
        self.world.history.forget(self.topic)

    async def _read(self, place: Place) -> None:
        """All of a partition, from its start."""
        reader = Reader(self.world, self.part, Target(place, 0))
        reader.channel, reader.marks = self.channel, Marks()
        acknowledged = [sent for sent in self.world.history.sent.values() if sent.place == place and sent.offset >= 0]
        for _ in range(100):
            before = reader.position
            await reader.fetch(0)
            if reader.position == before and reader.marks.high <= before:
                break
            if reader.position == before:
                await asyncio.sleep(PAUSE_S)
        else:
            return
        names = set(reader.found.values())
        for sent in acknowledged:
            if sent.name not in names:
                raise Broken(f"{place}: {sent.name} was acknowledged at {sent.offset}, and is not read")
        self.world.history.note("read whole", place=place, records=len(names))
