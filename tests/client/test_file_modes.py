"""What the daemon leaves on a disk, by its modes: nothing for others, credentials for nobody but itself."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from support.daemon import Daemon
from support.wire_client import WireClient
from tidelog.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse

#: SQLite's, with credentials in it.
PRIVATE = ("metadata.db", "metadata.db-wal", "metadata.db-shm")


def modes(directory: Path) -> dict[str, int]:
    return {str(path.relative_to(directory)): stat.S_IMODE(path.lstat().st_mode) for path in directory.rglob("*")}


def test_nothing_in_a_data_directory_is_open_to_others(tmp_path: Path) -> None:
    """While it runs and after it stopped, under a umask that would allow everything."""
    before = os.umask(0)
    try:
        with Daemon(tmp_path / "unused", {"log.dirs": str(tmp_path / "data")}) as daemon:
            with WireClient(daemon.address) as client:
                topics = [CreatableTopic(name="t", num_partitions=1, replication_factor=1)]
                client.ask(CreateTopicsRequest(topics=topics), 7, CreateTopicsResponse)
            found = modes(tmp_path / "data")
        found |= modes(tmp_path / "data")
    finally:
        os.umask(before)
    assert {"metadata.db", "t-0", "t-0/00000000000000000000.log", ".lock", "meta.properties"} <= set(found)
    assert [name for name, mode in found.items() if mode & 0o007] == []
    assert [name for name, mode in found.items() if mode & 0o020] == [], "its group reads and does not write"
    assert {found[name] for name in PRIVATE if name in found} == {0o600}
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o750
