from __future__ import annotations

from tidelog.cleaner.kernel.results import FilterCounts

A = FilterCounts(
    superseded=1,
    keyless=2,
    records_read=9,
    records_kept=6,
    last_offset=20,
    max_timestamp=50,
    offset_of_max_timestamp=12,
)
B = FilterCounts(
    aborted=4, records_read=4, earliest_horizon=99, last_offset=30, max_timestamp=50, offset_of_max_timestamp=25
)


def test_two_stretches_are_summed_and_the_extremes_kept() -> None:
    both = FilterCounts(
        superseded=1,
        aborted=4,
        keyless=2,
        records_read=13,
        records_kept=6,
        earliest_horizon=99,
        last_offset=30,
        max_timestamp=50,
        offset_of_max_timestamp=12,
    )
    assert A.plus(B) == B.plus(A) == both
    assert both.removed == 7 == both.records_read - both.records_kept
    assert A.plus(FilterCounts()) == A
    assert B.plus(B._replace(earliest_horizon=98)).earliest_horizon == 98


def test_every_cause_is_removed() -> None:
    causes = ("superseded", "tombstones_expired", "aborted", "keyless", "markers_expired", "below_start")
    assert all(FilterCounts(**{cause: 3}).removed == 3 for cause in causes)
