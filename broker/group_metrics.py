"""What `/metrics` says of consumer groups, and the definition of their lag.

    lag in records = records that a member would still be handed between the group's committed offset and the high watermark

Exactly those: offsets that compaction has emptied are none, nor are the markers of transactions, nor what lies below the log's
start. Records of transactions that are open or were aborted count: who reads uncommitted data is handed them. Lag in offsets is
the plain difference of offsets, as other tools show it; it is never less.

Records are counted by `storage/record_counts.py`, on the thread of the scrape, for at most `COUNTING_S`; what is not counted yet
has no row in this scrape, and `tidelog_group_lag_uncounted_partitions` says how many those are.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..storage.record_counts import RecordCounts
from .metric_family import Family, one
from .offsets_records import read_offset_value

if TYPE_CHECKING:
    from ..storage.log_manager import LogManager
    from .group_coordinator import GroupCoordinator

COUNTING_S = 1.0
"""Of one scrape: Prometheus gives up after ten seconds."""
MAX_ROWS = 5000
"""Partitions of groups that are told; the others are counted."""
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
            if per_group and len(members) < MAX_ROWS:
                members.append((group.group_id, group.member_count))
        if not per_group:
            continue
        for group_id in shard.offsets.group_ids():
            for topic, partitions in shard.offsets.of_group(group_id).items():
                room = MAX_ROWS - len(committed)
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

    def families(self, facts: GroupFacts) -> Iterator[Family]:
        """All metrics of groups."""
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
        yield Family("tidelog_group_members", "gauge", "Members of the group.", ("group",),
                     [((group,), count) for group, count in facts.members])  # fmt: skip
        committed, offsets, records = [], [], []
        uncounted = 0
        with self._lock:
            deadline = time.monotonic() + COUNTING_S
            for one_offset in facts.committed:
                place = (one_offset.group, one_offset.topic, str(one_offset.partition))
                offset = read_offset_value(one_offset.value).offset
                committed.append((place, offset))
                log = self._logs.get(one_offset.topic, one_offset.partition)
                if log is None:
                    continue
                offsets.append((place, max(0, log.high_watermark - max(offset, log.log_start_offset))))
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
        yield one("tidelog_group_lag_omitted_partitions", "gauge", f"Partitions of groups beyond the {MAX_ROWS} that are told.",
                  facts.omitted)  # fmt: skip
