from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from support.cleaning import CleaningWorld, Producer, put
from tidelog.broker.groups.classic.metadata import EMPTY, GroupMetadata
from tidelog.broker.groups.store.group import GroupType
from tidelog.broker.groups.store.offsets import OffsetStore
from tidelog.broker.groups.store.records import OffsetAndMetadata, offset_value
from tidelog.broker.monitoring import groups as groups_module
from tidelog.broker.monitoring.groups import GroupLag, group_facts, group_metrics
from tidelog.broker.runtime.metric_family import MAX_LABEL, families_of
from tidelog.storage.log.record_counts import RecordCounts


class Groups:
    """A coordinator with one shard, one that is being read and one that cannot be, as far as metrics look at it."""

    def __init__(self, committed: dict[tuple[str, str, int], int]) -> None:
        self.offsets = OffsetStore()
        groups = {}
        for (group, topic, partition), offset in committed.items():
            self.offsets.put(group, topic, partition, offset_value(OffsetAndMetadata(offset)))
            groups[group] = GroupMetadata(group, 0)
        self._shards = [
            SimpleNamespace(loaded=True, groups=groups, offsets=self.offsets),
            SimpleNamespace(loaded=False, groups={}, offsets=OffsetStore()),
            SimpleNamespace(loaded=False, groups={}, offsets=OffsetStore()),
        ]
        self.loading_count = 1
        self.heartbeat_group_rebalances = {GroupType.CONSUMER: 4}
        self.offset_count, self.commits, self.expired_offsets, self.rebalances = self.offsets.count, 5, 1, 2

    def shards(self) -> Any:
        return self._shards


def scrape(
    lag: GroupLag, groups: Groups, most: int = 2000, *, per_group: bool = True
) -> dict[str, dict[tuple[str, ...], float]]:
    facts = asyncio.run(group_facts(groups, per_group=per_group))  # type: ignore[arg-type]
    return {family.name: dict(family.rows) for family in families_of(group_metrics(), lag.measure(facts, most))}


def test_lag_is_in_records_that_are_there() -> None:
    """Ten records of which compaction leaves two, a transaction's three and its marker: offsets say 14, readers get five."""
    world = CleaningWorld()
    world.start()
    log, producer = world.log(), Producer(9)
    for number in range(10):
        put(log, f"k{number % 2}", "v")
    log.roll()
    world.clean_all()
    producer.send(log, (b"a", b"x"), (b"b", b"x"), (b"c", b"x"))
    producer.end(log, commit=False)
    groups = Groups({("g", "t", 0): 0, ("h", "t", 0): 10, ("h", "gone", 0): 3})
    told = scrape(GroupLag(world.manager), groups)
    assert told["tidelog_group_lag_records"] == {("g", "t", "0"): 5, ("h", "t", "0"): 3}
    assert told["tidelog_group_lag_offsets"] == {("g", "t", "0"): 14, ("h", "t", "0"): 4}
    assert told["tidelog_group_committed_offset"] == {("g", "t", "0"): 0, ("h", "t", "0"): 10, ("h", "gone", "0"): 3}
    assert told["tidelog_group_lag_uncounted_partitions"] == {(): 0}
    assert told["tidelog_groups"] == {("classic", str(EMPTY)): 2}
    assert told["tidelog_group_loading_partitions"] == {(): 1}
    assert told["tidelog_group_members"] == {("g",): 0, ("h",): 0}
    assert told["tidelog_group_epochs"] == {("consumer",): 4}
    assert told["tidelog_group_commits"] == {(): 5}
    world.stop()


def test_what_a_scrape_has_no_time_to_count_is_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    world = CleaningWorld()
    world.start()
    put(world.log(), "k", "v")
    lag, groups = GroupLag(world.manager), Groups({("g", "t", 0): 0})
    monkeypatch.setattr(RecordCounts, "count", lambda *_: None)
    told = scrape(lag, groups)
    assert told["tidelog_group_lag_records"] == {}
    assert told["tidelog_group_lag_offsets"] == {("g", "t", "0"): 1}
    assert told["tidelog_group_lag_uncounted_partitions"] == {(): 1}
    world.stop()


def test_rows_are_bounded_and_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    world = CleaningWorld()
    world.start()
    groups = Groups({("g", "t", partition): 0 for partition in range(5)} | {("h", "t", 0): 0})
    monkeypatch.setattr(groups_module, "MAX_COPIED", 3)
    told = scrape(GroupLag(world.manager), groups)
    assert told["tidelog_group_lag_unseen_partitions"] == told["tidelog_group_lag_omitted_partitions"] == {(): 5}
    assert len(told["tidelog_group_committed_offset"]) == 1
    off = scrape(GroupLag(world.manager), groups, per_group=False)
    assert off["tidelog_group_committed_offset"] == off["tidelog_group_members"] == {}
    assert off["tidelog_group_offsets"] == {(): 6}
    assert off["tidelog_group_lag_omitted_partitions"] == {(): 6}
    world.stop()


def test_with_very_many_groups_those_that_lag_most_have_rows_and_all_are_in_the_sums() -> None:
    """5,000 groups made an answer of megabytes: how many there are is for clients to say, how long a scrape takes is not."""
    world = CleaningWorld()
    world.start()
    for number in range(100):
        put(world.log(), f"k{number}", "v")
    commits = {(f"g{number}", "t", 0): 100 - number % 100 for number in range(5000)}
    commits["without a log", "gone", 0] = 7
    groups = Groups(commits)
    for number in (3, 4000):
        groups._shards[0].groups[f"g{number}"] = SimpleNamespace(
            group_id=f"g{number}", group_type="classic", state_name="Stable", member_count=number
        )
    told = scrape(GroupLag(world.manager), groups, 60)
    lags = told["tidelog_group_lag_offsets"]
    assert sorted(lags.values()) == [98] * 10 + [99] * 50
    assert lags.keys() == told["tidelog_group_lag_records"].keys() == told["tidelog_group_committed_offset"].keys()
    assert told["tidelog_groups_lag_offsets"] == {(): sum(number % 100 for number in range(5000))}
    assert told["tidelog_group_lag_omitted_partitions"] == {(): 5001 - 60}
    assert told["tidelog_group_lag_unseen_partitions"] == {(): 0}
    assert len(told["tidelog_group_members"]) == 60
    assert (told["tidelog_group_members"]["g4000",], told["tidelog_group_members"]["g3",]) == (4000, 3)
    assert told["tidelog_groups_members"] == {(): 4003}
    assert scrape(GroupLag(world.manager), groups, 0)["tidelog_group_lag_offsets"] == {}
    world.stop()


def test_sums_have_all_groups_also_where_none_has_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """They said 0 members and no lag with metrics.per.group=false, and left out the members of groups beyond those copied."""
    world = CleaningWorld()
    world.start()
    for number in range(10):
        put(world.log(), f"k{number}", "v")
    groups = Groups({(f"g{number}", "t", 0): 4 for number in range(3)})
    for number in range(3):
        groups._shards[0].groups[f"g{number}"] = SimpleNamespace(
            group_id=f"g{number}", group_type="classic", state_name="Stable", member_count=5
        )
    off = scrape(GroupLag(world.manager), groups, per_group=False)
    assert (off["tidelog_groups_members"], off["tidelog_groups_lag_offsets"]) == ({(): 15}, {(): 18})
    assert off["tidelog_group_members"] == off["tidelog_group_lag_offsets"] == off["tidelog_group_lag_records"] == {}
    monkeypatch.setattr(groups_module, "MAX_COPIED", 2)
    assert scrape(GroupLag(world.manager), groups)["tidelog_groups_members"] == {(): 15}
    world.stop()


def test_a_long_name_is_cut_and_stays_another_than_the_next() -> None:
    """A group's name may have 32,767 characters, in four series for each partition."""
    world = CleaningWorld()
    world.start()
    put(world.log(), "k", "v")
    names = ["x" * 32_000 + end for end in "ab"]
    told = scrape(GroupLag(world.manager), Groups({(name, "t", 0): 0 for name in names}))
    for family in ("tidelog_group_members", "tidelog_group_committed_offset", "tidelog_group_lag_offsets"):
        labels = [labels[0] for labels in told[family]]
        assert len(set(labels)) == 2
        assert all(label.startswith("x" * MAX_LABEL) and len(label) < MAX_LABEL + 20 for label in labels)
    world.stop()


async def test_a_scrape_of_very_many_groups_lets_others_have_the_loop_in_between() -> None:
    """Each look at them held it for a second with half a million, and groups are made by whoever commits an offset."""
    count = 20 * groups_module.CHUNK
    groups = Groups({(f"g{number}", "t", 0): number for number in range(count)})
    asked = asyncio.ensure_future(group_facts(groups, per_group=True))  # type: ignore[arg-type]
    turns = 0
    while not asked.done():
        await asyncio.sleep(0)
        turns += 1
        if turns == 3:  # what changes meanwhile harms nothing
            (shard, *_) = groups.shards()
            del shard.groups["g0"]
            groups.offsets.put("new", "t", 0, offset_value(OffsetAndMetadata(1)))
    assert turns >= 40
    facts = asked.result()
    assert facts.states == {("classic", str(EMPTY)): count}
    assert len(facts.members) == len(facts.committed) == groups_module.MAX_COPIED
