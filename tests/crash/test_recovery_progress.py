"""What a recovery under way shows to whoever watches, and how much a start reads after a stop, a kill and a full disk."""

from __future__ import annotations

import asyncio
import json
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from support.fake_filesystem import FakeFileSystem
from support.logs import World, append
from support.patience import PATIENCE_S
from tidelog.broker.server.node import Node
from tidelog.config.loader import load_config
from tidelog.storage.io.filesystem import RealFile, RealFileSystem, StrPath


class HeldFileSystem(RealFileSystem):
    """Keeps whoever opens the `held` log waiting until `go`."""

    __slots__ = ("go", "held", "reached")

    def __init__(self, held: str) -> None:
        self.held = held
        self.reached = threading.Event()
        self.go = threading.Event()

    def open(self, path: StrPath, **arguments: Any) -> RealFile:
        if self.held in str(path) and str(path).endswith(".log") and not self.go.is_set():
            self.reached.set()
            assert self.go.wait(PATIENCE_S)
        return super().open(path, **arguments)


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_http_answers_while_logs_are_recovered(tmp_path: Path) -> None:
    """503 and figures during recovery, 200 after it."""
    world = World(RealFileSystem(), directories=[str(tmp_path)])
    world.start()
    for topic in ("a", "b", "c"):
        append(world.log(topic), b"x" * 1000)
    sizes = [log.size for log in world.manager.logs()]
    world.stop()
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):  # as a crash leaves it
        (tmp_path / name).unlink()

    async def run() -> None:
        loop = asyncio.get_running_loop()
        config = load_config(
            None,
            {},
            [f"log.dirs={tmp_path}", "listeners=PLAINTEXT://127.0.0.1:0",
             "http.listener=127.0.0.1:0", "num.recovery.threads.per.data.dir=1"],
        )  # fmt: skip
        system = HeldFileSystem("b-0")
        node = Node(config, loop, file_system=system)
        starting = loop.create_task(node.start())
        try:
            assert await loop.run_in_executor(None, system.reached.wait, PATIENCE_S)
            assert node.http is not None
            url = node.http.url
            status, ready = await asyncio.to_thread(get, f"{url}/health/ready")
            assert status == 503
            progress = {"bytesDone": sizes[0], "bytesTotal": sizes[0] + sizes[1], "partitionsRemaining": 2}
            assert json.loads(ready) == {"status": "loading", "recovery": progress}
            assert (await asyncio.to_thread(get, f"{url}/health/live"))[0] == 200
            assert (await asyncio.to_thread(get, f"{url}/health"))[0] == 503
            status, metrics = await asyncio.to_thread(get, f"{url}/metrics")
            assert status == 200
            figures = dict(line.rsplit(" ", 1) for line in metrics.splitlines() if line.startswith("tidelog_re"))
            assert float(figures["tidelog_ready"]) == 0
            assert float(figures["tidelog_recovery_partitions_remaining"]) == 2
            assert float(figures["tidelog_recovery_checked_bytes"]) == sizes[0]
            assert float(figures["tidelog_recovery_expected_bytes"]) == sizes[0] + sizes[1]
            system.go.set()
            await starting
            assert (await asyncio.to_thread(get, f"{url}/health/ready"))[0] == 200
            _, metrics = await asyncio.to_thread(get, f"{url}/metrics")
            assert "tidelog_recovery_partitions_remaining 0.0" in metrics
            assert f"tidelog_recovery_checked_bytes {float(sum(sizes))}" in metrics
        finally:
            system.go.set()
            await asyncio.gather(starting, return_exceptions=True)
            await node.stop()

    asyncio.run(run())


# --- bounded work ---


def grown(flushed: bool) -> World:
    """Twenty closed segments of about 2 KB and an active one, all but the active one below the recovery point."""
    world = World()
    world.start(segment_bytes=2000, index_interval_bytes=500)
    for _ in range(123):
        append(world.log(), b"x" * 250)
    world.time.advance(0)
    if flushed:
        world.manager.checkpoint_recovery_points()
    return world


def log_bytes_read(system: FakeFileSystem) -> int:
    return sum(int(operation.detail) for operation in system.reads if operation.path.endswith(".log"))


def test_a_start_reads_at_most_the_segment_of_the_recovery_point() -> None:
    """After a clean stop nothing but headers at the very end; after a kill the segment of the recovery point and no more."""
    world = grown(flushed=True)
    log = world.log()
    active, total = log.segments[-1].size, log.size
    assert total > 20 * 1900
    world.kill()
    world.start()
    assert world.manager.recovery_stats.bytes_scanned == active
    after_kill = log_bytes_read(world.fake)
    assert after_kill <= active + 4096
    world.stop()
    world.file_system = world.fake.kill()
    world.start()
    assert world.manager.recovery_stats.bytes_scanned == 0
    assert log_bytes_read(world.fake) <= 4096


def test_without_a_recovery_point_everything_is_read_once() -> None:
    world = grown(flushed=False)
    total = world.log().size
    world.kill()
    world.start()
    assert world.manager.recovery_stats.bytes_scanned == total
    assert log_bytes_read(world.fake) <= total + 20 * 4096


@pytest.mark.parametrize("damage", [b"", b"garbage", b"0\n1\n0", b"0\n2\n0 0\n5 40\n", b"0\n1\n0 900\n"])
@pytest.mark.damaged("a leader epoch checkpoint is damaged; a clean start goes without")
def test_a_damaged_leader_epoch_checkpoint_costs_no_record(damage: bytes) -> None:
    """After a kill and after a clean stop; epochs never go back below what batches carry in what is read again."""
    for clean in (True, False):
        world = grown(flushed=True)
        end = world.log().log_end_offset
        if clean:
            world.stop()
        else:
            world.kill()
        world.fake.put("/data/t-0/leader-epoch-checkpoint", damage)
        world.start()
        log = world.log()
        assert (log.log_start_offset, log.log_end_offset) == (0, end)
        assert append(log, b"next") == end
        assert log.epoch_for_offset(end) == log.leader_epoch
        world.stop()
        world.start()
        assert world.log().log_end_offset == end + 1
