"""Seeds that found defects of the daemon, which are mended: each is run again (`test_simulation.py`).

A change of the simulator, or of what the daemon asks of its disk, makes another run of the same number: then a seed here is
one more run, and what holds the defect is the test that is named beside it. So it is with all of these but 28 since clients send
ahead and lose rights: none has been seen to fail with its defect put back into the daemon since then.
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
    Regression(28, "test_a_group_that_is_joined_while_it_is_deleted_is_made_anew: fetches met state that was gone"),
    Regression(104, "test_an_index_that_a_full_disk_left_short_is_whole_after_a_start: the recovery point passed it"),
    Regression(126, "test_an_emptied_control_batch_hides_the_marker_that_was_in_it: log verify told a fault"),
    Regression(320, "test_what_delete_records_took_does_not_come_back_when_one_segment_goes: it came back"),
    Regression(
        484,
        "test_who_looks_for_the_first_time_in_the_midst_of_a_swap_is_told_of_what_he_reads: aborted records read",
    ),
]
