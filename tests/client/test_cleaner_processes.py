"""The processes of passes beside a running daemon: they come with the first pass, are told of, and end with the daemon."""

from __future__ import annotations

import os
import signal
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.clients.base import random_name
from support.clients.kafka_python import producer
from support.daemon import Daemon
from support.patience import until
from support.process_passes import children, is_alive

SETTINGS = {
    "log.cleaner.backoff.ms": 50,
    "log.cleaner.dedupe.buffer.size": 1 << 20,
    "log.segment.bytes": 4096,
    "log.cleanup.policy": "compact",
    "log.cleaner.min.cleanable.ratio": 0.01,
}

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked at in /proc")


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with Daemon(tmp_path / "data", SETTINGS) as running:
        yield running


def produce(daemon: Daemon, topic: str) -> None:
    p = producer(daemon.bootstrap)
    for number in range(500):
        p.send(topic, key=b"key-%d" % (number % 20), value=b"%06d" % number)
        if number % 10 == 9:
            p.flush()
    p.close()


def metric(daemon: Daemon, name: str) -> float:
    with urllib.request.urlopen(f"http://{daemon.http}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith((name + " ", name + "{")))


def test_there_is_no_process_without_a_pass_and_then_one_that_is_told_of(daemon: Daemon) -> None:
    assert children(daemon.pid) == []
    topic = random_name("keyed")
    produce(daemon, topic)
    until(lambda: metric(daemon, "tidelog_cleaner_passes_total") > 0, "a pass")
    (pid,) = children(daemon.pid)
    assert metric(daemon, "tidelog_cleaner_processes") == 1
    assert metric(daemon, "tidelog_cleaner_process_starts_total") == 1
    assert metric(daemon, "tidelog_cleaner_process_failures_total") == 0
    assert metric(daemon, "tidelog_cleaner_process_resident_bytes") > 1 << 20
    until(lambda: metric(daemon, "tidelog_cleaner_process_cpu_seconds_total") > 0, "its processor time")
    assert os.getpriority(os.PRIO_PROCESS, pid) == 19
    daemon.stop()
    assert not is_alive(pid)


def held_pass(daemon: Daemon) -> int:
    """Process of a pass that waits for the throttle, and will for hours."""
    produce(daemon, random_name("keyed"))
    until(lambda: children(daemon.pid) and metric(daemon, "tidelog_cleaner_io_bytes_total") > 0, "a pass under way")
    (pid,) = children(daemon.pid)
    return pid


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[Daemon]:
    with Daemon(tmp_path / "data", {**SETTINGS, "log.cleaner.io.max.bytes.per.second": 1}) as running:
        yield running


def test_a_stop_ends_it_in_a_pass(slow: Daemon) -> None:
    pid = held_pass(slow)
    slow.stop()
    assert not is_alive(pid)


def test_a_kill_of_the_daemon_ends_it_in_a_pass(slow: Daemon) -> None:
    pid = held_pass(slow)
    slow.kill()
    until(lambda: not is_alive(pid), "its end")
    slow.start()


def test_a_kill_of_the_process_is_shown_and_clients_notice_nothing(slow: Daemon) -> None:
    os.kill(held_pass(slow), signal.SIGKILL)
    until(lambda: metric(slow, "tidelog_cleaner_process_failures_total") == 1, "the failure")
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(f"http://{slow.http}/health", timeout=60)
    assert b"was killed by SIGKILL" in caught.value.read()
    produce(slow, random_name("keyed"))
