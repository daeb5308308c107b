"""The script of the first record's commands, what is read from its output, and the page that is made of it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import first_record
import pytest
from first_record import LAST_LINE, MOST_S, Step, Told, page_of, script_of, steps_of
from wheels import ReleaseError

REPORT = Path(__file__).resolve().parents[3] / "docs" / "reports" / "first-record.md"


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(first_record, "PREPARE", f"set -e; cd {tmp_path}; exec 2>&1")
    return tmp_path


def output_of(script: str) -> str:
    return subprocess.run(["sh", "-c", script], stdout=subprocess.PIPE, text=True, timeout=60, check=False).stdout


DAEMON = "sh -c 'echo ready PLAINTEXT; exec cat fifo' &"


def test_what_each_command_printed_is_told_with_its_time(shell: Path) -> None:
    subprocess.run(["mkfifo", shell / "fifo"], check=True)
    commands = ("echo one; echo two", DAEMON, "true", "echo hello")
    steps = steps_of(commands, output_of(script_of(commands)))
    assert [step.command for step in steps] == list(commands)
    assert [step.lines for step in steps] == [("one", "two"), ("ready PLAINTEXT",), (), ("hello",)]
    assert all(step.seconds >= 0 for step in steps)


@pytest.mark.parametrize(
    ("commands", "failed"),
    [
        (("true", "echo broken; false", "true"), "echo broken; false"),
        (("true", "sh -c 'echo no port >&2; exit 3' &", "true"), "sh -c 'echo no port >&2; exit 3' &"),
    ],
)
def test_a_command_that_fails_is_named_with_what_it_said(shell: Path, commands: tuple[str, ...], failed: str) -> None:
    with pytest.raises(ReleaseError, match=r"broken|no port") as caught:
        steps_of(commands, output_of(script_of(commands)))
    assert str(caught.value).startswith(f"{failed} failed:")


def test_the_page_has_every_command_and_the_sums() -> None:
    told = Told((Step("a | b", ("x",), 1.25), Step("c", ("y", LAST_LINE), 2.5)), 3.0)
    page = page_of(told, commit="abc", load=0.5)
    assert f"$ a | b\nx\n$ c\ny\n{LAST_LINE}\n" in page
    assert "| `a \\| b` | 1.2 |" in page
    assert "| all | 3.8 |" in page
    assert "commit abc." in page


def test_the_published_one_is_of_these_commands_took_less_than_a_minute_and_names_no_machine() -> None:
    page = REPORT.read_text(encoding="utf-8")
    for command in first_record.COMMANDS:
        assert f"\n$ {command}\n" in page
    assert f"\n{LAST_LINE}\n```" in page
    total = re.search(r"^\| all \| ([\d.]+) \|$", page, re.MULTILINE)
    cpu = re.search(r"included: ([\d.]+) s", page)
    assert total is not None
    assert cpu is not None
    assert float(total[1]) < MOST_S
    assert float(cpu[1]) < MOST_S
    assert not re.search(r"/(work|home|tmp|root|usr|opt)\b|https?://(?!127\.0\.0\.1)", page)
