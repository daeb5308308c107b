from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.logs import batch
from tidelog.cli.main import main


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for partition in ("a-0", "b-1"):
        (tmp_path / partition).mkdir()
        for base in (0, 2):
            (tmp_path / partition / f"{base:020d}.log").write_bytes(batch("x", "y", base_offset=base))
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\na 0 2\n")
    return tmp_path


def test_text(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "anatomy", str(data)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("a-0  offsets 0–4  first dirty 2  dirty ratio 0.00\n█")
    assert "\n\nb-1  offsets 0–4  never cleaned  dirty ratio 1.00\n▓" in out
    assert "\x1b" not in out
    assert main(["log", "anatomy", str(data / "b-1")]) == 0
    assert capsys.readouterr().out.startswith("b-1 ")


def test_json(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "anatomy", "--json", str(data)]) == 0
    first, second = json.loads(capsys.readouterr().out)
    assert (first["topic"], first["partition"], first["firstDirtyOffset"], first["ratio"]) == ("a", 0, 2, 0.0)
    assert [segment["section"] for segment in second["segments"]] == ["dirty", "active"]
    assert second["firstDirtyOffset"] is None
    assert second["sections"]["dirty"]["records"] == 2
    assert second["keys"] == 2


def test_damage(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (data / "a-0" / f"{2:020d}.log").write_bytes(b"\xff" * 50)
    assert main(["log", "anatomy", str(data)]) == 1
    assert f"{data}/a-0 can't be read in full: see `tidelog log verify {data}/a-0`" in capsys.readouterr().err


def test_what_was_lost_before(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for first in range(10, 24, 2):
        (data / "a-0" / f"{0:020d}.{first}.{first}-{first + 1}.damaged").write_bytes(b"x")
    assert main(["log", "anatomy", str(data / "a-0")]) == 0
    line = "\nlost to damage: offsets 10–11, 12–13, 14–15, 16–17, 18–19 and 2 more\n"
    assert line in capsys.readouterr().out
    assert main(["log", "anatomy", "--json", str(data)]) == 0
    first_log, second = json.loads(capsys.readouterr().out)
    assert first_log["holes"][0] == {"firstOffset": 10, "lastOffset": 11}
    assert (len(first_log["holes"]), second["holes"]) == (7, [])


def test_not_a_directory(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "anatomy", str(data / "no")]) == 1
    assert capsys.readouterr().err == (f"tidelog: {data}/no: not a directory: name a data directory or a partition's\n")
