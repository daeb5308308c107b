from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.mock_time import MockTime, MockTimer
from tidelog.broker.runtime.service_manager import EXTENSION_S, PERIOD_S, ServiceManager

MORE_TIME = f"EXTEND_TIMEOUT_USEC={EXTENSION_S * 1e6:.0f}"


class Systemd:
    """What systemd does with sd_notify's messages: it reads datagrams from a socket, and counts the time between them."""

    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(address)
        self.socket.setblocking(False)

    def read(self) -> list[str]:
        messages = []
        while True:
            try:
                messages.append(self.socket.recv(4096).decode())
            except BlockingIOError:
                return messages


@pytest.fixture(params=["path", "abstract"])
def systemd(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Systemd, str]]:
    name = f"tidelog-test-{os.getpid()}-{request.node.name}"
    path = str(tmp_path / "notify")
    bound, told = (path, path) if request.param == "path" else (f"\0{name}", f"@{name}")
    manager = Systemd(bound)
    yield manager, told
    manager.socket.close()


def manager_of(time: MockTime, **environment: str) -> ServiceManager:
    return ServiceManager.of(environment, MockTimer(time))


def test_a_life_is_told_in_its_order(systemd: tuple[Systemd, str]) -> None:
    manager, address = systemd
    time = MockTime()
    ours = manager_of(time, NOTIFY_SOCKET=address, WATCHDOG_USEC="30000000")
    ours.starting()
    assert manager.read() == [MORE_TIME]
    time.advance(seconds=25)
    assert manager.read() == [MORE_TIME] * 2
    ours.serving("serving PLAINTEXT://127.0.0.1:9092\nREADY=0")
    assert manager.read() == ["READY=1\nSTATUS=serving PLAINTEXT://127.0.0.1:9092 READY=0", "WATCHDOG=1"]
    time.advance(seconds=100)
    assert manager.read() == ["WATCHDOG=1"] * 10
    ours.stopping()
    assert manager.read() == ["STOPPING=1\nSTATUS=stopping", MORE_TIME]
    ours.close()
    time.advance(seconds=100)
    assert manager.read() == []
    assert time.waiting() == []


@pytest.mark.parametrize("seconds", [3, 30, 600])
def test_a_loop_that_turns_is_never_taken_for_hung(tmp_path: Path, seconds: int) -> None:
    """systemd asks for a message in each WATCHDOG_USEC; half of that is what it recommends."""
    manager, time = Systemd(str(tmp_path / "notify")), MockTime()
    ours = manager_of(time, NOTIFY_SOCKET=str(tmp_path / "notify"), WATCHDOG_USEC=str(seconds * 1_000_000))
    ours.serving("serving")
    manager.read()
    for _ in range(20):
        time.advance(seconds=seconds / 2)
        assert "WATCHDOG=1" in manager.read()
    manager.socket.close()


def test_a_loop_that_hangs_says_nothing(tmp_path: Path) -> None:
    """The message is sent by a timer of the loop and by nothing else: where no timer fires, none comes."""
    manager, time = Systemd(str(tmp_path / "notify")), MockTime()
    ours = manager_of(time, NOTIFY_SOCKET=str(tmp_path / "notify"), WATCHDOG_USEC="30000000")
    ours.serving("serving")
    assert len(manager.read()) == 2
    assert len(time.waiting()) == 1
    assert manager.read() == []
    manager.socket.close()


@pytest.mark.parametrize(
    ("environment", "watchdog_s"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "20000000"}, 20.0),
        ({"WATCHDOG_USEC": "20000000", "WATCHDOG_PID": str(os.getpid())}, 20.0),
        ({"WATCHDOG_USEC": "20000000", "WATCHDOG_PID": str(os.getpid() + 1)}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "-1"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
    ],
)
def test_the_watchdog_is_the_one_that_the_environment_names(
    environment: dict[str, str], watchdog_s: float | None
) -> None:
    assert manager_of(MockTime(), **environment).watchdog_s == watchdog_s


@pytest.mark.parametrize("address", ["", "/nowhere/notify"])
def test_a_manager_that_is_not_there_disturbs_nobody(address: str) -> None:
    time = MockTime()
    ours = manager_of(time, NOTIFY_SOCKET=address)
    ours.starting()
    ours.serving("serving")
    time.advance(seconds=3 * PERIOD_S)
    ours.stopping()
    ours.close()
    assert time.waiting() == []
