"""Defects of loading and recovery: what is found after a crash, a power cut, or a swap that was cut short."""

from __future__ import annotations

from .mutation import Mutation

LOG_LOADER = "tests/unit/storage/test_log_loader.py"
RECOVERY = "tests/crash/test_recovery.py"

MUTATIONS = [
    Mutation(
        "recovery/swap-beside-cleaned",
        "storage/log_loader.py",
        "                if first_cleaned is not None and file.base_offset >= first_cleaned:",
        "                if first_cleaned is not None and file.base_offset > first_cleaned:",
        "A .swap at the offset of a .cleaned is taken for complete.",
        (f"{LOG_LOADER}::test_lesson_47_every_prefix_of_the_swap_loads_as_before_or_after",),
    ),
    Mutation(
        "recovery/swap-removal-durable",
        "storage/log_loader.py",
        "        if len(swaps) < sum(file.stage == SWAP_STAGE for file in files):",
        "        if False:",
        "A power cut brings a .swap back whose .cleaned has gone.",
        (f"{LOG_LOADER}::test_lesson_47_a_load_that_is_cut_short_takes_no_half_of_a_swap_for_a_whole",),
    ),
    Mutation(
        "recovery/segment-behind-swap",
        "storage/log_loader.py",
        "file.suffix in SEGMENT_SUFFIXES and first <= file.base_offset < end:",
        "file.suffix in SEGMENT_SUFFIXES and first <= file.base_offset <= end:",
        "Finishing a swap removes the segment behind it.",
        (f"{LOG_LOADER}::test_lesson_47_every_prefix_of_the_swap_loads_as_before_or_after",),
    ),
    Mutation(
        "recovery/swap-indexes-first",
        "storage/log_loader.py",
        "        for is_log in (True, False):\n            for swap in swaps:",
        "        for is_log in (False, True):\n            for swap in swaps:",
        "Indexes of a swap get their names before the log.",
        (f"{LOG_LOADER}::test_lesson_47_a_swaps_log_has_its_name_durably_before_any_index_has_one",),
    ),
    Mutation(
        "recovery/first-segment",
        "storage/log_loader.py",
        "        while index + 1 < len(segments) and segments[index + 1].base_offset <= self._recovery_point:",
        "        while index + 1 < len(segments) and segments[index + 1].base_offset < self._recovery_point:",
        "Recovery reads a segment too many where the recovery point is a segment's base.",
        ("tests/crash/test_recovery_progress.py::test_lesson_46_bytes_read_at_start",),
    ),
    Mutation(
        "recovery/checksums",
        "storage/log_recovery.py",
        "segment, check_crc=True, on_batch=replay.add, on_progress=on_progress",
        "segment, check_crc=False, on_batch=replay.add, on_progress=on_progress",
        "Recovery does not look at checksums.",
        (f"{RECOVERY}::test_after_power_cuts_the_synced_records_are_there_and_nothing_else",),
    ),
    Mutation(
        "recovery/removal-durable",
        "storage/log_recovery.py",
        "            # Durably, or a power cut brings them back behind records that get the same offsets.\n"
        "            self._fs.sync_directory(self._directory.path)\n",
        "            pass\n",
        "A power cut brings segments back that recovery removed.",
        (f"{LOG_LOADER}::test_segments_that_recovery_removed_do_not_come_back_behind_new_records",),
    ),
    Mutation(
        "recovery/bad-tail",
        "storage/segment_scan.py",
        "            file.truncate(size)\n            # Else",
        "            pass\n            # Else",
        "Recovery finds the bad end of a segment and leaves it there.",
        (f"{RECOVERY}::test_after_power_cuts_the_synced_records_are_there_and_nothing_else",),
    ),
]
