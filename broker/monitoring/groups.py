"""Metrics of consumer groups, and the definition of their lag.

    lag in records = records that a member would still be handed between the group's committed offset and the high watermark

Exactly those: offsets that compaction has emptied are none, nor are the markers of transactions, nor what lies below the log's
start. Records of transactions that are open or were aborted count: readers of uncommitted data get them. Lag in offsets is
the plain difference of offsets, as other tools show it; it is never less.

Clients decide how many groups there are and what they are called. So at most `MAX_COPIED` committed offsets are looked at, those
with the largest lags in offsets have rows (metrics.max.group.partitions), all of them are in a sum, and long names are cut.

Records are counted by `storage/log/record_counts.py`, on the thread of the scrape, for at most `COUNTING_S`; what is not counted
yet has no row in this scrape, and `tidelog_group_lag_uncounted_partitions` says how many those are.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from heapq import nlargest
from typing import TYPE_CHECKING, NamedTuple

from ...storage.log.record_counts import RecordCounts
from ..groups.store.records import read_offset_value
from ..runtime.metric_family import COUNTER, GAUGE, Labels, Metric, Table, label_of

if TYPE_CHECKING:
    from ...storage.log.unified_log import UnifiedLog
    from ...storage.manager.log_manager import LogManager
    from ..groups.coordinator import GroupCoordinator

COUNTING_S = 1.0
"""Limit of one scrape: Prometheus gives up after ten seconds."""
MAX_COPIED = 20_000
"""Committed offsets, and groups, that the loop thread copies for a scrape: some 10 ms."""
CHUNK = 1000
"""Groups and committed offsets that it looks at before others have their turn: some 2 ms."""
_LABELS = ("group", "topic", "partition")


class Committed(NamedTuple):
    """One committed offset, its record's value not decoded yet."""

    group: str
    topic: str
    partition: int
    value: bytes


class GroupFacts(NamedTuple):
    """Taken on the loop thread; used on any."""

    states: dict[tuple[str, str], int]
    """Type and state → how many."""
    members: list[tuple[str, int]]
    member_count: int
    """Members of all groups, of those beyond `MAX_COPIED` too."""
    per_group: bool
    """Whether groups have rows of their own: sums have all of them either way."""
    loading: int
    offsets: int
    commits: int
    expired: int
    rebalances: int
    epochs: Sequence[tuple[str, int]]
    committed: Sequence[Committed]
    omitted: int


class GroupReport(NamedTuple):
    """The facts, and what one scrape made of them. Mappings are by group, or by group, topic and partition, as labels."""

    facts: GroupFacts
    members: Mapping[str, int]
    all_lags: int
    """Lag in offsets, of what has no row too."""
    committed: Mapping[Labels, float]
    offsets: Mapping[Labels, float]
    records: Mapping[Labels, float]
    uncounted: int
    omitted: int


class _Lag(NamedTuple):
    place: tuple[str, str, str]
    committed: int
    log: UnifiedLog | None
    offsets: int | None


async def group_facts(groups: GroupCoordinator, *, per_group: bool) -> GroupFacts:
    """Copies what the loop thread owns, in chunks: there may be very many groups, and others have their turns in between, which
    may change them. Loop thread.
    """
    states: Counter[tuple[str, str]] = Counter()
    members: list[tuple[str, int]] = []
    committed: list[Committed] = []
    omitted = member_count = 0
    left = CHUNK
    for shard in list(groups.shards()):
        if not shard.loaded:
            continue
        for group in list(shard.groups.values()):
            if left <= 0:
                await asyncio.sleep(0)
                left = CHUNK
            left -= 1
            states[str(group.group_type), group.state_name] += 1
            member_count += group.member_count
            if per_group and len(members) < MAX_COPIED:
                members.append((group.group_id, group.member_count))
        for group_id in list(shard.offsets.group_ids()):
            for topic, partitions in list(shard.offsets.of_group(group_id).items()):
                if left <= 0:
                    await asyncio.sleep(0)
                    left = CHUNK
                left -= 1
                room = MAX_COPIED - len(committed)
                if len(partitions) > room:
                    omitted += len(partitions)
                    continue
                left -= len(partitions)
                committed += [Committed(group_id, topic, partition, value) for partition, value in partitions.items()]
    return GroupFacts(
        dict(states),
        members,
        member_count,
        per_group,
        groups.loading_count,
        groups.offset_count,
        groups.commits,
        groups.expired_offsets,
        groups.rebalances,
        [(str(kind), count) for kind, count in groups.heartbeat_group_rebalances.items()],
        committed,
        omitted,
    )


class GroupLag:
    """Remembers what it counted from scrape to scrape. Any thread but the loop's; one scrape at a time counts."""

    def __init__(self, logs: LogManager) -> None:
        self._logs = logs
        self._counts = RecordCounts()
        self._lock = threading.Lock()

    def measure(self, facts: GroupFacts, most: int) -> GroupReport:
        """Measure the lag of at most `most` partitions of groups, and of as many groups; of none where they have no rows."""
        if not facts.per_group:
            most = 0
        largest = nlargest(most, facts.members, key=lambda member: member[1])
        lags = [self._lag(commit) for commit in facts.committed]
        shown = nlargest(most, lags, key=lambda lag: -1 if lag.offsets is None else lag.offsets)
        records: dict[Labels, float] = {}
        uncounted = 0
        with self._lock:
            deadline = time.monotonic() + COUNTING_S
            for lag in shown:
                if lag.log is None or lag.offsets is None:
                    continue
                count = self._counts.count(lag.log, lag.committed, lambda: time.monotonic() >= deadline)
                if count is None:
                    uncounted += 1
                else:
                    records[lag.place] = count
            self._counts.forget_others()
        return GroupReport(
            facts,
            {label_of(group): count for group, count in largest},
            sum(lag.offsets for lag in lags if lag.offsets is not None),
            {lag.place: lag.committed for lag in shown},
            {lag.place: lag.offsets for lag in shown if lag.log is not None and lag.offsets is not None},
            records,
            uncounted,
            len(lags) - len(shown),
        )

    def _lag(self, commit: Committed) -> _Lag:
        place = label_of(commit.group), commit.topic, str(commit.partition)
        offset = read_offset_value(commit.value).offset
        log = self._logs.get(commit.topic, commit.partition)
        lag = None if log is None else max(0, log.high_watermark - max(offset, log.log_start_offset))
        return _Lag(place, offset, log, lag)


# fmt: off
@cache
def group_metrics() -> Table[GroupReport]:
    """Groups, their members and their lag."""
    return (
        Metric("tidelog_groups", GAUGE, "Groups by type and state.",
               lambda report: dict(sorted(report.facts.states.items())), ("type", "state")),
        Metric("tidelog_group_loading_partitions", GAUGE, "Partitions of __consumer_offsets that are still being read.",
               lambda report: report.facts.loading),
        Metric("tidelog_group_offsets", GAUGE, "Committed offsets.", lambda report: report.facts.offsets),
        Metric("tidelog_group_commits", COUNTER, "Offsets that were committed.", lambda report: report.facts.commits),
        Metric("tidelog_group_expired_offsets", COUNTER, "Committed offsets that expired.", lambda report: report.facts.expired),
        Metric("tidelog_group_rebalances", COUNTER, "Generations that classic groups began.",
               lambda report: report.facts.rebalances),
        Metric("tidelog_group_epochs", COUNTER, "Group epochs that groups of the newer protocols began.",
               lambda report: dict(report.facts.epochs), ("type",)),
        Metric("tidelog_group_members", GAUGE, "Members of the group; of the groups with the most.",
               lambda report: report.members, ("group",)),
        Metric("tidelog_groups_members", GAUGE, "Members of all groups together.",
               lambda report: report.facts.member_count),
        Metric("tidelog_groups_lag_offsets", GAUGE, "Lag in offsets of all groups and partitions together.",
               lambda report: report.all_lags),
        Metric("tidelog_group_committed_offset", GAUGE, "The offset that the group has committed.",
               lambda report: report.committed, _LABELS),
        Metric("tidelog_group_lag_records", GAUGE, "Records from the committed offset to the high watermark, counted: "
               "offsets that compaction emptied and transaction markers are none.", lambda report: report.records, _LABELS),
        Metric("tidelog_group_lag_offsets", GAUGE, "High watermark less committed offset (or the log's start, where that "
               "is above).", lambda report: report.offsets, _LABELS),
        Metric("tidelog_group_lag_uncounted_partitions", GAUGE, "Partitions of groups whose records are not all counted "
               "yet: the next scrapes go on.", lambda report: report.uncounted),
        Metric("tidelog_group_lag_omitted_partitions", GAUGE, "Partitions of groups that have no row, see "
               "metrics.max.group.partitions: their lag is less than that of those that have one.",
               lambda report: report.facts.omitted + report.omitted),
        Metric("tidelog_group_lag_unseen_partitions", GAUGE, f"Partitions of groups beyond {MAX_COPIED:,}, which are not "
               "looked at: they are in no sum of lags.", lambda report: report.facts.omitted),
    )
