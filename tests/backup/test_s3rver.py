"""npm's s3rver ignores If-None-Match and answers as if all were well: such a store is found out, and no backup is made to it."""

from __future__ import annotations

import shutil
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.daemon import Daemon
from support.object_stores import BUCKET, S3RVER, S3RVER_KEYS, S3rver
from support.patience import PATIENCE_S, until
from tidelog.backup.store import StoreError, open_store, probe

pytestmark = pytest.mark.skipif(
    not S3RVER.exists() or shutil.which("node") is None, reason="s3rver is not installed (`make backup`, with Node)"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3rver]:
    with S3rver(tmp_path_factory.mktemp("s3rver")) as made:
        yield made


def test_it_overwrites_and_is_refused_with_nothing_left_of_the_try(server: S3rver) -> None:
    store = open_store(server.url, server.options)
    store.create("twice", b"1")
    store.create("twice", b"2")
    assert store.read("twice") == b"2", "it keeps what is there: the table of stores says that it does not"
    store.delete(["twice"])
    with pytest.raises(StoreError) as caught:
        probe(store)
    assert str(caught.value) == (
        f"probe {server.url}: this store ignores If-None-Match and overwrites: two daemons could write one backup and not find "
        "out; use a store with conditional writes (If-None-Match), or a directory (file://)"
    )
    assert list(store.list("")) == []


def test_a_daemon_serves_and_says_that_it_makes_no_backup_there(server: S3rver, tmp_path: Path) -> None:
    settings = {
        "backup.url": f"s3://{BUCKET}/daemon",
        "backup.endpoint": server.endpoint,
        "backup.region": "us-east-1",
        "backup.access.key.id": S3RVER_KEYS["access_key_id"],
        "backup.secret.access.key": S3RVER_KEYS["secret_access_key"],
        "backup.interval.ms": 200,
    }
    with Daemon(tmp_path / "data", settings) as daemon:

        def health() -> str:
            try:
                with urllib.request.urlopen(f"http://{daemon.http}/health", timeout=PATIENCE_S) as answer:
                    return str(answer.read().decode())
            except urllib.error.HTTPError as error:
                return error.read().decode()

        until(lambda: "ignores If-None-Match" in health(), "the daemon has tried the store")
        assert "backup_behind" in health()
    assert list(open_store(f"s3://{BUCKET}/daemon", server.options).list("")) == []
    assert "backup waits, and the daemon serves: probe " in (tmp_path / "data.stderr").read_text()
