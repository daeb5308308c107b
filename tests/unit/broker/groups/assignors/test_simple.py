"""The simple assignor: nobody idle, nothing unread, as little moved as can be."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tidelog.broker.groups.assignors import assign_simple

A, B, C = (name.encode() * 16 for name in "abc")
MEMBERS = st.integers(1, 12).map(lambda count: [f"m{index:02}" for index in range(count)])


def counts(targets: dict[str, dict[bytes, frozenset[int]]]) -> dict[str, int]:
    return {member: sum(map(len, target.values())) for member, target in targets.items()}


def readers(targets: dict[str, dict[bytes, frozenset[int]]]) -> dict[tuple[bytes, int], int]:
    found: dict[tuple[bytes, int], int] = {}
    for target in targets.values():
        for topic, indexes in target.items():
            for index in indexes:
                found[topic, index] = found.get((topic, index), 0) + 1
    return found


def test_fewer_members_than_partitions() -> None:
    both = frozenset({A, B})
    targets = assign_simple({"x": both, "y": both}, {A: frozenset(range(3)), B: frozenset({0})}, {})
    assert counts(targets) == {"x": 2, "y": 2}
    assert set(readers(targets).values()) == {1}


def test_more_members_than_partitions() -> None:
    members = dict.fromkeys("vwxyz", frozenset({A}))
    targets = assign_simple(members, {A: frozenset({0, 1})}, {})
    assert sorted(counts(targets).values()) == [1, 1, 1, 1, 2]
    assert readers(targets) == {(A, 0): 3, (A, 1): 3}


def test_what_a_member_has_it_keeps() -> None:
    topics = frozenset({A})
    before = assign_simple({"x": topics, "y": topics}, {A: frozenset(range(6))}, {})
    after = assign_simple({"x": topics, "y": topics, "z": topics}, {A: frozenset(range(6))}, before)
    assert counts(after) == {"x": 2, "y": 2, "z": 2}
    assert all(after[member][A] <= before[member][A] for member in "xy")
    assert assign_simple({"x": topics, "y": topics, "z": topics}, {A: frozenset(range(6))}, after) == after


def test_members_with_topics_of_their_own() -> None:
    targets = assign_simple(
        {"x": frozenset({A}), "y": frozenset({A, B}), "z": frozenset({C})},
        {A: frozenset(range(2)), B: frozenset({0})},
        {"x": {B: frozenset({0})}},
    )
    assert targets["z"] == {}, "there is no such topic"
    assert B not in targets["x"]
    assert targets["y"][B] == {0}
    assert readers(targets)[A, 0] == readers(targets)[A, 1] == 1


@given(
    MEMBERS,
    st.dictionaries(st.sampled_from((A, B, C)), st.integers(0, 9), min_size=1),
    st.dictionaries(st.integers(0, 11), st.lists(st.tuples(st.sampled_from((A, B, C)), st.integers(0, 9)), max_size=9)),
    st.booleans(),
    st.data(),
)
def test_whatever_comes(
    members: list[str],
    sizes: dict[bytes, int],
    old: dict[int, list[tuple[bytes, int]]],
    is_alike: bool,
    data: st.DataObject,
) -> None:
    partitions = {topic: frozenset(range(count)) for topic, count in sizes.items()}
    same = frozenset(sizes)
    subscriptions = {
        member: same if is_alike else frozenset(data.draw(st.sets(st.sampled_from(sorted(sizes)))))
        for member in members
    }
    current: dict[str, dict[bytes, frozenset[int]]] = {}
    for number, places in old.items():
        topics: dict[bytes, set[int]] = {}
        for topic, index in places:
            topics.setdefault(topic, set()).add(index)
        current[f"m{number:02}"] = {topic: frozenset(indexes) for topic, indexes in topics.items()}
    targets = assign_simple(subscriptions, partitions, current)
    assert targets.keys() == subscriptions.keys()
    for member, target in targets.items():
        assert target.keys() <= subscriptions[member]
        assert all(indexes <= partitions[topic] for topic, indexes in target.items())
    wanted = {(t, i) for t in partitions for i in partitions[t] if any(t in names for names in subscriptions.values())}
    assert readers(targets).keys() == wanted, "everything is read"
    if is_alike and wanted:
        assert max(counts(targets).values()) - min(counts(targets).values()) <= 1
        assert max(readers(targets).values()) <= -(-len(members) // len(wanted))
    assert assign_simple(subscriptions, partitions, targets) == targets, "nothing moves where nothing changed"
