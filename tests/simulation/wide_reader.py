"""A client that reads all partitions at once, in a fetch session (KIP-227): only what has changed is told in both directions."""

from __future__ import annotations

import asyncio

from simulation.history import Marks, Place
from simulation.plan import Part
from simulation.readers import EARLIEST, LATEST
from simulation.work import GONE, PASSING, PAUSE_S, Client
from simulation.world import World
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages import fetch as fetches
from tidelog.protocol.messages import list_offsets

OLD_SESSION = {
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
}  # fmt: skip


class WideReader(Client):
    """See the module. What it has asked for stands in `_told`, which is what the session knows."""

    def __init__(self, world: World, part: Part) -> None:
        super().__init__(world, part)
        self.isolation = self.rng.randrange(2)
        self.version = self.rng.randrange(7, 13)
        self._positions: dict[Place, int] = {}
        self._marks: dict[Place, Marks] = {}
        self._told: dict[Place, int] = {}
        self._session = self._epoch = 0

    def pause(self) -> float:
        return self.rng.random() * 0.3 if self.rng.random() < 0.3 else 0.0

    def lost(self) -> None:
        self._ends()

    def _ends(self) -> None:
        """The session is gone, and watermarks of another connection may be older."""
        self._session = self._epoch = 0
        self._told, self._marks = {}, {}

    async def step(self) -> None:
        for place in self.world.places:
            self._positions.setdefault(place, 0)
        wait_ms = self.rng.choice((0, 50, 500, 3000))
        changed = {place: at for place, at in self._positions.items() if self._told.get(place) != at}
        request = fetches.FetchRequest(
            max_wait_ms=wait_ms, min_bytes=self.rng.choice((0, 1, 1, 2000)), max_bytes=self.rng.choice((600, 1 << 20)),
            isolation_level=self.isolation, session_id=self._session, session_epoch=self._epoch, topics=rows_of(changed),
        )  # fmt: skip
        answer = await self.channel.ask(request, fetches.FetchResponse, self.version, wait_ms / 1000)
        if answer.error_code:
            self.refuses("a fetch", answer.error_code, PASSING | OLD_SESSION)
            self._ends()
            return
        self._told.update(changed)
        if self._session and answer.session_id == self._session:
            self._epoch += 1
        else:
            self._session, self._epoch = answer.session_id, 1 if answer.session_id else 0
            self._told = self._told if answer.session_id else {}
        for row in answer.responses:
            for data in row.partitions:
                await self._take((row.topic, data.partition_index), data)

    async def _take(self, place: Place, data: fetches.PartitionData) -> None:
        self.blames_the_disk(f"a fetch of {place}", data.error_code)
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            start, end = await self._offset(place, EARLIEST), await self._offset(place, LATEST)
            if start is not None and end is not None:
                self._positions[place] = start
        elif data.error_code:
            self.refuses(f"a fetch of {place}", data.error_code, PASSING | GONE)
            await asyncio.sleep(PAUSE_S)
        else:
            marks = self._marks.setdefault(place, Marks())
            self._positions[place] = self.world.history.fetched(
                place, self._positions[place], self.isolation, data, marks, {}
            )

    async def _offset(self, place: Place, timestamp: int) -> int | None:
        part = list_offsets.ListOffsetsPartition(partition_index=place[1], timestamp=timestamp)
        topic = list_offsets.ListOffsetsTopic(name=place[0], partitions=[part])
        request = list_offsets.ListOffsetsRequest(replica_id=-1, topics=[topic])
        answer = await self.channel.ask(request, list_offsets.ListOffsetsResponse, 3)
        found = answer.topics[0].partitions[0]
        return None if found.error_code else found.offset


def rows_of(positions: dict[Place, int]) -> list[fetches.FetchTopic]:
    """What a request asks for."""
    rows: dict[str, list[fetches.FetchPartition]] = {}
    for (topic, number), position in positions.items():
        part = fetches.FetchPartition(partition=number, fetch_offset=position, partition_max_bytes=1 << 20)
        rows.setdefault(topic, []).append(part)
    return [fetches.FetchTopic(topic=topic, partitions=parts) for topic, parts in rows.items()]
