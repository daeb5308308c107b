"""Reconciliation of a streams group's member: from its present tasks to its target, without a task active at two members.

    Stable ──new target──► gives up what is not in the target (UNREVOKED), keeps its epoch until it says that it has
                     └───► gets the rest as soon as nobody else has it (UNRELEASED until then), in the target's epoch

A task is free to be active when nobody has it active and the member's process has no copy of it; free to be a copy when the
process does not have it in any role, as a process has one state directory for it. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from ....protocol.errors import ErrorCode, ProtocolError
from ..heartbeat.group import MemberState
from .group import StreamsGroup, StreamsMember
from .tasks import OWNS_NOTHING, OwnedTasks, Task, Tasks, TaskSet, task_set


class _Difference(NamedTuple):
    """Difference of one role: tasks to keep, to give up, and to take now; and whether more become free later."""

    kept: TaskSet
    lost: TaskSet
    gained: TaskSet
    waits: bool


def reconciled(
    group: StreamsGroup, member: StreamsMember, target: Tasks, target_epoch: int, said: Tasks | None
) -> StreamsMember:
    """The member's next state. `said`: the tasks that it says to have, None where it said nothing.

    Raises ProtocolError FENCED_MEMBER_EPOCH for a member in a state that is not known here."""
    if member.is_reconciled_to(target_epoch):
        return member
    if member.state is MemberState.STABLE or member.state is MemberState.UNRELEASED_PARTITIONS:
        return _next(group, member, member.member_epoch, target, target_epoch, said)
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        if said is None or said.has_any(member.pending):
            return member
        return _next(group, member, member.member_epoch + 1, target, target_epoch, said)
    if said is None or not said.is_empty:
        raise ProtocolError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            "The streams group member is in an unknown state. The member must abandon all its tasks and rejoin.",
        )
    return _next(group, member, target_epoch, target, target_epoch, said)


def _next(
    group: StreamsGroup, member: StreamsMember, epoch: int, target: Tasks, target_epoch: int, said: Tasks | None
) -> StreamsMember:
    process, has = member.process_id, member.assigned

    def active_taken(task: Task) -> bool:
        return group.is_active(task) or group.has_copy(task, process)

    def copy_taken(task: Task) -> bool:
        return group.is_in(task, process)

    active = _difference(task_set(has.active), target.active, active_taken)
    standby = _difference(has.standby, target.standby, copy_taken)
    warmup = _difference(has.warmup, target.warmup, copy_taken)

    kept = OwnedTasks(_with_epochs(active.kept, has), standby.kept, warmup.kept)
    lost = OwnedTasks(_with_epochs(active.lost, has), standby.lost, warmup.lost)
    gains = {name: dict.fromkeys(partitions, target_epoch) for name, partitions in active.gained.items()}
    gained = OwnedTasks(gains, standby.gained, warmup.gained)

    if not lost.is_empty and (said is None or said.has_any(lost)):
        return _moved(member, epoch, MemberState.UNREVOKED_PARTITIONS, kept, lost)
    waits = active.waits or standby.waits or warmup.waits
    state = MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE
    return _moved(member, target_epoch, state, kept if gained.is_empty else kept.merged(gained), OWNS_NOTHING)


def _moved(
    member: StreamsMember, epoch: int, state: MemberState, assigned: OwnedTasks, pending: OwnedTasks
) -> StreamsMember:
    return replace(
        member,
        member_epoch=epoch,
        previous_member_epoch=member.member_epoch,
        state=state,
        assigned=assigned,
        pending=pending,
    )


def _difference(has: TaskSet, target: TaskSet, taken: Callable[[Task], bool]) -> _Difference:
    kept: dict[str, frozenset[int]] = {}
    lost: dict[str, frozenset[int]] = {}
    gained: dict[str, frozenset[int]] = {}
    waits = False
    for name in {**has, **target}:
        mine, wanted = has.get(name, frozenset()), target.get(name, frozenset())
        free = {partition for partition in wanted - mine if not taken(Task(name, partition))}
        waits = waits or len(free) < len(wanted - mine)
        kept[name], lost[name], gained[name] = mine & wanted, mine - wanted, frozenset(free)
    return _Difference(task_set(kept), task_set(lost), task_set(gained), waits)


def _with_epochs(tasks: TaskSet, owned: OwnedTasks) -> Mapping[str, Mapping[int, int]]:
    return {name: {part: owned.active[name][part] for part in sorted(parts)} for name, parts in tasks.items()}
