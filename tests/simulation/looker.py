"""A client that asks about everything and changes nothing, beside all that changes: monitoring, tools, consumers that begin at
a time."""

from __future__ import annotations

from typing import Any

from simulation.history import Broken, Outcome
from simulation.readers import EARLIEST
from simulation.work import GONE, PASSING, Client
from tidelog.protocol.messages import describe_configs as configs
from tidelog.protocol.messages import describe_groups as groups
from tidelog.protocol.messages import describe_log_dirs as log_dirs
from tidelog.protocol.messages import describe_producers as producers
from tidelog.protocol.messages import list_groups, list_offsets, list_transactions, metadata
from tidelog.protocol.messages import offset_for_leader_epoch as epochs
from tidelog.protocol.schema import ApiMessage

UNEXPECTED = "error_code=-1,"
GROUPS = ["classic group", "consumer group", "share group", "group of committer-0", "group of transactional-0"]
TOPIC = 2


class Looker(Client):
    """One question after the other. No answer may tell of an error that nobody expected."""

    def pause(self) -> float:
        return self.rng.random() * 0.5

    async def step(self) -> None:
        if self.rng.random() < 0.4:
            await self._begin_at_a_time()
            return
        request, response, version = self.rng.choice(self._questions())
        answer = await self.channel.ask(request, response, version)
        name = request.API_KEY.name
        self.world.history.note(f"looked: {name}")
        if UNEXPECTED in repr(answer) and self.world.is_sound:
            raise Broken(f"{self.name}: {name} tells of an unknown error: {answer!r}"[:2000])

    def _questions(self) -> list[tuple[ApiMessage, Any, int]]:
        topic, number = self.pick()
        producer = producers.TopicRequest(name=topic, partition_indexes=[number])
        epoch = epochs.OffsetForLeaderTopic(
            topic=topic, partitions=[epochs.OffsetForLeaderPartition(partition=number, leader_epoch=0)]
        )
        resource = configs.DescribeConfigsResource(resource_type=TOPIC, resource_name=topic, configuration_keys=None)
        return [
            (metadata.MetadataRequest(topics=None), metadata.MetadataResponse, 12),
            (groups.DescribeGroupsRequest(groups=GROUPS), groups.DescribeGroupsResponse, 5),
            (list_groups.ListGroupsRequest(), list_groups.ListGroupsResponse, 4),
            (configs.DescribeConfigsRequest(resources=[resource]), configs.DescribeConfigsResponse, 4),
            (log_dirs.DescribeLogDirsRequest(topics=None), log_dirs.DescribeLogDirsResponse, 4),
            (list_transactions.ListTransactionsRequest(), list_transactions.ListTransactionsResponse, 1),
            (producers.DescribeProducersRequest(topics=[producer]), producers.DescribeProducersResponse, 0),
            (epochs.OffsetForLeaderEpochRequest(topics=[epoch]), epochs.OffsetForLeaderEpochResponse, 4),
        ]

    async def _offset_at(self, timestamp: int, place: tuple[str, int]) -> int | None:
        part = list_offsets.ListOffsetsPartition(partition_index=place[1], timestamp=timestamp)
        topic = list_offsets.ListOffsetsTopic(name=place[0], partitions=[part])
        request = list_offsets.ListOffsetsRequest(replica_id=-1, topics=[topic])
        answer = await self.channel.ask(request, list_offsets.ListOffsetsResponse, 3)
        found = answer.topics[0].partitions[0]
        self.blames_the_disk(f"an offset of {place}", found.error_code)
        if found.error_code:
            self.refuses(f"no offset of {place}", found.error_code, PASSING | GONE)
            return None
        return found.offset

    async def _begin_at_a_time(self) -> None:
        """The first record of that time or later, of those that were there when it was asked."""
        place, history = self.pick(), self.world.history
        timestamp = self.world.machine.time.milliseconds() - self.rng.choice((10, 500, 3000, 60_000))
        known = [sent for sent in history.log(place).at.values() if sent.outcome is Outcome.DONE]
        found = await self._offset_at(timestamp, place)
        if found is None:
            return
        history.note("offset by time", place=place, offset=found)
        there = history.log(place).at.get(found)
        if there is not None and (there.at_ms < timestamp or not there.has_time):
            raise Broken(f"{place}: {found} is told for {timestamp}, and is of {there.at_ms}")
        earlier = [
            sent for sent in known if sent.has_time and sent.at_ms >= timestamp and (found < 0 or sent.offset < found)
        ]
        if not earlier or history.log(place).rules.is_cleaned:
            return
        start = await self._offset_at(EARLIEST, place)
        last = max(earlier, key=lambda sent: sent.offset)
        if start is not None and start <= last.offset:
            raise Broken(
                f"{place}: {found} is told for {timestamp}, and {last.name} at {last.offset} is of {last.at_ms}"
            )
