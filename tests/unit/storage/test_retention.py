from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tidelog.config.log_config import LogConfig
from tidelog.storage.log_values import SegmentView
from tidelog.storage.retention import DeletionReason, deletable_segments

NOW = 1_000_000


def views(*rows: tuple[int, int, int]) -> list[SegmentView]:
    """(base offset, size, largest timestamp) of each; the last one is active and ends 10 offsets after its base."""
    ends = [row[0] for row in rows[1:]] + [rows[-1][0] + 10]
    return [
        SegmentView(base, end, size, largest, index == len(rows) - 1)
        for index, ((base, size, largest), end) in enumerate(zip(rows, ends, strict=True))
    ]


def deleted(
    segments: list[SegmentView], start: int = 0, high: int = 10**9, **settings: object
) -> list[tuple[int, DeletionReason]]:
    config = LogConfig(**{"retention_ms": -1, "retention_bytes": -1} | settings)
    found = deletable_segments(
        segments,
        config,
        now_ms=NOW,
        log_size=sum(segment.size for segment in segments),
        log_start_offset=start,
        high_watermark=high,
    )
    return [(deletion.base_offset, deletion.reason) for deletion in found]


THREE = views((0, 100, NOW - 300), (10, 100, NOW - 200), (20, 100, NOW - 100))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, []),
        ({"retention_ms": 150}, [0, 10]),
        ({"retention_ms": 200}, [0]),
        ({"retention_ms": 50}, [0, 10, 20]),
        ({"retention_ms": 0}, [0, 10, 20]),
        ({"retention_bytes": 300}, []),
        ({"retention_bytes": 201}, []),
        ({"retention_bytes": 200}, [0]),
        ({"retention_bytes": 100}, [0, 10]),
        ({"start": 10}, [0]),
        ({"start": 29}, [0, 10]),
        ({"start": 10, "cleanup_policy": frozenset({"compact"})}, [0]),
        ({"retention_ms": 50, "cleanup_policy": frozenset({"compact"})}, []),
        ({"retention_ms": 50, "cleanup_policy": frozenset({"compact", "delete"})}, [0, 10, 20]),
    ],
)
def test_each_cause_stops_at_the_first_segment_that_it_spares(settings: dict[str, object], expected: list[int]) -> None:
    assert [base for base, _ in deleted(THREE, **settings)] == expected  # type: ignore[arg-type]


def test_lesson_29_one_call_deletes_all_that_more_calls_would() -> None:
    """KAFKA-12177: what size takes makes room for time to go on."""
    segments = views((0, 10, NOW - 900), (10, 500, NOW - 1), (20, 500, NOW - 900), (30, 500, NOW))
    once = deleted(segments, retention_ms=100, retention_bytes=1000)
    assert once == [(0, DeletionReason.SIZE), (10, DeletionReason.SIZE), (20, DeletionReason.TIME)]
    rest = [segment for segment in segments if segment.base_offset not in dict(once)]
    assert deleted(rest, retention_ms=100, retention_bytes=1000) == []


def test_lesson_30_nothing_at_or_above_the_high_watermark() -> None:
    assert [base for base, _ in deleted(THREE, high=19, retention_ms=0)] == [0]
    assert deleted(THREE, high=9, retention_ms=0) == []


def test_lesson_33_retention_bytes_below_segment_bytes_keeps_the_active_segment() -> None:
    for limit in (0, 1, 99):
        assert [base for base, _ in deleted(THREE, retention_bytes=limit)] == [0, 10]


def test_an_empty_active_segment_is_never_named() -> None:
    assert deleted(views((0, 0, 0)), retention_ms=0) == []


@given(
    st.lists(st.tuples(st.integers(0, 300), st.integers(NOW - 400, NOW + 100)), min_size=1, max_size=8),
    st.integers(-1, 900),
    st.integers(-1, 400),
    st.integers(0, 80),
    st.integers(0, 90),
)
def test_deletion_is_idempotent_and_a_prefix(
    rows: list[tuple[int, int]], retention_bytes: int, retention_ms: int, start: int, high: int
) -> None:
    segments = views(*[(index * 10, size, largest) for index, (size, largest) in enumerate(rows)])
    settings = {"retention_bytes": retention_bytes, "retention_ms": retention_ms}
    gone = deleted(segments, start, high, **settings)
    assert [base for base, _ in gone] == [segment.base_offset for segment in segments[: len(gone)]]
    assert all(segment.next_base_offset <= high for segment in segments[: len(gone)])
    assert deleted(segments[len(gone) :], start, high, **settings) == []
