"""Defects of the state of idempotent and transactional producers."""

from __future__ import annotations

from .mutation import Mutation

PRODUCER_STATE = "tests/unit/storage/producers/test_state.py"
LOG_LOADER = "tests/unit/storage/log/test_loader.py"

MUTATIONS = [
    Mutation(
        "producers/zombie",
        "storage/producers/state.py",
        "        if epoch < entry.producer_epoch and origin is not AppendOrigin.REPLICATION:",
        "        if epoch < entry.producer_epoch - 1 and origin is not AppendOrigin.REPLICATION:",
        "A producer of the epoch before is not fenced.",
        (PRODUCER_STATE,),
    ),
    Mutation(
        "producers/plain-record-in-transaction",
        "storage/producers/state.py",
        "        if entry.current_txn_first_offset is not None and not batch.is_transactional:",
        "        if False:",
        "A producer with an open transaction appends records outside of it.",
        (PRODUCER_STATE,),
    ),
    Mutation(
        "producers/marker-tells-of-sequences",
        "storage/producers/state.py",
        "            elif not entry.is_sequence_unknown and not in_sequence(",
        "            elif not in_sequence(",
        "A producer whose records have gone is refused for good once a marker of its transaction comes.",
        (PRODUCER_STATE,),
    ),
    Mutation(
        "producers/unreadable-marker",
        "storage/producers/state.py",
        "for first, last in self.unreplicated.items() if last >= high_watermark}",
        "for first, last in self.unreplicated.items() if last > high_watermark}",
        "The last stable offset passes a marker that is not readable yet.",
        (PRODUCER_STATE,),
    ),
    Mutation(
        "producers/expiry-in-transaction",
        "storage/producers/state.py",
        "        if entry.current_txn_first_offset is not None:\n            return False\n        return now_ms",
        "        return now_ms",
        "A producer expires while its transaction is open.",
        (PRODUCER_STATE,),
    ),
    Mutation(
        "producers/duplicate-by-last-sequence",
        "storage/producers/entry.py",
        "            if batch.last_sequence == last_sequence and batch.first_sequence == first_sequence:",
        "            if batch.last_sequence == last_sequence:",
        "A batch counts as a duplicate of one that begins elsewhere.",
        (PRODUCER_STATE,),
    ),
    Mutation(
        "producers/old-epochs-batches",
        "storage/producers/entry.py",
        "        if producer_epoch != self.producer_epoch:\n            self.batches.clear()",
        "        if producer_epoch != self.producer_epoch:",
        "Batches of the epoch before are still taken for duplicates.",
        (PRODUCER_STATE,),
    ),
    Mutation(
        "producers/reload-after-clean-stop",
        "storage/producers/replay.py",
        "        if clean and producers.latest_snapshot_offset is not None:",
        "        if clean and producers.latest_snapshot_offset is not None and False:",
        "The state is not read after a clean stop.",
        (f"{LOG_LOADER}::test_a_broken_snapshot_is_rebuilt",),
    ),
    Mutation(
        "producers/snapshot-of-last-segment",
        "storage/producers/replay.py",
        "        if not is_last and not self._producers.is_empty:",
        "        if not self._producers.is_empty:",
        "Recovery leaves a snapshot at the end of the last segment, which says that its indexes are durable.",
        (f"{LOG_LOADER}::test_recovery_leaves_no_snapshot_at_the_end_of_the_segment_that_may_still_grow",),
    ),
]
