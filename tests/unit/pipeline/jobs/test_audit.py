"""What an audit looks at before it asks Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.segment_dirs import write_log
from tidelog.pipeline.jobs.audit import check_bounds, out_of_order
from tidelog.pipeline.jobs.common import JobError
from tidelog.pipeline.planning.places import Bounds, TopicPartition
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.record_batch import Record

PLACE = TopicPartition("t", 0)


def batch(base: int, count: int = 5) -> bytes:
    return build_batch([Record(0, 1, b"k", b"v")] * count, base_offset=base)


@pytest.mark.parametrize(
    ("segments", "found"),
    [
        ([[batch(0), batch(5)], [batch(10)]], []),
        ([[batch(0), batch(50)], [batch(100)]], []),
        ([[batch(5), batch(0)]], [("order", 1, "t", 0, 0)]),
        ([[batch(0), batch(0)]], [("order", 1, "t", 0, 0), ("duplicate", 5, "t", 0, 0)]),
        ([[batch(0), batch(4)]], [("order", 1, "t", 0, 4), ("duplicate", 5, "t", 0, 4)]),
        ([[batch(0), batch(20), batch(7), batch(30)]], [("order", 1, "t", 0, 7)]),
        ([[batch(0), batch(20), batch(16)]], [("order", 1, "t", 0, 16), ("duplicate", 5, "t", 0, 16)]),
    ],
)
def test_batches_that_do_not_rise_are_found(
    tmp_path: Path, segments: list[list[bytes]], found: list[tuple[object, ...]]
) -> None:
    write_log(tmp_path / "t-0", segments)
    # The last one begins within what precedes it by an offset: 16 to 20.
    assert out_of_order(str(tmp_path), [PLACE]) == found


def test_the_room_that_an_active_segment_has_reserved_is_its_end(tmp_path: Path) -> None:
    write_log(tmp_path / "t-0", [[batch(0)], [batch(5), batch(5)]])
    path = tmp_path / "t-0" / f"{5:020d}.log"
    path.write_bytes(path.read_bytes() + bytes(5000))
    assert out_of_order(str(tmp_path), [PLACE]) == [("order", 1, "t", 0, 5), ("duplicate", 5, "t", 0, 5)]
    path.write_bytes(path.read_bytes() + batch(10))
    with pytest.raises(JobError, match=f"{path}: damaged at byte .*tidelog log verify"):
        out_of_order(str(tmp_path), [PLACE])


def test_states_of_other_logs_are_refused() -> None:
    check_bounds({PLACE: Bounds(0, 5)}, {PLACE: Bounds(3, 5)})
    with pytest.raises(JobError, match="t-0 is not there any more"):
        check_bounds({PLACE: Bounds(0, 5)}, {})
    with pytest.raises(JobError, match="t-0 ended at 5 before and ends at 4 now"):
        check_bounds({PLACE: Bounds(0, 5)}, {PLACE: Bounds(0, 4)})
