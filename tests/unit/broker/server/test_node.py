"""The order in which a daemon starts: what is there when the next part begins."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tidelog.broker.server.node import Node
from tidelog.config.loader import load_config
from tidelog.storage.io.checkpoint import CLEANER_OFFSET_CHECKPOINT, OffsetCheckpointFile
from tidelog.storage.io.filesystem import RealFileSystem


def node_on(directory: Path, **more: Any) -> Node:
    settings = ["listeners=PLAINTEXT://127.0.0.1:0", "http.listener=", f"log.dirs={directory}"]
    return Node(load_config(None, {}, settings), asyncio.get_running_loop(), **more)


async def test_the_cleaner_has_read_its_checkpoints_before_anybody_is_served(tmp_path: Path) -> None:
    """The first request may move a log, and its checkpoint with it, or delete a topic whose name is used again."""
    node = node_on(tmp_path)
    try:
        await node.start()
        await node.services.topics.create("t", 1, {"cleanup.policy": "compact"})
    finally:
        await node.stop()
    OffsetCheckpointFile(RealFileSystem(), tmp_path / CLEANER_OFFSET_CHECKPOINT).write({("t", 0): 0})
    known: list[int | None] = []

    def listening(dispatcher: Any) -> Any:
        log = node.services.logs.get("t", 0)
        assert log is not None
        known.append(node.services.cleaner.manager.facts(log).checkpoint)
        return dispatcher

    node = node_on(tmp_path, around=listening)
    try:
        await node.start()
    finally:
        await node.stop()
    assert known == [0]
