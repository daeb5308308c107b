"""Random clients against the group coordinator: they join, sync, heartbeat, commit, leave, die, restart under a static id,
lose their connection in mid-wait; writes fail or take their time to become durable; the coordinator restarts; time passes.

What must hold after each step:

- a generation number never comes again for a group, and only rises;
- in one generation everybody is told the same leader and protocol, at most one member is asked to assign, and nobody but
  those that the leader was told of gets an assignment of it;
- an assignment is what the leader of that very generation gave to that very member;
- a member of which nothing was heard for a session time-out is gone;
- a coordinator that starts now on the same log knows the same stable and empty groups and all the offsets.

Whenever some clients work diligently for a while and the others are dead, the group becomes stable with just these as
members, and stays so. And in the end, when nobody does anything any more, every waiting answer comes, and every group
becomes empty.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from support.groups import Groups, MemoryCoordinatorLog, run_callbacks, subscription
from support.mock_time import MockTime
from tidelog.broker.groups.classic.events import GroupProtocol, JoinResult, LeavingMember, SyncRequest, SyncResult
from tidelog.broker.groups.classic.metadata import EMPTY, PREPARING_REBALANCE, STABLE, GroupMetadata
from tidelog.broker.groups.offset_commits import CommitRequest, OffsetToCommit
from tidelog.broker.groups.store.records import GroupKey, read_key, read_offset_value
from tidelog.protocol.errors import ErrorCode, ProtocolError
from tidelog.storage.exceptions import KafkaStorageError

GROUPS = ("g", "h")
SESSION_MS = {"a": 6_000, "b": 10_000, "c": 60_000, "s": 8_000, "t": 45_000}
REBALANCE_MS = {"a": 5_000, "b": 20_000, "c": 60_000, "s": 30_000, "t": 8_000}
STATIC = {"s": "static-s", "t": "static-t"}
NAMES = tuple(SESSION_MS)
PROTOCOLS = (
    (GroupProtocol("range", subscription("t")),),
    (GroupProtocol("range", subscription("t", "u")), GroupProtocol("sticky", subscription("u"))),
    (GroupProtocol("sticky", subscription("t")), GroupProtocol("range", subscription("t"))),
)


class Log(MemoryCoordinatorLog):
    """Remembers whose last write failed: such a group's state in memory is ahead of the log, rightly."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop, partitions=2)
        self.behind: set[str] = set()

    def append(self, partition: int, records: Any, now_ms: int, *producer: int) -> Any:
        groups = {key.group for record in records if isinstance(key := read_key(record.key), GroupKey)}
        self.behind |= groups
        outcome = super().append(partition, records, now_ms, *producer)
        self.behind -= groups
        return outcome


@dataclass
class Client:
    """A client process, as far as it knows of itself."""

    name: str
    group: str
    member_id: str = ""
    generation: int = -1
    leads: tuple[str, ...] | None = None
    owns: bytes | None = None
    last_code: ErrorCode = ErrorCode.NONE
    heard_ms: float = 0.0
    joining: asyncio.Future[JoinResult] | None = None
    syncing: asyncio.Future[SyncResult] | None = None
    protocols: tuple[GroupProtocol, ...] = PROTOCOLS[0]


@dataclass
class Generation:
    """What has been told about one generation of one group."""

    leader: str
    protocol: str
    members: dict[str, str | None] | None = None
    assigned: dict[str, bytes] = field(default_factory=dict)


class GroupsMachine(RuleBasedStateMachine):
    @initialize(delay_ms=st.sampled_from([0, 3000]), max_size=st.sampled_from([2, 3, 100]))
    def start(self, delay_ms: int, max_size: int) -> None:
        self.loop = asyncio.new_event_loop()
        self.time = MockTime()
        self.log = Log(self.loop)
        self.config = {"group_initial_rebalance_delay_ms": delay_ms, "group_max_size": max_size}
        self.starts = 1
        self.harness = self.coordinator()
        self.clients = {(name, group): Client(name, group) for name in NAMES for group in GROUPS}
        self.generations: dict[tuple[str, int], Generation] = {}
        self.newest: dict[str, int] = {}
        self.known: dict[str, GroupMetadata | None] = {}
        self.owed: list[asyncio.Future[Any]] = []
        self.offsets: dict[tuple[str, str, int], int] = {}
        self.ghosts: list[tuple[str, str, str]] = []
        self.started_ms = 0.0

    def coordinator(self) -> Groups:
        return Groups(
            log=self.log, time=self.time, loop=self.loop, config=self.config, first_id=self.starts * 1_000_000
        )

    def teardown(self) -> None:
        if not hasattr(self, "loop"):
            return
        try:
            self.log.failure = None
            self.log.durable = True
            self.log.sync()
            # Nobody does anything any more. Longest: a new member's join (5 minutes), then rebalance time-outs.
            self.time.advance(seconds=1200)
            assert all(future.done() for future in self.owed), "an answer is owed for ever"
            for group in GROUPS:
                assert self.harness.state(group) in ("Empty", "Dead")
            self.check_restart()
        finally:
            self.harness.close()
            run_callbacks(self.loop)
            self.loop.close()

    # -- what clients do

    @rule(
        name=st.sampled_from(NAMES),
        group=st.sampled_from(GROUPS),
        protocols=st.sampled_from(PROTOCOLS),
        process_is_new=st.booleans(),
        knows_skipping=st.booleans(),
    )
    def join(
        self, name: str, group: str, protocols: tuple[GroupProtocol, ...], process_is_new: bool, knows_skipping: bool
    ) -> None:
        """Also while an older join or sync of it waits, which is given up then without the coordinator knowing."""
        client = self.clients[name, group]
        if process_is_new:
            if client.member_id and name in STATIC:
                self.ghosts.append((group, client.member_id, STATIC[name]))
            client.member_id = ""
        client.joining = client.syncing = None
        client.protocols = protocols
        self.send_join(client, knows_skipping)

    def send_join(self, client: Client, knows_skipping: bool = True) -> None:
        for _ in range(2):
            outcome = self.harness.join(
                group_id=client.group,
                member_id=client.member_id,
                group_instance_id=STATIC.get(client.name),
                client_id=client.name,
                session_timeout_ms=SESSION_MS[client.name],
                rebalance_timeout_ms=REBALANCE_MS[client.name],
                protocols=client.protocols,
                supports_skip_assignment=knows_skipping,
            )
            if not isinstance(outcome, JoinResult):
                client.joining = outcome
                self.owed.append(outcome)
                return
            if outcome.error is not ErrorCode.MEMBER_ID_REQUIRED:
                self.joined(client, outcome)
                if outcome.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
                    # The log keeps a member's subscription in the group's protocol only, so that after a restart of
                    # the coordinator the others are not known. Its operator gives it all of them.
                    client.protocols = PROTOCOLS[2]
                return
            client.member_id = outcome.member_id
            client.heard_ms = self.now

    @rule(name=st.sampled_from(NAMES), group=st.sampled_from(GROUPS))
    def sync(self, name: str, group: str) -> None:
        client = self.clients[name, group]
        if client.joining is not None or client.syncing is not None or client.generation < 0:
            return
        assignments = {}
        if client.leads is not None:
            assignments = {member: f"{client.generation}/{member}".encode() for member in client.leads}
            told = self.generations.get((group, client.generation))
            if told is not None:  # else it is of a group that was deleted, or forgotten by a restart
                told.assigned.update(assignments)
        outcome = self.harness.groups.sync(
            SyncRequest(group, client.generation, client.member_id, STATIC.get(name), assignments=assignments)
        )
        if isinstance(outcome, SyncResult):
            if outcome.error is ErrorCode.NONE:
                assert self.group(group).generation == client.generation
            self.synced(client, outcome)
        else:
            client.syncing = outcome
            self.owed.append(outcome)

    @rule(name=st.sampled_from(NAMES), group=st.sampled_from(GROUPS))
    def heartbeat(self, name: str, group: str) -> None:
        self.send_heartbeat(self.clients[name, group])

    def send_heartbeat(self, client: Client) -> ErrorCode:
        code = self.harness.groups.heartbeat(client.group, client.member_id, STATIC.get(client.name), client.generation)
        if code in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            client.heard_ms = self.now
        assert code in (
            ErrorCode.NONE,
            ErrorCode.REBALANCE_IN_PROGRESS,
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.ILLEGAL_GENERATION,
            ErrorCode.FENCED_INSTANCE_ID,
        )
        client.last_code = code
        return code

    @rule(
        name=st.sampled_from((*NAMES, "")),
        group=st.sampled_from(GROUPS),
        partition=st.integers(0, 2),
        offset=st.integers(0, 1000),
    )
    def commit(self, name: str, group: str, partition: int, offset: int) -> None:
        request = CommitRequest(group, [OffsetToCommit("t", partition, offset)])
        client = self.clients.get((name, group))
        if client is not None:
            request = CommitRequest(group, request.offsets, client.member_id, STATIC.get(name), client.generation)
        try:
            outcome = self.harness.groups.commit_offsets(request)
        except ProtocolError as error:
            assert error.code is not ErrorCode.UNKNOWN_SERVER_ERROR
            # A refusal for the write's sake comes after the sign of life was noted.
            if client is not None and error.code is ErrorCode.NOT_COORDINATOR:
                client.heard_ms = self.now
            return
        if isinstance(outcome, list):
            assert outcome == [ErrorCode.NONE]
        else:
            self.owed.append(self.loop.create_task(outcome))
        self.offsets[group, "t", partition] = offset
        if client is not None:
            client.heard_ms = self.now

    @precondition(lambda self: self.ghosts)
    @rule()
    def a_ghost_appears(self) -> None:
        """A process that was replaced under its group.instance.id has not noticed yet."""
        group, member_id, instance = self.ghosts.pop()
        found = self.group(group)
        current = None if found is None else found.static_members.get(instance)
        code = self.harness.groups.heartbeat(group, member_id, instance, 0 if found is None else found.generation)
        if current is None:
            assert code is ErrorCode.UNKNOWN_MEMBER_ID
        elif current != member_id:
            assert code is ErrorCode.FENCED_INSTANCE_ID

    @rule(
        rounds=st.integers(1, 30),
        milliseconds=st.sampled_from([100, 1000, 2000]),
        group=st.sampled_from(GROUPS),
        names=st.sets(st.sampled_from(NAMES), min_size=1),
    )
    def work(self, rounds: int, milliseconds: int, group: str, names: set[str]) -> None:
        """What clients do all day, under whatever disk there is."""
        for _ in range(rounds):
            for name in sorted(names):
                self.turn(self.clients[name, group])
            self.time.advance(milliseconds)
            self.answers_are_taken()

    def turn(self, client: Client) -> None:
        """The next thing that a sound client does."""
        if client.joining is not None or client.syncing is not None:
            return
        if client.generation < 0:
            self.send_join(client)
        elif client.owns is None:
            self.sync(client.name, client.group)
        elif self.send_heartbeat(client) is not ErrorCode.NONE:
            client.generation, client.owns = -1, None
            if client.last_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
                client.member_id = ""

    @rule(group=st.sampled_from(GROUPS), names=st.sets(st.sampled_from(NAMES), min_size=1))
    def diligence_is_rewarded(self, group: str, names: set[str]) -> None:
        self.log.failure = None
        self.log.durable = True
        self.log.sync()
        for name in NAMES:
            if name not in names:
                self.lose_the_connection(name, group)
        diligent = [self.clients[name, group] for name in sorted(names)]
        limit = self.config["group_max_size"]

        def settled() -> bool:
            found = self.group(group)
            if found is None:
                return False
            members = [c for c in diligent if c.owns is not None and c.generation == found.generation]
            return (
                found.state is STABLE
                # Or more: static members need not join to stay, so the limit does not count them in a rebalance.
                and len(members) >= min(limit, len(diligent))
                and (len(members) <= limit or found.static_members)
                and {c.member_id for c in members} == set(found.members)
            )

        for _ in range(600):  # five minutes for a dead new member's join, and as much for what follows from it
            if settled():
                break
            self.work(1, 1000, group, names)
        assert settled(), "diligent clients did not become a group"
        generation = self.group(group).generation
        self.work(70, 1000, group, names)
        assert settled()
        if limit >= len(diligent):  # else those who found no room try again and again
            assert self.group(group).generation == generation

    @rule(name=st.sampled_from(NAMES), group=st.sampled_from(GROUPS), by_instance=st.booleans())
    def leave(self, name: str, group: str, by_instance: bool) -> None:
        client = self.clients[name, group]
        instance = STATIC.get(name)
        who = LeavingMember("", instance) if by_instance and instance else LeavingMember(client.member_id, instance)
        self.harness.groups.leave(group, [who])

    @rule(name=st.sampled_from(NAMES), group=st.sampled_from(GROUPS))
    def lose_the_connection(self, name: str, group: str) -> None:
        client = self.clients[name, group]
        for future in (client.joining, client.syncing):
            if future is not None:
                future.cancel()
        client.joining = client.syncing = None

    @rule(group=st.sampled_from(GROUPS))
    def delete(self, group: str) -> None:
        code = self.harness.groups.delete_group(group)
        if not isinstance(code, ErrorCode):
            self.owed.append(self.loop.create_task(code))
        elif code is not ErrorCode.NONE:
            return
        self.offsets = {where: offset for where, offset in self.offsets.items() if where[0] != group}

    # -- what happens to everybody

    @rule(milliseconds=st.sampled_from([0, 1, 999, 2_999, 3_000, 5_000, 7_000, 20_000, 61_000]))
    def time_passes(self, milliseconds: int) -> None:
        self.time.advance(milliseconds)

    @rule(fails=st.booleans(), durable=st.booleans())
    def the_disk_changes(self, fails: bool, durable: bool) -> None:
        self.log.failure = KafkaStorageError("disk") if fails else None
        self.log.durable = durable

    @precondition(lambda self: self.log.unsynced)
    @rule()
    def the_disk_syncs(self) -> None:
        self.log.sync()

    @rule()
    def the_coordinator_restarts(self) -> None:
        self.log.failure = None
        self.check_restart()
        self.harness.close()
        self.log.sync()  # comes too late for the old one
        self.log.durable = True
        self.starts += 1
        self.started_ms = self.now
        self.harness = self.coordinator()
        for name in GROUPS:
            # What was not in the log yet may be counted again.
            group = self.known[name] = self.group(name)
            generation = 0 if group is None else group.generation
            if generation < self.newest.get(name, 0):
                self.newest[name] = generation
                self.generations = {
                    key: value for key, value in self.generations.items() if key[0] != name or key[1] <= generation
                }

    def notice_new_groups(self) -> None:
        """A group that was deleted, or had expired, and was made again counts its generations from the start."""
        for name in GROUPS:
            group = self.group(name)
            if group is not self.known.get(name):
                self.known[name] = group
                self.newest.pop(name, None)
                self.generations = {key: value for key, value in self.generations.items() if key[0] != name}

    # -- what must hold

    @invariant()
    def answers_are_taken(self) -> None:
        if hasattr(self, "clients"):
            self.notice_new_groups()
        for client in getattr(self, "clients", {}).values():
            if client.joining is not None and client.joining.done():
                result, client.joining = client.joining.result(), None
                self.joined(client, result)
            if client.syncing is not None and client.syncing.done():
                answer, client.syncing = client.syncing.result(), None
                self.synced(client, answer)

    @invariant()
    def groups_are_sound(self) -> None:
        for name in GROUPS if hasattr(self, "harness") else ():
            group = self.group(name)
            if group is None:
                continue
            assert group.generation >= self.newest.get(name, 0)
            self.newest[name] = group.generation
            assert (group.state is EMPTY) <= (not group.members)
            if group.members:
                assert group.leader_id in group.members
                assert group.candidate_protocols()
            assert group.protocol_counts == Counter(
                name for m in group.members.values() for name in {protocol.name for protocol in m.protocols}
            )
            assert set(group.static_members.values()) == {
                m.member_id for m in group.members.values() if m.group_instance_id is not None
            }
            assert group.pending_sync_members <= set(group.members)
            assert not group.pending_join_members & set(group.members)
            if group.state is STABLE:
                assert group.protocol_name is not None

    @invariant()
    def nobody_outlives_the_session(self) -> None:
        for client in getattr(self, "clients", {}).values():
            group = self.group(client.group)
            member = group.members.get(client.member_id) if group is not None else None
            if group is None or member is None or not member.may_expire:
                continue
            heard = max(client.heard_ms, self.started_ms)
            if member.group_instance_id is not None or client.joining is None:
                # A rebalance's end begins all sessions anew; those who got no answer (a lost connection) don't know.
                assert group.state_timestamp_ms is not None
                heard = max(heard, group.state_timestamp_ms - self.time.milliseconds() + self.now)
            limit = 300_000 if member.is_new else member.session_timeout_ms
            assert self.now - heard <= limit

    def joined(self, client: Client, result: JoinResult) -> None:
        self.notice_new_groups()
        client.heard_ms = self.now
        if result.error is not ErrorCode.NONE:
            client.generation, client.leads, client.owns = -1, None, None
            if result.error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
                client.member_id = ""
            return
        client.member_id, client.generation = result.member_id, result.generation
        client.leads = client.owns = None
        key = client.group, result.generation
        told = self.generations.setdefault(key, Generation(result.leader, result.protocol_name or ""))
        assert told.protocol == result.protocol_name
        assert result.protocol_name in {protocol.name for protocol in client.protocols}
        if client.name in STATIC:
            # Under its new id an instance may lead on, or be told the id that led before.
            told.leader = result.leader
        else:
            assert result.leader == told.leader or any(p in told.leader + result.leader for p in STATIC.values())
        if result.members:
            assert result.leader == result.member_id
            assert result.member_id in {member.member_id for member in result.members}
            told.members = {member.member_id: member.group_instance_id for member in result.members}
            if not result.skip_assignment:
                client.leads = tuple(told.members)

    def synced(self, client: Client, result: SyncResult) -> None:
        client.heard_ms = self.now
        if result.error is not ErrorCode.NONE:
            if result.error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
                client.member_id = ""
            client.generation, client.leads, client.owns = -1, None, None
            return
        client.owns = result.assignment
        if result.assignment:
            generation, _, member_id = result.assignment.decode().partition("/")
            assert int(generation) == client.generation
            told = self.generations[client.group, client.generation]
            assert told.assigned.get(member_id) == result.assignment
            # To itself, or to the id that its instance had when the leader assigned.
            assert member_id == client.member_id or member_id.startswith(STATIC.get(client.name, "nobody"))

    def check_restart(self) -> None:
        again = self.coordinator()
        try:
            for shard, other in zip(self.harness.groups.shards(), again.groups.shards(), strict=True):
                for group in shard.groups.values():
                    has_offsets = bool(shard.offsets.of_group(group.group_id))
                    if group.state not in (STABLE, EMPTY) or group.group_id in self.log.behind:
                        continue
                    is_joined = (
                        group.protocol_type is not None or group.state is not EMPTY or group.pending_join_members
                    )
                    if not is_joined and not has_offsets:
                        continue
                    found = other.groups[group.group_id]
                    if len(group.members) > self.config["group_max_size"]:
                        assert found.state is PREPARING_REBALANCE
                        continue
                    assert found.describe() == group.describe()
                    assert (found.generation, found.leader_id) == (group.generation, group.leader_id)
                    assert found.static_members == group.static_members
                assert _offsets(other) == _offsets(shard)
            assert {k: v for shard in self.harness.groups.shards() for k, v in _offsets(shard).items()} == self.offsets
        finally:
            again.groups.close()

    @property
    def now(self) -> float:
        return self.time.monotonic_ms()

    def group(self, name: str) -> GroupMetadata | None:
        return next((s.groups[name] for s in self.harness.groups.shards() if name in s.groups), None)


def _offsets(shard: Any) -> dict[tuple[str, str, int], int]:
    return {
        (group, topic, partition): read_offset_value(value).offset
        for group in shard.offsets.group_ids()
        for topic, partitions in shard.offsets.of_group(group).items()
        for partition, value in partitions.items()
    }


TestGroups = GroupsMachine.TestCase
TestGroups.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)
