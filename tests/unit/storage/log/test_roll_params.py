from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tidelog.storage.log.roll_params import ASK_ALWAYS, RollParams, RollReason, roll_limits, roll_reason

BASE = RollParams(
    segment_size=500,
    batch_size=100,
    max_segment_bytes=1000,
    first_timestamp=5000,
    created_ms=4000,
    max_timestamp_in_messages=5500,
    now_ms=9000,
    roll_after_ms=1000,
    index_is_full=False,
    base_offset=70,
    last_offset=90,
)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, None),
        ({"segment_size": 900}, None),
        ({"segment_size": 901}, RollReason.SIZE),
        ({"max_timestamp_in_messages": 6000}, None),
        ({"max_timestamp_in_messages": 6001}, RollReason.TIME),
        ({"max_timestamp_in_messages": -1}, None),
        # Without timestamps the segment's age counts; with them the clock does not.
        ({"first_timestamp": -1, "now_ms": 5000}, None),
        ({"first_timestamp": -1, "now_ms": 5001}, RollReason.TIME),
        ({"now_ms": 10**15}, None),
        ({"index_is_full": True}, RollReason.INDEX_FULL),
        ({"last_offset": 70 + 2**31 - 1}, None),
        ({"last_offset": 70 + 2**31}, RollReason.OFFSET_RANGE),
        # An empty segment has no reason but the last: whatever its indexes say (KAFKA-6388).
        ({"segment_size": 0, "batch_size": 5000, "index_is_full": True, "first_timestamp": -1}, None),
        ({"segment_size": 0, "last_offset": 2**40}, RollReason.OFFSET_RANGE),
    ],
)
def test_the_four_conditions(change: dict[str, int], reason: RollReason | None) -> None:
    assert roll_reason(BASE._replace(**change)) is reason


SMALL = st.integers(-1, 40)


@given(
    st.tuples(*[SMALL] * 8, st.booleans(), SMALL, SMALL).map(lambda values: RollParams(*values)),
    SMALL,
    SMALL,
    SMALL,
)
def test_within_the_limits_no_condition_holds(params: RollParams, size: int, timestamp: int, last_offset: int) -> None:
    """The hot path's three comparisons never miss a roll that `roll_reason` would ask for."""
    limits = roll_limits(params)
    following = params._replace(batch_size=size, max_timestamp_in_messages=timestamp, last_offset=last_offset)
    if (
        following.segment_size + size <= limits.segment_size
        and timestamp <= limits.timestamp
        and last_offset <= limits.last_offset
        and not following.index_is_full
    ):
        assert roll_reason(following) is None


def test_the_limits_spare_the_question_as_long_as_they_can() -> None:
    limits = roll_limits(BASE)
    assert limits == (1000, 6000, 70 + 2**31 - 1)
    assert roll_limits(BASE._replace(first_timestamp=-1)) == ASK_ALWAYS
