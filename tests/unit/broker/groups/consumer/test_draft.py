"""Epochs, targets, assignors, topics and expressions, seen through heartbeats."""

from __future__ import annotations

from support.groups import run_callbacks
from tidelog.broker.groups.heartbeat import regex_subscription as expressions
from tidelog.protocol.errors import ErrorCode as E

ALL = {("t", p) for p in range(4)}


def test_topics_that_come_and_grow_and_go(consumers):
    assert consumers.joins("a", "t", "later").assigned == ALL
    for change, expected in (
        (lambda image: image.put("other", 1), None),
        (lambda image: image.put("later", 1), ALL | {("later", 0)}),
        (lambda image: image.put("t", 5), ALL | {("later", 0), ("t", 4)}),
    ):
        epoch = consumers.group.group_epoch
        change(consumers.image)
        consumers.time.advance(1_000)
        assert consumers.beats("a").assigned == expected
        assert consumers.group.group_epoch == epoch + (expected is not None)
        assert consumers.beats("a").assigned is None
    consumers.image.remove("t")
    consumers.time.advance(1_000)
    assert consumers.beats("a", owns={("later", 0)}).assigned == {("later", 0)}


def test_not_more_often_than_the_interval(consumers):
    consumers.joins("a", "t")
    assert consumers.beats("a", subscribed_topics=frozenset("tu")).assigned is None
    assert consumers.group.state_name == "Assigning"
    consumers.time.advance(999)
    assert consumers.beats("a").assigned is None
    consumers.time.advance(1)
    assert consumers.beats("a").assigned == ALL | {("u", 0), ("u", 1)}


def test_a_clock_that_was_set_back_keeps_no_target_from_being_made(consumers):
    consumers.joins("a", "t")
    consumers.time.set_wall_clock(consumers.time.milliseconds() - 3_600_000)
    assert consumers.beats("a", subscribed_topics=frozenset("tu")).assigned == ALL | {("u", 0), ("u", 1)}
    assert consumers.beats("a", subscribed_topics=frozenset("t")).assigned == ALL
    assert consumers.group.state_name == "Assigning", "the interval counts again"


def test_what_is_unsubscribed_is_given_up_at_once(consumers):
    consumers.joins("a", "t", "u")
    assert consumers.beats("a", subscribed_topics=frozenset("t")).assigned == ALL
    assert consumers.beats("a", owns=ALL).result.member_epoch == 2


def test_the_assignor_that_members_ask_for(consumers):
    consumers.joins("a", "t", "u")
    consumers.time.advance(1_000)
    consumers.joins("b", "t", "u", server_assignor="range")
    assert {frozenset(each.items()) for each in consumers.group.target.values()} == {
        frozenset({(consumers.image.id("t"), frozenset(half)), (consumers.image.id("u"), frozenset({low}))})
        for half, low in (((0, 1), 0), ((2, 3), 1))
    }
    assert consumers.refuses("a", server_assignor="mine") is E.UNSUPPORTED_ASSIGNOR
    assert consumers.harness.groups.heartbeat_groups.machine("consumer").assignor(consumers.group) == "range"


def test_an_expression_is_matched_at_once(consumers):
    assert consumers.joins("a", expression="t|u.*").assigned == ALL | {("u", 0), ("u", 1)}
    assert consumers.group.expressions == {"t|u.*": 1}
    consumers.time.advance(1_000)
    consumers.image.put("u2", 1)
    assert ("u2", 0) in consumers.beats("a").assigned
    epoch = consumers.group.group_epoch
    consumers.image.put("other", 1)
    consumers.time.advance(1_000)
    assert consumers.beats("a").assigned is None
    assert consumers.group.group_epoch == epoch
    # Another one in its place, then names in the place of that.
    consumers.time.advance(1_000)
    assert consumers.beats("a", expression="t").assigned == ALL
    assert list(consumers.group.resolved) == ["t"]
    consumers.beats("a", owns=ALL)
    consumers.time.advance(1_000)
    assert consumers.beats("a", expression="", subscribed_topics=frozenset({"u2"})).assigned == set()
    consumers.beats("a", owns=set())
    consumers.time.advance(1_000)
    consumers.beats("a")
    assert consumers.has("a") == {("u2", 0)}
    assert consumers.group.resolved == {}


def test_what_is_no_expression_is_refused(consumers):
    consumers.epochs["a"] = 0
    first = {"rebalance_timeout_ms": 1, "owned": {}, "expression": "((("}
    assert consumers.refuses("a", **first) is E.INVALID_REGULAR_EXPRESSION
    assert consumers.harness.groups.heartbeat_groups.read("g") is None


def test_expressions_are_matched_anew_now_and_then(consumers):
    consumers.joins("a", expression="t")
    first = consumers.group.resolved["t"].timestamp_ms
    for _ in range(30):
        consumers.time.advance(20_000)
        consumers.beats("a")
    assert consumers.group.resolved["t"].timestamp_ms == first
    consumers.time.advance(1)
    consumers.beats("a")
    assert consumers.group.resolved["t"].timestamp_ms > first


def test_expressions_are_matched_anew_when_the_clock_was_set_back(consumers):
    consumers.joins("a", expression="t|u.*")
    consumers.time.set_wall_clock(consumers.time.milliseconds() - 3_600_000)
    consumers.beats("a")
    assert consumers.group.resolved["t|u.*"].timestamp_ms == consumers.time.milliseconds()
    consumers.image.version = -1  # as after a start, where it is the wall clock
    consumers.image.topics["u2"] = consumers.image.topics["u"]._replace(name="u2")
    consumers.beats("a")
    assert consumers.group.resolved["t|u.*"].topics == {"t", "u", "u2"}


def test_many_topics_are_matched_in_the_pool(consumers, monkeypatch):
    monkeypatch.setattr(expressions, "INLINE_MATCHES", 1)
    loop = consumers.harness.loop

    async def scenario():
        first = consumers.joins("a", expression="t")
        again = consumers.beats("a")  # while it is under way nothing is begun anew
        return first, again

    first, again = loop.run_until_complete(scenario())
    run_callbacks(loop)
    assert (first.assigned, again.assigned) == (set(), None)
    assert set(consumers.group.subscribed_topics()) == {"t"}
    assert consumers.beats("a").assigned == ALL
    # New topics: not before ten seconds have passed since the last time.
    consumers.image.put("x", 1)
    consumers.time.advance(10_000)
    consumers.beats("a")
    version = consumers.group.resolved["t"].version
    consumers.time.advance(1)

    async def beat():
        return consumers.beats("a")

    loop.run_until_complete(beat())
    run_callbacks(loop)
    assert consumers.group.resolved["t"].version > version


def test_a_group_that_an_older_kafka_wrote(consumers):
    consumers.joins("a", "t")
    consumers.group.has_partition_metadata = True
    consumers.time.advance(1_000)
    consumers.beats("a", subscribed_topics=frozenset("tu"))
    assert not consumers.group.has_partition_metadata
    assert any(key[:2] == b"\x00\x04" and value is None for key, value in consumers.harness.log.records)
