"""How an archive's bucket is reached, what its executors write and read, and manifests as objects: without Spark."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="of the extra `pipeline`; `make spark` runs it")

import pyarrow as pa
import pyarrow.parquet as pq
from tidelog.backup.store import StoreOptions, Unavailable, open_store
from tidelog.backup.store.memory import MemoryStore
from tidelog.pipeline.jobs.buckets import Bucket, StoredFile, bucket_of, read_parts, s3_options, write_parts
from tidelog.pipeline.jobs.manifest import (
    ArchiveError,
    ArchiveFile,
    add_manifest,
    read_archive_log,
    remove_left_objects,
    told,
)

KEPT = [ArchiveFile("data/00000001-a/date=2024-01-01/x.parquet", 5, 100)]


class NoSettings:
    """A session whose settings say nothing of S3."""

    def __init__(self) -> None:
        self.conf = self

    def get(self, _name: str, default: str | None) -> str | None:
        return default


@pytest.mark.parametrize(
    ("folder", "url"),
    [
        ("s3a://b/lake/t/", "s3://b/lake/t"),
        ("s3://b", "s3://b"),
        ("gs://b/t", "gs://b/t"),
        ("az://container/t", "az://container/t"),
    ],
)
def test_a_bucket_is_one_place_however_it_is_written(folder: str, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/nonexistent")
    found = bucket_of(folder, NoSettings())
    assert found is not None
    assert found.url == url


@pytest.mark.parametrize("folder", ["/archive", "archive", "hdfs://namenode/archive", "file:///archive"])
def test_what_is_no_bucket_is_left_to_the_folders(folder: str) -> None:
    assert bucket_of(folder, NoSettings()) is None


def test_the_sessions_settings_beat_the_environment_and_keys_are_not_mixed() -> None:
    outside = {
        "AWS_ACCESS_KEY_ID": "theirs",
        "AWS_SECRET_ACCESS_KEY": "s",
        "AWS_SESSION_TOKEN": "t",
        "AWS_REGION": "eu-west-1",
    }
    settings = {
        "access.key": "ours",
        "secret.key": "secret",
        "endpoint": "store:9000",
        "connection.ssl.enabled": "false",
    }
    assert s3_options({}.get, outside) == StoreOptions(
        region="eu-west-1", access_key_id="theirs", secret_access_key="s", session_token="t"
    )
    assert s3_options(settings.get, outside) == StoreOptions(
        endpoint="http://store:9000",
        region="eu-west-1",
        access_key_id="ours",
        secret_access_key="secret",
        allow_http=True,
    )
    settings |= {"connection.ssl.enabled": "true", "path.style.access": "false"}
    found = s3_options(settings.get, {"HOME": "/nonexistent"})
    assert (found.endpoint, found.allow_http, found.path_style) == ("https://store:9000", False, False)
    assert "secret" not in repr(Bucket("s3://b", found))


def batch(*dates: str | None) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(range(len(dates)), pa.int64()), "date": pa.array(dates, pa.string())})


def test_each_date_is_one_object_whatever_batches_its_rows_come_in() -> None:
    bucket = Bucket("memory:parts", StoreOptions())
    batches = [batch(None, "2024-01-01"), batch(), batch("2024-01-01", "2024-01-01"), batch("2024-01-02")]
    found = [row for piece in write_parts(bucket, "data/1-x", iter(batches)) for row in piece.to_pylist()]
    assert [(row["path"].split("/")[2], row["rows"], row["error"]) for row in found] == [
        ("date=__HIVE_DEFAULT_PARTITION__", 1, None), ("date=2024-01-01", 3, None), ("date=2024-01-02", 1, None),
    ]  # fmt: skip
    store = bucket.open()
    assert {(stored.key, stored.size) for stored in store.list("")} == {(row["path"], row["bytes"]) for row in found}
    listed = pa.RecordBatch.from_pylist([{"path": row["path"], "bytes": row["bytes"]} for row in found])
    rows = [row["n"] for piece in read_parts(bucket, iter([listed])) for row in piece.to_pylist()]
    assert rows == [0, 1, 0, 1, 0]
    assert list(write_parts(bucket, "data/1-y", iter([]))) == []


class Failing(MemoryStore):
    """Takes one object, and then no more."""

    def upload(self, key: str, size: int, blocks: Any) -> None:
        if list(self.list("")):
            raise Unavailable("upload", self.name, key, "503", "try later")
        super().upload(key, size, blocks)


def test_what_the_store_says_to_an_executor_comes_back_as_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Failing("memory:failing")
    monkeypatch.setattr(Bucket, "open", lambda _self: store)
    pieces = write_parts(
        Bucket("memory:failing", StoreOptions()), "data/1-x", iter([batch("2024-01-01", "2024-01-02")])
    )
    errors = [row["error"] for piece in pieces for row in piece.to_pylist()]
    assert errors[0] is None
    assert errors[1].startswith("upload memory:failing/data/1-x/date=2024-01-02/part-")
    assert errors[1].endswith(".parquet: 503; try later")


def test_an_object_that_is_gone_is_told_with_the_archives_name() -> None:
    listed = pa.RecordBatch.from_pylist([{"path": "data/1-x/gone.parquet", "bytes": 100}])
    bucket = Bucket("memory:gone", StoreOptions())
    with pytest.raises(ArchiveError, match=r"^the archive memory:gone: read memory:gone/data/1-x/gone\.parquet: "):
        list(read_parts(bucket, iter([listed])))


def test_an_object_is_read_at_random_as_a_file() -> None:
    store = MemoryStore()
    store.create("a", b"0123456789")
    file = StoredFile(store, "a", 10)
    assert (file.read(3), file.tell(), file.read(), file.read(1)) == (b"012", 3, b"3456789", b"")
    file.seek(-2, 2)
    assert file.read(5) == b"89"
    file.seek(1)
    file.seek(1, 1)
    assert file.read(1) == b"2"


def test_manifests_in_a_bucket_add_up_and_of_two_runs_one_wins() -> None:
    store = MemoryStore()
    assert read_archive_log("s3://b/t", store) is None
    add_manifest("s3://b/t", 1, "t", "an-id", {0: 5}, KEPT, store)
    # The same once more: an answer that was lost, and the request sent again.
    add_manifest("s3://b/t", 1, "t", "an-id", {0: 5}, KEPT, store)
    with pytest.raises(ArchiveError, match="s3://b/t: another run has archived meanwhile; this one has added nothing"):
        add_manifest("s3://b/t", 1, "t", "an-id", {0: 6}, [], store)
    add_manifest("s3://b/t", 2, "t", "an-id", {0: 7}, [], store)
    found = read_archive_log("s3://b/t", store)
    assert found is not None
    assert (found.version, found.ends, found.files) == (2, {0: 7}, tuple(KEPT))
    store.delete(["_manifest/00000001.json"])
    with pytest.raises(ArchiveError, match=r"s3://b/t/_manifest: 00000001\.json is missing"):
        read_archive_log("s3://b/t", store)
    store.create("_manifest/00000001.json", b"{")
    with pytest.raises(ArchiveError, match=r"s3://b/t/_manifest/00000001\.json: is no manifest"):
        read_archive_log("s3://b/t", store)


def test_what_runs_and_attempts_have_left_in_a_bucket_is_swept_and_nothing_of_the_next_run() -> None:
    store = MemoryStore()
    add_manifest("s3://b/t", 1, "t", None, {0: 5}, KEPT, store)
    found = read_archive_log("s3://b/t", store)
    assert found is not None
    stays = [KEPT[0].path, "data/00000002-now/date=2024-01-01/x.parquet", "data/notes/x"]
    for key in (*stays, "data/00000001-a/date=2024-01-01/lost.parquet", "data/00000001-dead/date=2024-01-01/x.parquet"):
        store.create(key, b"")
    assert remove_left_objects(store, found) == 2
    assert [stored.key for stored in store.list("data/")] == sorted(stays)


def test_a_store_that_refuses_is_told_with_the_archives_name() -> None:
    with pytest.raises(ArchiveError, match=r"^the archive s3a://b/t: list s3://b/t/_manifest: 503$"), told("s3a://b/t"):
        raise Unavailable("list", "s3://b/t", "_manifest", "503")


def test_times_keep_their_microseconds() -> None:
    when = datetime.datetime(2024, 1, 1, 2, 3, 4, 567_891, datetime.UTC)
    bucket = Bucket("memory:times", StoreOptions())
    rows = pa.record_batch({"t": pa.array([when], pa.timestamp("us", tz="UTC")), "date": pa.array(["2024-01-01"])})
    path = next(write_parts(bucket, "data/1-x", iter([rows]))).to_pylist()[0]["path"]
    assert pq.read_table(pa.BufferReader(bucket.open().read(path)))["t"].to_pylist() == [when]
    assert open_store("memory:times").read(path)[:4] == b"PAR1"
