"""The assignor `uniform`: as even as it can be, and among the even ones close to what was.

Where all members read the same topics, two members' shares differ by one partition at most, and no assignment that is as even
moves fewer partitions: members that have most may keep one more, and of what is left over each that lacks some gets its share
in turn, so that a topic's partitions are spread.

Where they do not, partitions stay where they are, the free ones go to who has least among those who may read them, and then
single partitions move from who has two more to who has fewer, topic by topic, until there is no such move. Each move makes
the sum of squares of the shares smaller, so that comes to an end; `MAX_ROUNDS` bounds it for very large groups.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from .spec import GroupSpec

MAX_ROUNDS = 16

_Owned = dict[str, dict[bytes, set[int]]]


def assign(spec: GroupSpec) -> dict[str, dict[bytes, frozenset[int]]]:
    """Assign partitions evenly and move as few as possible. Arguments and result as `spec.Assignor`."""
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
    # Who has most is asked first (the sort keeps the order of equals): one more than the least costs fewest moves there.
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
    """Moves partitions of one topic from who has most to who has least; returns how many."""
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
