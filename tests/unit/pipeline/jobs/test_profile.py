"""Times of a profile that no date of Python's has."""

from __future__ import annotations

from datetime import UTC, datetime

from tidelog.pipeline.jobs.profile import date_of, when


def test_a_time_is_a_date_of_utc_or_the_milliseconds_that_a_producer_wrote() -> None:
    assert when(1_700_000_000_123_000) == "2023-11-14T22:13:20.123000+00:00"
    assert when(-1) == "1969-12-31T23:59:59.999999+00:00"
    assert when(1_700_000_000_123_456 * 1000) == "1700000000123456 ms", "of one that counts microseconds"
    assert when((1 << 63) - 1) == "9223372036854775 ms"
    assert when(-(1 << 63)) == "-9223372036854776 ms"


def test_a_plot_has_the_steps_that_have_a_date() -> None:
    assert date_of(1_700_000_000) == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    assert date_of(1_700_000_000_123) is None
