"""A start that fails, wherever it does, and the stop that follows: nothing of it is left."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tidelog.broker.server.node import Node
from tidelog.config.exceptions import ConfigError
from tidelog.config.loader import load_config
from tidelog.storage.exceptions import DataDirectoryError, StorageError
from tidelog.storage.io.checkpoint import CLEANER_OFFSET_CHECKPOINT

FAILURES = (DataDirectoryError, StorageError, ConfigError, OSError)


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that is in use."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield server.getsockname()[1]


def start(directory: Path, *settings: str) -> BaseException | None:
    """Start and stop a node with HTTP and passwords; the error of its start."""
    fixed = [
        "listeners=PLAINTEXT://127.0.0.1:0", "http.listener=127.0.0.1:0", f"log.dirs={directory}",
        "http.authentication=basic", "http.users.read=alice",
    ]  # fmt: skip

    async def run() -> BaseException | None:
        node = Node(load_config(None, {}, [*fixed, *settings]), asyncio.get_running_loop())
        try:
            await node.start()
        except FAILURES as error:
            return error
        finally:
            await node.stop()
        return None

    return asyncio.run(run())


def left(before: set[threading.Thread]) -> set[str]:
    return {thread.name for thread in set(threading.enumerate()) - before}


def damaged_metadata(directory: Path) -> None:
    (directory / "metadata.db").write_bytes(b"no database" * 1000)


def unreadable_checkpoint(directory: Path) -> None:
    (directory / CLEANER_OFFSET_CHECKPOINT).unlink()
    (directory / CLEANER_OFFSET_CHECKPOINT).mkdir()


@pytest.mark.parametrize(
    ("settings", "spoil"),
    [
        (["http.listener=127.0.0.1:{taken}"], None),
        (["listeners=PLAINTEXT://127.0.0.1:{taken}"], None),
        (["listeners=PLAINTEXT://127.0.0.1:0,EXTERNAL://127.0.0.1:{taken}",
          "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,EXTERNAL:SASL_PLAINTEXT"], None),
        (["message.set.listeners=tcp://127.0.0.1:{taken}"], None),
        (["listeners=SSL://127.0.0.1:0", "ssl.keystore.location={no_file}", "ssl.keystore.type=PEM"], None),
        (["http.listener=https://127.0.0.1:0", "ssl.keystore.location={no_file}", "ssl.keystore.type=PEM"], None),
        ([], damaged_metadata),
        ([], unreadable_checkpoint),
    ],
    ids=["HTTP's port", "a port", "the second port", "a message set's port", "a key", "HTTP's key", "metadata", "a checkpoint"],
)  # fmt: skip
def test_a_start_that_fails_leaves_nothing(
    tmp_path: Path, taken: int, settings: list[str], spoil: Callable[[Path], None] | None
) -> None:
    directory = tmp_path / "data"
    assert start(directory) is None
    if spoil is not None:
        spoil(directory)
    before = set(threading.enumerate())
    filled = [setting.format(taken=taken, no_file=tmp_path / "none.pem") for setting in settings]
    assert start(directory, *filled) is not None
    assert left(before) == set()
    if spoil is None:  # the directory's lock is free, and so are its files
        assert start(directory) is None
        assert left(before) == set()


async def test_a_second_daemon_on_a_directory_harms_the_first_in_nothing(tmp_path: Path) -> None:
    settings = ["listeners=PLAINTEXT://127.0.0.1:0", "http.listener=", f"log.dirs={tmp_path}"]
    first, second = (Node(load_config(None, {}, settings), asyncio.get_running_loop()) for _ in range(2))
    try:
        await first.start()
        with pytest.raises(DataDirectoryError, match="has this data directory open"):
            await second.start()
        await second.stop()
        await first.services.topics.create("t", 1, {})
        assert not (tmp_path / ".kafka_cleanshutdown").exists()
    finally:
        await first.stop()
    assert (tmp_path / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize("granted", range(7))
def test_a_start_and_a_stop_without_threads_leave_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, granted: int
) -> None:
    """A stop that could not start a thread ended there: HTTP's thread kept the process, which served nobody, and its locks."""
    before, start_thread = set(threading.enumerate()), threading.Thread.start
    started: list[threading.Thread] = []

    def start_few(thread: threading.Thread) -> None:
        if len(started) >= granted:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start_thread(thread)

    async def run() -> None:
        settings = ["listeners=PLAINTEXT://127.0.0.1:0", "http.listener=127.0.0.1:0", f"log.dirs={tmp_path}"]
        node = Node(load_config(None, {}, settings), asyncio.get_running_loop())
        try:
            await node.start()
        except RuntimeError:
            pass
        finally:
            await node.stop()

    loop = asyncio.new_event_loop()
    with monkeypatch.context() as few_threads:
        few_threads.setattr(threading.Thread, "start", start_few)
        loop.run_until_complete(run())
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
    assert left(before) == set()
