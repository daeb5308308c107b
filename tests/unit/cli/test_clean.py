from __future__ import annotations

import json
from typing import Any

import pytest
from tidelog.cli.main import main
from tidelog.cli.support import http_client

REMOVED = {
    "superseded": 46,
    "tombstone": 1,
    "aborted": 0,
    "keyless": 0,
    "marker": 0,
    "retention": 0,
    "delete-records": 2,
}


def state(name: str, **facts: Any) -> dict[str, Any]:
    return {
        "topic": "t",
        "request": 7,
        "state": name,
        "startedMs": 1000,
        "finishedMs": 3500 if name == "done" else None,
        "partitions": 3,
        "partitionsDone": 1,
        "removed": REMOVED,
        "removedBytes": 12_345,
        "byPartition": {
            "0": {"ledger": {"appended": 9000, "live": 8954, "removed": {"superseded": 46}}},
            "1": {"ledger": {"appended": 10, "live": 5, "removed": {"superseded": 4, "tombstone": 1}}},
            "2": {"ledger": None},
        },
        "errors": {},
    } | facts


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> tuple[list[Any], list[str]]:
    """The answers to come, and what was asked."""
    coming: list[Any] = []
    asked: list[str] = []

    def ask(address: tuple[str, int], method: str, path: str) -> Any:
        asked.append(f"{method} {path}")
        return coming.pop(0)

    monkeypatch.setattr(http_client, "ask", ask)
    return coming, asked


def test_wait_asks_until_it_is_done_and_prints_counts_by_cause(
    answers: tuple[list[Any], list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    coming, asked = answers
    coming += [state("waiting"), state("running"), state("done")]
    assert main(["clean", "t", "--wait"]) == 0
    assert asked == ["POST /clean/t?wait=5", "GET /clean/t/7?wait=5", "GET /clean/t/7?wait=5"]
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "t: 3 partitions in 2.50 s"
    assert [line.split() for line in lines[1:-2]] == [[cause, str(count)] for cause, count in REMOVED.items()]
    assert lines[-2].split() == ["records", "49", "12,345", "bytes"]
    assert lines[-1] == "  since it began: 9,010 appended = 8,959 live + 50 superseded + 1 tombstone"


def test_without_wait_it_says_how_far_it_is(
    answers: tuple[list[Any], list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    coming, asked = answers
    coming.append(state("running"))
    assert main(["clean", "a/b"]) == 0
    assert asked == ["POST /clean/a%2Fb?wait=0"]
    assert capsys.readouterr().out == "t: running, 1 of 3 partitions done\n"


def test_what_could_not_be_cleaned_is_told_with_its_cause(
    answers: tuple[list[Any], list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    coming, asked = answers
    nothing = dict.fromkeys(REMOVED, 0)
    failed = state(
        "failed", finishedMs=3500, partitionsDone=3, removed=nothing, errors={"0": "CorruptRecordError: x", "2": "y"}
    )
    coming += [state("running"), failed]
    assert main(["clean", "t", "--wait"]) == 1
    assert len(asked) == 2, "it has ended: nobody waits on"
    printed = capsys.readouterr()
    assert printed.out.splitlines()[0] == "t: 3 partitions in 2.50 s, 2 of them could not be cleaned"
    assert "nothing went" not in printed.out
    assert printed.err.splitlines() == [
        "tidelog: t-0 could not be cleaned: CorruptRecordError: x", "tidelog: t-2 could not be cleaned: y",
    ]  # fmt: skip


def test_json_errors_and_a_timeout(answers: tuple[list[Any], list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    coming, _ = answers
    coming.append(state("failed", finishedMs=3500, errors={"2": "disk"}))
    assert main(["clean", "t", "--wait", "--json"]) == 1
    printed = capsys.readouterr()
    assert json.loads(printed.out)["removed"] == REMOVED
    assert printed.err == "tidelog: t-2 could not be cleaned: disk\n"
    coming.append(state("running"))
    assert main(["clean", "t", "--wait", "--timeout", "0"]) == 1
    assert capsys.readouterr().err == "tidelog: not done after 0 s; the daemon goes on with it (request 7)\n"
