"""The sticky assignor of streams groups (KIP-1071): which member gets which tasks.

Three rules, in this order:

- every task is active at one member; members share active tasks evenly;
- a task goes where it was active, else where it was stand-by, as long as that member has not got its share;
- a stateful task has `standby_replicas` stand-by copies, each in a process that has no other copy of it, as far as there are
  so many processes; and again where it was before if possible.

Tasks that are left go to the process with the least load (tasks for each of its members), there to the member with fewest.
Pure, and the same for the same input: whatever has no order is taken in the order of its names.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from .tasks import NO_TASKS, Task, Tasks, each_task, grouped

#: Its name, as Kafka knows it.
ASSIGNOR = "sticky"


class Candidate(NamedTuple):
    """A member that may get tasks. `previous` is its last target."""

    member_id: str
    process_id: str
    previous: Tasks = NO_TASKS


class TaskGroup(NamedTuple):
    """The tasks of one subtopology."""

    subtopology: str
    task_count: int
    is_stateful: bool


class _Share:
    """Number of tasks that a member may have so that all members have about as many. Full members are no longer counted."""

    __slots__ = ("_members", "_tasks", "each")

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks = tasks
        self._members = members
        self._divide()

    def _divide(self) -> None:
        self.each = -(-self._tasks // self._members) if self._members else 0

    def taken(self, count: int) -> None:
        """Some member has this many now."""
        if count == self.each and self._members:
            self._members -= 1
            self._tasks -= count
            self._divide()


class _Process:
    """Members that share a process, and with it a state directory."""

    __slots__ = ("_fewest", "_given", "counts", "process_id", "tasks")

    def __init__(self, process_id: str) -> None:
        self.process_id = process_id
        self.counts: dict[str, int] = {}
        self.tasks: set[Task] = set()
        self._given = 0
        #: (count, member) of each member, and some that have become too low.
        self._fewest: list[tuple[int, str]] = []

    def join(self, member_id: str) -> None:
        self.counts[member_id] = 0
        heapq.heappush(self._fewest, (0, member_id))

    def give(self, member_id: str, task: Task) -> int:
        """Returns how many the member has now."""
        self.tasks.add(task)
        self._given += 1
        count = self.counts[member_id] = self.counts[member_id] + 1
        heapq.heappush(self._fewest, (count, member_id))
        return count

    @property
    def load(self) -> tuple[float, str]:
        return self._given / len(self.counts), self.process_id

    def least(self) -> str:
        """The member with the fewest tasks, the first one by name of such."""
        while self.counts[self._fewest[0][1]] != self._fewest[0][0]:
            heapq.heappop(self._fewest)
        return self._fewest[0][1]


class _Assignment:
    def __init__(self, members: Iterable[Candidate], groups: Iterable[TaskGroup], replicas: int) -> None:
        self.members = sorted(members)
        groups = list(groups)
        active = sum(group.task_count for group in groups)
        copies = sum(group.task_count for group in groups if group.is_stateful) * replicas
        self.active_share = _Share(active, len(self.members))
        self.total_share = _Share(active + copies, len(self.members))
        self.processes: dict[str, _Process] = {}
        self.process_of: dict[str, _Process] = {}
        self.was_active: dict[Task, str] = {}
        self.was_standby: dict[Task, list[str]] = {}
        self.active: dict[str, list[Task]] = {}
        self.standby: dict[str, list[Task]] = {}
        for member_id, process_id, previous in self.members:
            process = self.processes.setdefault(process_id, _Process(process_id))
            process.join(member_id)
            self.process_of[member_id] = process
            self.active[member_id], self.standby[member_id] = [], []
            for task in each_task(previous.active):
                self.was_active[task] = member_id
            for task in each_task(previous.standby):
                self.was_standby.setdefault(task, []).append(member_id)

    def give(self, member_id: str, task: Task, to: dict[str, list[Task]]) -> None:
        count = self.process_of[member_id].give(member_id, task)
        to[member_id].append(task)
        if to is self.active:
            self.active_share.taken(count)
        self.total_share.taken(count)

    def has_room(self, member_id: str, share: _Share) -> bool:
        return self.process_of[member_id].counts[member_id] < share.each

    def least_loaded(self, members: Iterable[str], without: Task | None) -> str | None:
        """Return the member whose process has the least load and does not have the task; None if there is none."""
        found = [member for member in members if without is None or without not in self.process_of[member].tasks]
        return min(
            found,
            key=lambda member: (self.process_of[member].load[0], self.process_of[member].counts[member], member),
            default=None,
        )

    def assign_active(self, tasks: list[Task]) -> None:
        """First where it was active, then where its state is, then where there is least to do."""
        left = []
        for task in sorted(tasks, key=lambda task: (task.partition, task.subtopology)):
            member = self.was_active.get(task)
            if member is not None and self.has_room(member, self.active_share):
                self.give(member, task, self.active)
            else:
                left.append(task)
        rest = []
        for task in left:
            member = self.least_loaded(self.was_standby.get(task, ()), None)
            if member is not None and self.has_room(member, self.active_share):
                self.give(member, task, self.active)
            else:
                rest.append(task)
        loads = [process.load for process in self.processes.values()]
        heapq.heapify(loads)
        for task in sorted(rest):
            process = self.processes[heapq.heappop(loads)[1]]
            self.give(process.least(), task, self.active)
            heapq.heappush(loads, process.load)

    def assign_standby(self, tasks: list[Task], replicas: int) -> None:
        """Copies where the task was active or stand-by and is not now, then where there is least to do."""
        left: list[tuple[Task, int]] = []
        for task in sorted(tasks, key=lambda task: (task.partition, task.subtopology), reverse=True):
            for given in range(replicas):
                member = self._where_it_was(task)
                if member is None:
                    left.append((task, replicas - given))
                    break
                self.give(member, task, self.standby)
        loads = [process.load for process in self.processes.values()]
        heapq.heapify(loads)
        for task, copies in sorted(left, reverse=True):
            for _ in range(copies):
                if not self._give_to_least(task, loads):
                    break  # no process is without it

    def _where_it_was(self, task: Task) -> str | None:
        member = self.was_active.get(task)
        if member is not None and task not in self.process_of[member].tasks and self.has_room(member, self.total_share):
            return member
        member = self.least_loaded(self.was_standby.get(task, ()), task)
        return member if member is not None and self.has_room(member, self.total_share) else None

    def _give_to_least(self, task: Task, loads: list[tuple[float, str]]) -> bool:
        passed = []
        found = None
        while loads and found is None:
            load = heapq.heappop(loads)
            process = self.processes[load[1]]
            if task in process.tasks:
                passed.append(load)
            else:
                found = process
        if found is not None:
            self.give(found.least(), task, self.standby)
            heapq.heappush(loads, found.load)
        for load in passed:
            heapq.heappush(loads, load)
        return found is not None


def assign(members: Iterable[Candidate], groups: Iterable[TaskGroup], standby_replicas: int) -> Mapping[str, Tasks]:
    """Each member's tasks. Without members there is nothing to say."""
    groups = list(groups)
    assignment = _Assignment(members, groups, standby_replicas)
    if not assignment.members:
        return {}
    assignment.assign_active([Task(group.subtopology, part) for group in groups for part in range(group.task_count)])
    if standby_replicas > 0:
        stateful = [
            Task(group.subtopology, part) for group in groups if group.is_stateful for part in range(group.task_count)
        ]
        assignment.assign_standby(stateful, standby_replicas)
    return {
        member: Tasks(grouped(assignment.active[member]), grouped(assignment.standby[member]), {})
        for member, _, _ in assignment.members
    }
