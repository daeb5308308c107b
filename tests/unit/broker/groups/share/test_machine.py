"""Share groups as their machine decides them, on a log in memory that is replayed after each step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.groups import Groups
from support.heartbeat_groups import Image, make_environment, state_of
from tidelog.broker.groups.heartbeat.registry import replay_bytes
from tidelog.broker.groups.share.group import ShareGroup, StatePartitions
from tidelog.broker.groups.share.machine import Machine, ShareHeartbeat, ShareHeartbeatResult
from tidelog.broker.groups.store.group import GroupType
from tidelog.protocol.errors import ErrorCode, ProtocolError
from tidelog.storage.exceptions import KafkaStorageError


class Rig:
    """One group `g`, topics in an image, and members that send heartbeats."""

    def __init__(self, **settings: Any) -> None:
        self.image = Image(orders=2, bills=1)
        self.harness = Groups(environment=make_environment(self.image, **settings))
        self.heartbeat_groups = self.harness.groups.heartbeat_groups
        self.machine: Machine = self.heartbeat_groups.machine(GroupType.SHARE)

    def run(self, decide: Any) -> Any:
        answer = self.heartbeat_groups.run("g", decide, kind=GroupType.SHARE)
        self.check_replay()
        return answer

    @property
    def group(self) -> ShareGroup:
        group = self.heartbeat_groups.read("g")
        assert isinstance(group, ShareGroup)
        return group

    def check_replay(self) -> None:
        """What a restart would read is what is there."""
        groups: dict[str, Any] = {}
        for key, value in self.harness.log.records:
            assert key is not None
            assert replay_bytes(groups, key, value)
        known = self.heartbeat_groups.read("g")
        assert (groups.get("g") is None) == (known is None)
        if known is not None:
            assert state_of(groups["g"]) == state_of(known)

    def ready(self, *names: str) -> None:
        """The topics' state is kept."""
        wanted = self.machine.uninitialized(self.heartbeat_groups.read("g"), names)
        self.run(lambda group, _: self.machine.initializing(group, "g", wanted))
        self.run(lambda group, _: self.machine.initialized(group, "g", wanted, {}))

    def beat(self, member: str, epoch: int, *topics: str) -> ShareHeartbeatResult:
        asked = ShareHeartbeat("g", member, epoch, None, frozenset(topics) if topics else None, "client", "/host")
        result: ShareHeartbeatResult = self.run(
            lambda group, now: (
                self.machine.leave(group, asked) if epoch == -1 else self.machine.heartbeat(group, asked, now)
            )
        )
        return result

    def refused(self, *arguments: Any) -> ErrorCode:
        before = self.harness.log.records
        with pytest.raises(ProtocolError) as caught:
            self.beat(*arguments)
        assert self.harness.log.records == before
        return caught.value.code


@pytest.fixture
def rigs() -> Iterator[Callable[..., Rig]]:
    made: list[Rig] = []

    def make(**settings: Any) -> Rig:
        made.append(Rig(**settings))
        return made[-1]

    yield make
    for rig in made:
        rig.harness.close()


def test_the_first_answer_has_the_assignment(rigs: Callable[..., Rig]) -> None:
    rig = rigs()
    rig.ready("orders")
    told = rig.beat("ann", 0, "orders")
    assert told.assignment == {rig.image.id("orders"): {0, 1}}
    assert (told.member_epoch, told.heartbeat_interval_ms, rig.group.state_name) == (2, 5000, "Stable")
    assert rig.beat("ann", 2).assignment is None, "nothing is new"
    assert rig.beat("ann", 2, "orders").assignment is not None, "a full request is answered in full"
    assert rig.beat("ann", 0, "orders").member_epoch == 2


def test_only_what_is_kept_is_assigned(rigs: Callable[..., Rig]) -> None:
    rig = rigs()
    told = rig.beat("ann", 0, "orders", "bills")
    assert told.assignment == {}
    rig.ready("bills")
    rig.harness.time.advance(1000)
    told = rig.beat("ann", told.member_epoch)
    assert told.assignment == {rig.image.id("bills"): {0}}
    assert rig.beat("ann", told.member_epoch).member_epoch == told.member_epoch, "it is not pending any more"


def test_members_share_and_assignments_are_seldom(rigs: Callable[..., Rig]) -> None:
    rig = rigs()
    rig.ready("orders")
    rig.beat("ann", 0, "orders")
    assert rig.beat("bob", 0, "orders").assignment == {}, "within a second of the last"
    rig.harness.time.advance(1000)
    bob = rig.beat("bob", rig.group.members["bob"].member_epoch)
    ann = rig.beat("ann", 2)
    assert {*bob.assignment[rig.image.id("orders")], *ann.assignment[rig.image.id("orders")]} == {0, 1}
    assert rig.beat("ann", 2).member_epoch == ann.member_epoch, "the last answer may have been lost"


def test_who_is_not_what_it_says_is_refused(rigs: Callable[..., Rig]) -> None:
    rig = rigs(group_share_max_size=1)
    assert rig.refused("ann", 1) is ErrorCode.GROUP_ID_NOT_FOUND
    assert rig.refused("ann", -1) is ErrorCode.GROUP_ID_NOT_FOUND
    rig.beat("ann", 0, "orders")
    assert rig.refused("ann", 9) is ErrorCode.FENCED_MEMBER_EPOCH
    assert rig.refused("ann", 1) is ErrorCode.FENCED_MEMBER_EPOCH
    assert rig.refused("bob", 0, "orders") is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert rig.refused("bob", -1) is ErrorCode.UNKNOWN_MEMBER_ID
    rig.beat("ann", -1)
    assert rig.refused("ann", 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert rig.group.state_name == "Empty"


def test_a_group_of_another_type_keeps_its_id(rigs: Callable[..., Rig]) -> None:
    rig = rigs()
    rig.harness.member("classic", group_id="g").join()
    asked = ShareHeartbeat("g", "ann", 0, None, frozenset({"orders"}), "c", "/h")
    with pytest.raises(ProtocolError) as caught:
        rig.heartbeat_groups.run("g", lambda group, now: rig.machine.heartbeat(group, asked, now), kind=GroupType.SHARE)
    assert caught.value.code is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_session_ends_without_heartbeats(rigs: Callable[..., Rig]) -> None:
    rig = rigs()
    gone: list[Any] = []
    rig.heartbeat_groups.on_member_gone.append(lambda *what: gone.append(what))
    rig.ready("orders")
    rig.beat("ann", 0, "orders")
    rig.harness.time.advance(30_000)
    rig.beat("ann", 2)
    rig.harness.time.advance(44_999)
    assert not gone
    rig.harness.time.advance(1)
    assert gone == [(GroupType.SHARE, "g", "ann")]
    assert rig.group.is_empty
    assert rig.heartbeat_groups.delay_count("g") == 0
    rig.check_replay()


def test_members_that_were_loaded_have_a_session(rigs: Callable[..., Rig]) -> None:
    rig = rigs()
    rig.beat("ann", 0, "orders")
    rig.heartbeat_groups.loaded(rig.harness.groups.shards()[0])
    effects = rig.machine.loaded(rig.group, 0)
    assert len(effects) == 1


def test_topics_that_grow_or_go_change_the_target(rigs: Callable[..., Rig]) -> None:
    rig = rigs()
    rig.ready("orders", "bills")
    epoch = rig.beat("ann", 0, "orders", "bills").member_epoch
    rig.image.put("orders", 3)
    rig.ready("orders")
    rig.image.remove("bills")
    rig.harness.time.advance(1000)
    told = rig.beat("ann", epoch)
    assert told.assignment == {rig.image.id("orders"): {0, 1, 2}}


def test_what_becomes_of_state_is_written_down(rigs: Callable[..., Rig]) -> None:
    rig = rigs()
    orders = rig.image.id("orders")
    wanted = rig.machine.uninitialized(None, ["orders", "nothing"])
    assert wanted == {orders: StatePartitions("orders", frozenset({0, 1}))}
    rig.run(lambda group, _: rig.machine.initializing(group, "g", wanted))
    assert rig.group.initializing == wanted
    good, bad = ({orders: StatePartitions("orders", frozenset({index}))} for index in (0, 1))
    rig.run(lambda group, _: rig.machine.initialized(group, "g", good, bad))
    assert (rig.group.initialized, rig.group.initializing) == (good, {})
    assert rig.machine.uninitialized(rig.group, ["orders"]) == bad
    rig.run(lambda group, _: rig.machine.deleting(group, "g", {orders: "orders"}))
    assert (rig.group.initialized, rig.group.deleting) == ({}, {orders: "orders"})
    rig.run(lambda group, _: rig.machine.deleted(group, "g", [orders]))
    assert rig.group.deleting == {}
    rig.beat("ann", 0, "orders")
    for decide in (
        lambda group, _: rig.machine.deleting(group, "g", {}),
        lambda group, _: rig.machine.initializing(group, "g", {}, must_be_empty=True),
    ):
        with pytest.raises(ProtocolError) as caught:
            rig.run(decide)
        assert caught.value.code is ErrorCode.NON_EMPTY_GROUP


def test_a_share_group_has_no_committed_offsets_and_stays(rigs: Callable[..., Rig]) -> None:
    rig = rigs()
    rig.beat("ann", 0, "orders")
    group = rig.group
    assert group.may_delete() is ErrorCode.NON_EMPTY_GROUP
    assert group.may_fetch("ann", 2) is group.may_delete_offsets() is ErrorCode.GROUP_ID_NOT_FOUND
    rig.beat("ann", -1)
    assert (group.may_expire, group.may_delete()) == (False, ErrorCode.NONE)
    rig.ready("orders")
    assert rig.harness.groups.delete_group("g") is ErrorCode.NONE
    assert rig.heartbeat_groups.read("g") is None
    rig.check_replay()


def test_topics_that_go_while_the_disk_is_full_are_noticed_afterwards(rigs: Callable[..., Rig]) -> None:
    """What was seen of the topics was noted before the records of it could be written."""
    rig = rigs()
    rig.ready("orders", "bills")
    told = rig.beat("ann", 0, "orders", "bills")
    assert len(told.assignment) == 2
    rig.harness.time.advance(1000)
    orders = rig.image.id("orders")
    rig.image.remove("bills")
    rig.harness.log.failure = KafkaStorageError("no room")
    with pytest.raises(ProtocolError):
        rig.beat("ann", told.member_epoch)
    rig.harness.log.failure = None
    assert rig.beat("ann", told.member_epoch).assignment == {orders: {0, 1}}
