"""What of a description is kept, and when somebody is asked for one."""

from __future__ import annotations

import random

import pytest
from support.streams_groups import GROUP, TOPOLOGY
from support.topology_descriptions import ORDERS, processor, random_description, sink, source
from tidelog.broker.groups.streams.descriptions import (
    LONGEST_DELAY_MS,
    UNCERTAIN,
    AskedUntil,
    DescriptionEpochs,
    asked_again,
    check_description,
    is_asked,
    is_kept,
    is_wanted,
    packed,
)
from tidelog.broker.groups.streams.group import StreamsGroup, StreamsMember
from tidelog.protocol.errors import ErrorCode, ProtocolError
from tidelog.protocol.messages.streams_group_topology_description_update import (
    TopologyDescription,
    TopologyDescriptionGlobalStore,
    TopologyDescriptionNode,
    TopologyDescriptionSubtopology,
)
from tidelog.protocol.schema import decode, encode


class Kept:
    """A store that has one description."""

    def __init__(self, *has, enabled=True):
        self.stored = has
        self.is_enabled = enabled

    def has(self, group_id, epoch):
        return (group_id, epoch) == self.stored


def a_group(**epochs):
    group = StreamsGroup(GROUP)
    group.topology = TOPOLOGY
    group.descriptions = DescriptionEpochs(**epochs)
    return group


def described(*nodes, stores=()):
    return TopologyDescription(
        subtopologies=[TopologyDescriptionSubtopology(subtopology_id="0", nodes=list(nodes))],
        global_stores=list(stores),
    )


def test_delays_double_up_to_an_hour_as_long_as_the_epoch_is_the_same():
    asked, delays = None, []
    for _ in range(10):
        asked = asked_again(asked, 1, 1000, lambda: 0.5)
        delays.append(asked.until_ms - 1000)
    assert delays == [30_000 * 2**number for number in range(7)] + [3_600_000] * 3
    assert asked_again(asked, 2, 0, lambda: 0.5) == AskedUntil(2, 0, 30_000)
    assert [asked_again(None, 1, 0, lambda at=at: at).until_ms for at in (0, 1)] == [24_000, 36_000]
    assert asked_again(asked, 1, 0, lambda: 1).until_ms == LONGEST_DELAY_MS


def test_who_was_asked_has_that_long():
    asked = AskedUntil(1, 0, 30_000)
    assert [is_asked(asked, 1, now) for now in (0, 29_999, 30_000)] == [True, True, False]
    assert not is_asked(asked, 2, 0)
    assert not is_asked(None, 1, 0)
    assert not is_asked(AskedUntil(1, 0, LONGEST_DELAY_MS + 1), 1, 0)  # the clock was set back


@pytest.mark.parametrize(
    ("epochs", "store", "wanted"),
    [
        ({}, Kept(), True),
        ({"stored": 1}, Kept(GROUP, 1), False),
        ({"stored": 0}, Kept(GROUP, 0), True),
        ({"stored": UNCERTAIN}, Kept(GROUP, 1), True),
        ({"stored": 1}, Kept(), True),  # Kafka's plug-in has it
        ({"stored": 1}, Kept(GROUP, 0), True),
        ({"failed": 1}, Kept(), False),
        ({"failed": 0}, Kept(), True),
        ({}, Kept(enabled=False), False),
    ],
)
def test_when_a_description_is_wanted(epochs, store, wanted):
    group = a_group(**epochs)
    assert is_wanted(group, 1, store) is wanted
    assert is_kept(group, 1, store) is (epochs == {"stored": 1} and store.stored == (GROUP, 1))
    assert not is_wanted(group, -1, store)


def test_who_may_describe_what():
    group = a_group()
    group.put(StreamsMember(member_id="m"))
    check_description(group, "m", 1)
    for member_id, epoch, code, says in (
        ("x", 1, ErrorCode.UNKNOWN_MEMBER_ID, f"Member x is not a member of group {GROUP}."),
        ("x", 5, ErrorCode.UNKNOWN_MEMBER_ID, "Member x"),
        ("m", 42, ErrorCode.INVALID_REQUEST, "Topology epoch 42 does not match the group's current topology epoch 1."),
    ):
        with pytest.raises(ProtocolError, match=says) as caught:
            check_description(group, member_id, epoch)
        assert caught.value.code is code
    group.topology = None
    with pytest.raises(ProtocolError, match="current topology epoch -1"):
        check_description(group, "m", 1)


@pytest.mark.parametrize("seed", range(50))
def test_a_description_is_kept_as_it_is(seed):
    description = random_description(random.Random(seed))
    assert packed(description) == encode(description, 0)
    assert decode(TopologyDescription, 0, packed(description)) == (description, len(packed(description)))


def test_what_a_nodes_type_does_not_have_is_left_out_and_names_are_there_once():
    all_of_it = {
        "source_topics": ["t", "t", "u"],
        "sink_topic": "v",
        "stores": ["s", "s"],
        "successors": ["b", "a", "b"],
    }
    nodes = [TopologyDescriptionNode(name="n", node_type=kind, **all_of_it) for kind in (1, 2, 3)]
    kept, _ = decode(TopologyDescription, 0, packed(described(*nodes)))
    assert kept == described(
        source("n", "t", "u", to=("b", "a")), processor("n", "s", to=("b", "a")), sink("n", "v", to=("b", "a"))
    )


@pytest.mark.parametrize(
    ("description", "says"),
    [
        (described(TopologyDescriptionNode(node_type=0)), "Unknown topology node type: 0"),
        (described(TopologyDescriptionNode(node_type=9)), "Unknown topology node type: 9"),
        (
            described(stores=[TopologyDescriptionGlobalStore(source=processor("a"), processor=processor("b"))]),
            "Global store must be composed of a source and a processor node.",
        ),
        (
            described(stores=[TopologyDescriptionGlobalStore(source=source("a"), processor=sink("b", None))]),
            "Global store must be composed",
        ),
    ],
)
def test_what_is_no_description(description, says):
    with pytest.raises(ProtocolError, match=says) as caught:
        packed(description)
    assert caught.value.code is ErrorCode.INVALID_REQUEST


def test_the_example_is_kept():
    assert decode(TopologyDescription, 0, packed(ORDERS))[0] == ORDERS
