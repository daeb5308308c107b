"""Apache Kafka on a directory of ours: export it, start Kafka there, stop it again."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from support.dump_log_segments import PEER
from support.kafka_versions import NEWEST
from support.patience import PATIENCE_S, until

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

TIDELOG = [sys.executable, "-m", "tidelog.broker"]
QUIET = {"log_level": 0}  # brokers come and go
# What tests write is years old by its timestamps, and no retention shall meet it on either side.
KEEP = {"log.retention.ms": -1}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def kafka(directory: Path, *, is_new: bool = False, release: str = NEWEST, **settings: str) -> Iterator[str]:
    """Apache Kafka on `directory`/data; yields its address once every partition has a leader.

    `is_new`: there are no topics to wait for. `settings` have underscores for dots.
    """
    port = int(settings.pop("port", 0)) or free_port()
    command = [sys.executable, str(PEER), "--release", release, "start", str(directory), str(port)]
    command += [f"{name}={value}" for name, value in KEEP.items()]
    command += [f"{name.replace('_', '.')}={value}" for name, value in settings.items()]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    try:
        said: list[str] = []  # the first time, what fetching it says comes first
        for line in process.stdout:
            said.append(line)
            if line.startswith("ready "):
                break
        assert said, "it ended at once"
        assert said[-1].startswith("ready "), "".join(said)
        bootstrap = f"127.0.0.1:{port}"
        from confluent_kafka.admin import AdminClient  # unit tests of what uses this module go without it

        admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
        until(lambda: is_new or all_led(admin), "every partition has a leader")
        yield bootstrap
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        process.stdout.close()
    assert process.returncode == 0


def all_led(admin: AdminClient) -> bool:
    topics = admin.list_topics(timeout=PATIENCE_S).topics.values()
    return bool(topics) and all(part.leader >= 0 for topic in topics for part in topic.partitions.values())


def export(directory: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = [*TIDELOG, "log", "export-kraft", str(directory), *more]
    return subprocess.run(command, capture_output=True, text=True, check=False)
