"""Consumer groups (KIP-848) under random joins, leaves, silence, lost answers, failed writes, topics that come and go, and
restarts, with clients that behave as real ones do: they use what they were given until they have said that they do not.

The oracle knows nothing of the coordinator's state, only what each client may use:
- no partition is used by two clients at once (a client that was silent for its session, or did not give up for its rebalance
  time-out, uses nothing);
- epochs never go back;
- after every step, the log replayed gives the same state, compacted or not;
- when all is calm, everybody has his target, and every partition of a topic that is read is used by one who reads it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from support.groups import Groups
from support.heartbeat_groups import Image, make_environment, state_of
from tidelog.broker.groups.consumer.heartbeat import HeartbeatRequest, HeartbeatResult
from tidelog.broker.groups.heartbeat.registry import replay_bytes
from tidelog.broker.groups.store.group import GroupType
from tidelog.protocol.errors import ErrorCode, ProtocolError
from tidelog.storage.exceptions import KafkaStorageError

SESSION_MS, REBALANCE_MS, INTERVAL_MS = 45_000, 20_000, 1_000
TOPICS = ("alpha", "beta", "gamma", "delta")
GROUP = "g"
NEVER = float("inf")


@dataclass
class Client:
    """A consumer. `used` is what it reads; it drops what it is told to when it gets round to it."""

    name: str
    topics: frozenset[str]
    expression: str = ""
    instance: str | None = None
    assignor: str | None = None
    number: int = 0
    epoch: int = 0
    used: set[tuple[bytes, int]] = field(default_factory=set)
    told: set[tuple[bytes, int]] = field(default_factory=set)
    reported: set[tuple[bytes, int]] | None = None
    seen_ms: float = -NEVER
    gives_up_by_ms: float = NEVER
    alive: bool = True
    away: bool = False

    @property
    def member_id(self) -> str:
        return f"{self.name}-{self.number}"


def partitions_of(places: set[tuple[bytes, int]]) -> dict[bytes, frozenset[int]]:
    found: dict[bytes, set[int]] = {}
    for topic, partition in places:
        found.setdefault(topic, set()).add(partition)
    return {topic: frozenset(each) for topic, each in found.items()}


class Machine(RuleBasedStateMachine):
    @initialize(alpha=st.integers(1, 6), beta=st.integers(0, 4))
    def start(self, alpha: int, beta: int) -> None:
        self.image = Image(alpha=alpha, **({"beta": beta} if beta else {}))
        self.environment = make_environment(self.image)
        self.loop = asyncio.new_event_loop()
        self.harness = Groups(environment=self.environment, loop=self.loop)
        self.clients: list[Client] = []
        self.epochs = (0, 0)
        self.names = 0

    def teardown(self) -> None:
        if hasattr(self, "harness"):
            self.harness.groups.close()
            self.loop.close()

    # -- what clients do

    @property
    def now(self) -> float:
        return self.harness.time.monotonic_ms()

    def live(self) -> list[Client]:
        return [client for client in self.clients if client.alive and not client.away]

    def send(self, client: Client, request: HeartbeatRequest) -> HeartbeatResult | ErrorCode:
        heartbeat_groups = self.harness.groups.heartbeat_groups
        machine = heartbeat_groups.machine(GroupType.CONSUMER)
        try:
            return heartbeat_groups.run(
                GROUP, lambda group, now_ms: machine.heartbeat(group, request, now_ms), kind=GroupType.CONSUMER
            )
        except ProtocolError as error:
            return error.code

    def beat(self, client: Client, *, gives_up: bool = True, lost: bool = False) -> None:
        """One heartbeat as a real client sends it: all in the first, then only what has changed."""
        if client.epoch == 0:
            client.used.clear()
            client.told.clear()
            client.reported = set()
        elif gives_up:
            client.used &= client.told
            client.used |= client.told
        owned = None
        if client.epoch == 0 or client.used != client.reported:
            owned = partitions_of(client.used)
        joins = client.epoch == 0
        request = HeartbeatRequest(
            GROUP,
            client.member_id,
            client.epoch,
            client.instance,
            None,
            REBALANCE_MS if joins else -1,
            client.topics if joins else None,
            client.expression if joins else None,
            client.assignor,
            owned,
            client.name,
            "/127.0.0.1",
        )
        answer = self.send(client, request)
        if not isinstance(answer, HeartbeatResult):
            if answer in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND):
                assert not joins, answer
                client.epoch = 0
                client.used.clear()
                client.gives_up_by_ms = NEVER
            else:
                assert answer in (ErrorCode.NOT_COORDINATOR, ErrorCode.UNRELEASED_INSTANCE_ID), answer
            return
        client.seen_ms = self.now
        given = None
        if answer.assignment is not None:
            given = {(topic, p) for topic, each in answer.assignment.items() for p in each}
        if given is not None and client.used - given:
            client.gives_up_by_ms = min(client.gives_up_by_ms, self.now + REBALANCE_MS)
        elif given is not None or owned is not None:
            client.gives_up_by_ms = NEVER
        if lost:
            return
        if owned is not None:
            client.reported = set(client.used)
        assert answer.member_epoch >= client.epoch or joins
        client.epoch = answer.member_epoch
        if given is not None:
            client.told = given

    @rule(
        topics=st.frozensets(st.sampled_from(TOPICS), min_size=1),
        expression=st.sampled_from(["", "", ".*a", "b.*|gamma"]),
        static=st.booleans(),
        assignor=st.sampled_from([None, None, "uniform", "range"]),
    )
    @precondition(lambda self: len(self.clients) < 6)
    def joins(self, topics: frozenset[str], expression: str, static: bool, assignor: str | None) -> None:
        self.names += 1
        name = f"c{self.names}"
        client = Client(name, frozenset() if expression else topics, expression, name if static else None, assignor)
        self.clients.append(client)
        self.beat(client)

    @rule(data=st.data(), gives_up=st.booleans(), lost=st.booleans())
    @precondition(lambda self: self.live())
    def beats(self, data: st.DataObject, gives_up: bool, lost: bool) -> None:
        self.beat(data.draw(st.sampled_from(self.live())), gives_up=gives_up, lost=lost)

    @rule()
    def all_beat(self) -> None:
        for client in self.live():
            self.beat(client)

    @rule(data=st.data())
    @precondition(lambda self: self.live())
    def beats_twice(self, data: st.DataObject) -> None:
        """The answer is lost, and the client asks again in the very same words."""
        client = data.draw(st.sampled_from(self.live()))
        self.beat(client, lost=True, gives_up=False)
        self.beat(client, gives_up=False)

    @rule(data=st.data(), topics=st.frozensets(st.sampled_from(TOPICS), min_size=1))
    @precondition(lambda self: any(client.epoch > 0 and not client.expression for client in self.live()))
    def reads_others(self, data: st.DataObject, topics: frozenset[str]) -> None:
        client = data.draw(st.sampled_from([c for c in self.live() if c.epoch > 0 and not c.expression]))
        request = HeartbeatRequest(
            GROUP, client.member_id, client.epoch, client.instance, subscribed_topics=topics,
            client_id=client.name, client_host="/127.0.0.1",
        )  # fmt: skip
        client.topics = topics
        answer = self.send(client, request)
        if not isinstance(answer, HeartbeatResult):
            client.epoch = 0
            client.used.clear()
            return
        client.seen_ms, client.epoch = self.now, answer.member_epoch
        if answer.assignment is not None:
            client.told = {(topic, p) for topic, each in answer.assignment.items() for p in each}
            if client.used - client.told:
                client.gives_up_by_ms = min(client.gives_up_by_ms, self.now + REBALANCE_MS)

    @rule(data=st.data())
    @precondition(lambda self: self.live())
    def leaves(self, data: st.DataObject) -> None:
        self.depart(data.draw(st.sampled_from(self.live())))

    def depart(self, client: Client) -> None:
        client.used.clear()
        self.send(client, HeartbeatRequest(GROUP, client.member_id, -1, client.instance))
        client.alive = False

    @rule(data=st.data())
    @precondition(lambda self: any(client.instance and client.epoch > 0 for client in self.live()))
    def goes_away_for_a_while(self, data: st.DataObject) -> None:
        client = data.draw(st.sampled_from([c for c in self.live() if c.instance and c.epoch > 0]))
        client.used.clear()
        answer = self.send(client, HeartbeatRequest(GROUP, client.member_id, -2, client.instance))
        if isinstance(answer, HeartbeatResult):
            client.away = True
        client.epoch = 0

    @rule(data=st.data())
    @precondition(lambda self: any(client.away for client in self.clients))
    def comes_back(self, data: st.DataObject) -> None:
        client = data.draw(st.sampled_from([c for c in self.clients if c.away]))
        client.away, client.epoch = False, 0
        client.number += 1
        self.beat(client)

    @rule(data=st.data())
    @precondition(lambda self: self.live())
    def dies(self, data: st.DataObject) -> None:
        client = data.draw(st.sampled_from(self.live()))
        client.alive = False
        client.used.clear()

    # -- what happens around them

    @rule(ms=st.sampled_from([10, 1_000, 5_000, 15_000, 46_000]))
    def time_passes(self, ms: int) -> None:
        self.harness.time.advance(ms)
        for client in self.live():
            if self.now - client.seen_ms >= SESSION_MS or self.now >= client.gives_up_by_ms:
                client.used.clear()  # by its own clock it is out
                client.told.clear()
                client.gives_up_by_ms = NEVER

    @rule(topic=st.sampled_from(TOPICS), count=st.integers(1, 3))
    def a_topic_is_made_or_grows(self, topic: str, count: int) -> None:
        known = self.image.get(topic)
        self.image.put(topic, count + (known.partition_count if known else 0))

    @rule(topic=st.sampled_from(TOPICS))
    def a_topic_is_deleted(self, topic: str) -> None:
        if self.image.get(topic) is not None:
            self.image.remove(topic)

    @rule()
    def the_daemon_restarts(self) -> None:
        self.harness.groups.close()
        self.harness = self.harness.restarted()
        # Sessions and time-outs begin anew for those who are known: nobody is put out sooner than its clients think.

    @rule(data=st.data())
    @precondition(lambda self: self.live())
    def a_write_fails(self, data: st.DataObject) -> None:
        before = [state_of(group) for group in self.groups()]
        self.harness.log.failure = KafkaStorageError("no room")
        client = data.draw(st.sampled_from(self.live()))
        self.beat(client)
        self.harness.log.failure = None
        assert [state_of(group) for group in self.groups()] == before

    # -- what must hold

    def groups(self) -> list:
        return [group for shard in self.harness.groups.shards() for group in shard.groups.values()]

    @invariant()
    def nothing_is_used_twice(self) -> None:
        used = Counter(place for client in self.clients for place in client.used)
        assert all(times == 1 for times in used.values()), {
            client.name: (client.epoch, client.used) for client in self.clients
        }

    @invariant()
    def epochs_never_go_back(self) -> None:
        groups = self.groups()
        if not groups:
            self.epochs = (0, 0)  # an empty group goes with the next round of expiry, as in Kafka; its name begins anew
        for group in groups:
            epochs = group.group_epoch, group.assignment_epoch
            assert epochs[0] >= epochs[1]
            assert epochs[0] >= self.epochs[0]
            assert epochs[1] >= self.epochs[1]
            for member in group.members.values():
                assert member.member_epoch <= group.assignment_epoch
            self.epochs = epochs

    @invariant()
    def the_log_says_the_same(self) -> None:
        records = self.harness.log.records
        assert self.replayed(records) == [state_of(group) for group in self.groups()]
        last = {key: index for index, (key, _) in enumerate(records)}
        compacted = [record for index, record in enumerate(records) if last[record[0]] == index]
        assert in_any_order(self.replayed(compacted)) == in_any_order([state_of(group) for group in self.groups()])
        living = [record for record in compacted if record[1] is not None]
        assert in_any_order(self.replayed(living)) == in_any_order(self.replayed(compacted))

    @staticmethod
    def replayed(records: list) -> list:
        groups: dict = {}
        for key, value in records:
            assert replay_bytes(groups, key, value)
        return [state_of(group) for group in groups.values()]

    @rule()
    def calm(self) -> None:
        """Whoever lives sends heartbeats and gives up what it must; the dead and the away time out."""
        for client in self.clients:
            if client.away:
                client.away, client.alive = False, False
        for _ in range(4 + 4 * len(self.clients)):
            self.harness.time.advance(INTERVAL_MS)
            for client in self.live():
                self.beat(client)
        for _ in range(12):
            self.harness.time.advance(5_000)
            for client in self.live():
                self.beat(client)
        self.clients = self.live()
        groups = self.groups()
        if not self.clients:
            assert not groups or groups[0].state_name == "Empty"
            return
        (group,) = groups
        assert group.state_name == "Stable", group.members
        assert {client.member_id for client in self.clients} == group.members.keys()
        read = set()
        for client in self.clients:
            topics = client.topics | {name for name in self.image.names() if matches(client.expression, name)}
            mine = {self.image.id(name) for name in topics if self.image.get(name)}
            assert {topic for topic, _ in client.used} <= mine
            read |= {
                (self.image.id(name), p)
                for name in topics
                if self.image.get(name)
                for p in range(self.image.topics[name].partition_count)
            }
            assert partitions_of(client.used) == group.target.get(client.member_id, {})
        assert {place for client in self.clients for place in client.used} == read


def matches(expression: str, name: str) -> bool:
    return {
        "": False,
        ".*a": name.endswith("a"),
        "b.*|gamma": name.startswith("b") or name == "gamma",
    }[expression]


def in_any_order(states: list) -> list:
    """Members stand in the order of their first records, which compaction may change."""
    for state in states:
        for name, value in state.items():
            if isinstance(value, dict):
                state[name] = dict(sorted(value.items()))
    return states


TestConsumerGroups = Machine.TestCase
TestConsumerGroups.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
