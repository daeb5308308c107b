"""Seeds that found defects of the daemon, which are mended: each is run again (`test_simulation.py`).

A change of the simulator, or of what the daemon asks of its disk, makes another run of the same number: then a seed here is
one more run, and what holds the defect is the test that is named beside it. So it is with all of these since clients send
ahead and lose rights, and since threads are held at places: but for 17 and 14688 none has been seen to fail with its defect
put back into the daemon since then.
"""

from __future__ import annotations

from typing import NamedTuple


class Regression(NamedTuple):
    """`what`: the defect, and the test that was written for it."""

    seed: int
    what: str
    keep: str = ""
    schedule: int = 0

    def __str__(self) -> str:
        return f"seed {self.seed}"


REGRESSIONS: list[Regression] = [
    Regression(
        17, "test_who_looked_last_does_not_keep_the_files_of_segments_that_were_cleaned: they were open, without names"
    ),
    Regression(28, "test_a_group_that_is_joined_while_it_is_deleted_is_made_anew: fetches met state that was gone"),
    Regression(104, "test_an_index_that_a_full_disk_left_short_is_whole_after_a_start: the recovery point passed it"),
    Regression(126, "test_an_emptied_control_batch_hides_the_marker_that_was_in_it: log verify told a fault"),
    Regression(320, "test_what_delete_records_took_does_not_come_back_when_one_segment_goes: it came back"),
    Regression(
        484,
        "test_who_looks_for_the_first_time_in_the_midst_of_a_swap_is_told_of_what_he_reads: aborted records read",
    ),
    Regression(
        67, "test_a_deleted_segment_whose_files_stay_takes_nothing_with_it_and_does_not_come_back: the log was cut"
    ),
    Regression(178, "test_nobody_is_told_of_entries_before_the_last_one_is_loaded: retention failed"),
    Regression(725, "test_what_retention_took_first_stays_deleted_once_delete_records_has_said_so: it came back"),
    Regression(3315, "test_a_batch_that_lost_the_sector_of_its_offset_is_no_segment_of_its_own: the log went on there"),
    Regression(3378, "test_an_emptied_control_batch_ends_the_transaction_whose_marker_it_had: log verify told a fault"),
    Regression(3980, "a false alarm: a marker stands where a power cut took an acknowledged record"),
    Regression(
        4908,
        "test_who_reads_the_largest_timestamp_while_the_first_record_comes_does_not_take_it_back: wrong index entry",
    ),
    Regression(
        5876,
        "test_indexes_that_recovery_made_are_durable_after_a_stop_that_nothing_came_before: a power cut took them",
    ),
    Regression(6153, "test_who_is_about_to_open_the_files_at_a_swap_reads_the_old_ones: CORRUPT_MESSAGE"),
    Regression(5565, "a false alarm: a power cut took the name of a first file, of which nobody knew anything"),
    Regression(
        6015,
        "test_what_delete_records_took_stays_in_a_checkpoint_that_comes_before_its_files_are_renamed: it came back",
    ),
    Regression(
        5799, "test_who_opens_files_late_that_are_deleted_does_not_keep_them_open: their names were gone, and they open"
    ),
    Regression(
        5519,
        "test_a_log_that_another_thread_has_cleaned_since_the_look_is_not_claimed: the cleaner's checkpoint went back",
    ),
    Regression(5614, "test_a_log_that_is_gone_is_no_disks_fault: an error was logged"),
    Regression(5979, "test_who_is_about_to_open_the_files_at_a_swap_reads_the_old_ones: KAFKA_STORAGE_ERROR"),
    Regression(7596, "a false alarm: of two changes of a limit at once nobody knows which one holds"),
    Regression(
        7893,
        "test_a_file_that_was_opened_anew_while_it_is_read_ahead_has_its_own_lease: the one closed, the other open",
    ),
    Regression(
        10357, "test_settings_that_came_beside_an_append_that_hung_hold_for_the_next_one: a larger batch was taken"
    ),
    Regression(
        14688,
        "test_it_keeps_a_transaction_that_began_in_a_segment_that_is_deleted: a start that mended an index lost an entry",
    ),
    Regression(13807, "a false alarm: a stop had waited ten seconds for a cleaner's thread that was held longer"),
    Regression(13708, "a false alarm: a batch that adds its partition comes while the coordinator's log is still read"),
    Regression(17354, "a false alarm: cleaning takes aborted records, and retention the segment that is older then"),
    Regression(
        19810,
        "test_an_unknown_producer_may_go_on_anywhere_behind_the_marker_of_its_transaction: OUT_OF_ORDER_SEQUENCE_NUMBER",
    ),
    Regression(20161, "a false alarm: records of a connection that was given up come behind those of the next one"),
    Regression(
        21341,
        "test_the_leader_epoch_does_not_go_back_where_a_power_cut_empties_the_log: the end before the start was not known",
    ),
]
