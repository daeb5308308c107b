"""Defects of loading and recovery: what is found after a crash, a power cut, or a swap that was cut short."""

from __future__ import annotations

from .mutation import Mutation

LOG_LOADER = "tests/unit/storage/log/test_loader.py"
LOG_MANAGER = "tests/unit/storage/manager/test_log_manager.py"
BOTH_ENDS = "tests/unit/storage/log/test_both_ends.py"
RECOVERY = "tests/crash/test_recovery.py"

MUTATIONS = [
    Mutation(
        "recovery/swap-beside-cleaned",
        "storage/log/loader.py",
        "                if first_cleaned is not None and file.base_offset >= first_cleaned:",
        "                if first_cleaned is not None and file.base_offset > first_cleaned:",
        "A .swap at the offset of a .cleaned is taken for complete.",
        (f"{LOG_LOADER}::test_every_prefix_of_the_swap_loads_as_before_or_after",),
    ),
    Mutation(
        "recovery/swap-removal-durable",
        "storage/log/loader.py",
        "        if len(swaps) < sum(file.stage == SWAP_STAGE for file in files):",
        "        if False:",
        "A power cut brings a .swap back whose .cleaned has gone.",
        (f"{LOG_LOADER}::test_a_load_that_is_cut_short_takes_no_half_of_a_swap_for_a_whole",),
    ),
    Mutation(
        "recovery/segment-behind-swap",
        "storage/log/loader.py",
        "file.suffix in SEGMENT_SUFFIXES and first <= file.base_offset < end:",
        "file.suffix in SEGMENT_SUFFIXES and first <= file.base_offset <= end:",
        "Finishing a swap removes the segment behind it.",
        (f"{LOG_LOADER}::test_every_prefix_of_the_swap_loads_as_before_or_after",),
    ),
    Mutation(
        "recovery/swap-indexes-first",
        "storage/log/loader.py",
        "        for is_log in (True, False):\n            for swap in swaps:",
        "        for is_log in (False, True):\n            for swap in swaps:",
        "Indexes of a swap get their names before the log.",
        (f"{LOG_LOADER}::test_a_swaps_log_has_its_name_durably_before_any_index_has_one",),
    ),
    Mutation(
        "recovery/first-segment",
        "storage/log/loader.py",
        "        while index + 1 < len(segments) and segments[index + 1].base_offset <= self._recovery_point:",
        "        while index + 1 < len(segments) and segments[index + 1].base_offset < self._recovery_point:",
        "Recovery reads a segment too many where the recovery point is a segment's base.",
        ("tests/crash/test_recovery_progress.py::test_a_start_reads_at_most_the_segment_of_the_recovery_point",),
    ),
    Mutation(
        "recovery/checksums",
        "storage/log/recovery.py",
        "            check_crc=True,\n            on_batch=replay.add,",
        "            check_crc=False,\n            on_batch=replay.add,",
        "Recovery does not look at checksums.",
        (f"{RECOVERY}::test_after_power_cuts_the_synced_records_are_there_and_nothing_else",),
    ),
    Mutation(
        "recovery/failed-sync",
        "storage/log/recovery.py",
        "            durable_below=self._promise.recovery_point or 0,\n",
        "",
        "A start takes pages for durable that a failed sync has left in memory alone.",
        (f"{LOG_LOADER}::test_records_that_a_failed_sync_has_lost_are_durable_with_what_comes_behind_them",),
    ),
    Mutation(
        "recovery/failed-sync-of-a-large-batch",
        "storage/segment/scan.py",
        "                    file.rewrite(whole[:taken], position)\n",
        "",
        "A start takes a batch that is read through a map for durable, though a failed sync has left it in memory alone.",
        (f"{LOG_LOADER}::test_records_that_a_failed_sync_has_lost_are_durable_with_what_comes_behind_them",),
    ),
    Mutation(
        "recovery/file-time",
        "storage/segment/scan.py",
        "            directory.file_system.set_modified_ms(file.path, modified_ms)\n",
        "            pass\n",
        "Recovery changes the time of a log file, by which retention goes where records have none.",
        (f"{LOG_LOADER}::test_only_chunks_above_the_recovery_point_are_written_again_and_the_files_time_stays",),
    ),
    Mutation(
        "recovery/clean-stop-of-a-failed-log",
        "storage/log/local_log.py",
        "            if self.failure is not None:\n                raise raised_again(self.failure)\n            changed =",
        "            changed =",
        "A log that has failed is closed as if it had not, and the next start looks at nothing.",
        (f"{LOG_MANAGER}::test_a_log_that_has_failed_leaves_its_directory_without_the_mark_of_a_clean_stop",),
    ),
    Mutation(
        "recovery/clean-stop-without-checkpoints",
        "storage/manager/log_manager.py",
        "            if not upkeep.checkpoint_all() or id(directory) in failed:",
        "            upkeep.checkpoint_all()\n            if id(directory) in failed:",
        "A stop is marked as clean though its checkpoints are older ones.",
        (f"{LOG_MANAGER}::test_a_stop_whose_checkpoints_cannot_be_written_is_not_marked_as_clean",),
    ),
    Mutation(
        "recovery/epochs-before-records",
        "storage/log/local_log.py",
        "                self._flush_segments([",
        "                self.hooks.flush()\n                self._flush_segments([",
        "An epoch is on disk before its first record, which may never get there.",
        (f"{LOG_LOADER}::test_no_epoch_is_on_disk_whose_records_are_not",),
    ),
    Mutation(
        "recovery/truncation-cut-short",
        "storage/log/local_log.py",
        '            self.failure = KafkaStorageError(f"{self.name}: truncating to {offset} failed: {error}")\n'
        "            raise self.failure from error\n",
        '            raise KafkaStorageError(f"{self.name}: truncating to {offset} failed: {error}") from error\n',
        "A log goes on after a truncation that the disk has cut short.",
        (f"{BOTH_ENDS}::test_a_truncation_that_the_disk_has_cut_short_is_the_logs_last_change",),
    ),
    Mutation(
        "recovery/removal-durable",
        "storage/log/recovery.py",
        "            # Durably, or a power cut brings them back behind records that get the same offsets.\n"
        "            self._fs.sync_directory(self._directory.path)\n",
        "            pass\n",
        "A power cut brings segments back that recovery removed.",
        (f"{LOG_LOADER}::test_segments_that_recovery_removed_do_not_come_back_behind_new_records",),
    ),
    Mutation(
        "recovery/bad-tail",
        "storage/segment/scan.py",
        "            file.truncate(size)\n            # Else",
        "            pass\n            # Else",
        "Recovery finds the bad end of a segment and leaves it there.",
        (f"{RECOVERY}::test_after_power_cuts_the_synced_records_are_there_and_nothing_else",),
    ),
]
