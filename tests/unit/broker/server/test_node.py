"""The order in which a daemon starts: what is there when the next part begins."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.certificates import authority_in, write_identity
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


async def test_the_cleaner_follows_the_last_of_two_changes_whichever_thread_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = node_on(tmp_path)
    try:
        await node.start()
        services = node.services
        tasks: list[Callable[[], object]] = []

        def later(_pool: object, task: Callable[..., object], *arguments: object) -> None:
            tasks.append(partial(task, *arguments))

        with monkeypatch.context() as patch:
            patch.setattr(services.loop, "run_in_executor", later)
            for backoff_ms in (7000, 8000):
                services.settings.config = replace(services.settings.config, log_cleaner_backoff_ms=backoff_ms)
                for follow in services.settings.on_changed:
                    follow(services.settings.config)
        assert len(tasks) == 2
        for task in reversed(tasks):
            await asyncio.to_thread(task)
        assert services.cleaner.pool.settings.backoff_ms == 8000
    finally:
        await node.stop()


async def test_a_certificate_of_https_that_was_set_while_running_holds_after_a_restart(tmp_path: Path) -> None:
    authority = authority_in(tmp_path)
    write_identity(authority, tmp_path / "other.pem", "localhost")
    setting, changed = "listener.name.http.ssl.keystore.location", str(tmp_path / "other.pem")
    secured = load_config(
        None,
        {},
        [
            "listeners=PLAINTEXT://127.0.0.1:0",
            "http.listener=https://127.0.0.1:0",
            f"log.dirs={tmp_path / 'data'}",
            f"{setting}={tmp_path / 'server.pem'}",
        ],
    )
    node = Node(secured, asyncio.get_running_loop())
    try:
        await node.start()
        await node.services.settings.alter("", lambda settings: {**settings, setting: changed})
    finally:
        await node.stop()
    node = Node(secured, asyncio.get_running_loop())
    try:
        await node.start()
        assert node.services.config.of_listener("http", "ssl.keystore.location") == changed
        assert node.http is not None
        https = node.http.https
        assert https is not None
        https.renew()
        assert not https.tls.is_changed(node.services.config)
    finally:
        await node.stop()
