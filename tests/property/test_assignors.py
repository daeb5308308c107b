"""The assignors against an oracle that tries everything, or that counts: coverage, balance, as few moves as can be."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tidelog.broker.groups.assignors import GroupSpec, MemberSpec, assign_range, assign_uniform

TOPICS = [bytes([number]) * 16 for number in range(1, 6)]
ASSIGNORS = {"uniform": assign_uniform, "range": assign_range}


def flat(assignment):
    return {(topic, p) for topic, partitions in assignment.items() for p in partitions}


@st.composite
def specs(draw, *, same=False, most_members=6, most_partitions=7):
    """Members with what they read, and with any assignment before that has no partition twice."""
    counts = {
        topic: draw(st.integers(0, most_partitions)) for topic in draw(st.sets(st.sampled_from(TOPICS), min_size=1))
    }
    topics = st.frozensets(st.sampled_from(sorted(counts)))
    shared = draw(topics)
    size = draw(st.integers(1, most_members))
    names = draw(st.permutations([f"m{number}" for number in range(size)]))
    # What was: partitions that are gone, and topics that are not read any more, too.
    were = [(topic, p) for topic in TOPICS for p in range(counts.get(topic, 2) + draw(st.integers(0, 2)))]
    owners = draw(st.lists(st.sampled_from([*names, None]), min_size=len(were), max_size=len(were)))
    members = {}
    for name in names:
        assigned: dict[bytes, frozenset[int]] = {}
        for (topic, p), owner in zip(were, owners, strict=True):
            if owner == name:
                assigned[topic] = assigned.get(topic, frozenset()) | {p}
        instance = draw(st.none() | st.just(f"i-{name}"))
        members[name] = MemberSpec(shared if same else draw(topics), assigned, instance)
    read = frozenset[bytes]().union(*(member.topics for member in members.values()))
    return GroupSpec(members, {topic: counts[topic] for topic in read})


def wanted(spec):
    return {(topic, p) for topic, count in spec.partition_counts.items() for p in range(count)}


@pytest.mark.parametrize("name", ASSIGNORS)
@given(spec=specs())
def test_each_partition_has_one_reader_of_its_topic(name, spec):
    target = ASSIGNORS[name](spec)
    assert target.keys() <= spec.members.keys()
    given_out = Counter(place for assignment in target.values() for place in flat(assignment))
    assert given_out == Counter(wanted(spec))
    for member_id, assignment in target.items():
        assert assignment.keys() <= spec.members[member_id].topics
        assert all(assignment.values())


@pytest.mark.parametrize("name", ASSIGNORS)
@given(spec=specs())
def test_what_it_gives_out_it_gives_out_again(name, spec):
    target = ASSIGNORS[name](spec)
    members = {
        member_id: member._replace(assigned=target.get(member_id, {})) for member_id, member in spec.members.items()
    }
    assert ASSIGNORS[name](spec._replace(members=members)) == target


def kept(spec, target):
    return sum(len(flat(target.get(name, {})) & flat(member.assigned)) for name, member in spec.members.items())


@given(spec=specs(same=True))
def test_uniform_is_even_and_moves_least(spec):
    """All read the same. Whoever gets one more than the least, the sum of what can be kept says what is best."""
    target = assign_uniform(spec)
    sizes = [len(flat(target.get(name, {}))) for name in spec.members]
    assert max(sizes) - min(sizes) <= 1
    least, more = divmod(len(wanted(spec)), len(spec.members))
    had = [len(flat(member.assigned) & wanted(spec)) for member in spec.members.values()]
    best = max(
        sum(min(count, least + (index in luckier)) for index, count in enumerate(had))
        for luckier in combinations(range(len(had)), more)
    )
    assert kept(spec, target) == best


@given(spec=specs())
def test_uniform_leaves_no_move_that_would_make_it_more_even(spec):
    target = assign_uniform(spec)
    sizes = {name: len(flat(target.get(name, {}))) for name in spec.members}
    for name in spec.members:
        for topic in target.get(name, {}):
            for other, member in spec.members.items():
                if topic in member.topics:
                    assert sizes[name] - sizes[other] < 2


@given(spec=specs())
def test_uniform_keeps_what_is_even_already(spec):
    """Where nothing is free and no move would help, nothing moves."""
    target = assign_uniform(spec)
    members = {name: member._replace(assigned=target.get(name, {})) for name, member in spec.members.items()}
    again = spec._replace(members=members)
    assert kept(again, assign_uniform(again)) == len(wanted(spec))


@given(spec=specs())
def test_range_gives_runs_in_one_order_of_members(spec):
    target = assign_range(spec)
    order = sorted(
        spec.members, key=lambda name: (spec.members[name].instance_id is None, spec.members[name].instance_id or name)
    )
    for topic, count in spec.partition_counts.items():
        readers = [name for name in order if topic in spec.members[name].topics]
        runs = [sorted(target.get(name, {}).get(topic, ())) for name in readers]
        assert [p for run in runs for p in run] == list(range(count))
        sizes = [len(run) for run in runs]
        assert sizes == sorted(sizes, reverse=True)
        assert sizes[0] - sizes[-1] <= 1


@settings(max_examples=5)
@given(st.integers(200, 400))
def test_large_groups_take_no_more_than_their_size(count):
    """2,000 partitions, of which a newcomer gets his share and nobody else gets any."""
    counts = {TOPICS[0]: 1_500, TOPICS[1]: 500}
    readers = frozenset(counts)
    first = assign_uniform(GroupSpec({f"m{i}": MemberSpec(readers, {}) for i in range(count)}, counts))
    members = {name: MemberSpec(readers, assignment) for name, assignment in first.items()}
    spec = GroupSpec({**members, "new": MemberSpec(readers, {})}, counts)
    target = assign_uniform(spec)
    assert len(flat(target["new"])) in (2_000 // (count + 1), 2_000 // (count + 1) + 1)
    assert kept(spec, target) == 2_000 - len(flat(target["new"]))
