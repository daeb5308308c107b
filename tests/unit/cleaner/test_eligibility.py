from __future__ import annotations

import dataclasses
import itertools

import pytest
from tidelog.cleaner.eligibility import Cause, CleaningFacts, Reason, SegmentFacts, evaluate, first_dirty_offset

NOW = 1_700_000_000_000
HOUR = 3_600_000


def facts(**changes: object) -> CleaningFacts:
    """Five closed segments of 100 offsets and 1,000 bytes each, an active one, all old, cleaned up to 200."""
    segments = [SegmentFacts(base, 1000, NOW - 9 * HOUR, NOW - 8 * HOUR) for base in range(0, 500, 100)]
    segments.append(SegmentFacts(500, 300, NOW - 7 * HOUR, NOW - 7 * HOUR))
    values: dict[str, object] = {
        "segments": segments,
        "log_start_offset": 0,
        "log_end_offset": 530,
        "last_stable_offset": 530,
        "high_watermark": 530,
        "checkpoint": 200,
        "now_ms": NOW,
    }
    return CleaningFacts(**(values | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("compacted", "failed", "dirty", "open_transaction", "overdue", "horizon"),
    list(itertools.product((False, True), repeat=6)),
)
def test_each_rule_has_its_place_in_all_64_combinations(
    compacted: bool, failed: bool, dirty: bool, open_transaction: bool, overdue: bool, horizon: bool
) -> None:
    found = evaluate(
        facts(
            is_compacted=compacted,
            failure="OSError: disk" if failed else None,
            retry_ms=NOW + 5 if failed else None,
            min_dirty_ratio=0.5 if dirty else 0.9,
            last_stable_offset=200 if open_transaction else 530,
            max_lag_ms=HOUR if overdue else 100 * HOUR,
            horizons={100: NOW - 1} if horizon else {300: NOW + 1},
        )
    )
    # Said once more, as a person would say it: 3,000 of 5,000 bytes are dirty, none of them cleanable when a transaction
    # has been open since the checkpoint.
    if not compacted:
        expected: object = Cause.NOT_COMPACTED
    elif failed:
        expected = Cause.UNCLEANABLE
    elif not open_transaction and overdue:
        expected = Reason.MAX_LAG
    elif not open_transaction and dirty:
        expected = Reason.RATIO
    elif horizon:
        expected = Reason.HORIZON
    else:
        expected = Cause.OPEN_TRANSACTION if open_transaction else Cause.BELOW_RATIO
    assert (found.reason or found.cause) is expected
    assert (found.reason is None) is (found.cause is not None)
    assert found.first_dirty == 200
    assert found.first_uncleanable == (200 if open_transaction else 500)
    assert found.dirty_ratio == (0.0 if open_transaction else 0.6)
    assert found.roll_is_due is (compacted and overdue)


def test_the_dirty_share_must_exceed_the_ratio() -> None:
    assert evaluate(facts(min_dirty_ratio=0.6)).cause is Cause.BELOW_RATIO
    assert evaluate(facts(min_dirty_ratio=0.59)).reason is Reason.RATIO
    assert evaluate(facts(min_dirty_ratio=0.0, checkpoint=500)).cause is Cause.ACTIVE


def test_young_records_hold_back_their_segment_and_all_behind_it() -> None:
    segments = list(facts().segments)
    segments[3] = SegmentFacts(300, 1000, NOW - 2 * HOUR, NOW - HOUR + 7)
    segments[0] = SegmentFacts(0, 1000, NOW, NOW)  # the clean part is not asked
    found = evaluate(facts(segments=segments, min_lag_ms=HOUR, min_dirty_ratio=0.9))
    assert (found.first_uncleanable, found.held_by, found.dirty_bytes) == (300, Cause.TOO_YOUNG, 1000)
    held = evaluate(facts(segments=segments, min_lag_ms=HOUR, checkpoint=300))
    assert (held.cause, held.next_ms) == (Cause.TOO_YOUNG, NOW + 7)
    later = evaluate(facts(segments=segments, min_lag_ms=HOUR, checkpoint=300, now_ms=NOW + 7))
    assert later.first_uncleanable == 500
    assert later.held_by is Cause.ACTIVE


def test_a_future_timestamp_holds_its_segment_until_then() -> None:
    segments = list(facts().segments)
    segments[2] = SegmentFacts(200, 1000, NOW, NOW + 1000 * HOUR)
    found = evaluate(facts(segments=segments, min_lag_ms=1))
    assert (found.cause, found.next_ms) == (Cause.TOO_YOUNG, NOW + 1000 * HOUR + 1)


def test_an_open_transaction_holds_back_the_whole_segment_that_it_begins_in() -> None:
    found = evaluate(facts(last_stable_offset=350))
    assert (found.first_uncleanable, found.held_by) == (300, Cause.OPEN_TRANSACTION)
    assert evaluate(facts(high_watermark=410)).first_uncleanable == 400
    assert evaluate(facts(last_stable_offset=510)).first_uncleanable == 500


def test_a_pass_that_ended_within_a_segment_leaves_it_dirty_as_a_whole() -> None:
    found = evaluate(facts(checkpoint=250))
    assert (found.first_dirty, found.clean_bytes, found.dirty_bytes) == (250, 2000, 3000)
    held = evaluate(facts(checkpoint=250, last_stable_offset=260))
    assert (held.first_uncleanable, held.dirty_bytes, held.reason) == (200, 0, None)
    assert held.cause is Cause.OPEN_TRANSACTION


@pytest.mark.parametrize(
    ("checkpoint", "first_dirty", "is_reset"),
    [(None, 50, False), (0, 50, True), (49, 50, True), (50, 50, False), (530, 530, False), (531, 50, True)],
)
def test_a_checkpoint_outside_of_the_log_is_reset_to_its_start(
    checkpoint: int | None, first_dirty: int, is_reset: bool
) -> None:
    assert first_dirty_offset(checkpoint, 50, 530)[0] == first_dirty
    found = evaluate(facts(checkpoint=checkpoint, log_start_offset=50))
    assert found.first_dirty == first_dirty
    assert (found.reset is not None) is is_reset


def test_a_checkpoint_inside_the_active_segment_makes_no_work() -> None:
    found = evaluate(facts(checkpoint=510, min_dirty_ratio=0.0))
    assert (found.reason, found.cause, found.dirty_bytes) == (None, Cause.ACTIVE, 0)
    assert evaluate(facts(checkpoint=530)).cause is Cause.CLEAN


def test_a_horizon_counts_where_a_pass_can_go() -> None:
    assert evaluate(facts(checkpoint=500, horizons={100: NOW})).reason is Reason.HORIZON
    assert evaluate(facts(checkpoint=500, horizons={100: NOW + 1})).next_ms == NOW + 1
    assert evaluate(facts(checkpoint=500, horizons={300: NOW}, last_stable_offset=250)).reason is None
    assert evaluate(facts(checkpoint=500, horizons={999: NOW})).reason is None  # retention took that segment


def test_max_lag_says_when_it_is_due_and_for_how_long_it_has_been() -> None:
    waiting = evaluate(facts(min_dirty_ratio=0.9, max_lag_ms=10 * HOUR))
    assert (waiting.cause, waiting.next_ms, waiting.overdue_ms) == (Cause.BELOW_RATIO, NOW + HOUR + 1, 0)
    due = evaluate(facts(min_dirty_ratio=0.9, max_lag_ms=10 * HOUR, now_ms=NOW + HOUR + 1))
    assert (due.reason, due.overdue_ms) == (Reason.MAX_LAG, 1)


def test_an_interrupted_pass_is_taken_up_again_whatever_is_dirty() -> None:
    assert evaluate(facts(interrupted_end=500, min_dirty_ratio=0.9)).reason is Reason.INTERRUPTED
    assert evaluate(facts(interrupted_end=500, is_compacted=False)).reason is None


def test_an_interrupted_pass_waits_until_another_can_come_to_its_end() -> None:
    """Else each pass would be followed by one that does nothing."""
    held = facts(interrupted_end=500, min_dirty_ratio=0.9, last_stable_offset=400)
    assert evaluate(held).reason is None
    assert evaluate(dataclasses.replace(held, interrupted_end=300)).reason is Reason.INTERRUPTED


def test_an_empty_log_is_clean() -> None:
    found = evaluate(
        facts(
            segments=[SegmentFacts(0, 0, -1, -1)],
            log_end_offset=0,
            last_stable_offset=0,
            high_watermark=0,
            checkpoint=None,
        )
    )
    assert (found.reason, found.cause, found.dirty_ratio) == (None, Cause.CLEAN, 0.0)
