"""Several principals make, grow and delete topics, by asking for them too, over restarts and failures of the disk: what is
refused, what is made and what is on whose account is what a model says that knows nothing but the list of what was made.
"""

from __future__ import annotations

import asyncio
import inspect
import tempfile
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from support.fake_logs import FakeLogs
from support.patience import PATIENCE_S
from support.topic_world import TopicWorld, topic_world
from tidelog.broker.apis.create_partitions import create_partitions
from tidelog.broker.apis.create_topics import create_topics
from tidelog.broker.apis.delete_topics import delete_topics
from tidelog.broker.apis.metadata import metadata
from tidelog.broker.metadata.topics import CONSUMER_OFFSETS
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from tidelog.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tidelog.protocol.messages.delete_topics import DeleteTopicsRequest
from tidelog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

USERS = ("alice", "bob", "root", "ANONYMOUS")
SUPER = "root"
NAMES = tuple("abcdefgh")
INTERNAL_PARTITIONS = 2
AUTO_PARTITIONS = 2

user = st.sampled_from(USERS)
name = st.sampled_from(NAMES)
names = st.lists(name, min_size=1, max_size=4, unique=True)


class MakersMachine(RuleBasedStateMachine):
    @initialize(topics=st.integers(0, 4), each=st.integers(0, 12), in_all=st.integers(6, 30))
    def start(self, topics: int, each: int, in_all: int) -> None:
        self.most_topics, self.most_each, self.most_in_all = topics, each, in_all
        # One entry for each partition that is there: (topic, who made it), the first one being who made the topic.
        self.made: list[tuple[str, str | None]] = []
        self.loop = asyncio.new_event_loop()
        # Topic → partitions that could not be made when it was to grow: a start makes them.
        self.owed: dict[str, list[tuple[str, str | None]]] = {}
        self.directory = tempfile.TemporaryDirectory()
        self.logs = FakeLogs()
        self.ids = 1
        self.world: TopicWorld
        self._open()

    def _open(self) -> None:
        self.stack = AsyncExitStack()
        self.world = self.run(
            self.stack.enter_async_context(
                topic_world(
                    Path(self.directory.name),
                    self.logs,
                    first_id=self.ids,
                    max_topics_per_principal=self.most_topics,
                    max_partitions_per_principal=self.most_each,
                    max_partitions=self.most_in_all,
                    num_partitions=AUTO_PARTITIONS,
                    offsets_topic_num_partitions=INTERNAL_PARTITIONS,
                    super_users=f"User:{SUPER}",
                )
            )
        )
        self.ids += 1000

    def run(self, task: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(asyncio.wait_for(task, PATIENCE_S))

    def teardown(self) -> None:
        if not hasattr(self, "loop"):
            return
        self.run(self.stack.aclose())
        self.loop.close()
        self.directory.cleanup()

    # -- the model

    def topics(self) -> set[str]:
        return {topic for topic, _ in self.made}

    def owner(self, topic: str) -> str | None:
        return next(who for made, who in self.made if made == topic)

    def room_for(self, who: str, topics: int, partitions: int) -> bool:
        mine = [topic for topic in self.topics() if self.owner(topic) == who]
        if who != SUPER:
            if topics and len(mine) + topics > self.most_topics:
                return False
            if sum(maker == who for _, maker in self.made) + partitions > self.most_each:
                return False
        return len(self.made) + partitions <= self.most_in_all

    def expect_new(self, who: str, topic: str, partitions: int) -> ErrorCode:
        if topic in self.topics():
            return ErrorCode.TOPIC_ALREADY_EXISTS
        if not self.room_for(who, 1, partitions):
            return ErrorCode.POLICY_VIOLATION
        self.made += [(topic, who)] * partitions
        return ErrorCode.NONE

    # -- what clients do

    @rule(who=user, wanted=names, sizes=st.lists(st.integers(1, 6), min_size=4, max_size=4), only_check=st.booleans())
    def create(self, who: str, wanted: list[str], sizes: list[int], only_check: bool) -> None:
        asked = list(zip(wanted, sizes, strict=False))
        request = CreateTopicsRequest(
            topics=[CreatableTopic(name=n, num_partitions=size, replication_factor=1) for n, size in asked],
            validate_only=only_check,
        )
        answer = self.run(create_topics(request, self.world.context(7, user=who)))
        before = list(self.made)
        expected = [self.expect_new(who, topic, size) for topic, size in asked]
        assert [result.error_code for result in answer.topics] == expected
        for result in answer.topics:
            if result.error_code == ErrorCode.POLICY_VIOLATION:
                assert ".principal is " in result.error_message or "max.partitions is " in result.error_message
        if only_check:
            self.made = before

    @rule(who=user, wanted=names, added=st.integers(1, 4), only_check=st.booleans())
    def grow(self, who: str, wanted: list[str], added: int, only_check: bool) -> None:
        before = list(self.made)
        request, expected = [], []
        for topic in wanted:
            have = sum(made == topic for made, _ in self.made)
            request.append(CreatePartitionsTopic(name=topic, count=have + added, assignments=None))
            if not have:
                expected.append(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            elif not self.room_for(who, 0, added):
                expected.append(ErrorCode.POLICY_VIOLATION)
            else:
                expected.append(ErrorCode.NONE)
                self.made += [(topic, who)] * added
                if not only_check:
                    self.owed.pop(topic, None)
        answer = self.run(
            create_partitions(
                CreatePartitionsRequest(topics=request, validate_only=only_check), self.world.context(3, user=who)
            )
        )
        assert [result.error_code for result in answer.results] == expected
        if only_check:
            self.made = before

    @rule(who=user, wanted=names)
    def ask_for(self, who: str, wanted: list[str]) -> None:
        async def ask() -> Any:
            request = MetadataRequest(topics=[MetadataRequestTopic(name=n) for n in wanted])
            answer = metadata(request, self.world.context(9, user=who))
            return await answer if inspect.isawaitable(answer) else answer

        answer = self.run(ask())
        for topic in answer.topics:
            expected = self.expect_new(who, topic.name, AUTO_PARTITIONS)
            if expected is ErrorCode.TOPIC_ALREADY_EXISTS:
                expected = ErrorCode.NONE
            assert topic.error_code == expected
            assert len(topic.partitions) == sum(made == topic.name for made, _ in self.made)

    @rule(who=user, wanted=names)
    def delete(self, who: str, wanted: list[str]) -> None:
        answer = self.run(delete_topics(DeleteTopicsRequest(topic_names=wanted), self.world.context(5, user=who)))
        there = self.topics()
        assert [result.error_code for result in answer.responses] == [
            ErrorCode.NONE if topic in there else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for topic in wanted
        ]
        self.made = [entry for entry in self.made if entry[0] not in wanted]
        for topic in wanted:
            self.owed.pop(topic, None)

    @rule()
    def the_broker_makes_its_own(self) -> None:
        self.run(self.world.topics.ensure(CONSUMER_OFFSETS))
        if CONSUMER_OFFSETS not in self.topics():
            self.made += [(CONSUMER_OFFSETS, None)] * INTERNAL_PARTITIONS

    @rule(who=user, topic=name)
    def the_disk_refuses(self, who: str, topic: str) -> None:
        if topic in self.topics() or not self.room_for(who, 1, 2):
            return
        self.logs.fail_after(2, OSError(28, "full"))
        request = CreateTopicsRequest(topics=[CreatableTopic(name=topic, num_partitions=2, replication_factor=1)])
        (answer,) = self.run(create_topics(request, self.world.context(7, user=who))).topics
        assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR

    @rule(who=user, topic=name)
    def the_disk_refuses_growth(self, who: str, topic: str) -> None:
        if topic not in self.topics() or not self.room_for(who, 0, 2):
            return
        self.logs.fail_after(2, OSError(28, "full"))
        count = sum(made == topic for made, _ in self.made) + 2
        request = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name=topic, count=count, assignments=None)])
        (answer,) = self.run(create_partitions(request, self.world.context(3, user=who))).results
        assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        self.owed[topic] = [(topic, who)] * 2

    @rule()
    def restart(self) -> None:
        self.run(self.stack.aclose())
        for partitions in self.owed.values():
            self.made += partitions
        self.owed.clear()
        self._open()

    @invariant()
    def accounts_are_the_models(self) -> None:
        if not hasattr(self, "world"):
            return
        makers = self.world.topics.makers
        assert makers.total == len(self.made)
        assert {topic.name: topic.partition_count for topic in self.world.topics.all()} == {
            topic: sum(made == topic for made, _ in self.made) for topic in self.topics()
        }
        for who in USERS:
            assert makers.partitions_of(f"User:{who}") == sum(maker == who for _, maker in self.made)
            assert makers.topics_of(f"User:{who}") == sum(self.owner(topic) == who for topic in self.topics())
        for topic in self.world.topics.all():
            owner = self.owner(topic.name)
            assert topic.makers.owner == ("" if owner is None else f"User:{owner}")


TestMakers = MakersMachine.TestCase
TestMakers.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
