from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.logs import batch
from tidelog.cli.main import main

LOG = "00000000000000000000.log"


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    directory = tmp_path / "orders-0"
    directory.mkdir()
    (directory / LOG).write_bytes(bytes(batch("a", "b", base_offset=0)) + bytes(batch("c", base_offset=2)))
    for suffix in (".index", ".timeindex"):
        (directory / LOG).with_suffix(suffix).write_bytes(b"")
    return directory


def test_no_fault(partition: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "verify", str(partition)]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"note  metadata-missing: {partition}/partition.metadata: ")
    assert "\nno fault, 1 note; 0.0 MiB of batches read in " in out
    assert main(["log", "verify", "--quiet", str(partition)]) == 0
    assert capsys.readouterr().out.startswith("no fault, 0 notes; ")


def test_a_fault(partition: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = bytearray((partition / LOG).read_bytes())
    data[-1] ^= 1
    (partition / LOG).write_bytes(data)
    assert main(["log", "verify", str(partition)]) == 1
    out = capsys.readouterr().out
    assert f"fault batch-crc: {partition}/{LOG} at 81: batch 2–2: crc " in out
    assert "\nbatch-crc: the checksum is not that of the bytes.\n  What to do: " in out
    assert "\n1 fault, 1 note; " in out


def test_json(partition: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (partition / LOG).write_bytes(b"\xff" * 100)
    assert main(["log", "verify", "--json", str(partition)]) == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["faults"], report["notes"], report["bytes"]) == (1, 1, 100)
    [fault] = [finding for finding in report["findings"] if finding["severity"] == "fault"]
    assert (fault["rule"], fault["path"], fault["position"]) == ("batch-garbage", str(partition / LOG), 0)
    assert fault["remedy"]


def test_not_a_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "verify", str(tmp_path)]) == 1
    assert capsys.readouterr().err.startswith(f"tidelog: {tmp_path}: neither a data directory nor a partition's")
    assert main(["log", "verify", str(tmp_path / "no")]) == 1
    assert "not a directory" in capsys.readouterr().err
