from __future__ import annotations

from support.heartbeat_groups import Image
from support.streams_groups import TOPOLOGY
from tidelog.broker.groups.streams.group import StreamsEndpoint, StreamsMember
from tidelog.broker.groups.streams.machine import endpoints_of
from tidelog.broker.groups.streams.tasks import OwnedTasks
from tidelog.broker.groups.streams.topology import ConfiguredTopology, Subtopology, Topology, configured

HERE = StreamsEndpoint("host", 8080)
OWNED = OwnedTasks({"0": {0: 1, 3: 1}}, {"1": frozenset({1})}, {})


def test_partitions_of_the_topics_that_tasks_read():
    topics = Image(orders=4, **{"by-account": 4, "store-changelog": 4})
    plan = configured(TOPOLOGY, lambda name: topics.get(name).partition_count)
    members = [
        StreamsMember(member_id="a", endpoint=HERE, assigned=OWNED),
        StreamsMember(member_id="b", assigned=OWNED),
    ]
    (found,) = endpoints_of(members, plan, topics)
    assert (found.endpoint, found.active, found.standby) == (HERE, [("orders", [0, 3])], [("by-account", [1])])


def test_a_topic_may_have_fewer_partitions_than_there_are_tasks():
    topics = Image(few=2, many=4)
    plan = configured(Topology(0, (Subtopology("0", ("few", "many")),)), lambda name: topics.get(name).partition_count)
    (found,) = endpoints_of([StreamsMember(member_id="a", endpoint=HERE, assigned=OWNED)], plan, topics)
    assert found.active == [("few", [0]), ("many", [0, 3])]
    topics.remove("few")
    (found,) = endpoints_of([StreamsMember(member_id="a", endpoint=HERE, assigned=OWNED)], plan, topics)
    assert found.active == [("many", [0, 3])]


def test_nothing_before_the_numbers_are_known():
    assert endpoints_of([StreamsMember(member_id="a", endpoint=HERE)], ConfiguredTopology(0), Image()) == ()
