from __future__ import annotations

from pathlib import Path

import pytest
from support.segment_dirs import write_checkpoint, write_log
from tidelog.pipeline.exceptions import DataLossError, OptionError, TopicError
from tidelog.pipeline.options import parse_options
from tidelog.pipeline.planning.batch_plan import plan_batch
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.record_batch import Record


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """t-0 with offsets 10 to 49 in two segments, t-1 and u-0 with 0 to 9."""
    batches = [build_batch([Record(0, 1, b"k", bytes(100))], base_offset=offset) for offset in range(50)]
    write_log(tmp_path / "t-0", [batches[10:30], batches[30:]])
    write_log(tmp_path / "t-1", [batches[:10]])
    write_log(tmp_path / "u-0", [batches[:10]])
    write_checkpoint(tmp_path / "replication-offset-checkpoint", {("t", 0): 45, ("t", 1): 10, ("u", 0): 10})
    write_checkpoint(tmp_path / "log-start-offset-checkpoint", {("t", 0): 12})
    return tmp_path


def ranges(home: Path, **options: str) -> dict[str, list[tuple[int, int]]]:
    found: dict[str, list[tuple[int, int]]] = {}
    for one in plan_batch(parse_options({"path": str(home), **options})):
        found.setdefault(f"{one.topic}-{one.partition}", []).append((one.first_offset, one.end_offset))
    return found


def test_all_that_may_be_read_is_planned(home: Path) -> None:
    assert ranges(home, subscribe="t") == {"t-0": [(12, 45)], "t-1": [(0, 10)]}
    assert ranges(home, subscribe="u,t", endingOffsets='{"u":{"0":4},"t":{"0":20,"1":-1}}') == {
        "u-0": [(0, 4)],
        "t-0": [(12, 20)],
        "t-1": [(0, 10)],
    }
    assert ranges(home, assign='{"t":[1]}') == {"t-1": [(0, 10)]}
    assert ranges(home, subscribePattern="[a-z]") == {"t-0": [(12, 45)], "t-1": [(0, 10)], "u-0": [(0, 10)]}
    assert ranges(home, subscribePattern="none") == {}


def test_splits_are_made_smaller_until_there_are_enough(home: Path) -> None:
    found = ranges(home, subscribe="t", minPartitions="1000", splitBytes="100000")
    assert len(found["t-0"]) > 1
    assert found["t-0"][0][0] == 12
    assert found["t-0"][-1][1] == 45


def test_what_is_gone_or_never_was_is_an_error_unless_one_says_otherwise(home: Path) -> None:
    asked = {"assign": '{"t":[0]}', "startingOffsets": '{"t":{"0":11}}'}
    with pytest.raises(DataLossError, match="t-0: offset 11 was asked for, and the log starts at 12"):
        ranges(home, **asked)
    assert ranges(home, **asked, failOnDataLoss="false") == {"t-0": [(12, 45)]}
    asked = {"assign": '{"t":[0]}', "endingOffsets": '{"t":{"0":46}}'}
    with pytest.raises(DataLossError, match="offset 46 was asked for, and the log ends at 45"):
        ranges(home, **asked)
    assert ranges(home, **asked, failOnDataLoss="false") == {"t-0": [(12, 45)]}


def test_what_is_not_there_is_told(home: Path) -> None:
    with pytest.raises(OptionError, match="there is no t-7; t has 0, 1"):
        ranges(home, assign='{"t":[7]}')
    with pytest.raises(TopicError, match="no topic orders here"):
        ranges(home, subscribe="orders")
    with pytest.raises(OptionError, match="startingOffsets says nothing of t-1"):
        ranges(home, subscribe="t", startingOffsets='{"t":{"0":12}}')
    with pytest.raises(OptionError, match="startingOffsets names t-7, which is not among what is read"):
        ranges(home, subscribe="t", startingOffsets='{"t":{"0":12,"1":-2,"7":0}}')
    with pytest.raises(OptionError, match="endingOffsetsByTimestamp names T-0"):
        ranges(home, subscribe="u", endingOffsetsByTimestamp='{"u":{"0":1},"T":{"0":1}}')
