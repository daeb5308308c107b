"""Tasks of streams groups: a subtopology's id with a partition; a member has them active, as stand-by or to warm up.

Tasks         what a member is to have, or says that it has
OwnedTasks    what it was given; of each active task also the member epoch at which it got it, so that a commit of offsets
              from before that can be refused
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from struct import Struct
from typing import NamedTuple

#: Subtopology → partitions; no empty ones.
TaskSet = Mapping[str, frozenset[int]]
#: Subtopology → partition → member epoch.
TaskEpochs = Mapping[str, Mapping[int, int]]


class Task(NamedTuple):
    """A subtopology and the number of a partition."""

    subtopology: str
    partition: int


class Tasks(NamedTuple):
    """Tasks of one member, by role and subtopology."""

    active: TaskSet
    standby: TaskSet
    warmup: TaskSet

    @property
    def is_empty(self) -> bool:
        return not any(self)

    def has_any(self, other: OwnedTasks) -> bool:
        """True if a task is in both in the same role."""
        mine, theirs = tuple(self), (task_set(other.active), other.standby, other.warmup)
        return any(
            not partitions.isdisjoint(their.get(subtopology, ()))
            for role, their in zip(mine, theirs, strict=True)
            for subtopology, partitions in role.items()
        )


class OwnedTasks(NamedTuple):
    """Tasks that one member was given."""

    active: TaskEpochs
    standby: TaskSet
    warmup: TaskSet

    @property
    def is_empty(self) -> bool:
        return not any(self)

    def merged(self, other: OwnedTasks) -> OwnedTasks:
        """Both; what is in both is as in the other."""
        active = {name: dict(epochs) for name, epochs in self.active.items()}
        for name, epochs in other.active.items():
            active.setdefault(name, {}).update(epochs)
        return OwnedTasks(active, union(self.standby, other.standby), union(self.warmup, other.warmup))

    def covers(self, said: Tasks) -> bool:
        """True if all tasks that a member reports were assigned to it, in these roles."""
        roles = zip(said, (task_set(self.active), self.standby, self.warmup), strict=True)
        return all(
            partitions <= mine.get(subtopology, frozenset())
            for theirs, mine in roles
            for subtopology, partitions in theirs.items()
        )

    def matches_report(self, said: Tasks | None) -> bool:
        """True if the member's report names just these tasks, or if it sent none."""
        return said is None or said == (task_set(self.active), self.standby, self.warmup)


#: (subtopology, its partitions with an offset each, as bytes): ten thousand of a member take little in this form.
PackedOffsets = tuple[tuple[str, bytes], ...]
_OFFSET = Struct(">iq")  # partition, offset


class TaskOffsets(NamedTuple):
    """Offsets that a member's state has reached, summed over the changelogs of a task, and the ends of these."""

    reached: PackedOffsets = ()
    ends: PackedOffsets = ()

    def updated(self, told: ToldOffsets) -> TaskOffsets:
        """These after a heartbeat that tells of others."""
        return TaskOffsets(
            self.reached if told.reached is None else told.reached, self.ends if told.ends is None else told.ends
        )


class ToldOffsets(NamedTuple):
    """What one heartbeat tells of a member's `TaskOffsets`. None: unchanged."""

    reached: PackedOffsets | None = None
    ends: PackedOffsets | None = None


def packed_offsets(offsets: Mapping[str, Mapping[int, int]]) -> PackedOffsets:
    return tuple(
        (name, b"".join(_OFFSET.pack(partition, offset) for partition, offset in partitions.items()))
        for name, partitions in offsets.items()
    )


def unpacked_offsets(offsets: PackedOffsets) -> Iterator[tuple[str, int, int]]:
    """(subtopology, partition, offset) of each task."""
    return ((name, partition, offset) for name, found in offsets for partition, offset in _OFFSET.iter_unpack(found))


NO_TASKS = Tasks({}, {}, {})
OWNS_NOTHING = OwnedTasks({}, {}, {})
NO_OFFSETS = TaskOffsets()


def task_set(tasks: Mapping[str, Iterable[int]]) -> dict[str, frozenset[int]]:
    """The same tasks without empty subtopologies."""
    return {name: found for name, partitions in tasks.items() if (found := frozenset(partitions))}


def each_task(tasks: Mapping[str, Iterable[int]]) -> Iterator[Task]:
    return (Task(name, partition) for name, partitions in tasks.items() for partition in partitions)


def grouped(tasks: Iterable[Task]) -> dict[str, frozenset[int]]:
    """Group tasks by subtopology."""
    found: dict[str, set[int]] = {}
    for name, partition in tasks:
        found.setdefault(name, set()).add(partition)
    return task_set(found)


def union(one: TaskSet, other: TaskSet) -> TaskSet:
    """Tasks that are in either."""
    return {name: one.get(name, frozenset()) | other.get(name, frozenset()) for name in {**one, **other}}
