"""Server-side assignors (KIP-848): which member of a group gets which partitions. Pure functions of values.

`GroupSpec` goes in, whatever the type of group. An assignor must give each partition of each topic that anybody reads to exactly
one member that reads it; how evenly, and how close to what was, is its own matter (`assign_simple`, for share groups, is another
kind). Topics are known by id; there is one node, so racks do not count.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

#: Topic id → partitions.
Partitions = Mapping[bytes, frozenset[int]]


class MemberSpec(NamedTuple):
    """One member: the topics that it reads, and its target until now."""

    topics: frozenset[bytes]
    assigned: Partitions
    instance_id: str | None = None


class GroupSpec(NamedTuple):
    """Members in the order of their joining, and how many partitions each topic has. Every topic of a member is there."""

    members: Mapping[str, MemberSpec]
    partition_counts: Mapping[bytes, int]


#: Member id → partitions; members without any may be left out.
Assignor = Callable[[GroupSpec], dict[str, dict[bytes, frozenset[int]]]]


MAX_ROUNDS = 16

_Owned = dict[str, dict[bytes, set[int]]]


def assign_uniform(spec: GroupSpec) -> dict[str, dict[bytes, frozenset[int]]]:
    """The assignor `uniform`: as even as it can be, and among the even ones close to what was.

    Where all members read the same topics, two members' shares differ by one partition at most, and no assignment that is as even
    moves fewer partitions: members that have most may keep one more, and of what is left over each that lacks some gets its share
    in turn, so that a topic's partitions are spread.

    Where they do not, partitions stay where they are, the free ones go to the member with least among those that may read them,
    and then single partitions move from a member with two more to one with fewer, topic by topic, until there is no such move.
    Each move makes the sum of squares of the shares smaller, so that comes to an end; `MAX_ROUNDS` bounds it for very large
    groups.
    """
    owned, free = _kept(spec)
    if len({member.topics for member in spec.members.values()}) <= 1:
        _share_evenly(spec, owned, free)
    else:
        _share_by_topic(spec, owned, free)
    return {
        name: {topic: frozenset(partitions) for topic, partitions in topics.items() if partitions}
        for name, topics in owned.items()
    }


def _kept(spec: GroupSpec) -> tuple[_Owned, dict[bytes, list[int]]]:
    """Return the partitions that members keep (they exist and the member still reads them), and the free ones, by topic."""
    counts = spec.partition_counts
    free = {topic: set(range(count)) for topic, count in counts.items()}
    owned: _Owned = {}
    for name, member in spec.members.items():
        mine = owned[name] = {}
        for topic, partitions in member.assigned.items():
            if topic in member.topics:
                # Of two members with one partition in their targets, which should not be, the first keeps it.
                kept = free[topic].intersection(partitions)
                free[topic] -= kept
                if kept:
                    mine[topic] = kept
    return owned, {topic: sorted(free[topic]) for topic in sorted(free)}


def _size(topics: dict[bytes, set[int]]) -> int:
    return sum(map(len, topics.values()))


def _share_evenly(spec: GroupSpec, owned: _Owned, free: dict[bytes, list[int]]) -> None:
    if not owned:
        return
    least, more = divmod(sum(spec.partition_counts.values()), len(owned))
    sizes = {name: _size(topics) for name, topics in owned.items()}
    # The member with most is asked first (the sort keeps the order of equals): taking from it costs the fewest moves.
    order = sorted(owned, key=lambda name: -sizes[name])
    lacking: list[tuple[str, int]] = []
    loose = [(topic, partition) for topic, partitions in free.items() for partition in partitions]
    for index, name in enumerate(order):
        quota = least + (index < more)
        loose += _given_up(owned[name], sizes[name] - quota)
        if sizes[name] < quota:
            lacking.append((name, quota - sizes[name]))
    loose.sort()
    position = 0
    while lacking:
        still: list[tuple[str, int]] = []
        for name, count in lacking:
            topic, partition = loose[position]
            position += 1
            owned[name].setdefault(topic, set()).add(partition)
            if count > 1:
                still.append((name, count - 1))
        lacking = still
    assert position == len(loose)


def _given_up(topics: dict[bytes, set[int]], count: int) -> list[tuple[bytes, int]]:
    """Takes `count` partitions away, one of each topic in turn."""
    taken: list[tuple[bytes, int]] = []
    while len(taken) < count:
        for topic in sorted(topics)[: count - len(taken)]:
            taken.append((topic, topics[topic].pop()))
            if not topics[topic]:
                del topics[topic]
    return taken


def _share_by_topic(spec: GroupSpec, owned: _Owned, free: dict[bytes, list[int]]) -> None:
    places = {name: place for place, name in enumerate(owned)}
    sizes = {name: _size(topics) for name, topics in owned.items()}
    readers: dict[bytes, list[str]] = {}
    for name, member in spec.members.items():
        for topic in member.topics:
            readers.setdefault(topic, []).append(name)
    # Topics with fewest readers first: those have least choice.
    order = sorted(readers, key=lambda topic: (len(readers[topic]), topic))
    for topic in order:
        heap = [(sizes[name], places[name], name) for name in readers[topic]]
        heapify(heap)
        for partition in free.get(topic, ()):
            size, place, name = heappop(heap)
            owned[name].setdefault(topic, set()).add(partition)
            sizes[name] = size + 1
            heappush(heap, (size + 1, place, name))
    shared = [topic for topic in order if len(readers[topic]) > 1]
    for _ in range(MAX_ROUNDS):
        if not sum(_level(topic, readers[topic], owned, sizes, places) for topic in shared):
            return


def _level(topic: bytes, readers: list[str], owned: _Owned, sizes: dict[str, int], places: dict[str, int]) -> int:
    """Move partitions of one topic from the members with most to those with least; returns the number of moves."""
    if max(sizes[name] for name in readers) - min(sizes[name] for name in readers) < 2:
        return 0
    most = [(-sizes[name], places[name], name) for name in readers if owned[name].get(topic)]
    least = [(sizes[name], places[name], name) for name in readers]
    heapify(most)
    heapify(least)
    moved = 0
    while most:
        size, _, giver = heappop(most)
        if -size != sizes[giver] or not owned[giver].get(topic):
            continue  # it stands in the heap as it was; where it matters it stands there anew too
        while least[0][0] != sizes[least[0][2]]:
            heappop(least)
        size, _, taker = least[0]
        if sizes[giver] - size < 2:
            return moved
        partition = max(owned[giver][topic])
        owned[giver][topic].discard(partition)
        owned[taker].setdefault(topic, set()).add(partition)
        sizes[giver] -= 1
        sizes[taker] += 1
        moved += 1
        for name in (giver, taker):
            heappush(least, (sizes[name], places[name], name))
            heappush(most, (-sizes[name], places[name], name))
    return moved


def assign_range(spec: GroupSpec) -> dict[str, dict[bytes, frozenset[int]]]:
    """The assignor `range`: of each topic, each member gets a run of partitions that lie together.

    Members stand in the same order for every topic, static ones first by instance id, then the others by member id: so topics
    with equal partition counts and readers are split at the same places, and records with the same key in two of them are with
    one member (co-partitioning). A static member keeps its place over restarts. Members in front get one partition more where
    it does not come out even; that stacks up over many topics, which is why `uniform` is the default.
    """
    order = sorted(
        spec.members, key=lambda name: (spec.members[name].instance_id is None, spec.members[name].instance_id or name)
    )
    readers: dict[bytes, list[str]] = {}
    for name in order:
        for topic in spec.members[name].topics:
            readers.setdefault(topic, []).append(name)
    target: dict[str, dict[bytes, frozenset[int]]] = {name: {} for name in order}
    for topic, names in readers.items():
        least, more = divmod(spec.partition_counts[topic], len(names))
        start = 0
        for index, name in enumerate(names):
            end = start + least + (index < more)
            if end > start:
                target[name][topic] = frozenset(range(start, end))
            start = end
    return target


_Place = tuple[bytes, int]


def assign_simple(
    subscriptions: Mapping[str, frozenset[bytes]], partitions: Partitions, current: Mapping[str, Partitions]
) -> dict[str, dict[bytes, frozenset[int]]]:
    """The assignor of share groups, `simple` as in Kafka: each partition is read by somebody, and everybody reads something.

    Members of a share group may read the same partition. So where there are more members than partitions, a partition has
    several; where there are fewer, a member has several. Members that read the same topics divide all partitions among them;
    where their topics differ, each topic is divided on its own. A member keeps its partitions, as far as that leaves others
    enough.

    `subscriptions`: member → topic ids; `partitions`: those that can
    be read.
    """
    members = sorted(subscriptions)
    before = {
        member: {(topic, index) for topic, indexes in current.get(member, {}).items() for index in indexes}
        for member in members
    }
    found: dict[str, set[_Place]] = {member: set() for member in members}
    if len(set(subscriptions.values())) == 1:
        shares = [(members, sorted(subscriptions[members[0]]))]
    else:
        topics = sorted(set[bytes]().union(*subscriptions.values()))
        shares = [([member for member in members if topic in subscriptions[member]], [topic]) for topic in topics]
    for readers, topics in shares:
        places = [(topic, index) for topic in topics for index in sorted(partitions.get(topic, ()))]
        for member, part in _spread(readers, places, before).items():
            found[member] |= part
    return {member: _by_topic(part) for member, part in found.items()}


def _spread(
    members: Sequence[str], places: Sequence[_Place], before: Mapping[str, Collection[_Place]]
) -> dict[str, set[_Place]]:
    """Each place to as many members as there are, on average, for one; each member as many places as any, but for one."""
    found: dict[str, set[_Place]] = {member: set() for member in members}
    if not places or not members:
        return found
    readers = -(-len(members) // len(places))
    total = readers * len(places)
    quota = {
        member: -(-total * (index + 1) // len(members)) - -(-total * index // len(members))
        for index, member in enumerate(members)
    }
    count = dict.fromkeys(places, 0)
    for member in members:
        for place in sorted(before.get(member, ())):
            if count.get(place, readers) < readers and len(found[member]) < quota[member]:
                found[member].add(place)
                count[place] += 1
    hungry = deque(member for member in members if len(found[member]) < quota[member])
    for level in range(readers):  # everything has one reader before anything gets a second
        for place in places:
            if count[place] > level:
                continue
            for _ in range(len(hungry)):
                member = hungry.popleft()
                if place in found[member]:
                    hungry.append(member)
                    continue
                found[member].add(place)
                count[place] += 1
                if len(found[member]) < quota[member]:
                    hungry.append(member)
                break
    return found


def _by_topic(places: Collection[_Place]) -> dict[bytes, frozenset[int]]:
    topics: dict[bytes, set[int]] = {}
    for topic, index in sorted(places):
        topics.setdefault(topic, set()).add(index)
    return {topic: frozenset(indexes) for topic, indexes in topics.items()}
