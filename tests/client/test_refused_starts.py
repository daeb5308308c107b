"""Starts that are refused, as a user sees them: exit code 1 and one line that says what, where and what to do."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.daemon import Daemon
from support.patience import PATIENCE_S
from tidelog.cli.main import main
from tidelog.cli.support.kafka_client import KafkaClient
from tidelog.config.page import pointer
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse

SERVE = (sys.executable, "-m", "tidelog.broker", "serve")
NO_PORTS = {"listeners": "PLAINTEXT://127.0.0.1:0", "http.listener": "127.0.0.1:0"}


def complaint(**settings: str) -> str:
    """What a start with these settings (`_` for `.`) says on stderr when it gives up, without its log lines and without the
    last line, which says where the settings in it are explained: there is one exactly where there are some."""
    chosen = NO_PORTS | {name.replace("_", "."): value for name, value in settings.items()}
    arguments = [part for name, value in chosen.items() for part in ("--set", f"{name}={value}")]
    done = subprocess.run([*SERVE, *arguments], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 1
    assert done.stdout == ""
    lines = [line for line in done.stderr.splitlines() if " INFO " not in line]
    assert lines[0].startswith("tidelog: ")
    lines[0] = lines[0].removeprefix("tidelog: ")
    explained = pointer("\n".join(lines if len(lines) == 1 else lines[:-1]))
    assert lines[1:][-1:] == ([f"tidelog: {explained}"] if explained else lines[1:][-1:])
    return "\n".join(lines[:-1] if explained else lines)


def test_a_directory_or_port_that_is_taken(tmp_path: Path) -> None:
    with Daemon(tmp_path / "data") as running:
        port, http = running.bootstrap.rpartition(":")[2], running.http
        said = complaint(log_dirs=str(running.directory))
        assert f"{running.directory}: another process has this data directory open" in said
        assert said.endswith("stop that process or choose another log.dirs")
        other = str(tmp_path / "other")
        listeners = f"PLAINTEXT://127.0.0.1:{port}"
        assert complaint(log_dirs=other, listeners=listeners) == (
            f"listener 127.0.0.1:{port} can't be bound: Address already in use; stop what uses it, or set listeners to "
            "an address that is free on this machine"
        )
        taken = f"tcp://127.0.0.1:{port}"
        assert complaint(log_dirs=other, message_set_listeners=taken).endswith(
            "stop what uses it, or set message.set.listeners to an address that is free on this machine"
        )
        assert complaint(log_dirs=other, http_listener=http).startswith(f"http.listener {http} can't be bound: Address")
        # Who was refused left the directory as it can be used.
        running.stop()
        running.directory = Path(other)
        running.start()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("version=1\ncluster.id", "ends in the middle of a line"),
        ("version=7\ncluster.id=a\nnode.id=1\n", "version"),
    ],
)
def test_a_broken_meta_properties(tmp_path: Path, content: str, said: str) -> None:
    file = tmp_path / "meta.properties"
    file.write_text(content)
    line = complaint(log_dirs=str(tmp_path))
    assert line.startswith(f"{file}: ")
    assert said in line
    assert "restore the file" in line
    assert "\n" not in line
    assert file.read_text() == content


def test_a_directory_that_may_not_be_written_or_is_none(tmp_path: Path) -> None:
    file, closed = tmp_path / "file", tmp_path / "closed"
    file.touch()
    closed.mkdir(mode=0o500)
    # To root nothing is closed, but nobody may write here.
    for path in (file, Path("/proc/tidelog") if os.geteuid() == 0 else closed):
        line = complaint(log_dirs=str(path))
        assert line.startswith(f"{path}: cannot be used as a data directory (")
        assert line.endswith("make it a directory that this user can read and write, or set log.dirs to another one")


def test_wrong_settings_are_told_together() -> None:
    assert complaint(log_segment_bytes="1G", log_retention_horus="3").splitlines() == [
        "unknown setting log.retention.horus (--set); did you mean log.retention.hours?",
        "log.segment.bytes='1G' is not a whole number; allowed: 14 … 2147483647 (--set)",
    ]
    assert complaint(listeners="9092") == "listeners: '9092' is not NAME://HOST:PORT"
    assert complaint(min_insync_replicas="2") == (
        "min.insync.replicas='2' is out of range; allowed: 1, as one node keeps one copy; leave it out or set it to 1 (--set)"
    )


def test_a_clusters_numbers_of_copies_start_and_are_read_back_as_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = (
        "default.replication.factor",
        "offsets.topic.replication.factor",
        "transaction.state.log.replication.factor",
    )
    with Daemon(tmp_path / "data", dict.fromkeys(names, 3)) as daemon:
        told = [line for line in daemon.stderr().splitlines() if "read as 1" in line]
        assert len(told) == 1
        for name in names:
            assert f"{name}=3" in told[0]
        address = ("--bootstrap-server", daemon.bootstrap)
        assert main(["configs", "describe", "--broker", "1", *names, "--json", *address]) == 0
        described = json.loads(capsys.readouterr().out)
        assert {name: entry["value"] for name, entry in described.items()} == dict.fromkeys(names, "1")
        with KafkaClient(daemon.bootstrap) as client:
            for factor, code in ((3, ErrorCode.INVALID_REPLICATION_FACTOR), (-1, 0)):
                wanted = CreatableTopic(name="t", num_partitions=1, replication_factor=factor)
                (made,) = client.ask(CreateTopicsRequest(topics=[wanted]), CreateTopicsResponse).topics
                assert made.error_code == code


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_signal_stops_in_order(tmp_path: Path, number: signal.Signals) -> None:
    """Ctrl-C and a terminal that closes: the stop is clean and marked, as after SIGTERM."""
    before = signal.signal(number, signal.SIG_DFL)  # under nohup it is ignored, and a daemon goes by that
    try:
        daemon = Daemon(tmp_path / "data")
        daemon.start()
    finally:
        signal.signal(number, before)
    with daemon:
        daemon.stop(number)  # DaemonError unless it exits with 0
        assert not daemon.running
        assert (daemon.directory / ".kafka_cleanshutdown").exists()
        assert "Traceback" not in daemon.stderr()
