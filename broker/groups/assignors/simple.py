"""The assignor of share groups, `simple` as in Kafka: each partition is read by somebody, and everybody reads something.

Members of a share group may read the same partition. So where there are more members than partitions, a partition has
several; where there are fewer, a member has several. Members that read the same topics divide all partitions among them;
where their topics differ, each topic is divided on its own. What a member has it keeps, as far as that leaves others enough.
Pure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence

from .spec import Partitions

_Place = tuple[bytes, int]


def assign(
    subscriptions: Mapping[str, frozenset[bytes]], partitions: Partitions, current: Mapping[str, Partitions]
) -> dict[str, dict[bytes, frozenset[int]]]:
    """Return the topic partitions that each member is to read. `subscriptions`: member → topic ids; `partitions`: those that can
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
