"""Metrics of each partition's log: offsets, stability, durability, past and future work of retention, its ledger.

Looked up in memory at each scrape; no file is opened, and nothing is counted in between. Any thread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from ..cleaning.ledger_facts import CAUSES
from ..runtime.metric_family import COUNTER, GAUGE, Labels, Metric, Table

if TYPE_CHECKING:
    from ...storage.ledger.ledger import Ledger
    from ...storage.log.unified_log import UnifiedLog
    from ...storage.producers.state import OpenTransaction
    from ...storage.retention.outlook import RetentionOutlook
    from ...storage.values import HeldSegments

PLACE = ("topic", "partition")
_POLICY = (*PLACE, "policy")


class Seen(NamedTuple):
    """A log at the moment of a scrape: several rows tell parts of one value, and must take them from the same one."""

    log: UnifiedLog
    now_ms: int
    transaction: OpenTransaction | None
    outlook: RetentionOutlook
    held: Sequence[int]
    """Bytes of segments that cleaning replaced and that somebody still reads."""
    future: HeldSegments
    ledger: Ledger | None
    end_offset: int


def seen(logs: Sequence[UnifiedLog], now_ms: int) -> list[tuple[Labels, Seen]]:
    """Each log with its labels."""
    return [
        (
            (log.topic, str(log.partition)),
            Seen(
                log,
                now_ms,
                log.oldest_transaction(),
                log.retention_outlook(now_ms),
                log.local.held_segments(),
                log.local.dated_after(now_ms),
                log.ledger.value,
                log.log_end_offset,
            ),
        )
        for log in logs
    ]


# fmt: off
@cache
def offset_metrics() -> Table[Seen]:
    """Metrics of a log's size and offsets."""
    return (
        Metric("tidelog_log_bytes", GAUGE, "Bytes of the partition's .log files.", lambda s: s.log.size, PLACE),
        Metric("tidelog_log_start_offset", GAUGE, "First offset that can be read.", lambda s: s.log.log_start_offset, PLACE),
        Metric("tidelog_log_end_offset", GAUGE, "Offset that the next record gets.", lambda s: s.end_offset, PLACE),
        Metric("tidelog_high_watermark", GAUGE, "Offset up to which consumers read.", lambda s: s.log.high_watermark, PLACE),
    )


@cache
def partition_metrics() -> Table[Seen]:
    """Open transactions, what is not on the disk yet, what retention will take, what cleaning could not free yet."""
    return (
        Metric("tidelog_log_segments", GAUGE, "Segments of the partition.", lambda s: s.log.segment_count, PLACE),
        Metric("tidelog_last_stable_offset", GAUGE, "Offset up to which consumers with read_committed read.",
               lambda s: s.log.last_stable_offset, PLACE),
        Metric("tidelog_last_stable_offset_lag", GAUGE,
               "Offsets between it and the high watermark: held by an open transaction.",
               lambda s: s.log.high_watermark - s.log.last_stable_offset, PLACE),
        Metric("tidelog_oldest_transaction_age_seconds", GAUGE,
               "How long the oldest open transaction has been open (after a restart: since its last record before that), and "
               "the last stable offset has not moved.",
               lambda s: None if s.transaction is None else max(0, s.now_ms - s.transaction.began_ms) / 1000, PLACE),
        Metric("tidelog_oldest_transaction_first_offset", GAUGE, "Its first offset in the partition.",
               lambda s: None if s.transaction is None else s.transaction.first_offset, PLACE),
        Metric("tidelog_oldest_transaction_producer_id", GAUGE, "Whose it is.",
               lambda s: None if s.transaction is None else s.transaction.producer_id, PLACE),
        Metric("tidelog_unsynced_records", GAUGE, "Records that are not known to be on the disk.",
               lambda s: s.log.log_end_offset - s.log.recovery_point, PLACE),
        Metric("tidelog_unsynced_age_seconds", GAUGE, "Age, at most, of the oldest of them; 0: there is none.",
               lambda s: s.log.local.unsynced_ms(s.now_ms) / 1000, PLACE),
        Metric("tidelog_retention_due_bytes", GAUGE, "Bytes of segments that the next retention run deletes, by policy, each "
               "by itself. Of policies other than time, size and start-offset that is not known.",
               lambda s: s.outlook.due_bytes, _POLICY),
        Metric("tidelog_retention_next_due_timestamp_seconds", GAUGE,
               "When retention.ms makes the oldest of the other segments due.",
               lambda s: None if s.outlook.next_due_ms is None else s.outlook.next_due_ms / 1000, PLACE),
        Metric("tidelog_replaced_segments_held", GAUGE, "Segments that cleaning replaced, or is replacing, and whose space "
               "is free once their last reader is done.", lambda s: len(s.held) if s.held else None, PLACE),
        Metric("tidelog_replaced_segments_held_bytes", GAUGE, "Bytes of their .log files.",
               lambda s: sum(s.held) if s.held else None, PLACE),
    )


@cache
def retention_metrics() -> Table[Seen]:
    """Metrics of retention by policy, and of segments that it keeps because of timestamps in the future."""
    return (
        Metric("tidelog_retention_deleted_segments", COUNTER, "Segments deleted, by the policy that named them.",
               lambda s: {policy: deleted.segments for policy, deleted in s.log.retention.deleted.items()}, _POLICY),
        Metric("tidelog_retention_deleted_bytes", COUNTER, "Bytes of their .log files.",
               lambda s: {policy: deleted.bytes for policy, deleted in s.log.retention.deleted.items()}, _POLICY),
        Metric("tidelog_retention_policy_failures", COUNTER,
               "Retention runs in which a deletion policy was left out because it failed.",
               lambda s: s.log.retention.failed_runs, _POLICY),
        Metric("tidelog_future_dated_bytes", GAUGE,
               "Bytes of segments that retention.ms can't reach yet, since a record in them is dated in the future.",
               lambda s: s.future.bytes or None, PLACE),
        Metric("tidelog_future_dated_offsets", GAUGE, "Offsets in those segments.",
               lambda s: s.future.offsets if s.future.bytes else None, PLACE),
    )


@cache
def ledger_metrics() -> Table[Seen]:
    """appended = live + Σ removed, exactly and always; no rows while the ledger is not known."""
    return (
        Metric("tidelog_log_offsets_appended", COUNTER, "Offsets ever given out: appended = live + the sum of removed.",
               lambda s: None if s.ledger is None else s.ledger.appended(s.end_offset), PLACE),
        Metric("tidelog_log_offsets_live", GAUGE, "Offsets that have a record in the partition's files.",
               lambda s: None if s.ledger is None else s.ledger.live(s.end_offset), PLACE),
        Metric("tidelog_log_offsets_removed", COUNTER,
               "Offsets whose record is gone, by cause; damaged: it lay in a .damaged file's hole; elsewhere: it "
               "was missing when the log came here.", _removed, (*PLACE, "cause")),
    )
# fmt: on


def _removed(seen: Seen) -> Mapping[str, float] | None:
    removed = None if seen.ledger is None else seen.ledger.removed
    return removed and {cause: removed[cause] for cause in CAUSES if cause in removed}
