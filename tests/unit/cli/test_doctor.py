from __future__ import annotations

import json
from pathlib import Path

import pytest
from tidelog.cli.doctor import checks as doctor
from tidelog.cli.doctor import picture
from tidelog.cli.doctor.checks import FAIL, OK, WARN, Finding
from tidelog.cli.main import main

FINDINGS = [
    Finding("file descriptors", OK, "100000", "connections take them", "raise it"),
    Finding("clock", WARN, "not synchronised", "retention goes by it", "run chrony"),
]


def test_each_says_why_and_what_is_not_well_what_to_do() -> None:
    assert picture(FINDINGS) == [
        "ok    file descriptors  100000",
        "      why: connections take them",
        "warn  clock             not synchronised",
        "      why: retention goes by it",
        "      do:  run chrony",
        "1 ok, 1 warning, 0 failures",
    ]


def test_exit_codes_and_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(doctor, "examine", lambda *_: FINDINGS)
    assert main(["doctor", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["checks"][1] == {
        "name": "clock",
        "status": "warn",
        "value": "not synchronised",
        "why": "retention goes by it",
        "advice": "run chrony",
    }
    monkeypatch.setattr(doctor, "examine", lambda *_: [*FINDINGS, Finding("disk", FAIL, "full", "it is", "free some")])
    assert main(["doctor"]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "1 ok, 1 warning, 1 failure"


def test_this_machine_and_a_directory_that_cannot_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    assert main(["doctor", "--json", "--set", f"log.dirs={tmp_path}"]) in (0, 1)
    names = [check["name"] for check in json.loads(capsys.readouterr().out)["checks"]]
    assert {"file descriptors", "clock", f"log directory {tmp_path}: room"} <= set(names)
    assert main(["doctor", "--set", f"log.dirs={blocked / 'below'}"]) == 1
    assert "can't be made" in capsys.readouterr().out
