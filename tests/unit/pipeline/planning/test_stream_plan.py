"""A stream's offsets: limits, new partitions, restarts, and what is said when records are gone."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.fake_kafka import FakeKafka, FakeLog
from support.segment_dirs import write_checkpoint, write_log
from tidelog.pipeline.exceptions import DataLossError, OptionError
from tidelog.pipeline.options import check_stream, parse_options
from tidelog.pipeline.planning.brokers import Brokers
from tidelog.pipeline.planning.places import TopicPartition
from tidelog.pipeline.planning.stream_plan import Position, StreamPlan, Vector, from_json, share, to_json
from tidelog.pipeline.reading.columns import Keeping
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.record_batch import Record
from tidelog.storage.log.partition_metadata import encode_uuid

OLD, NEW = uuid5(NAMESPACE_DNS, "old"), uuid5(NAMESPACE_DNS, "new")
T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


def log(count: int, start: int = 0) -> FakeLog:
    batches = [
        build_batch([Record(0, 1000 + offset, b"k", b"v")], base_offset=offset) for offset in range(start, count)
    ]
    return FakeLog(batches, start=start, end=count)


def position(offsets: Any) -> Position:
    return offsets if isinstance(offsets, Position) else Position(offsets, {})


class World:
    """A broker, a clock and a plan."""

    def __init__(self, logs: dict[TopicPartition, FakeLog], **options: str) -> None:
        self.kafka = FakeKafka(dict(logs))
        self.now = 0.0
        what = {} if "subscribePattern" in options else {"subscribe": "t"}
        parsed = parse_options({"bootstrap.servers": "fake:9092", **what, **options})
        check_stream(parsed)
        self.plan = StreamPlan(parsed, lambda: self.now, Brokers(self.kafka.client(parsed.client)))

    def initial(self) -> Vector:
        return self.plan.initial().offsets

    def next(self, start: Any, **options: bool) -> Vector:
        return self.plan.next(position(start), **options).offsets

    def ranges(self, start: Any, end: Any) -> dict[TopicPartition, tuple[int, int]]:
        found: dict[TopicPartition, tuple[int, int]] = {}
        for one in self.plan.splits(position(start), position(end)):
            where = TopicPartition(one.topic, one.partition)
            low, high = found.get(where, (one.first_offset, one.first_offset))
            assert high == one.first_offset
            found[where] = (low, one.end_offset)
        return found


def test_a_query_begins_where_it_is_told() -> None:
    logs = {T0: log(10, start=2), T1: log(5)}
    assert World(logs).initial() == {T0: 10, T1: 5}
    assert World(logs, startingOffsets="earliest").initial() == {T0: 2, T1: 0}
    assert World(logs, startingOffsets='{"t":{"0":7,"1":-2}}').initial() == {T0: 7, T1: 0}
    assert World(logs, startingTimestamp="1004").initial() == {T0: 4, T1: 4}
    with pytest.raises(OptionError, match="no record of 1007 or later"):
        World(logs, startingTimestamp="1007").initial()
    with pytest.raises(DataLossError, match="t-0: offset 1 was asked for, and the log starts at 2"):
        World(logs, startingOffsets='{"t":{"0":1,"1":0}}').initial()


def test_a_trigger_takes_what_there_is_and_reads_it_exactly() -> None:
    world = World({T0: log(10), T1: log(5)}, startingOffsets="earliest")
    start = world.initial()
    end = world.next(start)
    assert end == {T0: 10, T1: 5}
    assert world.ranges(start, end) == {T0: (0, 10), T1: (0, 5)}
    assert world.next(end) == end
    assert world.ranges(end, end) == {}
    world.kafka.logs[T0] = log(12)
    assert world.next(end) == {T0: 12, T1: 5}
    assert world.plan.available().offsets == {T0: 12, T1: 5}


def test_limits_hold_unless_the_trigger_says_otherwise() -> None:
    world = World({T0: log(90), T1: log(9), T2: log(1)}, startingOffsets="earliest", maxOffsetsPerTrigger="10")
    start = world.initial()
    assert world.next(start) == {T0: 8, T1: 1, T2: 1}
    assert world.next(start, is_limited=False) == {T0: 90, T1: 9, T2: 1}
    taken = 0
    while (end := world.next(start)) != start:
        assert 0 < sum(end.values()) - sum(start.values()) <= 10
        start, taken = end, taken + 1
    assert taken == 10


def test_too_few_records_wait_until_the_delay_is_over() -> None:
    world = World({T0: log(3)}, startingOffsets="earliest", minOffsetsPerTrigger="5", maxTriggerDelay="30s")
    start = world.initial()
    assert world.next(start) == start
    world.now = 29
    assert world.next(start) == start
    world.now = 30
    assert world.next(start) == {T0: 3}
    world.kafka.logs[T0] = log(7)
    assert world.next({T0: 3}) == {T0: 3}
    world.kafka.logs[T0] = log(8)
    assert world.next({T0: 3}) == {T0: 8}
    world.plan.stop_at_present()
    assert world.next({T0: 7}) == {T0: 8}, "there is nothing to wait for"


def test_what_comes_after_the_present_is_left_for_the_next_run() -> None:
    world = World({T0: log(4)}, startingOffsets="earliest", maxOffsetsPerTrigger="3")
    world.plan.stop_at_present()
    world.kafka.logs.update({T0: log(9), T1: log(5)})
    assert world.next({T0: 0}) == {T0: 3}
    assert world.next({T0: 3}) == {T0: 4}
    assert world.next({T0: 4}) == {T0: 4}


def test_new_partitions_are_read_from_their_beginning() -> None:
    world = World({T0: log(4)})
    start = world.initial()
    world.kafka.logs[T1] = log(3)
    end = world.next(start)
    assert end == {T0: 4, T1: 3}
    assert world.ranges(start, end) == {T1: (0, 3)}
    world.kafka.logs[T2] = log(9, start=5)
    with pytest.raises(
        DataLossError, match="t-2: a new partition, and the log starts at 5 already: retention or DeleteRecords"
    ):
        world.next(end)
    careless = World({T2: log(9, start=5)}, failOnDataLoss="false")
    assert careless.next({}) == {T2: 9}


@pytest.mark.parametrize(
    ("start", "message", "instead"),
    [
        (
            {T0: 2, T1: 0},
            "t-0: offset 2 was asked for, and the log starts at 5: retention or DeleteRecords has taken",
            (5, 9),
        ),
        (
            {T0: 11, T1: 0},
            "t-0: offset 11 was asked for, and the log ends at 9: it was truncated, or the topic",
            (9, 9),
        ),
        ({T0: 9, T1: 0, T2: 4}, "t-2: gone; the topic was deleted", (9, 9)),
    ],
)
def test_loss_is_told_in_words_or_passed_over(start: Any, message: str, instead: tuple[int, int]) -> None:
    logs = {T0: log(9, start=5), T1: log(0)}
    with pytest.raises(DataLossError, match=message):
        World(logs).next(start)
    world = World(logs, failOnDataLoss="false")
    end = world.next(start)
    assert end == {T0: 9, T1: 0}
    assert world.ranges(start, end) == ({T0: instead} if instead[0] < instead[1] else {})


def test_a_restart_reads_what_was_under_way_and_tells_when_it_is_gone() -> None:
    """Spark asks again for a batch whose offsets are in the checkpoint."""
    world = World({T0: log(6)})
    assert world.ranges({T0: 2}, {T0: 5}) == {T0: (2, 5)}
    with pytest.raises(DataLossError, match="t-0: offset 9 was asked for, and the log ends at 6"):
        world.ranges({T0: 2}, {T0: 9})
    assert World({T0: log(6)}, failOnDataLoss="false").ranges({T0: 2}, {T0: 9}) == {T0: (2, 6)}


def test_a_first_batch_is_read_from_where_it_began_whatever_has_come_since() -> None:
    """Spark asks anew where a query begins when it reads its first batch, and when it reads that again after a driver died."""
    world = World({T0: log(10)})
    start = world.plan.initial()
    world.kafka.logs[T0] = log(15)
    end = world.plan.next(start)
    assert to_json(end) == {"t": {"0": 15}, "first offsets": {"t": {"0": 10}}}
    end = from_json(to_json(end))
    world.kafka.logs[T0] = log(20)
    restarted = World(world.kafka.logs)
    for one in (world, restarted):
        assert one.initial() == {T0: 20}
        assert one.ranges(one.plan.initial(), end) == {T0: (10, 15)}
        assert to_json(one.plan.next(end)) == {"t": {"0": 20}}
    restarted.kafka.logs[T0] = log(15)
    assert restarted.plan.next(end) is end, "nothing new"
    restarted.kafka.logs[T0] = log(20, start=12)
    with pytest.raises(DataLossError, match="t-0: offset 10 was asked for, and the log starts at 12"):
        restarted.ranges({T0: 20}, end)
    assert World(restarted.kafka.logs, failOnDataLoss="false").ranges({T0: 20}, end) == {T0: (12, 15)}


def test_a_first_batch_without_records_says_where_it_began() -> None:
    """What comes while Spark asks a second time where the query begins is the next one's."""
    for more in ({}, {"minOffsetsPerTrigger": "5"}):
        world = World({T0: log(10)}, **more)
        end = world.plan.next(world.plan.initial())
        assert end == Position({T0: 10}, {}, {T0: 10})
        world.kafka.logs[T0] = log(15)
        assert world.ranges(world.plan.initial(), end) == {}
        assert world.next(end) == {T0: 15}


@pytest.mark.parametrize("by", ["tcp", "files"])
def test_a_restart_does_without_a_topic_that_is_gone_if_nobody_minds(tmp_path: Path, by: str) -> None:
    """A topic of the pattern, or a partition, that was new to the batch which is read again, or was not."""
    there = log(6)
    write_log(tmp_path / "t-0", [there.batches])
    write_checkpoint(tmp_path / "replication-offset-checkpoint", {("t", 0): 6})
    end = {T0: 3, T1: 2, TopicPartition("u", 0): 3}
    for start in ({T0: 2}, {**end, T0: 2}):
        for careful in ("true", "false"):
            said = {"subscribePattern": "[tu]", "failOnDataLoss": careful}
            world = World({T0: there}, **said)
            if by == "files":
                world.plan = StreamPlan(parse_options({"path": str(tmp_path), **said}))
            if careful == "true":
                with pytest.raises(DataLossError, match="t-1, u-0: gone; the topic was deleted"):
                    world.ranges(start, end)
            else:
                assert world.ranges(start, end) == {T0: (2, 3)}


def test_a_topic_that_is_made_anew_is_another_one_at_whatever_offsets() -> None:
    old, new = uuid5(NAMESPACE_DNS, "old"), uuid5(NAMESPACE_DNS, "new")
    for careful in (True, False):
        world = World({T0: log(6), T1: log(6)}, startingOffsets="earliest", failOnDataLoss=str(careful).lower())
        world.kafka.topic_ids["t"] = old
        start = world.plan.initial()
        end = world.plan.next(start)
        assert end.offsets == {T0: 6, T1: 6}
        assert set(end.topic_ids) == {"t"}
        world.kafka.topic_ids["t"] = new
        world.kafka.logs.update({T0: log(9), T1: log(4)})
        if careful:
            with pytest.raises(DataLossError, match="t: deleted and made anew"):
                world.plan.next(end)
            with pytest.raises(DataLossError, match="t: deleted and made anew"):
                world.plan.splits(start, end)
        else:
            assert world.ranges(start, end) == {}, "what was planned is gone"
            after = world.plan.next(end)
            assert after.offsets == {T0: 9, T1: 4}
            assert world.ranges(end, after) == {T0: (0, 9), T1: (0, 4)}
            assert world.plan.next(after) == after


def test_a_topic_without_an_id_is_taken_for_the_same() -> None:
    """Of a broker that tells none, or a checkpoint from before there were any."""
    world = World({T0: log(6)}, startingOffsets="earliest")
    world.kafka.topic_ids["t"] = uuid5(NAMESPACE_DNS, "t")
    known = world.plan.next(position({T0: 2}))
    assert known.offsets == {T0: 6}
    assert known.topic_ids
    world.kafka.topic_ids.clear()
    assert world.ranges(Position({T0: 2}, known.topic_ids), known) == {T0: (2, 6)}


def test_offsets_are_sparks_json() -> None:
    offsets = {T1: 3, TopicPartition("a", 10): 2, T0: 0}
    assert to_json(Position(offsets, {})) == {"a": {"10": 2}, "t": {"0": 0, "1": 3}}
    assert from_json({"t": {"0": 0, "1": 3}}) == Position({T0: 0, T1: 3}, {})
    both = {"t": {"0": 0}, "topic ids": {"t": "WSaPqH3DTKKfkASHybcnlA"}}
    assert from_json(both) == Position({T0: 0}, {"t": "WSaPqH3DTKKfkASHybcnlA"})
    assert to_json(from_json(both)) == both
    first = {**both, "first offsets": {"a": {"1": 7}}}
    assert to_json(from_json(first)) == first
    for strange in (
        7, {"t": 5}, {"t": {"x": 5}}, {"logOffset": {"0": None}}, {"t": {"0": math.inf}},
        {"topic ids": 5}, {"topic ids": {"t": 5}}, {"topic ids": ["t"]}, {"first offsets": None}, {"first offsets": {"t": 5}},
    ):  # fmt: skip
        with pytest.raises(OptionError, match="take a new checkpointLocation"):
            from_json(strange)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"endingOffsets": "latest"}, "availableNow"),
        ({"endingTimestamp": "5"}, "availableNow"),
        ({"view": "changelog"}, r"view=changelog is for spark\.read.*tidelog\.pipeline\.changes"),
        ({"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"}, "more than maxOffsetsPerTrigger"),
    ],
)
def test_what_is_no_stream_is_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        World({T0: log(1)}, **options)


def test_the_latest_of_a_trigger_is_reduced_whole_with_its_tombstones() -> None:
    """A partition in several parts would give a key several rows, and a tombstone left out would leave what it takes away."""
    logs = {T0: log(50), T1: log(40)}
    parts = {"maxRecordsPerPartition": "7"}
    world = World(logs, **parts)
    splits = world.plan.splits(position({}), position({T0: 50, T1: 40}))
    assert max(one.end_offset - one.first_offset for one in splits) <= 7
    assert world.ranges({}, {T0: 50, T1: 40}) == {T0: (0, 50), T1: (0, 40)}
    parts["minPartitions"] = "9"
    for stay, partitions in (("check", 2), ("true", 0), ("false", 0)):
        plan = World(logs, view="latest", keysStayInPartition=stay, **parts).plan
        splits = plan.splits(position({T0: 3, T1: 0}), position({T0: 50, T1: 40}))
        assert sorted((one.partition, one.first_offset, one.end_offset) for one in splits) == [(0, 3, 50), (1, 0, 40)]
        assert plan.keepings(splits) == [Keeping(partitions, tombstones=True)] * 2
    plan = World({T0: log(5)}, view="latest").plan
    assert plan.keepings(plan.splits(position({T0: 0}), position({T0: 5}))) == [Keeping(0, tombstones=True)]


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=8), st.data())
def test_shares_are_exact_and_leave_nobody_out(sizes: list[int], data: st.DataObject) -> None:
    wanted = {TopicPartition("t", number): size for number, size in enumerate(sizes)}
    total = sum(sizes)
    most = data.draw(st.integers(1, max(1, total - 1)))
    if total <= most:
        return
    found = share(wanted, most)
    assert sum(found.values()) == most
    assert all(0 <= found[one] <= size for one, size in wanted.items())
    if most >= sum(size > 0 for size in sizes):
        assert all(found[one] > 0 for one, size in wanted.items() if size)


def test_a_query_that_starts_with_another_ones_offset_knows_a_topic_that_was_made_anew() -> None:
    """`startingOffsets` may be what a progress or a checkpoint says, with the topics' ids."""
    said = f'{{"t": {{"0": 2}}, "topic ids": {{"t": "{encode_uuid(OLD)}"}}}}'
    world = World({T0: log(9)}, startingOffsets=said)
    world.kafka.topic_ids["t"] = OLD
    assert world.initial() == {T0: 2}
    world.kafka.topic_ids["t"] = NEW
    with pytest.raises(DataLossError, match="t: deleted and made anew"):
        world.initial()
    careless = World({T0: log(9)}, startingOffsets=said, failOnDataLoss="false")
    careless.kafka.topic_ids["t"] = NEW
    assert careless.initial() == {T0: 0}
    del careless.kafka.topic_ids["t"]  # a broker that knows no ids
    assert careless.initial() == {T0: 2}
