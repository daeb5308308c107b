"""What `/metrics` says of consumer groups, and the definition of their lag.

    lag in records = records that a member would still be handed between the group's committed offset and the high watermark

Exactly those: offsets that compaction has emptied are none, nor are the markers of transactions, nor what lies below the log's
start. Records of transactions that are open or were aborted count: who reads uncommitted data is handed them. Lag in offsets is
the plain difference of offsets, as other tools show it; it is never less.

Clients decide how many groups there are and what they are called. So at most `MAX_COPIED` committed offsets are looked at, those
with the largest lags in offsets have rows (metrics.max.group.partitions), all of them are in a sum, and long names are cut.

Records are counted by `storage/log/record_counts.py`, on the thread of the scrape, for at most `COUNTING_S`; what is not counted
yet has no row in this scrape, and `tidelog_group_lag_uncounted_partitions` says how many those are.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from heapq import nlargest
from typing import TYPE_CHECKING, NamedTuple

from ...storage.log.record_counts import RecordCounts
from ..groups.store.records import read_offset_value
from ..runtime.metric_family import Family, label_of, one

if TYPE_CHECKING:
    from ...storage.log.unified_log import UnifiedLog
    from ...storage.manager.log_manager import LogManager
    from ..groups.coordinator import GroupCoordinator

COUNTING_S = 1.0
"""Of one scrape: Prometheus gives up after ten seconds."""
MAX_COPIED = 20_000
"""Committed offsets, and groups, that the loop thread copies for a scrape: some 10 ms."""
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
    loading: int
    offsets: int
    commits: int
    expired: int
    rebalances: int
    epochs: Sequence[tuple[str, int]]
    committed: Sequence[Committed]
    omitted: int


class _Lag(NamedTuple):
    place: tuple[str, str, str]
    committed: int
    log: UnifiedLog | None
    offsets: int | None


def group_facts(groups: GroupCoordinator, *, per_group: bool) -> GroupFacts:
    """Copies what the loop thread owns. Loop thread."""
    states: Counter[tuple[str, str]] = Counter()
    members: list[tuple[str, int]] = []
    committed: list[Committed] = []
    loading = omitted = 0
    for shard in groups.shards():
        if not shard.loaded:
            loading += 1
            continue
        for group in shard.groups.values():
            states[str(group.group_type), group.state_name] += 1
            if per_group and len(members) < MAX_COPIED:
                members.append((group.group_id, group.member_count))
        if not per_group:
            continue
        for group_id in shard.offsets.group_ids():
            for topic, partitions in shard.offsets.of_group(group_id).items():
                room = MAX_COPIED - len(committed)
                if len(partitions) > room:
                    omitted += len(partitions)
                    continue
                committed += [Committed(group_id, topic, partition, value) for partition, value in partitions.items()]
    return GroupFacts(
        dict(states),
        members,
        loading,
        groups.offset_count,
        groups.commits,
        groups.expired_offsets,
        groups.rebalances,
        [(str(kind), count) for kind, count in groups.modern_rebalances.items()],
        committed,
        omitted,
    )


class GroupLag:
    """Remembers what it counted from scrape to scrape. Any thread but the loop's; one scrape at a time counts."""

    def __init__(self, logs: LogManager) -> None:
        self._logs = logs
        self._counts = RecordCounts()
        self._lock = threading.Lock()

    def families(self, facts: GroupFacts, most: int) -> Iterator[Family]:
        """All metrics of groups, with rows for at most `most` partitions of groups and as many groups."""
        yield Family("tidelog_groups", "gauge", "Groups by type and state.", ("type", "state"),
                     sorted(facts.states.items()))  # fmt: skip
        yield one("tidelog_group_loading_partitions", "gauge", "Partitions of __consumer_offsets that are still being read.",
                  facts.loading)  # fmt: skip
        yield one("tidelog_group_offsets", "gauge", "Committed offsets.", facts.offsets)
        yield one("tidelog_group_commits", "counter", "Offsets that were committed.", facts.commits)
        yield one("tidelog_group_expired_offsets", "counter", "Committed offsets that expired.", facts.expired)
        yield one("tidelog_group_rebalances", "counter", "Generations that classic groups began.", facts.rebalances)
        yield Family("tidelog_group_epochs", "counter", "Group epochs that groups of the newer protocols began.", ("type",),
                     [((kind,), count) for kind, count in facts.epochs])  # fmt: skip
        largest = nlargest(most, facts.members, key=lambda member: member[1])
        yield Family("tidelog_group_members", "gauge", "Members of the group; of the groups with the most.", ("group",),
                     [((label_of(group),), count) for group, count in largest])  # fmt: skip
        yield one("tidelog_groups_members", "gauge", "Members of all groups together.",
                  sum(count for _, count in facts.members))  # fmt: skip
        lags = [self._lag(one_offset) for one_offset in facts.committed]
        yield one("tidelog_groups_lag_offsets", "gauge", "Lag in offsets of all groups and partitions together.",
                  sum(lag.offsets for lag in lags if lag.offsets is not None))  # fmt: skip
        told = nlargest(most, lags, key=lambda lag: -1 if lag.offsets is None else lag.offsets)
        committed, offsets, records = [], [], []
        uncounted = 0
        with self._lock:
            deadline = time.monotonic() + COUNTING_S
            for lag in told:
                place, offset, log = lag.place, lag.committed, lag.log
                committed.append((place, offset))
                if log is None or lag.offsets is None:
                    continue
                offsets.append((place, lag.offsets))
                count = self._counts.count(log, offset, lambda: time.monotonic() >= deadline)
                if count is None:
                    uncounted += 1
                else:
                    records.append((place, count))
            self._counts.forget_others()
        yield Family(
            "tidelog_group_committed_offset", "gauge", "The offset that the group has committed.", _LABELS, committed
        )
        yield Family("tidelog_group_lag_records", "gauge", "Records from the committed offset to the high watermark, counted: "
                     "offsets that compaction emptied and transaction markers are none.", _LABELS, records)  # fmt: skip
        yield Family("tidelog_group_lag_offsets", "gauge", "High watermark less committed offset (or the log's start, where that "
                     "is above).", _LABELS, offsets)  # fmt: skip
        yield one("tidelog_group_lag_uncounted_partitions", "gauge", "Partitions of groups whose records are not all counted "
                  "yet: the next scrapes go on.", uncounted)  # fmt: skip
        yield one("tidelog_group_lag_omitted_partitions", "gauge", "Partitions of groups that have no row, see "
                  "metrics.max.group.partitions: their lag is less than that of those that have one.",
                  facts.omitted + len(lags) - len(told))  # fmt: skip
        yield one("tidelog_group_lag_unseen_partitions", "gauge", f"Partitions of groups beyond {MAX_COPIED:,}, which are not "
                  "looked at: they are in no sum of lags.", facts.omitted)  # fmt: skip

    def _lag(self, commit: Committed) -> _Lag:
        place = label_of(commit.group), commit.topic, str(commit.partition)
        offset = read_offset_value(commit.value).offset
        log = self._logs.get(commit.topic, commit.partition)
        lag = None if log is None else max(0, log.high_watermark - max(offset, log.log_start_offset))
        return _Lag(place, offset, log, lag)
