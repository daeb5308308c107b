"""A daemon as systemd runs it: what it is told over the life, and that it lives within what the unit forbids."""

from __future__ import annotations

import ctypes
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from support.daemon import DEFAULT_COMMAND, Daemon
from support.patience import PATIENCE_S

ROUND_TRIP = Path(__file__).resolve().parents[1] / "packaging" / "round_trip.py"
PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN = 65, 1
#: `MemoryDenyWriteExecute=` of Linux 6.3 and newer, which a process keeps over exec.
CONFINED = (
    sys.executable,
    "-c",
    f"import ctypes, os, sys; assert not ctypes.CDLL(None).prctl({PR_SET_MDWE}, {PR_MDWE_REFUSE_EXEC_GAIN}, 0, 0, 0); "
    "os.execv(sys.argv[1], sys.argv[1:])",
)


def test_systemd_is_told_when_it_serves_that_it_lives_and_that_it_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(PATIENCE_S)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.setenv("WATCHDOG_USEC", "600000")

        def until(beginning: str) -> list[str]:
            messages: list[str] = []
            while not messages or not messages[-1].startswith(beginning):
                messages.append(systemd.recv(4096).decode())
            return messages

        with Daemon(tmp_path / "data") as daemon:
            before = until("READY=1")
            assert before[:-1] == ["EXTEND_TIMEOUT_USEC=60000000"] * (len(before) - 1)
            assert f"STATUS=serving PLAINTEXT://{daemon.bootstrap} " in before[-1]
            assert [until("WATCHDOG=1") for _ in range(3)] == [["WATCHDOG=1"]] * 3
        assert set(until("STOPPING=1")[:-1]) <= {"WATCHDOG=1"}


@pytest.mark.skipif(
    sys.platform != "linux" or ctypes.CDLL(None).prctl(PR_SET_MDWE + 1, 0, 0, 0, 0) < 0,
    reason="needs Linux 6.3",
)
def test_it_makes_no_memory_executable(tmp_path: Path) -> None:
    with Daemon(tmp_path / "data", command=[*CONFINED, *DEFAULT_COMMAND]) as daemon:
        said = subprocess.run(
            [sys.executable, str(ROUND_TRIP), daemon.bootstrap], capture_output=True, text=True, check=False
        )
        assert "came back" in said.stdout, said.stderr
