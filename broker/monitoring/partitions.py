"""What `/metrics` says of each partition's log beside its offsets: stability, durability, what retention will take.

Looked up in memory at each scrape; no file is opened, and nothing is counted in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from ..runtime.metric_family import Family

if TYPE_CHECKING:
    from ...storage.log.unified_log import UnifiedLog

_LABELS = ("topic", "partition")


def partition_families(logs: Sequence[UnifiedLog], now_ms: int) -> Iterator[Family]:
    """Any thread."""
    places = [(log.topic, str(log.partition)) for log in logs]

    def per_log(name: str, text: str, value: Callable[[UnifiedLog], float]) -> Family:
        rows = [(place, value(log)) for place, log in zip(places, logs, strict=True)]
        return Family(f"tidelog_{name}", "gauge", text, _LABELS, rows)

    yield per_log("log_segments", "Segments of the partition.", lambda log: log.segment_count)
    yield per_log("last_stable_offset", "Offset up to which consumers with read_committed read.",
                  lambda log: log.last_stable_offset)  # fmt: skip
    yield per_log("last_stable_offset_lag", "Offsets between it and the high watermark: held by an open transaction.",
                  lambda log: log.high_watermark - log.last_stable_offset)  # fmt: skip
    yield from _transaction_families(logs, now_ms)
    yield per_log("unsynced_records", "Records that are not known to be on the disk.",
                  lambda log: log.log_end_offset - log.recovery_point)  # fmt: skip
    yield per_log("unsynced_age_seconds", "Age, at most, of the oldest of them; 0: there is none.",
                  lambda log: log.unsynced_ms(now_ms) / 1000)  # fmt: skip
    yield from _retention_families(logs, now_ms)
    held = [(place, log.held_segments()) for place, log in zip(places, logs, strict=True)]
    yield Family("tidelog_replaced_segments_held", "gauge", "Segments that cleaning replaced, or is replacing, and whose space "
                 "is free once their last reader is done.", _LABELS,
                 [(place, len(sizes)) for place, sizes in held if sizes])  # fmt: skip
    yield Family("tidelog_replaced_segments_held_bytes", "gauge", "Bytes of their .log files.", _LABELS,
                 [(place, sum(sizes)) for place, sizes in held if sizes])  # fmt: skip


def _transaction_families(logs: Sequence[UnifiedLog], now_ms: int) -> Iterator[Family]:
    """Partitions without an open transaction have no row."""
    found = [(log, log.oldest_transaction()) for log in logs]
    rows = [((log.topic, str(log.partition)), txn) for log, txn in found if txn is not None]
    yield Family("tidelog_oldest_transaction_age_seconds", "gauge",
                 "How long the oldest open transaction has been open (after a restart: since its last record before that), and "
                 "the last stable offset has not moved.", _LABELS,
                 [(place, max(0, now_ms - txn.began_ms) / 1000) for place, txn in rows])  # fmt: skip
    yield Family("tidelog_oldest_transaction_first_offset", "gauge", "Its first offset in the partition.", _LABELS,
                 [(place, txn.first_offset) for place, txn in rows])  # fmt: skip
    yield Family("tidelog_oldest_transaction_producer_id", "gauge", "Whose it is.", _LABELS,
                 [(place, txn.producer_id) for place, txn in rows])  # fmt: skip


def _retention_families(logs: Sequence[UnifiedLog], now_ms: int) -> Iterator[Family]:
    due, next_due = [], []
    for log in logs:
        place = (log.topic, str(log.partition))
        found = log.retention_outlook(now_ms)
        due += [((*place, policy), size) for policy, size in found.due_bytes.items()]
        if found.next_due_ms is not None:
            next_due.append((place, found.next_due_ms / 1000))
    yield Family("tidelog_retention_due_bytes", "gauge", "Bytes of segments that the next retention run deletes, by policy, each "
                 "by itself. Of policies other than time, size and start-offset that is not known.", (*_LABELS, "policy"),
                 due)  # fmt: skip
    yield Family("tidelog_retention_next_due_timestamp_seconds", "gauge",
                 "When retention.ms makes the oldest of the other segments due.", _LABELS, next_due)  # fmt: skip
