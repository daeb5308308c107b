"""One streams group of KIP-1071 and its members.

    Empty        no members
    NotReady     its topology lacks topics, or they do not fit
    Assigning    the group epoch is ahead of the assignment's
    Reconciling  some member has not reached the target
    Stable       all have

Besides what its records say a group knows some things only until the daemon stops, as in Kafka: its topology with the numbers
of partitions (made anew when it is missing), who asked the application to shut down, what was last told of endpoints, until
when the first assignment waits, and who was asked to describe the topology.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ....protocol.errors import ErrorCode
from ..heartbeat.group import HeartbeatGroup, HeartbeatMember
from ..store.group import CommittedPartition, Committer, GroupType
from ..store.member_memory import said_bytes, unusual
from .descriptions import AskedUntil, DescriptionEpochs
from .tasks import NO_OFFSETS, OWNS_NOTHING, OwnedTasks, Task, TaskOffsets, Tasks, ToldOffsets, each_task
from .topology import ConfiguredTopology, Topology

if TYPE_CHECKING:
    from ...coordinator.internal_topic import CoordinatorRecord


class StreamsEndpoint(NamedTuple):
    """Address at which a process answers queries of its state."""

    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsMember(HeartbeatMember):
    """One member: a thread of a process. `pending`: tasks that it has to give up and may still use."""

    previous_member_epoch: int = 0
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    endpoint: StreamsEndpoint | None = None
    client_tags: tuple[tuple[str, str], ...] = ()
    assigned: OwnedTasks = OWNS_NOTHING
    pending: OwnedTasks = OWNS_NOTHING

    @property
    def assigned_by(self) -> object:
        """What of the member tasks are assigned by: where it changes, the group epoch rises."""
        return self.topology_epoch, self.rack_id, self.client_tags, self.process_id

    @property
    def said(self) -> object:
        return self.process_id, self.client_tags, () if self.endpoint is None else unusual(self.endpoint.host)


class Roles(NamedTuple):
    """Task → process → how many of its members have the task in that role or have not given it up yet."""

    active: dict[Task, dict[str, int]]
    standby: dict[Task, dict[str, int]]
    warmup: dict[Task, dict[str, int]]


class StreamsGroup(HeartbeatGroup[StreamsMember, Tasks]):
    """Changed by the replay functions of `records.py` alone, but for what is not in records."""

    group_type = GroupType.STREAMS
    __slots__ = (
        "_offsets_said", "_owners", "_readers", "_topology", "_topology_said", "assignment_configs", "configured",
        "delayed_until_ms", "description_asked", "descriptions", "endpoint_epoch", "shutdown_asked_by", "task_offsets",
        "validated_topology_epoch",
    )  # fmt: skip

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self._owners = Roles({}, {}, {})
        self._topology: Topology | None = None
        #: Topic → the subtopology that reads it.
        self._readers: Mapping[str, str] = {}
        self._topology_said = 0
        self.validated_topology_epoch = -1
        #: Settings that the target was made with.
        self.assignment_configs: Mapping[str, str] = {}
        self.descriptions = DescriptionEpochs()
        # Not in records.
        self.configured: ConfiguredTopology | None = None
        self.shutdown_asked_by: str | None = None
        self.endpoint_epoch = 0
        #: Wall clock: the first assignment of a group waits for more members.
        self.delayed_until_ms = 0
        self.description_asked: AskedUntil | None = None
        #: member id → what it told last.
        self.task_offsets: dict[str, TaskOffsets] = {}
        self._offsets_said = 0

    # -- changes

    @property
    def member_bytes(self) -> int:
        return self.members_said + self._offsets_said + self._topology_said

    @property
    def topology(self) -> Topology | None:
        return self._topology

    @topology.setter
    def topology(self, topology: Topology | None) -> None:
        # Counted once: of 20,000 names that takes 4 ms, and all groups are asked when the room for members is full. Who reads
        # what is asked for each offset that is deleted or may expire.
        self._topology, self._topology_said = topology, said_bytes(topology)
        self._readers = {} if topology is None else topology.readers()

    def bytes_of(self, member_id: str) -> int:
        return super().bytes_of(member_id) + said_bytes(self.task_offsets.get(member_id, ()))

    def put(self, member: StreamsMember) -> None:
        self._count_owners(self.members.get(member.member_id), -1)
        super().put(member)
        self._count_owners(member, 1)

    def drop(self, member_id: str) -> None:
        self._count_owners(self.members.get(member_id), -1)
        super().drop(member_id)
        self.tell_offsets(member_id, NO_OFFSETS)
        if not self.members:
            self.shutdown_asked_by = None

    def tell_offsets(self, member_id: str, offsets: TaskOffsets) -> None:
        """A member has told the offsets of its tasks. In no record."""
        old = self.task_offsets.pop(member_id, NO_OFFSETS)
        self._offsets_said += said_bytes(offsets) - said_bytes(old)
        if offsets != NO_OFFSETS:
            self.task_offsets[member_id] = offsets

    def offsets_after(self, member_id: str, told: ToldOffsets) -> TaskOffsets:
        """The offsets that are known of a member when it has told of these."""
        return self.task_offsets.get(member_id, NO_OFFSETS).updated(told)

    def _count_owners(self, member: StreamsMember | None, by: int) -> None:
        if member is None:
            return
        for owned in (member.assigned, member.pending):
            for owners, tasks in zip(self._owners, owned, strict=True):
                for task in each_task(tasks):
                    processes = owners.setdefault(task, {})
                    count = processes.get(member.process_id, 0) + by
                    if count:
                        processes[member.process_id] = count
                    else:
                        del processes[member.process_id]
                    if not processes:
                        del owners[task]

    # -- questions

    def is_active(self, task: Task) -> bool:
        """True if a member has the task active, or has not given it up yet."""
        return task in self._owners.active

    def has_copy(self, task: Task, process_id: str) -> bool:
        """True if a member of that process has the task as stand-by or warm-up."""
        owners = self._owners
        return process_id in owners.standby.get(task, ()) or process_id in owners.warmup.get(task, ())

    def is_in(self, task: Task, process_id: str) -> bool:
        """True if a member of that process has the task in any role."""
        return process_id in self._owners.active.get(task, ()) or self.has_copy(task, process_id)

    @property
    def state_name(self) -> str:
        if not self.members:
            return "Empty"
        if self.topology is None or self.topology.epoch != self.validated_topology_epoch:
            return "NotReady"
        if self.group_epoch > self.assignment_epoch:
            return "Assigning"
        stable = all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values())
        return "Stable" if stable else "Reconciling"

    def is_subscribed_to(self, topic: str) -> bool:
        return bool(self.members) and topic in self._readers

    def may_commit(self, committer: Committer, partitions: Iterable[CommittedPartition]) -> ErrorCode:
        """A commit with an older member epoch counts for tasks that the member has had since then without a break."""
        member_id, instance_id, epoch, transactional, _ = committer
        if epoch < 0 and not self.members:
            return ErrorCode.NONE  # an administrator
        if transactional and epoch == -1 and not member_id and instance_id is None:
            return ErrorCode.NONE
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if not committer.may_say_epoch:
            return ErrorCode.UNSUPPORTED_VERSION
        if epoch == member.member_epoch:
            return ErrorCode.NONE
        if epoch > member.member_epoch or self.topology is None:
            return committer.stale
        for topic, _, partition in partitions:
            got = assignment_epoch(member, self._readers.get(topic), partition)
            if got is None or epoch < got:
                return committer.stale
        return ErrorCode.NONE

    def may_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        if member_id is None and member_epoch < 0:
            return ErrorCode.NONE
        member = self.members.get(member_id or "")
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if member_epoch == member.member_epoch else ErrorCode.STALE_MEMBER_EPOCH

    def tombstones(self) -> list[CoordinatorRecord]:
        from ..heartbeat.registry import encoded
        from .records import group_tombstones

        return [encoded(record) for record in group_tombstones(self)]


def assignment_epoch(member: StreamsMember, subtopology: str | None, partition: int) -> int | None:
    """At which member epoch the member got the active task; None where it has it not."""
    if subtopology is None:
        return None
    for owned in (member.assigned, member.pending):
        found = owned.active.get(subtopology, {}).get(partition)
        if found is not None:
            return found
    return None
