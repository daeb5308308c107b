"""Apache Kafka's share consumer: it acknowledges, gives back, rejects, renews, is too slow, and the daemon is killed under it.

Then Kafka's own DumpLogSegments reads what that left in `__share_group_state`. What is checked request by request, with a
clock that moves, is in tests/client/test_share_groups.py.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from support.clients.programs import java_command
from support.daemon import Daemon
from support.dump_log_segments import complaints, dump, first_offsets
from support.patience import PATIENCE_S

TOPIC, GROUP = "jobs", "workers"
LOCK_MS = 4_000
PATIENCE_MS = 60_000
SETTINGS: dict[str, str | int] = {
    "group.share.record.lock.duration.ms": LOCK_MS,
    "group.share.min.record.lock.duration.ms": 1000,
    "group.share.assignment.interval.ms": 0,
    "offsets.topic.num.partitions": 1,
    "share.coordinator.state.topic.num.partitions": 1,
    "share.coordinator.snapshot.update.records.per.snapshot": 3,
}

#: Offset → deliveries.
Got = dict[int, int]


class Consumer:
    """One `Share` program; `mode` is share.acknowledgement.mode."""

    def __init__(self, bootstrap: str, mode: str) -> None:
        self._program = subprocess.Popen(
            [*java_command("Share"), bootstrap, GROUP, TOPIC, mode],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._program.kill()
        self._program.communicate()

    def tell(self, command: str) -> list[str]:
        """Its answer without the OK."""
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        self._program.stdin.write(command + "\n")
        self._program.stdin.flush()
        lines: list[str] = []
        for line in self._program.stdout:
            if line.strip() == "OK":
                return lines
            assert not line.startswith("FAIL"), line
            lines.append(line.strip())
        raise AssertionError(f"it ended at {command!r}")

    def poll(self, count: int) -> Got:
        """`count` records, each acknowledged before the next poll where that is implicit."""
        got: Got = {}
        while len(got) < count:
            lines = self.tell(f"poll {PATIENCE_MS}")
            assert lines, f"{len(got)} of {count} records came"
            for line in lines:
                _, _, offset, deliveries, value = line.split()
                assert value == f"job-{offset}"
                got[int(offset)] = int(deliveries)
        return got

    def acknowledge(self, kind: str, *offsets: int) -> None:
        for offset in offsets:
            self.tell(f"ack {offset} {kind}")


def prepare(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(PATIENCE_S)
    earliest = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.GROUP, GROUP, incremental_configs=[earliest])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(PATIENCE_S)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 200})
    for number in range(20):
        producer.produce(TOPIC, f"job-{number}")
    assert producer.flush(30) == 0


def test_a_share_consumer_over_a_kill(tmp_path: Path) -> None:
    with Daemon(tmp_path / "data", SETTINGS) as daemon:
        prepare(daemon.bootstrap)
        with Consumer(daemon.bootstrap, "explicit") as explicit:
            assert explicit.poll(20) == dict.fromkeys(range(20), 1)
            explicit.acknowledge("ACCEPT", *range(10))
            explicit.acknowledge("RELEASE", 10, 11, 12)
            explicit.acknowledge("REJECT", 13)
            explicit.acknowledge("RENEW", *range(14, 20))
            assert explicit.tell("commit") == []
            daemon.kill()
            daemon.start()
        with Consumer(daemon.bootstrap, "implicit") as implicit:
            again = implicit.poll(9)
            assert again.keys() == {10, 11, 12, *range(14, 20)}, "and nothing that was accepted or rejected"
            assert [again[offset] for offset in (10, 11, 12)] == [2, 2, 2]
            # Not acknowledged yet: that comes with the next poll, and this member goes without.
        with Consumer(daemon.bootstrap, "implicit") as other:
            late = other.poll(9)
            assert late.keys() == again.keys(), "when its time was over, or its connection"
            assert late[10] == 3
            assert other.tell("commit") == []
            assert other.tell("poll 1500") == []
            other.tell("close")
        daemon.stop()
    state = tmp_path / "data" / "__share_group_state-0"
    text = dump(sorted(state.glob("*.log")), "--share-group-state-decoder")
    assert complaints(text, first_offsets(tmp_path / "data")) == []
    kinds = re.findall(r'key: \{"type":"?(\d)', text)
    assert {"0", "1"} <= set(kinds), f"snapshots and updates are decoded: {text[:500]}"
    assert f'"groupId":"{GROUP}"' in text
    assert '"deliveryState":2' in text
