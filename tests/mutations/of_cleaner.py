"""Defects of the cleaner's Python: what is due, what a pass reads, writes and remembers."""

from __future__ import annotations

from .mutation import Mutation

CLEANING = "tests/unit/cleaner/test_cleaning.py"
MANAGER = "tests/unit/cleaner/test_cleaner_manager.py"
ELIGIBILITY = "tests/unit/cleaner/test_eligibility.py"
GROUPS = "tests/unit/cleaner/test_segment_groups.py"
CLEANING_MODEL = "tests/property/test_cleaning_model.py"

MUTATIONS = [
    Mutation(
        "cleaner/checkpoint-of-a-deleted-log",
        "storage/manager/log_manager.py",
        "                self.forget_cleaned(home.directory.path, key)\n",
        "",
        "What is in a topic that was deleted and made anew counts as clean after the next start.",
        (MANAGER,),
    ),
    Mutation(
        "cleaner/checkpoint-of-a-deleted-log-kept-in-memory",
        "cleaner/cleaner_manager.py",
        "                self._checkpoints.get(directory, {}).pop(key, None)  # else",
        "                pass  # else",
        "The next pass in its directory writes the checkpoint of a deleted log, for the one that was made anew.",
        (f"{MANAGER}::test_a_pass_over_a_log_that_is_about_to_be_deleted_leaves_its_successor_no_checkpoint",),
    ),
    Mutation(
        "cleaner/checkpoint-by-a-deleted-log",
        "cleaner/cleaner_manager.py",
        "            if self._logs.get(*key) is not log:\n                return  # deleted meanwhile; another",
        "            if self._logs.get(*key) is None:\n                return  # deleted meanwhile; another",
        "A pass that ends behind the deletion of its log has what was made anew count as clean.",
        (f"{MANAGER}::test_a_pass_that_ends_behind_the_deletion_of_its_log_leaves_its_successor_no_checkpoint",),
    ),
    Mutation(
        "cleaner/checkpoints-read-when-all-are-served",
        "broker/server/node.py",
        "        await run(services.cleaner.load)\n        services.producer_ids",
        "        services.producer_ids",
        "A log that is moved by the first request of all counts as dirty, and takes no checkpoint with it.",
        ("tests/unit/broker/server/test_node.py",),
    ),
    Mutation(
        "cleaner/last-look-before-the-recovery",
        "cleaner/cleaner_manager.py",
        "        self.last_run_ms = self._time.milliseconds()  # logs may",
        "        # logs may",
        "The time since the cleaner's last look begins with the hours of a recovery.",
        ("tests/unit/broker/monitoring/test_cleaner.py",),
    ),
    Mutation(
        "cleaner/superseding-records-durable",
        "cleaner/cleaning.py",
        "        if self._log.recovery_point < self._end_at_start:\n            self._log.flush()",
        "        pass",
        "Values go before the records that supersede them are durable.",
        (f"{CLEANING}::test_what_supersedes_a_record_is_durable_before_that_goes",),
    ),
    Mutation(
        "cleaner/partly-mapped-segment",
        "cleaner/cleaning.py",
        "                    full_at = max(first, segment.base_offset)",
        "                    full_at = max(first, full_at)",
        "A segment that is in the map by half counts as cleaned up to there.",
        (f"{CLEANING}::test_a_map_that_fits_some_segments_ends_at_a_whole_one",),
    ),
    Mutation(
        "cleaner/legacy-horizon",
        "cleaner/cleaning.py",
        "        horizon_ms = clean[-1].modified_ms() - config.delete_retention_ms if clean else 0",
        "        horizon_ms = clean[-1].modified_ms() if clean else 0",
        "Tombstones of old formats go without delete.retention.ms.",
        (f"{CLEANING}::test_tombstones_of_old_formats_go_by_file_times",),
    ),
    Mutation(
        "cleaner/transaction-index",
        "cleaner/cleaning.py",
        "            new = output.writer().finish(modified_ms, aborted, kept_aborts, counts.records_kept)",
        "            new = output.writer().finish(modified_ms, aborted, (), counts.records_kept)",
        "A cleaned segment has no transaction index.",
        (f"{CLEANING}::test_a_partial_clean_keeps_the_abort_index_of_the_uncleaned_half",),
    ),
    Mutation(
        "cleaner/interrupted-mark",
        "cleaner/cleaning.py",
        "                self._make_durable()\n                self._task.before_first_swap()",
        "                self._make_durable()",
        "A pass that is cut short after its first swap is not remembered.",
        (f"{MANAGER}::test_a_pass_that_was_cut_short_is_done_again_whatever_is_dirty_by_then",),
    ),
    Mutation(
        "cleaner/min-lag",
        "cleaner/eligibility.py",
        "            if segment.largest_timestamp > facts.now_ms - facts.min_lag_ms:",
        "            if segment.largest_timestamp >= facts.now_ms - facts.min_lag_ms:",
        "min.compaction.lag.ms holds a segment a millisecond too long.",
        (ELIGIBILITY,),
    ),
    Mutation(
        "cleaner/open-transaction",
        "cleaner/eligibility.py",
        "    if stable < limit:",
        "    if stable < limit and False:",
        "The cleaner goes into open transactions.",
        (ELIGIBILITY,),
    ),
    Mutation(
        "cleaner/checkpoint-beyond-end",
        "cleaner/eligibility.py",
        "    if checkpoint > log_end_offset:",
        "    if checkpoint > log_end_offset + 1:",
        "A checkpoint behind the log's end is believed.",
        (ELIGIBILITY,),
    ),
    Mutation(
        "cleaner/horizon-due",
        "cleaner/eligibility.py",
        "    elif horizon_ms is not None and horizon_ms <= facts.now_ms:",
        "    elif horizon_ms is not None and horizon_ms < facts.now_ms:",
        "A delete horizon is due a millisecond late.",
        (ELIGIBILITY,),
    ),
    Mutation(
        "cleaner/group-size",
        "cleaner/cleaned_writer.py",
        "            size + segment.size <= max_bytes",
        "            size + segment.size < max_bytes",
        "Segments that fit exactly into one are not joined.",
        (GROUPS,),
    ),
    Mutation(
        "cleaner/marker-at-segments-base",
        "cleaner/cleaned_writer.py",
        "txn for txn in kept if txn[2] >= base_offset and",
        "txn for txn in kept if txn[2] > base_offset and",
        "An abort marker at a cleaned segment's base offset loses its index entry.",
        (f"{CLEANING}::test_an_abort_marker_at_the_base_of_a_cleaned_segment_keeps_its_index_entry",),
    ),
    Mutation(
        "cleaner/abort-above-range",
        "cleaner/aborted_transactions.py",
        "            found += (txn for txn in index.all() if txn.first_offset < end_offset)",
        "            found += (txn for txn in index.all() if txn.last_offset < end_offset)",
        "A transaction that is aborted above the cleaned range counts as committed in it.",
        (f"{CLEANING_MODEL}::test_promises_hold_for_any_history",),
    ),
]
