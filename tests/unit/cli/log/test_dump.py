from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support.logs import batch
from tidelog.broker.groups.store.records import offset_key
from tidelog.cli.main import main
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.record_batch import Record


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(bytes(batch("a", "ü", base_offset=0)) + bytes(batch("c", base_offset=2)))
    return path


def test_text(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "dump", str(log)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [f"Dumping {log}", "Log starting offset: 0"]
    assert [line.split(" CreateTime")[0].partition("position")[2] for line in lines[2:]] == [": 0", ": 82"]
    assert main(["log", "dump", "--deep", str(log)]) == 0
    assert capsys.readouterr().out.count("\n| offset: ") == 3
    assert main(["log", "dump", "--print-data", str(log)]) == 0
    assert "key: k1 payload: ü\n" in capsys.readouterr().out


def test_json_lines(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "dump", "--json", "--print-data", str(log)]) == 0
    parts = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [part["kind"] for part in parts] == ["batch", "record", "record", "batch", "record"]
    assert parts[2]["value"] == "ü"
    assert {part["file"] for part in parts} == {str(log)}
    assert all(part["problem"] is None for part in parts)


def test_problems(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log.write_bytes(log.read_bytes()[:-1])
    assert main(["log", "dump", str(log)]) == 1
    captured = capsys.readouterr()
    assert "Found 70 invalid bytes at the end\n  ^ wrong at position 82: a batch of 71 bytes is cut off" in captured.out
    assert captured.err == f"tidelog: {log}: 1 problem\n"


def test_files_that_cannot_be_read(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line each, and the others are dumped."""
    missing, foreign = tmp_path / f"{5:020d}.index", tmp_path / "notes.txt"
    foreign.write_text("")
    assert main(["log", "dump", str(missing), str(foreign), str(tmp_path), str(log)]) == 1
    captured = capsys.readouterr()
    assert f"tidelog: {missing}: No such file or directory\n" in captured.err
    assert f"Dumping {missing}" not in captured.out
    assert "not a file of a log" in captured.err
    assert "Traceback" not in captured.err
    assert f"Dumping {log}" in captured.out


def test_a_reader_that_has_seen_enough(log: Path) -> None:
    """`tidelog log dump | head -1`."""
    log.write_bytes(log.read_bytes() * 3000)
    command = f"{sys.executable} -m tidelog.broker log dump --deep {log} | head -1"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert done.stdout == f"Dumping {log}\n"
    assert done.stderr == ""


@pytest.mark.parametrize("flag", ["--deep", "--json"])
def test_an_output_that_takes_no_more_is_no_problem_of_the_file(log: Path, flag: str) -> None:
    log.write_bytes(b"".join(batch("a", base_offset=offset) for offset in range(3000)))
    command = f"{sys.executable} -m tidelog.broker log dump {flag} {log} >/dev/full"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "tidelog: No space left on device\n")


def test_kafkas_own_topics(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = tmp_path / "__consumer_offsets-7"
    directory.mkdir()
    log = directory / "00000000000000000000.log"
    record = Record(0, 1_700_000_000_000, offset_key("g", "orders", 0), None)
    log.write_bytes(build_batch([record]))
    assert main(["log", "dump", "--decode", str(log)]) == 0
    expected = 'key: {"type":"1","data":{"group":"g","topic":"orders","partition":0}} payload: <DELETE>\n'
    assert capsys.readouterr().out.endswith(expected)
