"""The way back of docs/how-to/upgrade.md, where an older version meets a directory that a newer one has changed."""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

from support.clients.kafka_python import consumer, producer, take
from support.daemon import Daemon
from support.patience import PATIENCE_S


def digests(directory: Path) -> dict[str, str]:
    """SHA-256 by path, of all but the lock, which every start opens."""
    files = (path for path in directory.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def produce(daemon: Daemon, values: list[bytes]) -> None:
    p = producer(daemon.bootstrap)
    for sent in [p.send("t", value, partition=0) for value in values]:
        sent.get(PATIENCE_S)
    p.close()


def test_a_newer_schema_is_refused_untouched_and_the_copy_starts(tmp_path: Path) -> None:
    data, copy = tmp_path / "data", tmp_path / "copy"
    before = [b"%d" % number for number in range(50)]
    with Daemon(data) as old:
        produce(old, before)
    shutil.copytree(data, copy)
    with Daemon(data) as newer:
        produce(newer, [b"since"])
    database = sqlite3.connect(data / "metadata.db")
    (version,) = database.execute("PRAGMA user_version").fetchone()
    database.execute(f"PRAGMA user_version = {version + 1}")
    database.close()
    found = digests(data)

    settings = (f"log.dirs={data}", "listeners=PLAINTEXT://127.0.0.1:0", "http.listener=127.0.0.1:0")
    refused = subprocess.run(
        [sys.executable, "-m", "tidelog.broker", "serve", *(word for text in settings for word in ("--set", text))],
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert refused.returncode == 1
    told = [line for line in refused.stderr.splitlines() if line.startswith("tidelog: ")]
    assert told[0].startswith(f"tidelog: {data / 'metadata.db'}: was written by a newer tidelog (schema {version + 1})")
    assert "Traceback" not in refused.stderr
    assert digests(data) == found

    shutil.rmtree(data)
    shutil.copytree(copy, data)
    with Daemon(data) as old:
        reader = consumer(old.bootstrap, "t", group_id=None)
        assert [record.value for record in take(reader, len(before))] == before
        reader.close()
