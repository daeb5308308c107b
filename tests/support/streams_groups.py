"""Streams groups without a broker: one group in a dict, with its log and its delays; clients that do as Kafka Streams does.

world = StreamsWorld(Image(orders=4), group_streams_initial_rebalance_delay_ms=0)
client = StreamsClient(world, "a", process_id="p")
client.beat()         # joins, or tells what it has, and hears what it is to have
client.work()         # gives up and takes over what it was told
"""

from __future__ import annotations

from typing import Any

from support.heartbeat_groups import Image, make_environment
from tidelog.broker.groups.heartbeat.machine import Delay, DelayCleared, DelaySet, MemberGone, Outcome
from tidelog.broker.groups.heartbeat.registry import encoded, replay, replay_bytes
from tidelog.broker.groups.store.group import Group
from tidelog.broker.groups.streams.group import StreamsGroup
from tidelog.broker.groups.streams.machine import Machine
from tidelog.broker.groups.streams.requests import StreamsAnswer, StreamsHeartbeat
from tidelog.broker.groups.streams.tasks import NO_TASKS, Task, Tasks, each_task, task_set
from tidelog.broker.groups.streams.topology import InternalTopic, Subtopology, Topology
from tidelog.protocol.errors import ErrorCode, ProtocolError

#: Orders are counted by account: a repartition topic in between, and a store with its changelog.
TOPOLOGY = Topology(
    1,
    (
        Subtopology("0", source_topics=("orders",), sink_topics=("by-account",)),
        Subtopology(
            "1",
            changelog_topics=(InternalTopic("store-changelog", configs=(("cleanup.policy", "compact"),)),),
            repartition_topics=(InternalTopic("by-account"),),
        ),
    ),
)
GROUP = "app"


class StreamsWorld:
    """What a coordinator has of one group. Time passes by `now_ms`; delays are looked at by `pass_time`."""

    def __init__(self, image: Image | None = None, topology: Topology = TOPOLOGY, **settings: Any) -> None:
        self.image = image or Image(orders=3)
        self.topology = topology
        self.own: dict[str, dict[str, str]] = {}
        self.environment = make_environment(self.image, self.own, **settings)
        self.machine = Machine(self.environment)
        self.groups: dict[str, Group] = {}
        self.log: list[tuple[bytes, bytes | None]] = []
        self.delays: dict[tuple[str, str], tuple[int, Delay]] = {}
        self.now_ms = 1_000_000
        self.fails = False
        """Writes fail."""

    @property
    def group(self) -> StreamsGroup:
        found = self.groups[GROUP]
        assert isinstance(found, StreamsGroup)
        return found

    def heartbeat(self, request: StreamsHeartbeat, *, make: bool = True) -> StreamsAnswer:
        """Send one heartbeat as the API does: missing internal topics are made first."""
        if request.instance_id is not None:
            self.carry_out(self.machine.relabelled(self.groups.get(GROUP), request))
        for topic in self.machine.topics_to_make(self.groups.get(GROUP), request) if make else ():
            self.image.put(topic.name, topic.partitions)
        return self.carry_out(self.machine.heartbeat(self.groups.get(GROUP), request, self.now_ms))

    def carry_out(self, outcome: Outcome[Any]) -> Any:
        records = [encoded(record) for record in outcome.records]
        if self.fails and records:
            raise ProtocolError(ErrorCode.NOT_COORDINATOR)
        if outcome.replaced is not None:
            records[:0] = outcome.replaced.tombstones()
            del self.groups[GROUP]
        self.log += records
        for record in outcome.records:
            replay(self.groups, record)  # type: ignore[arg-type]
        if outcome.note is not None:
            outcome.note(self.groups.get(GROUP))
        for effect in outcome.effects:
            if isinstance(effect, DelaySet):
                self.delays[effect.delay.member_id, effect.delay.kind] = self.now_ms + effect.delay_ms, effect.delay
            elif isinstance(effect, DelayCleared):
                self.delays.pop((effect.delay.member_id, effect.delay.kind), None)
            elif isinstance(effect, MemberGone):
                self.delays = {key: value for key, value in self.delays.items() if key[0] != effect.member_id}
        return outcome.answer

    def pass_time(self, ms: int) -> None:
        """Delays that end by then are over, the first one first."""
        end = self.now_ms + ms
        while self.delays and (first := min((at, key) for key, (at, _) in self.delays.items()))[0] <= end:
            self.now_ms = max(self.now_ms, first[0])
            _, delay = self.delays.pop(first[1])
            outcome = self.machine.delay_passed(self.group, delay, self.now_ms)
            if outcome is not None:
                self.carry_out(outcome)
        self.now_ms = end

    def replayed(self) -> dict[str, Group]:
        """What a start now would read."""
        groups: dict[str, Group] = {}
        for key, value in self.log:
            assert replay_bytes(groups, key, value)
        return groups

    def restart(self) -> None:
        self.groups, self.delays = self.replayed(), {}
        for group in self.groups.values():
            for effect in self.machine.loaded(group, self.now_ms):  # type: ignore[arg-type]
                assert isinstance(effect, DelaySet)
                self.delays[effect.delay.member_id, effect.delay.kind] = self.now_ms + effect.delay_ms, effect.delay


class StreamsClient:
    """One thread of an application. `running` is what it works on, `told` what it was last told to have."""

    def __init__(self, world: StreamsWorld, member_id: str, process_id: str = "p", **fields: Any) -> None:
        self.world = world
        self.member_id = member_id
        self.process_id = process_id
        self.fields = fields
        self.epoch = 0
        self.running = self.told = NO_TASKS

    @property
    def active(self) -> set[Task]:
        return set(each_task(self.running.active))

    def request(self, **changes: Any) -> StreamsHeartbeat:
        joining = self.epoch == 0
        fields: dict[str, Any] = {
            "rebalance_timeout_ms": 60_000 if joining else -1,
            "topology": self.world.topology if joining else None,
            "said": NO_TASKS if joining else self.running,
            "process_id": self.process_id if joining else None,
            "client_id": f"client-{self.process_id}",
            "client_host": "/127.0.0.1",
            **self.fields,
            **changes,
        }
        return StreamsHeartbeat(GROUP, self.member_id, fields.pop("member_epoch", self.epoch), **fields)

    def beat(self, *, answered: bool = True, **changes: Any) -> StreamsAnswer:
        """`answered`: whether the answer comes through. A fenced client forgets all and joins with the next one."""
        try:
            answer = self.world.heartbeat(self.request(**changes))
        except ProtocolError as error:
            if error.code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
                self.epoch, self.running, self.told = 0, NO_TASKS, NO_TASKS
            raise
        if answered:
            self.epoch = answer.member_epoch
            if answer.tasks is not None:
                owned = answer.tasks
                self.told = Tasks(task_set(owned.active), owned.standby, owned.warmup)
        return answer

    def work(self) -> None:
        self.running = self.told

    def leave(self) -> None:
        self.beat(member_epoch=-1)
