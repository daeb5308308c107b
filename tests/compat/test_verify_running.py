"""`tidelog log verify` below a daemon that is written to: no fault while it runs, after a kill and a start, after a stop."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from support.clients.base import CODECS
from support.daemon import Daemon
from support.patience import PATIENCE_S


def verify(directory: Path) -> dict[str, Any]:
    """What the tool prints, its exit code checked."""
    done = subprocess.run(
        [sys.executable, "-m", "tidelog.broker", "log", "verify", "--json", str(directory)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == (report["faults"] > 0)
    return report


def faults(report: dict[str, Any]) -> list[str]:
    return [
        f"{finding['rule']}: {finding['path']}: {finding['what']}"
        for finding in report["findings"]
        if finding["severity"] == "fault"
    ]


def test_no_fault_while_it_is_written_to(tmp_path: Path) -> None:
    settings: dict[str, str | int] = {"log.index.interval.bytes": 512, "log.retention.check.interval.ms": 500}
    with Daemon(tmp_path / "data", settings) as daemon:
        admin = AdminClient({"bootstrap.servers": daemon.bootstrap})
        topic = {"segment.bytes": "200000", "retention.bytes": "2000000", "file.delete.delay.ms": "100"}
        for future in admin.create_topics([NewTopic(f"t-{codec}", 2, 1, config=topic) for codec in CODECS]).values():
            future.result(PATIENCE_S)
        stop = threading.Event()
        written = 0

        def write() -> None:
            nonlocal written
            options: dict[str, str | int | bool] = {"bootstrap.servers": daemon.bootstrap, "linger.ms": 2}
            producers = [
                (f"t-{codec}", Producer(options | {"compression.type": codec, "enable.idempotence": index % 2 == 0}))
                for index, codec in enumerate(CODECS)
            ]
            while not stop.is_set():
                for topic, producer in producers:
                    for n in range(50):
                        producer.produce(topic, f"value {n} ".encode() * 9, f"key {n}".encode(), partition=n % 2)
                    assert producer.flush(20) == 0
                    written += 50

        writer = threading.Thread(target=write)
        writer.start()
        try:
            rounds = [verify(daemon.directory) for _ in range(4)]
        finally:
            stop.set()
            writer.join(60)
        assert [faults(report) for report in rounds] == [[]] * len(rounds)
        assert written > 1000
        assert rounds[-1]["bytes"] > 100_000
        daemon.kill()
        assert [line for line in faults(verify(daemon.directory)) if "batch-" not in line] == []
        daemon.start()
        assert faults(verify(daemon.directory)) == []
    assert faults(verify(tmp_path / "data")) == []
