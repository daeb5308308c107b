from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tidelog.broker.http.console.units import (
    ago_text,
    count_text,
    duration_text,
    exact_moment_text,
    moment_text,
    plural,
    rate_text,
    size_text,
    time_text,
    visible,
)


@pytest.mark.parametrize(
    ("until_ms", "expected"),
    [(None, ""), (1000, "due since 1970-01-01 00:00 UTC"), (62_000, "in 60 seconds, 1970-01-01 00:01 UTC"),
     (3 * 86_400_000 + 2000, "in 3 days, 1970-01-04 00:00 UTC")],
)  # fmt: skip
def test_times(until_ms: int | None, expected: str) -> None:
    assert time_text(until_ms, 2000) == expected


def test_sizes_rates_and_counts() -> None:
    assert [size_text(count) for count in (5, 2048, 3 << 20, 5 << 40)] == ["5 bytes", "2.0 KiB", "3.0 MiB", "5.0 TiB"]
    assert [rate_text(rate) for rate in (0, 1500, 2.5e6, 3e9)] == ["0 B/s", "1.5 kB/s", "2.5 MB/s", "3.0 GB/s"]
    assert [count_text(count) for count in (0, 0.25, 7, 12.6, 1234567)] == ["0", "0.2", "7", "13", "1,234,567"]
    assert [plural(count, "topic") for count in (0, 1, 2)] == ["0 topics", "1 topic", "2 topics"]


def test_durations() -> None:
    texts = [duration_text(seconds) for seconds in (2e-6, 0.0123, 1.5, 119, 120, 7200, 200_000)]
    assert texts == ["2 µs", "12.3 ms", "1.5 s", "119 s", "2 minutes", "2 hours", "2 days"]
    assert ago_text(5000, 3000) == "0 µs ago", "a clock that was set back"
    assert ago_text(1000, 4000) == "3 s ago"


def test_moments_of_any_number() -> None:
    assert moment_text(0) == "1970-01-01 00:00:00"
    assert exact_moment_text(1234) == "1970-01-01 00:00:01.234"
    assert exact_moment_text(2**62).endswith(" ms"), "a producer may claim any time"


@given(st.text(max_size=60))
def test_nothing_stays_hidden(text: str) -> None:
    shown = visible(text)
    assert shown.isprintable()
    assert visible(shown) == shown
    kept = visible(text, lines=True)
    assert kept.replace("\n", "").replace("\t", "").isprintable()
    assert kept.count("\n") == text.count("\n")


def test_what_would_turn_the_writing_is_shown() -> None:
    assert visible("a\u202eb\x00") == "a\\u{202e}b\\u{0}"
    assert visible("käse") == "käse"
