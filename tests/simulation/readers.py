"""Clients that read: by Fetch in the present format and in old ones, and by committed offsets."""

from __future__ import annotations

import asyncio
import itertools
from typing import NamedTuple

from simulation.history import Broken, Marks, Place
from simulation.plan import Part
from simulation.work import GONE, OF_GROUPS, PASSING, PAUSE_S, UNCERTAIN, Client
from simulation.world import World
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages import fetch as fetches
from tidelog.protocol.messages import list_offsets, metadata, offset_commit, offset_fetch
from tidelog.protocol.messages import offset_for_leader_epoch as epochs
from tidelog.protocol.records.legacy_record import iterate_legacy_messages, iterate_legacy_records
from tidelog.protocol.records.record_batch import iterate_batches

EARLIEST, LATEST = -2, -1
NEW_FORMAT = 2


class Target(NamedTuple):
    """What a `Reader` reads."""

    place: Place
    isolation: int


class Reader(Client):
    """Reads one partition from its start, and again from wherever it was."""

    versions = (5, 13)
    sizes = (1, 900, 1 << 20), (0, 1, 1, 5000), (600, 1 << 20)
    """Bytes of a partition at most, of an answer at least, and at most, of which each Fetch has one."""

    def __init__(self, world: World, part: Part, target: Target | None = None) -> None:
        super().__init__(world, part)
        self.place, self.isolation = target or Target(self.pick(), self.rng.randrange(2))
        self.version = self.rng.randrange(*self.versions)
        self.position = 0
        self.marks = Marks()
        self.found: dict[int, str] = {}
        """Names of the records that this one has read."""
        self._connection = (0, 0)
        self._seeks = False
        """It begins anew at a time, and not at the start."""

    def pause(self) -> float:
        if self.rng.random() < 0.02:
            self.position = 0
            self._seeks = self.rng.random() < 0.5
        return self.rng.random() * 0.3 if self.rng.random() < 0.3 else 0.0

    async def step(self) -> None:
        if self._seeks:
            self._seeks = False
            found = await self.offset_of(
                self.world.machine.time.milliseconds() - self.rng.choice((100, 700, 4000, 60_000))
            )
            self.position = max(found, 0)
        await self.fetch(self.rng.choice((0, 50, 500, 3000)))

    async def fetch(self, max_wait_ms: int) -> None:
        """One Fetch. Lost."""
        rng, (topic, number) = self.rng, self.place
        of_partition, least, most = self.sizes
        part = fetches.FetchPartition(
            partition=number, fetch_offset=self.position, partition_max_bytes=rng.choice(of_partition)
        )
        request = fetches.FetchRequest(
            max_wait_ms=max_wait_ms, min_bytes=rng.choice(least), max_bytes=rng.choice(most),
            isolation_level=self.isolation, topics=[fetches.FetchTopic(topic=topic, partitions=[part])],
        )  # fmt: skip
        before = self.world.history.log(self.place).deleted
        answer = await self.channel.ask(
            request, fetches.FetchResponse, self.version, max_wait_ms / 1000, self.patience_s
        )
        if answer.error_code or not answer.responses:
            return
        data = answer.responses[0].partitions[0]
        self.blames_the_disk(f"a fetch of {self.place}", data.error_code)
        if not data.error_code and data.log_start_offset >= 0:
            self.world.history.stays_deleted(self.place, before, data.log_start_offset)
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            await self._out_of_range()
        elif data.error_code:
            self.refuses(f"a fetch of {self.place}", data.error_code, PASSING | GONE)
            await asyncio.sleep(PAUSE_S)
        else:
            self.take(data)

    async def _out_of_range(self) -> None:
        start = await self.offset_of(EARLIEST)
        if start <= self.position:
            end = await self.offset_of(LATEST)
            if self.position <= end:
                raise Broken(f"{self.place}: {self.position} is out of range, of {start} to {end}")
        self.position = start

    def take(self, data: fetches.PartitionData) -> None:
        """What a partition's part of an answer holds."""
        life = self.world.machine.lives, self.channel.connections
        if life != self._connection:
            self._connection, self.marks = life, Marks()
        self.position = self.world.history.fetched(
            self.place, self.position, self.isolation, data, self.marks, self.found
        )

    async def offset_of(self, timestamp: int, patient: bool = False) -> int:
        """By ListOffsets, with patience. Lost when the run is over, unless `patient`."""
        topic, number = self.place
        part = list_offsets.ListOffsetsPartition(partition_index=number, timestamp=timestamp)
        request = list_offsets.ListOffsetsRequest(
            replica_id=-1, isolation_level=self.isolation if patient else 0,
            topics=[list_offsets.ListOffsetsTopic(name=topic, partitions=[part])],
        )  # fmt: skip
        while True:
            before = self.world.history.log(self.place).deleted
            answer = await self.channel.ask(request, list_offsets.ListOffsetsResponse, 3)
            found = answer.topics[0].partitions[0]
            self.blames_the_disk(f"an offset of {self.place}", found.error_code)
            if not found.error_code:
                if timestamp == EARLIEST:
                    self.world.history.stays_deleted(self.place, before, found.offset)
                    self.world.history.starts(self.world.history.log(self.place), found.offset)
                return found.offset
            self.refuses(f"no offset of {self.place}", found.error_code, PASSING | GONE)
            await self.rest()


class Judge(Reader):
    """Reads as much at a time as there is: at the end of a run, when others have read in small pieces."""

    sizes = (1 << 20,), (1,), (1 << 20,)

    def __init__(self, world: World, part: Part, target: Target | None = None) -> None:
        super().__init__(world, part, target)
        self.patience_s = 0.0
        self.epochs: dict[int, int] = {}
        """Epochs of leaders, and the last offset that was read of each."""

    def take(self, data: fetches.PartitionData) -> None:
        for header in iterate_batches(bytes(data.records or b"")):
            if header.magic >= NEW_FORMAT:
                self.epochs[header.partition_leader_epoch] = header.last_offset
        super().take(data)

    async def end_of_epoch(self, epoch: int) -> epochs.EpochEndOffset | None:
        """What OffsetForLeaderEpoch tells; None where it is refused for now. Lost."""
        topic, number = self.place
        part = epochs.OffsetForLeaderPartition(partition=number, leader_epoch=epoch)
        request = epochs.OffsetForLeaderEpochRequest(
            topics=[epochs.OffsetForLeaderTopic(topic=topic, partitions=[part])]
        )
        answer = await self.channel.ask(request, epochs.OffsetForLeaderEpochResponse, 4)
        found = answer.topics[0].partitions[0]
        if found.error_code:
            self.refuses(f"an epoch of {self.place}", found.error_code, PASSING)
            return None
        return found

    async def end_before_this_life(self) -> int:
        """Where the log ended when the daemon started: what that has appended, markers as a rule, is of a newer epoch. Lost."""
        topic, number = self.place
        request = metadata.MetadataRequest(
            topics=[metadata.MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
        )
        answer = await self.channel.ask(request, metadata.MetadataResponse, 12)
        newest = next((row.leader_epoch for row in answer.topics[0].partitions if row.partition_index == number), 0)
        end, before = await self.offset_of(LATEST), await self.end_of_epoch(newest - 1)
        return end if before is None or before.end_offset < 0 else before.end_offset


class OldReader(Reader):
    """Reads by versions that know formats 0 and 1 alone: the daemon converts. They have neither headers nor transactions."""

    versions = (0, 4)

    def __init__(self, world: World, part: Part) -> None:
        super().__init__(world, part)
        self.isolation = 0

    def take(self, data: fetches.PartitionData) -> None:
        history, buffer = self.world.history, bytes(data.records or b"")
        started = self.position
        for offset, key, value in old_records(buffer):
            if offset < self.position:
                continue
            if offset >= data.high_watermark:
                raise Broken(f"{self.place}: offset {offset} is read, beyond {data.high_watermark}")
            known = history.log(self.place).at.get(offset)
            if value is not None:
                name = value.partition(b"|")[0].decode(errors="replace")
                history.stands_at(self.place, name, offset, key, is_tombstone=False)
            elif known is not None and not known.is_tombstone:
                raise Broken(f"{self.place}: {known.name} at {offset} has lost its value")
            self.position = offset + 1
        history.note("fetched in an old format", place=self.place, from_=started, to=self.position)


def old_records(buffer: bytes) -> list[tuple[int, bytes | None, bytes | None]]:
    """(offset, key, value) of sets of format 0 and 1; the last one may be cut off."""
    found = []
    for record in itertools.chain.from_iterable(map(iterate_legacy_records, iterate_legacy_messages(buffer))):
        key = None if record.key is None else bytes(record.key)
        found.append((record.offset, key, None if record.value is None else bytes(record.value)))
    return found


class Committer(Client):
    """Commits rising offsets for a group of its own, and reads them back: never one from before the last acknowledged."""

    def __init__(self, world: World, part: Part) -> None:
        super().__init__(world, part)
        self.group = f"group of {self.name}"
        self.place = self.pick()
        self._asked = -1
        self._is_known = self._is_to_look = False

    def pause(self) -> float:
        return self.rng.random() * 0.3

    async def settled(self) -> None:
        if self._is_known:
            await look(self, self.group, self.place)

    def lost(self) -> None:
        self._is_to_look = True

    async def step(self) -> None:
        if not self._is_known:
            await self.find_coordinator(self.group, OF_GROUPS)
            self._is_known = True
        if self._is_to_look:
            self._is_to_look = await look(self, self.group, self.place) is None
        elif self.rng.random() < 0.6:
            self._asked += 1
            await commit(self, self.group, self.place, self._asked)
        else:
            await look(self, self.group, self.place)


async def commit(
    client: Client, group: str, place: Place, offset: int, member: tuple[str, int] = ("", -1),
    refusals: frozenset[ErrorCode] = frozenset(), version: int = 7,
) -> int:  # fmt: skip
    """Commits an offset; the error code, of a moment or one of `refusals`. `member`: id, and generation or epoch. Lost."""
    topic, number = place
    part = offset_commit.OffsetCommitRequestPartition(
        partition_index=number, committed_offset=offset, committed_metadata=""
    )
    request = offset_commit.OffsetCommitRequest(
        group_id=group, member_id=member[0], generation_id_or_member_epoch=member[1],
        topics=[offset_commit.OffsetCommitRequestTopic(name=topic, partitions=[part])],
    )  # fmt: skip
    client.world.commits.asks(group, place, offset)
    answer = await client.channel.ask(request, offset_commit.OffsetCommitResponse, version)
    error = answer.topics[0].partitions[0].error_code
    if not error:
        client.world.commits.done(group, place, offset)
        client.world.history.note("committed", group=group, place=place, offset=offset)
    else:
        client.refuses(f"a commit for {group}", error, PASSING | UNCERTAIN | refusals)
    return error


async def look(client: Client, group: str, place: Place) -> int | None:
    """The committed offset, −1 for none; None while it can't be told. Lost."""
    topic, number = place
    request = offset_fetch.OffsetFetchRequest(
        group_id=group, topics=[offset_fetch.OffsetFetchRequestTopic(name=topic, partition_indexes=[number])]
    )
    before = client.world.commits.before(group, place)
    answer = await client.channel.ask(request, offset_fetch.OffsetFetchResponse, 6)
    error = answer.error_code or answer.topics[0].partitions[0].error_code
    if error:
        client.refuses(f"no offset of {group} is read", error, PASSING | UNCERTAIN)
        return None
    found = answer.topics[0].partitions[0].committed_offset
    client.world.history.note("offset read", group=group, place=place, offset=found)
    client.world.commits.read(group, place, found, before)
    return found
