"""`preallocate=true` on the machine's own file system: what segments hold there is what was written, but for the active one."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.clients.kafka_python import producer
from support.daemon import Daemon
from support.patience import PATIENCE_S, until
from tidelog.storage.io.filesystem import RealFileSystem

SEGMENT_BYTES = 8 << 20
ROOM = 64 << 10
"""More than any of the segments here needs, with all that a file system may add."""


def blocks(directory: Path) -> list[int]:
    """Bytes on disk of the partition's log files, oldest first."""
    return [path.stat().st_blocks * 512 for path in sorted(directory.glob("*.log"))]


def needs_reservation(directory: Path) -> None:
    file = RealFileSystem().open(directory / "probe", create=True)
    file.preallocate(SEGMENT_BYTES)
    file.close()
    if (directory / "probe").stat().st_blocks * 512 < SEGMENT_BYTES:
        pytest.skip("the file system of temporary files reserves nothing")


def test_rolled_segments_and_a_stopped_broker_hold_what_was_written(tmp_path: Path) -> None:
    needs_reservation(tmp_path)
    settings = {"log.preallocate": "true", "log.segment.bytes": str(SEGMENT_BYTES), "log.roll.ms": 1000}
    directory = tmp_path / "data" / "t-0"

    def write(*seconds: float) -> None:
        client = producer(daemon.bootstrap)
        for second in seconds:
            client.send("t", value=b"v" * 800, timestamp_ms=1_700_000_000_000 + int(second * 1000), partition=0).get(
                PATIENCE_S
            )
        client.close()

    with Daemon(tmp_path / "data", settings) as daemon:
        write(0, 2, 4, 6)  # each record is older than the roll allows beside the one before
        until(lambda: len(blocks(directory)) == 4 and max(blocks(directory)[:-1]) < ROOM, "they shrink")
        assert blocks(directory)[-1] >= SEGMENT_BYTES
        daemon.kill()
        assert blocks(directory)[-1] >= SEGMENT_BYTES
        daemon.start()
        assert max(blocks(directory)) < ROOM  # after a kill, before anything was written
        write(6.5)
        assert blocks(directory)[-1] >= SEGMENT_BYTES
        daemon.stop()
        assert len(blocks(directory)) == 4
        assert max(blocks(directory)) < ROOM
        assert sum(path.stat().st_size for path in directory.glob("*.log")) > 5 * 800
