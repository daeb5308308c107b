from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tidelog.broker.groups.classic.metadata import COMPLETING_REBALANCE, EMPTY, STABLE, GroupMetadata
from tidelog.broker.groups.store.offsets import OffsetStore, TopicPartition
from tidelog.broker.groups.store.records import OffsetAndMetadata, offset_value


def value(offset, committed_ms=0, expire_ms=-1):
    return offset_value(OffsetAndMetadata(offset, -1, "", committed_ms, expire_ms))


GROUPS, TOPICS, PARTITIONS = st.sampled_from("gh"), st.sampled_from("tu"), st.integers(0, 2)
WHERE = st.tuples(GROUPS, TOPICS, PARTITIONS)
STEP = st.one_of(
    st.tuples(st.just("put"), WHERE, st.integers(0, 99)),
    st.tuples(st.just("remove"), WHERE, st.none()),
    st.tuples(st.just("pend"), WHERE, st.tuples(st.integers(1, 3), st.integers(0, 99))),
    st.tuples(st.just("end"), st.integers(1, 3), st.booleans()),
)


@given(st.lists(STEP, max_size=40))
def test_against_a_history(steps):
    """The oracle keeps each record's place in the log: of all that count, the one with the highest place wins."""
    store = OffsetStore()
    settled = {}  # where → (record offset, committed offset or None)
    pending = {}  # producer → {where: (record offset, committed offset)}
    for place, (what, where, argument) in enumerate(steps):
        if what == "put":
            store.put(*where, value(argument))
            settled[where] = place, argument
        elif what == "remove":
            store.remove(*where)
            settled[where] = place, None
        elif what == "pend":
            producer, offset = argument
            store.put_pending(producer, place, *where, value(offset))
            pending.setdefault(producer, {})[where] = place, offset
        else:
            store.end_transaction(where, committed=argument)
            for key, record in pending.pop(where, {}).items():
                if argument and record[0] > settled.get(key, (-1, None))[0]:
                    settled[key] = record
    expected = {where: offset for where, (_, offset) in settled.items() if offset is not None}
    assert {
        (group, topic, partition): store.get(group, topic, partition).offset
        for group in store.group_ids()
        for topic, partitions in store.of_group(group).items()
        for partition in partitions
    } == expected
    assert store.count == len(expected)
    open_now = {
        where
        for held in pending.values()
        for where, (place, _) in held.items()
        if place > settled.get(where, (-1, 0))[0]
    }
    for group in "gh":
        for topic in "tu":
            for partition in range(3):
                assert store.has_pending(group, topic, partition) == ((group, topic, partition) in open_now)
        assert store.has_pending(group) == any(where[0] == group for where in open_now)


def group(state, protocol_type, *, changed_ms=None, topics=None):
    made = GroupMetadata("g", 0)
    made.state, made.protocol_type, made.state_timestamp_ms = state, protocol_type, changed_ms
    made.subscribed_topics = None if topics is None else frozenset(topics)
    return made


def test_when_offsets_expire():
    store = OffsetStore()
    store.put("g", "t", 0, value(1, committed_ms=100))
    store.put("g", "u", 0, value(1, committed_ms=200))
    store.put("g", "u", 1, value(1, committed_ms=0, expire_ms=260))
    t, u, own = TopicPartition("t", 0), TopicPartition("u", 0), TopicPartition("u", 1)

    def expired(of, now_ms):
        return store.expired(of, now_ms, 50)

    simple = group(EMPTY, None)
    assert expired(simple, 149) == ([], False)
    assert expired(simple, 150) == ([t], False)
    assert expired(simple, 260) == ([t, u, own], True)
    # Once it had members: from when it became empty, for all alike.
    left = group(EMPTY, "consumer", changed_ms=300, topics=())
    assert expired(left, 349) == ([own], False)
    assert expired(left, 350) == ([t, u, own], True)
    assert expired(group(EMPTY, "consumer", changed_ms=None, topics=()), 150) == ([t], False)
    # With members: what they do not read.
    assert expired(group(STABLE, "consumer", topics="t"), 1000) == ([u, own], False)
    assert expired(group(STABLE, "consumer", topics=None), 1000) == ([], False)
    assert expired(group(COMPLETING_REBALANCE, "consumer", topics="t"), 1000) == ([], False)
    assert expired(group(STABLE, "connect"), 1000) == ([], False)
    # What an open transaction is about to replace stays.
    store.put_pending(1, 5, "g", "u", 0, value(9))
    assert expired(simple, 1000) == ([t, own], False)


def test_a_group_without_offsets():
    assert OffsetStore().expired(group(EMPTY, None), 0, 50) == ([], True)
    assert OffsetStore().expired(group(STABLE, "connect"), 0, 50) == ([], True)
    store = OffsetStore()
    store.put_pending(1, 5, "g", "u", 0, value(9))
    assert store.expired(group(EMPTY, None), 1000, 50) == ([], False)


class Name(str):
    """A group's id that counts how often it is looked up."""

    __slots__ = ()
    look_ups = 0

    def __hash__(self):
        Name.look_ups += 1
        return super().__hash__()


def test_what_open_transactions_hold_elsewhere_costs_a_commit_nothing():
    """With 5,000 of them a commit of 400 offsets held the loop for 180 ms, and a start took as long for each 400 records."""
    work = []
    for others in (10, 1000):
        store = OffsetStore()
        for producer in range(others):
            store.put_pending(producer, producer, "other", "t", producer, value(1))
        Name.look_ups = 0
        group = Name("g")
        store.put(group, "t", 0, value(1))
        store.put_pending(others, 5000, group, "t", 0, value(2))
        assert store.has_pending(group, "t", 0)
        assert store.pending_of(group) == [TopicPartition("t", 0)]
        assert store.end_transaction(others, committed=True) == {group}
        assert not store.has_pending(group)
        assert store.remove(group, "t", 0)
        assert store.open_transactions == others
        work.append(Name.look_ups)
    assert work[0] == work[1]
