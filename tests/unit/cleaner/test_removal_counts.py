from __future__ import annotations

from support.cleaning import cleaning_world, keyed, put
from tidelog.cleaner.kernel.results import FilterCounts
from tidelog.cleaner.removal_counts import RemovalCounts, removed_between, removed_by_pass, removed_by_retention


def test_a_pass_by_cause() -> None:
    counts = FilterCounts(1, 2, 3, 4, 5, 6, records_read=30, records_kept=9, bytes_read=900, bytes_kept=200)
    removed = removed_by_pass(counts)
    assert removed.by_cause() == {
        "superseded": 1, "tombstone": 2, "aborted": 3, "keyless": 4, "marker": 5, "retention": 0, "delete-records": 6,
    }  # fmt: skip
    assert (removed.records, removed.bytes) == (counts.removed, 700)
    assert removed.plus(RemovalCounts(retention=1, bytes=1)).records == 22


def test_retention_counts_records_and_not_offsets_where_cleaning_left_gaps() -> None:
    made = cleaning_world(
        segment_bytes=300, cleanup_policy=frozenset({"compact", "delete"}), retention_bytes=0, retention_ms=-1
    )
    for number in range(40):
        put(made.log(), f"k{number % 4}", "x" * 20)
    made.log().roll()
    made.clean_all()
    live = 40 - sum(r.counts.removed for r in [made.cleaners.partitions()[0].last_pass] if r is not None)
    size = made.log().size
    reads = len([operation for operation in made.fake.trace if operation.kind == "read"])
    removed = removed_by_retention(made.log().delete_old_segments())
    assert len([operation for operation in made.fake.trace if operation.kind == "read"]) == reads
    assert (removed.retention, removed.delete_records, removed.bytes) == (live, 0, size)
    assert made.log().log_start_offset == 40


def test_who_names_the_segment_is_the_cause() -> None:
    made = cleaning_world(
        segment_bytes=300, cleanup_policy=frozenset({"delete"}), retention_ms=1000, retention_bytes=-1
    )
    for number in range(30):
        keyed(made.log(), (b"a", b"x" * 20), (b"b", b"%d" % number))
    bases = [segment.base_offset for segment in made.log().segments]
    made.log().increment_log_start_offset(bases[2] + 1)  # within a segment, which stays
    removed = removed_by_retention(made.log().delete_old_segments())
    assert (removed.delete_records, removed.retention) == (bases[2], 0)
    before = made.log().ledger.value
    assert before is not None
    made.time.advance(1001)
    removed = removed_by_retention(made.log().delete_old_segments())
    assert (removed.delete_records, removed.retention) == (0, 60 - bases[2])
    after = made.log().ledger.value
    assert after is not None
    assert removed_between(before, after) == RemovalCounts(retention=60 - bases[2])
