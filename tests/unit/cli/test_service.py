from __future__ import annotations

import configparser
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from tidelog.cli import service
from tidelog.cli.main import main


class Unit(configparser.RawConfigParser):
    """A unit file. Names are systemd's, with their case."""

    def __init__(self, text: str) -> None:
        super().__init__(strict=True, delimiters=("=",))
        self.read_string(text)

    def optionxform(self, optionstr: str) -> str:
        return optionstr


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["service", "print", *arguments]) == 0
    return capsys.readouterr().out


def words(command: str) -> list[str]:
    """ExecStart= as systemd splits it: like a shell, but %x is a specifier and $X a variable, unless they are doubled."""
    split = shlex.split(command)
    assert re.search(r"[%$]", re.sub(r"%%|[$][$]", "", " ".join(split))) is None
    return [word.replace("%%", "%").replace("$$", "$") for word in split]


def test_the_unit_has_what_confines_and_watches_it(capsys: pytest.CaptureFixture[str]) -> None:
    unit = Unit(printed(capsys))
    section = unit["Service"]
    assert section["Type"] == "notify"
    assert section["User"] == "tidelog"
    assert section["StateDirectory"] == "tidelog"
    assert section["Environment"] == "TIDELOG_LOG_DIRS=/var/lib/tidelog"
    assert section["ProtectSystem"] == "strict"
    assert section["KillSignal"] == "SIGTERM"
    assert int(section["LimitNOFILE"]) >= 1_000_000
    assert int(section["WatchdogSec"]) == service.WATCHDOG_S
    assert section["CapabilityBoundingSet"] == ""
    assert "ReadWritePaths" not in section
    program, command = words(section["ExecStart"])
    assert Path(program).is_absolute()
    assert command == "serve"


def test_settings_are_passed_on_and_their_directories_may_be_written(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    properties = tmp_path / "a $HOME 100%.properties"
    properties.write_text("num.partitions=3\n")
    unit = Unit(
        printed(capsys, "--config", str(properties), "--set", "log.dirs=/mnt/a,below,/var/lib/log/b", "--name", "log")
    )["Service"]
    assert words(unit["ExecStart"])[1:] == [
        "serve", "--config", str(properties), "--set", "log.dirs=/mnt/a,below,/var/lib/log/b",
    ]  # fmt: skip
    assert unit["ReadWritePaths"] == "/mnt/a"
    assert unit["User"] == unit["StateDirectory"] == "log"
    assert "Environment" not in unit


def test_directories_of_the_file_count(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text("log.dirs=/srv/logs\n")
    unit = Unit(printed(capsys, "--config", str(properties)))["Service"]
    assert unit["ReadWritePaths"] == "/srv/logs"
    assert "Environment" not in unit


def test_a_directory_that_is_backed_up_to_may_be_written(capsys: pytest.CaptureFixture[str]) -> None:
    """It need not be there: a share that is not mounted is no reason not to start."""
    text = printed(capsys, "--set", "log.dirs=/mnt/a", "--set", "backup.url=file:///mnt/my%20nas/t")
    assert 'ReadWritePaths=/mnt/a\nReadWritePaths="-/mnt/my nas/t"\n' in text
    unread = printed(capsys, "--set", "backup.url=file:///var/lib/tidelog/backup")
    assert "ReadWritePaths" not in unread
    assert "ReadWritePaths" not in printed(capsys, "--set", "backup.url=s3://bucket/prefix")


def test_a_setting_of_several_lines_stays_one_word(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "--set", "ssl.keystore.key=-----BEGIN\nUser=root\n\t-----END")
    assert "\nUser=root\n" not in text
    assert '"ssl.keystore.key=-----BEGIN\\nUser=root\\n\\t-----END"' in text


@pytest.mark.parametrize(("directory", "expected"), [("/home/ann/logs", "read-only"), ("/root/logs", "read-only")])
def test_homes_are_closed_unless_something_needed_lies_in_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, directory: str, expected: str
) -> None:
    monkeypatch.setattr(service.sys, "base_prefix", "/usr")
    monkeypatch.setattr(service, "_program", lambda: ["/opt/tidelog/bin/tidelog"])
    assert Unit(printed(capsys))["Service"]["ProtectHome"] == "yes"
    assert Unit(printed(capsys, "--set", f"log.dirs={directory}"))["Service"]["ProtectHome"] == expected


def test_settings_that_serve_would_refuse_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["service", "print", "--set", "num.partition=3"]) == 1
    assert "did you mean num.partitions?" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["a b", "../x", "A", ""])
def test_a_name_that_is_none_of_a_unit_is_refused(name: str) -> None:
    with pytest.raises(SystemExit) as refused:
        main(["service", "print", "--name", name])
    assert refused.value.code == 2


def test_install_below_a_root_writes_what_print_prints(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    expected = printed(capsys, "--name", "log")
    assert main(["service", "install", "--name", "log", "--root", str(tmp_path)]) == 0
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files == [tmp_path / "etc/systemd/system/log.service"]
    assert files[0].read_text() == expected
    assert "systemctl enable --now log" in capsys.readouterr().out


def test_an_ordinary_user_is_told_that_root_installs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its PATH has no useradd, as a rule."""
    monkeypatch.setattr(service.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(service, "_run", lambda *command: pytest.fail(f"{command} is run"))
    assert main(["service", "install", "--name", "log"]) == 1
    assert "only root makes users and units" in capsys.readouterr().err


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_takes_every_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """`verify` prints what it does not know; `security` judges how much is open, from 0 (nothing) to 10."""
    unit = tmp_path / "tidelog.service"
    unit.write_text(printed(capsys, "--set", "log.dirs=/mnt/with blank,/srv/50%", "--set", "log.retention.ms=-1"))
    verified = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    if "Failed to" in verified.stderr and "bus" in verified.stderr:
        pytest.skip(verified.stderr)
    assert [line for line in verified.stderr.splitlines() if unit.name in line] == []
    assert verified.returncode == 0
    judged = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", str(unit)], capture_output=True, text=True, check=False
    )
    exposure = re.search(r"exposure level for \S+: (\d+\.\d+)", judged.stdout)
    if exposure is None:
        pytest.skip("a systemd before 250 does not judge files")
    assert float(exposure[1]) <= 2.0
