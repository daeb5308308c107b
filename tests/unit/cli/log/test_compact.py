from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.logs import batch
from tidelog.cli.main import main


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """Ten batches with the same two keys."""
    directory = tmp_path / "orders-3"
    directory.mkdir()
    data = b"".join(bytes(batch("x", "y", base_offset=2 * number)) for number in range(10))
    (directory / f"{0:020}.log").write_bytes(data)
    return directory


def test_counts_by_cause(partition: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "compact", str(partition)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("orders-3: 810 bytes in 1 segment, now 81 in 2; ")
    assert ["superseded", "18"] in [line.split() for line in lines]
    assert lines[-2].split() == ["records", "18", "729", "bytes"]
    assert lines[-1] == "  since it began: 20 appended = 2 live + 18 superseded"
    assert main(["log", "verify", "--quiet", str(partition.parent)]) == 0


def test_json(partition: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "compact", "--json", str(partition)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["topic"], found["partition"], found["removedRecords"]) == ("orders", 3, 18)
    assert found["removed"]["superseded"] == 18
    assert (found["bytesBefore"], found["bytesAfter"]) == (810, 81)
    assert found["ledger"] == {"appended": 20, "live": 2, "removed": {"superseded": 18}}


def test_errors_are_one_line(partition: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "compact", str(partition.parent)]) == 1
    assert main(["log", "compact", str(partition), "--topic-set", "cleanup.policy"]) == 1
    assert main(["log", "compact", str(partition), "--topic-set", "cleanup.policy=delete"]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1] == "tidelog: see docs/SETTINGS.md#cleanup.policy, or `tidelog settings cleanup.policy`"
    errors = [line for line in lines if not line.startswith("tidelog: see ")]
    assert len(errors) == 3
    assert "is not the directory of a partition; name one, TOPIC-PARTITION" in errors[0]
    assert errors[1] == "tidelog: --topic-set cleanup.policy: not NAME=VALUE"
    assert "its topic is not compacted (cleanup.policy=delete)" in errors[2]
