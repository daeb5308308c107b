"""`--port`, which is for the one default listener."""

from __future__ import annotations

from pathlib import Path

import pytest
from tidelog.cli.main import main
from tidelog.cli.serve import listener_at
from tidelog.config.exceptions import ConfigError
from tidelog.config.loader import load_config


def test_the_default_listener_gets_the_port_and_keeps_its_address() -> None:
    config = load_config(None, {}, [listener_at(19092, load_config(None, {}, []))])
    assert [str(listener) for listener in config.listeners] == ["PLAINTEXT://127.0.0.1:19092"]


@pytest.mark.parametrize("where", ["--set", "environment", "file"])
def test_a_port_beside_listeners_is_refused_with_their_origin(where: str, tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    listeners = "PLAINTEXT://127.0.0.1:1"
    file.write_text(f"listeners={listeners}\n" if where == "file" else "")
    environment = {"TIDELOG_LISTENERS": listeners} if where == "environment" else {}
    config = load_config(file, environment, [f"listeners={listeners}"] if where == "--set" else [])
    origin = {"--set": "--set", "environment": "environment TIDELOG_LISTENERS", "file": str(file)}[where]
    with pytest.raises(ConfigError) as caught:
        listener_at(5, config)
    assert str(caught.value) == (
        f"--port 5 is for the default listener, and listeners is set ({origin}): give the port there"
    )


def test_the_command_refuses_it_before_it_starts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--port", "5", "--set", "listeners=PLAINTEXT://127.0.0.1:1"]) == 1
    assert capsys.readouterr().err.startswith("tidelog: --port 5 is for the default listener")


def test_a_system_that_gives_no_more_threads_is_told_in_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(_config: object) -> int:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("tidelog.broker.server.node.serve", refused)
    for name in ("set_up_logging", "log_uncaught"):
        monkeypatch.setattr(f"tidelog.broker.runtime.logging.{name}", lambda *_: None)
    assert main(["serve", "--set", "http.listener="]) == 1
    assert capsys.readouterr().err == (
        "tidelog: the system lets this process start no more threads: raise its limit (ulimit -u, TasksMax= of its unit, "
        "--pids-limit of its container)\n"
    )
