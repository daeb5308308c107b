"""Members of the classic and of the consumer protocol in one group, which goes from one to the other and back (KIP-848).

The members of the consumer protocol, the topics and the restarts are those of `test_consumer_groups_model`; here classic
ones come in, cooperative or eager, through JoinGroup, SyncGroup and Heartbeat. While there is nobody else the one that leads
assigns, as a client's sticky assignor does. What must hold besides: nothing is used by two members, whatever they speak; and
when all work diligently for a while, everything is read, the group is stable, and is a classic one exactly if no member
speaks the consumer protocol.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule
from support.groups import Groups, run_callbacks
from support.heartbeat_groups import Image, make_environment, state_of
from tidelog.broker.groups.classic.events import (
    GroupProtocol,
    JoinRequest,
    JoinResult,
    LeavingMember,
    SyncRequest,
    SyncResult,
)
from tidelog.broker.groups.classic.metadata import GroupMetadata
from tidelog.broker.groups.consumer.classic_protocol import assignment_bytes, named, read_assignment, read_subscription
from tidelog.broker.groups.consumer.group import ConsumerGroup
from tidelog.broker.groups.heartbeat.registry import replay_bytes
from tidelog.broker.groups.store.records import GroupKey, read_key
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.consumer_protocol import ConsumerProtocolSubscription, TopicPartition
from tidelog.protocol.schema import encode_with_version
from tidelog.storage.exceptions import KafkaStorageError

from . import test_consumer_groups_model as consumer_groups

GROUP, TOPICS, NEVER = consumer_groups.GROUP, consumer_groups.TOPICS, consumer_groups.NEVER
SESSION_MS, REBALANCE_MS, STEP_MS = 10_000, 20_000, 1_000
Place = tuple[str, int]


@dataclass(eq=False)
class Classic:
    """A consumer of the classic protocol. `used` is what it reads."""

    name: str
    topics: frozenset[str]
    eager: bool
    member_id: str = ""
    generation: int = -1
    is_synced: bool = False
    leads: tuple[Any, ...] = ()
    topics_seen: int = 0
    """The topics that it assigned, where it leads: when there are others, it joins again."""
    used: set[Place] = field(default_factory=set)
    joining: asyncio.Future[JoinResult] | None = None
    syncing: asyncio.Future[SyncResult] | None = None
    heard_ms: float = 0.0
    gives_up_by_ms: float = NEVER
    """It has been asked to go on, and is put out a session later at the earliest: others may have been told before."""

    @property
    def waits(self) -> bool:
        return self.joining is not None or self.syncing is not None

    def is_out(self) -> None:
        self.member_id, self.generation, self.gives_up_by_ms = "", -1, NEVER
        self.joining = self.syncing = None
        self.used.clear()


class MigrationMachine(consumer_groups.Machine):
    @initialize(
        alpha=st.integers(1, 4),
        beta=st.integers(0, 3),
        classics=st.lists(st.booleans(), min_size=1, max_size=3),
        newer=st.integers(0, 2),
    )
    def start(self, alpha: int, beta: int, classics: list[bool], newer: int) -> None:
        """`classics`: whether each of those that are there first is eager; `newer`: how many come after them."""
        self.image = Image(alpha=alpha, **({"beta": beta} if beta else {}))
        self.environment = make_environment(self.image)
        self.loop = asyncio.new_event_loop()
        self.harness = Groups(environment=self.environment, loop=self.loop)
        self.clients = []
        self.classics: list[Classic] = []
        self.epochs = (0, 0)
        self.names = 0
        self.starts = 1
        for eager in classics:
            self.a_classic_one_joins(frozenset(("alpha", "beta")), eager)
        self.all_work(10)
        for _ in range(newer):
            self.joins(frozenset(("alpha", "gamma")), "", False, None)

    def all_groups(self) -> list[Any]:
        return [group for shard in self.harness.groups.shards() for group in shard.groups.values()]

    def groups(self) -> list[Any]:
        """Of consumers: what the invariants of the other model are about."""
        return [group for group in self.all_groups() if isinstance(group, ConsumerGroup)]

    # -- what classic clients do

    @rule(topics=st.frozensets(st.sampled_from(TOPICS), min_size=1), eager=st.booleans())
    @precondition(lambda self: len(self.classics) < 4)
    def a_classic_one_joins(self, topics: frozenset[str], eager: bool) -> None:
        self.names += 1
        client = Classic(f"o{self.names}", topics, eager, heard_ms=self.now)
        self.classics.append(client)
        self.turn(client)

    @rule(data=st.data())
    @precondition(lambda self: self.classics)
    def a_classic_one_goes_on(self, data: st.DataObject) -> None:
        self.turn(data.draw(st.sampled_from(self.classics)))

    @rule()
    def all_classic_ones_go_on(self) -> None:
        for client in self.classics:
            self.turn(client)

    @rule(seconds=st.integers(1, 15))
    def all_work(self, seconds: int) -> None:
        for _ in range(seconds):
            self.time_passes(STEP_MS)
            for classic in self.classics:
                self.turn(classic)
            for client in self.live():
                self.beat(client)

    @rule(seconds=st.integers(1, 15))
    def all_heartbeat_ones_leave(self, seconds: int) -> None:
        for client in self.live():
            self.depart(client)
        self.all_work(seconds)

    @rule(data=st.data())
    @precondition(lambda self: self.live())
    def leaves(self, data: st.DataObject) -> None:
        self.depart(data.draw(st.sampled_from(self.live())))

    @rule(data=st.data())
    @precondition(lambda self: self.classics)
    def a_classic_one_leaves(self, data: st.DataObject) -> None:
        client = data.draw(st.sampled_from(self.classics))
        self.classics.remove(client)
        self.harness.groups.leave(GROUP, [LeavingMember(client.member_id, None)])
        self.see()

    @rule(data=st.data())
    @precondition(lambda self: self.classics)
    def a_classic_one_dies(self, data: st.DataObject) -> None:
        self.classics.remove(data.draw(st.sampled_from(self.classics)))

    def turn(self, client: Classic) -> None:
        """The next thing that a sound client does."""
        self.see()
        if client.waits:
            return
        if client.generation < 0:
            self.join(client)
        elif not client.is_synced:
            self.sync(client)
        elif client.leads and client.topics_seen != self.image.changes:
            client.generation = -1
        else:
            self.heartbeat(client)
        self.see()

    def join(self, client: Classic) -> None:
        if client.eager:
            client.used.clear()
        owned = [TopicPartition(topic=topic, partitions=[p]) for topic, p in sorted(client.used)]
        subscription = ConsumerProtocolSubscription(topics=sorted(client.topics), owned_partitions=owned)
        protocols = (GroupProtocol("cooperative", encode_with_version(subscription, 1)),)
        for _ in range(2):
            outcome = self.harness.groups.join(
                JoinRequest(
                    GROUP, client.member_id, None, client.name, "/127.0.0.1", SESSION_MS, REBALANCE_MS, "consumer", protocols
                )
            )  # fmt: skip
            if asyncio.iscoroutine(outcome):
                outcome = self.loop.create_task(outcome)
                run_callbacks(self.loop)
            if not isinstance(outcome, JoinResult):
                client.joining = outcome
                return
            if outcome.error is not ErrorCode.MEMBER_ID_REQUIRED:
                self.joined(client, outcome)
                return
            client.member_id, client.heard_ms = outcome.member_id, self.now

    def joined(self, client: Classic, result: JoinResult) -> None:
        client.joining = None
        if result.error is ErrorCode.UNKNOWN_MEMBER_ID:
            client.is_out()
        if result.error is not ErrorCode.NONE:
            assert result.error in (
                ErrorCode.UNKNOWN_MEMBER_ID,
                ErrorCode.REBALANCE_IN_PROGRESS,
                ErrorCode.NOT_COORDINATOR,
            )
            return
        client.heard_ms = self.now
        client.member_id, client.generation, client.is_synced = result.member_id, result.generation, False
        client.leads = result.members
        client.gives_up_by_ms = self.now + REBALANCE_MS - SESSION_MS

    def sync(self, client: Classic) -> None:
        outcome = self.harness.groups.sync(
            SyncRequest(
                GROUP, client.generation, client.member_id, None, "consumer", "cooperative", self.assigned(client)
            )
        )
        if isinstance(outcome, SyncResult):
            self.synced(client, outcome)
        else:
            client.syncing = outcome

    def assigned(self, leader: Classic) -> dict[str, bytes]:
        """What a sticky assignor says: who has something keeps it, the rest goes round."""
        leader.topics_seen = self.image.changes
        subscriptions = {member.member_id: read_subscription(member.metadata) for member in leader.leads}
        shares: dict[str, dict[bytes, frozenset[int]]] = {member_id: {} for member_id in subscriptions}
        owners = {
            (topic, p): member_id
            for member_id, each in subscriptions.items()
            for topic, partitions in named(each.owned_partitions).items()
            for p in partitions
            if topic in each.topics
        }
        for name in self.image.names():
            readers = sorted(member_id for member_id, each in subscriptions.items() if name in each.topics)
            for p in range(self.image.topics[name].partition_count if readers else 0):
                share = shares[owners.get((name, p), readers[p % len(readers)])]
                topic_id = self.image.id(name)
                share[topic_id] = share.get(topic_id, frozenset()) | {p}
        return {member_id: assignment_bytes(share, self.image, 1) for member_id, share in shares.items()}

    def synced(self, client: Classic, result: SyncResult) -> None:
        client.syncing = None
        if result.error is not ErrorCode.NONE:
            self.failed(client, result.error)
            return
        client.heard_ms, client.gives_up_by_ms = self.now, NEVER
        rows = named(read_assignment(result.assignment).assigned_partitions)
        given = {(topic, p) for topic, partitions in rows.items() for p in partitions}
        has_revoked = bool(client.used - given)
        client.used, client.is_synced = given, True
        if has_revoked:  # others wait to hear of it
            client.generation = -1
            client.gives_up_by_ms = self.now + REBALANCE_MS - SESSION_MS

    def heartbeat(self, client: Classic) -> None:
        code = self.harness.groups.heartbeat(GROUP, client.member_id, None, client.generation)
        if code is ErrorCode.NONE:
            client.heard_ms = self.now
        else:
            self.failed(client, code)

    def failed(self, client: Classic, code: ErrorCode) -> None:
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            client.heard_ms, client.generation = self.now, -1
            client.gives_up_by_ms = min(client.gives_up_by_ms, self.now + REBALANCE_MS - SESSION_MS)
        elif code is not ErrorCode.NOT_COORDINATOR:
            assert code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION), code
            client.is_out()

    def see(self) -> None:
        """Answers that have come are taken, and who must take himself for out does."""
        run_callbacks(self.loop)
        for client in self.classics:
            if client.joining is not None and client.joining.done():
                self.joined(client, client.joining.result())
            if client.syncing is not None and client.syncing.done():
                self.synced(client, client.syncing.result())
            lost = not client.waits and self.now - client.heard_ms >= SESSION_MS
            if client.member_id and (lost or self.now >= client.gives_up_by_ms):
                client.is_out()
        for client in self.live():
            if self.now - client.seen_ms >= consumer_groups.SESSION_MS or self.now >= client.gives_up_by_ms:
                client.used.clear()
                client.told.clear()
                client.gives_up_by_ms = NEVER

    # -- what happens around them

    @rule(ms=st.sampled_from([10, 1_000, 5_000, 15_000, 46_000]))
    def time_passes(self, ms: int) -> None:
        while ms > 0:
            self.harness.time.advance(min(ms, STEP_MS))
            ms -= STEP_MS
            self.see()

    @rule()
    @precondition(lambda self: False)
    def a_topic_is_deleted(self) -> None:
        """To classic members a topic that is made again is the same one: the other model has what comes of ids."""

    @rule()
    def the_daemon_restarts(self) -> None:
        self.harness.groups.close()
        self.starts += 1
        self.harness = Groups(
            log=self.harness.log,
            time=self.harness.time,
            loop=self.loop,
            first_id=self.starts * 10_000,
            environment=self.environment,
        )
        run_callbacks(self.loop)
        for client in self.classics:  # the connection is lost
            if client.waits:
                client.joining, client.syncing, client.generation = None, None, -1

    @rule(data=st.data())
    @precondition(lambda self: self.live())
    def a_write_fails(self, data: st.DataObject) -> None:
        before = [state_of(group) for group in self.groups()]
        self.harness.log.failure = KafkaStorageError("no room")
        self.beat(data.draw(st.sampled_from(self.live())))
        self.harness.log.failure = None
        assert [state_of(group) for group in self.groups()] == before

    # -- what must hold

    @invariant()
    def nothing_is_used_twice(self) -> None:
        names = {topic.topic_id: topic.name for topic in self.image.topics.values()}
        used = Counter((names[topic_id], p) for client in self.clients for topic_id, p in client.used)
        used.update(place for client in self.classics for place in client.used)
        assert all(times == 1 for times in used.values()), (self.clients, self.classics)

    @invariant()
    def epochs_never_go_back(self) -> None:
        """Of a classic group the epoch is its generation; a group that nobody is in may be forgotten."""
        for group in self.groups():
            assert group.group_epoch >= group.assignment_epoch
            assert all(member.member_epoch <= group.assignment_epoch for member in group.members.values())

    @staticmethod
    def replayed(records: list[Any]) -> list[Any]:
        groups: dict[str, Any] = {}
        for key, value in records:
            if not isinstance(read_key(key), GroupKey):
                assert replay_bytes(groups, key, value)
        return [state_of(group) for group in groups.values()]

    @rule()
    def calm(self) -> None:
        """Whoever lives works diligently; the dead and the away time out."""
        for client in self.clients:
            if client.away:
                client.away, client.alive = False, False
        for _ in range(50 + 6 * (len(self.clients) + len(self.classics))):
            self.time_passes(STEP_MS)
            for classic in self.classics:
                self.turn(classic)
                self.turn(classic)
            for client in self.live():
                self.beat(client)
        self.clients = self.live()
        if not self.clients and not self.classics:
            assert all(group.is_empty for group in self.all_groups())
            return
        (group,) = self.all_groups()
        assert group.state_name == "Stable", (self.classics, self.clients)
        assert isinstance(group, ConsumerGroup if self.clients else GroupMetadata)
        ids = {client.member_id for client in (*self.clients, *self.classics)}
        assert ids == group.members.keys()
        names = {topic.topic_id: topic.name for topic in self.image.topics.values()}
        wanted, read = set(), set()
        for client in self.clients:
            topics = client.topics | {
                name for name in self.image.names() if consumer_groups.matches(client.expression, name)
            }
            mine = {(names[topic_id], p) for topic_id, p in client.used}
            assert {topic for topic, _ in mine} <= topics
            wanted |= topics
            read |= mine
        for classic in self.classics:
            assert {topic for topic, _ in classic.used} <= classic.topics
            wanted |= classic.topics
            read |= classic.used
        everything = {(t.name, p) for t in self.image.topics.values() for p in range(t.partition_count)}
        assert read == {(topic, p) for topic, p in everything if topic in wanted}


TestGroupMigration = MigrationMachine.TestCase
TestGroupMigration.settings = settings(
    max_examples=20, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
