"""What is wrong with a command line is one line and exit code 2."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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
        (
            ["consume", "t", "--offset", "x"],
            "tidelog consume: argument --offset: 'x' is no whole number (`tidelog consume",
        ),
        (["clean", "t", "--timeout", "1h"], "tidelog clean: argument --timeout: '1h' is no number (`tidelog clean"),
        (["clean", "t", "--timeout", "nan"], "tidelog clean: argument --timeout: 'nan' is no number (`tidelog clean"),
        (["transactions", "list", "--longer-than", "inf"], "argument --longer-than: 'inf' is no number (`tidelog"),
        (["transactions", "list", "--longer-than", "1d"], "argument --longer-than: '1d' is no number (`tidelog"),
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


BUFFERED = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
PRINTING = [[], ["--help"], ["topics", "--help"], ["settings", "log.segment.bytes"], ["settings"]]


@pytest.mark.parametrize("arguments", PRINTING, ids=" ".join)
def test_a_reader_who_has_gone_is_no_stack_trace(arguments: list[str]) -> None:
    """`tidelog --help | head -1` ended in "Exception ignored … BrokenPipeError"."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [*TIDELOG, *arguments],
            env=BUFFERED,
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("arguments", PRINTING, ids=" ".join)
def test_output_that_finds_no_room_is_told_in_one_line(arguments: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*TIDELOG, *arguments],
            env=BUFFERED,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
    assert (done.returncode, done.stderr) == (1, "tidelog: No space left on device\n")


@pytest.mark.parametrize(
    ("text", "shown"), [("█▓▓░░│ 1–5 → …", "#==..| 1-5 -> ..."), ("ü and █", "\\xfc and #"), ("\udcff", "\\udcff")]
)
def test_a_picture_is_drawn_with_other_signs_where_the_terminal_lacks_them(text: str, shown: str) -> None:
    """In a locale without UTF-8 a bar of 80 signs was 80 escapes, six letters each."""
    program = "import sys; from tidelog.cli.main import _prepare_streams; _prepare_streams(); print(eval(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", program, ascii(text)], capture_output=True, text=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"}, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr, done.stdout) == (0, "", f"{shown}\n")


def test_a_directory_that_this_locale_can_not_name_is_told_with_what_to_do(tmp_path: Path) -> None:
    """Said was that the name is no text in UTF-8, which it is."""
    file = tmp_path / "server.properties"
    file.write_text("log.dirs=gr\u00fc\u00dfe\n", encoding="utf-8")
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    serve = [
        *TIDELOG,
        "serve",
        "--config",
        str(file),
        "--set",
        "listeners=PLAINTEXT://127.0.0.1:0",
        "--set",
        "http.listener=",
    ]
    done = subprocess.run(
        serve, cwd=tmp_path, capture_output=True, text=True, env=environment, timeout=PATIENCE_S, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "that the encoding of file names here, ascii, lacks: set LC_ALL=C.UTF-8" in done.stderr
    assert "\\xfc\\xdf" in done.stderr


def test_what_the_terminal_can_not_show_is_written_otherwise() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [*TIDELOG, "settings", "log.segment.bytes"], capture_output=True, text=True, env=environment,
        timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "14 ... 2147483647" in done.stdout
