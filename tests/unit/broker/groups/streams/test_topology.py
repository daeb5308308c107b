"""Numbers of partitions and tasks, and what keeps a topology from running."""

from __future__ import annotations

import pytest
from support.streams_groups import TOPOLOGY
from tidelog.broker.groups.streams.topology import (
    CopartitionGroup,
    InternalTopic,
    StatusCode,
    Subtopology,
    Topology,
    check_topology,
    configured,
    summary,
)
from tidelog.protocol.errors import ErrorCode, ProtocolError


def topology(*subtopologies):
    return Topology(1, subtopologies)


def plan(found, **partitions):
    return configured(found, lambda name: partitions.get(name.replace("-", "_")))


def numbers(found):
    return {name: each.task_count for name, each in found.subtopologies.items()}


def test_internal_topics_get_their_numbers_and_are_to_be_made():
    found = plan(TOPOLOGY, orders=3)
    assert numbers(found) == {"0": 3, "1": 3}
    assert [(topic.name, topic.partitions) for topic in found.to_make] == [("by-account", 3), ("store-changelog", 3)]
    assert found.to_make[1].configs == (("cleanup.policy", "compact"),)
    assert found.problem == (
        StatusCode.MISSING_INTERNAL_TOPICS,
        "Internal topics are missing: by-account, store-changelog",
    )
    assert not found.is_ready
    assert [each.is_stateful for each in found.subtopologies.values()] == [False, True]
    ready = plan(TOPOLOGY, orders=3, by_account=3, store_changelog=3)
    assert ready.is_ready
    assert not ready.to_make


def test_source_topics_must_be_there():
    found = plan(TOPOLOGY)
    assert found.problem == (StatusCode.MISSING_SOURCE_TOPICS, "Source topics orders are missing.")
    assert found.subtopologies is None
    assert found.to_make == ()


@pytest.mark.parametrize("topic", ["by-account", "store-changelog"])
def test_topics_that_are_there_must_fit(topic):
    there = {"orders": 3, "by_account": 3, "store_changelog": 3, topic.replace("-", "_"): 4}
    found = plan(TOPOLOGY, **there)
    assert found.problem.code is StatusCode.INCORRECTLY_PARTITIONED_TOPICS
    assert f"Existing topic {topic} has different number of partitions: expected" in found.problem.detail


def test_a_repartition_topic_has_as_many_partitions_as_its_writer_reads_over_several_steps():
    chain = topology(
        Subtopology("0", source_topics=("a", "b"), sink_topics=("x",)),
        Subtopology("1", sink_topics=("y",), repartition_topics=(InternalTopic("x"),)),
        Subtopology("2", repartition_topics=(InternalTopic("y"), InternalTopic("fixed", 7))),
    )
    found = plan(chain, a=2, b=5)
    assert numbers(found) == {"0": 5, "1": 5, "2": 7}
    assert {topic.name: topic.partitions for topic in found.to_make} == {"x": 5, "y": 5, "fixed": 7}


class Counted(tuple):
    """Counts how often somebody goes through it."""

    times = 0

    def __iter__(self):
        Counted.times += 1
        return super().__iter__()


@pytest.mark.parametrize("step", [1, -1])
def test_a_long_chain_takes_no_longer_in_the_opposite_order(step):
    """Each subtopology reads what the next one writes; the last one reads a source."""
    length = 300
    chain = [
        Subtopology(
            str(number), sink_topics=(f"r{number}",), repartition_topics=Counted([InternalTopic(f"r{number + 1}")])
        )
        for number in range(length)
    ]
    chain.append(Subtopology("last", source_topics=("a",), sink_topics=(f"r{length}",)))
    first = Subtopology("first", repartition_topics=(InternalTopic("r0"),))
    Counted.times = 0
    found = plan(topology(first, *chain[::step]), a=5)
    assert set(numbers(found).values()) == {5}
    assert Counted.times < 20 * length


def test_many_sinks_of_one_writer_look_at_its_sources_once():
    sources = tuple(f"a{number}" for number in range(100))
    sinks = tuple(f"r{number}" for number in range(100))
    writer = Subtopology("0", source_topics=sources, sink_topics=sinks)
    reader = Subtopology("1", repartition_topics=tuple(map(InternalTopic, sinks)))
    asked = []
    found = configured(topology(writer, reader), lambda name: asked.append(name) or (3 if name in sources else None))
    assert numbers(found) == {"0": 3, "1": 3}
    assert asked.count("a0") < 10


def test_more_tasks_than_a_group_can_have_are_refused():
    """Many subtopologies may read one topic: their tasks multiply, and are made one by one when they are assigned."""
    readers = topology(*(Subtopology(str(number), source_topics=("a",)) for number in range(1000)))
    assert len(numbers(plan(readers, a=100))) == 1000
    with pytest.raises(ProtocolError) as caught:
        plan(readers, a=101)
    assert (caught.value.code, caught.value.message) == (
        ErrorCode.STREAMS_INVALID_TOPOLOGY, "The topology has 101000 tasks, and a group can't have more than 100000.",
    )  # fmt: skip


def test_more_tasks_than_a_group_can_have_are_refused_before_topics_are_made_for_them():
    """Its internal topics were made, ten thousand partitions with each heartbeat, and it was refused when the last was there."""
    keeping = topology(
        *(
            Subtopology(str(number), source_topics=("a",), changelog_topics=(InternalTopic(f"kept{number}"),))
            for number in range(1000)
        )
    )
    assert len(plan(keeping, a=100).to_make) == 1000
    with pytest.raises(ProtocolError, match="101000 tasks"):
        plan(keeping, a=101)


def test_loops_and_topics_that_nobody_writes_are_invalid():
    loop = topology(
        Subtopology("0", sink_topics=("x",), repartition_topics=(InternalTopic("y"),)),
        Subtopology("1", sink_topics=("y",), repartition_topics=(InternalTopic("x"),)),
    )
    unwritten = topology(Subtopology("0", source_topics=("a",), repartition_topics=(InternalTopic("x"),)))
    for found in (loop, unwritten):
        with pytest.raises(ProtocolError) as caught:
            plan(found, a=1)
        assert caught.value.code is ErrorCode.STREAMS_INVALID_TOPOLOGY


def join(*repartition, sources=("a",), group=None):
    """Something that joins `sources` with repartition topics that are made of topic c."""
    group = group or CopartitionGroup(tuple(range(len(sources))), tuple(range(len(repartition))))
    return topology(
        Subtopology("0", source_topics=("c",), sink_topics=tuple(topic.name for topic in repartition)),
        Subtopology("1", source_topics=sources, repartition_topics=repartition, copartition_groups=(group,)),
    )


@pytest.mark.parametrize(
    ("found", "partitions", "says"),
    [
        (join(InternalTopic("x")), {"a": 4, "c": 2}, {"x": 4}),  # as the topic that it is joined with
        (join(InternalTopic("x"), InternalTopic("y"), sources=()), {"c": 2}, {"x": 2, "y": 2}),
        (join(InternalTopic("x", 5), InternalTopic("y"), sources=()), {"c": 2}, {"x": 5, "y": 5}),
        (join(InternalTopic("x", 4)), {"a": 4, "c": 2}, {"x": 4}),
        (
            join(InternalTopic("x", 5)),
            {"a": 4, "c": 2},
            "Number of partitions [5] of repartition topic [x] doesn't match number of partitions [4] of the source topic.",
        ),
        (
            join(InternalTopic("x", 5), InternalTopic("y", 6), sources=()),
            {"c": 2},
            "Following topics do not have the same number of partitions: [x=5, y=6]",
        ),
        (
            join(sources=("a", "b")),
            {"a": 4, "b": 3, "c": 1},
            "Following topics do not have the same number of partitions: [a=4, b=3]",
        ),
    ],
)  # fmt: skip
def test_what_is_joined_has_as_many_partitions(found, partitions, says):
    result = plan(found, **partitions)
    if isinstance(says, str):
        assert result.problem == (StatusCode.INCORRECTLY_PARTITIONED_TOPICS, says)
    else:
        assert {topic.name: topic.partitions for topic in result.to_make} == says


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (Topology(-1), "must not be negative"),
        (topology(Subtopology("0", ("a",)), Subtopology("0", ("b",))), "there twice"),
        (topology(Subtopology("0")), "No source topics found for subtopology 0"),
        (topology(Subtopology("0", ("a",), (InternalTopic("c", 2),))), "must have an undefined partition count"),
        (topology(Subtopology("0", repartition_topics=(InternalTopic("c", -2),))), "can't have -2 partitions"),
        (join(InternalTopic("x"), group=CopartitionGroup((1,), ())), "names a topic that is not there"),
        (join(InternalTopic("x"), group=CopartitionGroup((0,), (-1,))), "names a topic that is not there"),
    ],
)  # fmt: skip
def test_what_can_never_work(found, says):
    with pytest.raises(ProtocolError, match=says) as caught:
        check_topology(found)
    assert caught.value.code is ErrorCode.STREAMS_INVALID_TOPOLOGY


def test_what_a_topology_names():
    check_topology(TOPOLOGY)
    assert TOPOLOGY.required_topics() == TOPOLOGY.named_topics() == {"orders", "by-account", "store-changelog"}
    assert TOPOLOGY.readers() == {"orders": "0", "by-account": "1"}


def test_long_lists_are_cut_short():
    assert summary("abc") == "a, b, c"
    assert summary("abcde") == "a, b, c and 2 additional topics"
