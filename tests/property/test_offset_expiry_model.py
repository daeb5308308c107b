"""Committed offsets expire: of groups that never had a member, of classic groups and of consumer groups, whose members come
and go, over restarts, while hours pass on a clock that stands still in between.

The oracle is KIP-211's rule: an offset goes when the retention time has passed since it was committed, in a classic group
that all have left since the last one did; what a present member reads stays; a time that the client set itself counts alone.
A group that is empty and has no offsets is forgotten.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from support.groups import Groups, Member, subscription
from support.heartbeat_groups import Image, make_environment
from tidelog.broker.groups.classic.events import GroupProtocol, LeavingMember
from tidelog.broker.groups.consumer.heartbeat import HeartbeatRequest
from tidelog.broker.groups.offset_commits import CommitRequest, OffsetToCommit
from tidelog.broker.groups.store.group import GroupType
from tidelog.broker.groups.store.records import read_offset_value
from tidelog.protocol.errors import ErrorCode

RETENTION_MIN = 60
MINUTE_MS = 60_000
LOOK_MIN = 5
"""Between two looks at the offsets."""
NOBODY, CLASSIC, CONSUMER = "nobody", "classic", "consumer"
READ, UNREAD = "alpha", "beta"
LONG_MS = 10 * 24 * 60 * MINUTE_MS


class Committed(NamedTuple):
    offset: int
    commit_ms: int
    expire_ms: int | None


class OffsetExpiryMachine(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.environment = make_environment(Image(alpha=1, beta=1), group_consumer_session_timeout_ms=LONG_MS)
        self.config = {
            "offsets_retention_minutes": RETENTION_MIN,
            "offsets_retention_check_interval_ms": LOOK_MIN * MINUTE_MS,
            "group_initial_rebalance_delay_ms": 0,
        }
        self.harness = Groups(config=self.config, environment=self.environment, loop=self.loop)
        self.oracle: dict[tuple[str, str], Committed] = {}
        self.classic: Member | None = None
        self.emptied_ms: int | None = None
        """When the classic group lost its member; None before it had one, and once it is forgotten."""
        self.epoch = 0
        """The consumer group's member's, 0 without one."""
        self.consumer_id = ""
        self.ids = 0
        self.a_classic_member_comes()
        self.the_consumer_comes_or_goes()

    def teardown(self) -> None:
        if not hasattr(self, "loop"):
            return
        try:
            if self.classic is not None:
                self.the_classic_member_leaves()
            if self.epoch:
                self.the_consumer_comes_or_goes()
            self.minutes_pass(105)
            assert not self.oracle
            assert [group for shard in self.harness.groups.shards() for group in shard.groups] == []
        finally:
            self.harness.close()
            self.loop.close()

    @property
    def now(self) -> int:
        return self.harness.time.milliseconds()

    # -- members

    @precondition(lambda self: self.classic is None)
    @rule()
    def a_classic_member_comes(self) -> None:
        self.ids += 1
        member = self.harness.member(
            f"c{self.ids}",
            group_id=CLASSIC,
            session_timeout_ms=1_800_000,
            protocols=(GroupProtocol("range", subscription(READ)),),
        )
        member.join()
        self.harness.time.advance(0)
        member.sync({member.joined.member_id: b""})
        assert member.synced.error is ErrorCode.NONE
        self.classic, self.emptied_ms = member, None

    @precondition(lambda self: self.classic is not None)
    @rule()
    def the_classic_member_leaves(self) -> None:
        assert self.classic is not None
        code, (left,) = self.harness.groups.leave(CLASSIC, [LeavingMember(self.classic.member_id, None)])
        assert (code, left.error) == (ErrorCode.NONE, ErrorCode.NONE)
        self.classic, self.emptied_ms = None, self.now

    @rule()
    def the_consumer_comes_or_goes(self) -> None:
        if self.epoch:
            self.beat(-1)
            self.epoch = 0
        else:
            self.ids += 1
            self.consumer_id = f"m{self.ids}"
            self.epoch = self.beat(0)

    def beat(self, epoch: int) -> int:
        heartbeat_groups = self.harness.groups.heartbeat_groups
        machine = heartbeat_groups.machine(GroupType.CONSUMER)
        request = HeartbeatRequest(
            CONSUMER, self.consumer_id, epoch, None, None, 1_000, frozenset((READ,)), client_id="c", client_host="/h",
            owned={} if epoch == 0 else None,
        )  # fmt: skip
        answer = heartbeat_groups.run(
            CONSUMER, lambda group, now_ms: machine.heartbeat(group, request, now_ms), kind=GroupType.CONSUMER
        )
        return int(answer.member_epoch)

    # -- offsets

    @rule(
        groups=st.sets(st.sampled_from((NOBODY, CLASSIC, CONSUMER)), min_size=1),
        topics=st.sets(st.sampled_from((READ, UNREAD)), min_size=1),
        offset=st.integers(0, 99),
        own_minutes=st.sampled_from((None, None, None, 5, 100)),
    )
    def offsets_are_committed(self, groups: set[str], topics: set[str], offset: int, own_minutes: int | None) -> None:
        for group in sorted(groups):
            for topic in sorted(topics):
                self.commit(group, topic, offset, own_minutes)
        self.check()

    def commit(self, group: str, topic: str, offset: int, own_minutes: int | None) -> None:
        who: tuple[str, int] = ("", -1)
        if group == CLASSIC and self.classic is not None:
            who = self.classic.member_id, self.classic.joined.generation
        elif group == CONSUMER and self.epoch:
            who = self.consumer_id, self.epoch
        own_ms = -1 if own_minutes is None else own_minutes * MINUTE_MS
        request = CommitRequest(group, [OffsetToCommit(topic, 0, offset)], who[0], None, who[1], retention_ms=own_ms)
        assert self.harness.groups.commit_offsets(request) == [ErrorCode.NONE]
        self.oracle[group, topic] = Committed(offset, self.now, None if own_minutes is None else self.now + own_ms)

    # -- time

    @rule(minutes=st.sampled_from((5, 10, 30, 55, 60, 65)))
    def minutes_pass(self, minutes: int) -> None:
        for _ in range(0, minutes, LOOK_MIN):
            if self.classic is not None:
                assert self.classic.heartbeat() is ErrorCode.NONE
            self.harness.time.advance(LOOK_MIN * MINUTE_MS)
            self.expire()
            self.check()

    def expire(self) -> None:
        """What one look at the offsets does."""
        self.oracle = {place: each for place, each in self.oracle.items() if not self.is_over(*place, each)}
        if self.classic is None and not any(group == CLASSIC for group, _ in self.oracle):
            self.emptied_ms = None

    def is_over(self, group: str, topic: str, committed: Committed) -> bool:
        has_member = {NOBODY: False, CLASSIC: self.classic is not None, CONSUMER: self.epoch > 0}[group]
        if has_member and topic == READ:
            return False
        if committed.expire_ms is not None:
            return self.now >= committed.expire_ms
        start_ms = committed.commit_ms
        if group == CLASSIC and self.emptied_ms is not None:
            start_ms = self.emptied_ms
        return self.now - start_ms >= RETENTION_MIN * MINUTE_MS

    @rule()
    def the_daemon_restarts(self) -> None:
        self.harness.groups.close()
        self.harness = Groups(
            config=self.config,
            environment=self.environment,
            loop=self.loop,
            log=self.harness.log,
            time=self.harness.time,
            first_id=1000 * (self.ids + 1),
        )
        self.ids += 1
        if self.classic is not None:
            self.classic.harness = self.harness
        self.check()

    # -- what must hold

    def check(self) -> None:
        found = {
            (group, topic): read_offset_value(value).offset
            for shard in self.harness.groups.shards()
            for group in shard.offsets.group_ids()
            for topic, partitions in shard.offsets.of_group(group).items()
            for value in partitions.values()
        }
        assert found == {place: each.offset for place, each in self.oracle.items()}
        groups = {group for shard in self.harness.groups.shards() for group in shard.groups}
        assert groups >= {group for group, _ in self.oracle}


TestOffsetExpiry = OffsetExpiryMachine.TestCase
TestOffsetExpiry.settings = settings(
    max_examples=40, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
