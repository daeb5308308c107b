"""What is wrong with a command line is one line and exit code 2."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from support.patience import PATIENCE_S
from tidelog.cli.main import build_parser, main


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["tpoics", "list"], "tidelog: there is no command tpoics; did you mean topics?"),
        (["xyzzy"], "tidelog: there is no command xyzzy; there are serve, doctor, topics"),
        (["topics", "lsit"], "tidelog topics: there is no action lsit; did you mean list?"),
        (["log", "verfy"], "tidelog log: there is no tool verfy; did you mean verify?"),
        (
            ["topics", "list", "--intrnal"],
            "tidelog topics list: there is no option --intrnal; did you mean --internal?",
        ),
        (["topics", "create", "x", "--partiton=3"], "there is no option --partiton; did you mean --partitions?"),
        (["topics", "create"], "tidelog topics create: the following arguments are required: TOPIC"),
        (["topics", "list", "more"], "unrecognized arguments: more"),
        (["produce", "t", "--compression", "zst"], "invalid choice: 'zst'"),
        (["serve", "--port", "99999"], "tidelog serve: argument --port: '99999' is no port: 0 … 65535"),
        (["serve", "--port", "x"], "'x' is no port"),
    ],
)
def test_wrong_usage_is_one_line_with_the_nearest_name(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    out, err = capsys.readouterr()
    assert (ended.value.code, out, err.count("\n")) == (2, "", 1), err
    assert said in err
    assert "--help` shows how it is used" in err


def test_without_a_command_they_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    for command in ("serve", "topics", "produce", "completion"):
        assert f"    {command} " in out


def test_a_command_without_its_action_lists_the_actions(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        build_parser().parse_args(["topics"])
    out, err = capsys.readouterr()
    assert (ended.value.code, out) == (2, "")
    for action in ("list", "describe", "create", "alter", "delete"):
        assert f"    {action} " in err


TIDELOG = [sys.executable, "-m", "tidelog.broker"]


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_stream_that_is_closed_is_an_empty_one(closed: str) -> None:
    command = f'"$@" settings log.segment.bytes {closed}'
    done = subprocess.run(
        ["/bin/sh", "-c", command, "sh", *TIDELOG], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert ("log.segment.bytes" in done.stdout) == (">&-" not in closed.replace("2>&-", ""))


def test_what_the_terminal_can_not_show_is_an_escape() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [*TIDELOG, "settings", "log.segment.bytes"], capture_output=True, text=True, env=environment,
        timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "14 \\u2026 2147483647" in done.stdout
