"""Archives in a bucket, as versitygw serves one: without a jar, exactly once, and told in a sentence where the store refuses."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PythonException
from support.archived import SETTINGS, produce, rows_of, source
from support.committed import committed
from support.object_stores import BUCKET, KEYS, Versitygw
from tidelog.backup.store import ObjectStore, StoreOptions, open_store
from tidelog.cli.main import main
from tidelog.cli.pipeline import spark_failure
from tidelog.pipeline.jobs import archive as archiving
from tidelog.pipeline.jobs.archive import archive, read_archive
from tidelog.pipeline.jobs.manifest import ArchiveError, read_archive_log
from tidelog.pipeline.jobs.replay import replay
from tidelog.testing import Broker


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(SETTINGS) as started:
        yield started


@pytest.fixture(scope="module")
def versitygw(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Versitygw]:
    with Versitygw(tmp_path_factory.mktemp("versitygw")) as server:
        yield server


def keys_of(store: ObjectStore, prefix: str = "") -> list[str]:
    return [stored.key for stored in store.list(prefix)]


def quick(options: StoreOptions) -> StoreOptions:
    return dataclasses.replace(options, retries=1, retry_timeout_s=5, connect_timeout_s=5, timeout_s=60)


def test_an_archive_in_a_bucket_has_each_offset_once_whatever_dies(
    spark: Any, broker: Broker, versitygw: Versitygw, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.create_topic("orders", 2)
    produce(broker, "orders", 0, 300)
    # As somebody has it whose session reads S3: the session's own settings say how the bucket is reached.
    folder, live = f"s3a://{BUCKET}/lake/orders", source(broker, "orders")
    store = open_store(f"s3://{BUCKET}/lake/orders", versitygw.options)
    settings = {"endpoint": versitygw.endpoint, "endpoint.region": "us-east-1"}
    settings |= {"access.key": KEYS["access_key_id"], "secret.key": KEYS["secret_access_key"]}
    for name, value in settings.items():
        spark.conf.set(f"spark.hadoop.fs.s3a.{name}", value)
    try:
        first = archive(spark, live, folder)
        assert (first["rows"], first["version"]) == (300, 1)
        assert archive(spark, live, folder)["rows"] == 0
        assert {key.split("/")[2] for key in keys_of(store, "data/")} == {
            "date=2024-10-04",
            "date=2024-10-05",
            "date=2024-10-06",
        }
        everything = rows_of(spark.read.format("tidelog").options(**live, includeHeaders="true").load())
        assert rows_of(read_archive(spark, folder)) == everything

        produce(broker, "orders", 300, 100)
        with monkeypatch.context() as dying:  # behind its objects, before its manifest
            dying.setattr(archiving, "add_manifest", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                archive(spark, live, folder)
        left = set(keys_of(store, "data/"))
        assert read_archive(spark, folder).count() == 300
        assert rows_of(read_archive(spark, folder, live)) == rows_of(
            spark.read.format("tidelog").options(**live, includeHeaders="true").load()
        )
        assert archive(spark, live, folder)["rows"] == 100
        archive(spark, live, folder)  # which sweeps what the run that died has left
        found = read_archive_log(folder, store)
        assert found is not None
        assert (found.version, found.rows) == (2, 400)
        assert {one.path for one in found.files} == set(keys_of(store, "data/"))
        assert left - set(keys_of(store, "data/"))
        assert not keys_of(store, "probe/")

        # The objects are Parquet that others read.
        kept = Path(versitygw.root / BUCKET / "lake/orders")
        assert sum(pq.read_metadata(kept / one.path).num_rows for one in found.files) == 400

        broker.create_topic("again", 2)
        target = {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": "again"}
        assert replay(spark, folder, target)["rows"] == 400
        assert replay(spark, folder.replace("s3a:", "s3:") + "/", target)["rows"] == 0
        assert len(list(committed(broker.bootstrap_servers, "again"))) == 400
    finally:
        for name in settings:
            spark.conf.unset(f"spark.hadoop.fs.s3a.{name}")


def test_of_two_runs_into_one_bucket_one_wins(
    spark: Any, broker: Broker, versitygw: Versitygw, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.create_topic("raced", 1)
    produce(broker, "raced", 0, 20)
    folder, live = f"s3://{BUCKET}/lake/raced", source(broker, "raced")
    adds = archiving.add_manifest

    def overtaken(*arguments: Any) -> None:
        monkeypatch.setattr(archiving, "add_manifest", adds)
        assert archive(spark, live, folder, store=versitygw.options)["rows"] == 20
        adds(*arguments)

    monkeypatch.setattr(archiving, "add_manifest", overtaken)
    with pytest.raises(ArchiveError, match="another run has archived meanwhile; this one has added nothing"):
        archive(spark, live, folder, store=versitygw.options)
    assert read_archive(spark, folder, store=versitygw.options).count() == 20


def test_a_bucket_that_refuses_is_told_in_one_sentence_and_has_nothing_of_the_run(
    spark: Any, broker: Broker, versitygw: Versitygw, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.create_topic("refused", 1)
    produce(broker, "refused", 0, 20)
    live, folder = source(broker, "refused"), f"s3://{BUCKET}/lake/refused"
    store = open_store(folder, versitygw.options)

    def fails(place: str, options: StoreOptions, said: str) -> None:
        with pytest.raises(ArchiveError, match=said) as caught:
            archive(spark, live, place, store=quick(options))
        assert str(caught.value).startswith(f"the archive {place}: ")
        assert "\n" not in str(caught.value)
        assert KEYS["secret_access_key"] not in str(caught.value)
        assert keys_of(store) == []

    fails(f"s3://{BUCKET}-no/lake", versitygw.options, "the bucket is not there: make it, or correct the URL")
    wrong = dataclasses.replace(versitygw.options, secret_access_key="not-the-secret-1234")
    fails(folder, wrong, "look at the credentials, the region and the rights on this bucket and prefix")
    versitygw.kill()
    with monkeypatch.context() as lending:
        lending.setenv("VGW_READ_ONLY", "true")
        versitygw.start()
    fails(
        folder, versitygw.options, "403.*look at the credentials, the region and the rights on this bucket and prefix"
    )
    versitygw.kill()
    versitygw.start()
    # And one that goes away while the executors write.
    arranged = archiving.arranged

    def gone(*arguments: Any) -> Any:
        versitygw.kill()
        return arranged(*arguments)

    monkeypatch.setattr(archiving, "arranged", gone)
    with pytest.raises(ArchiveError, match=r"nothing was added to it") as caught:
        archive(spark, live, folder, store=quick(versitygw.options))
    assert str(caught.value).startswith(f"the archive {folder}: ")
    assert "\n" not in str(caught.value)
    fails_at_start = quick(versitygw.options)
    with pytest.raises(ArchiveError, match=rf"the archive {folder}: list "):
        archive(spark, live, folder, store=fails_at_start)
    versitygw.start()
    assert keys_of(store) == []
    monkeypatch.undo()
    assert archive(spark, live, folder, store=versitygw.options)["rows"] == 20

    # What executors can't read is one sentence among Spark's lines.
    store.delete(keys_of(store, "data/")[:1])
    with pytest.raises(PythonException) as lost:
        read_archive(spark, folder, store=versitygw.options).collect()
    assert spark_failure(str(lost.value)).startswith(f"the archive {folder}: read {folder}/data/00000001-")


def test_the_command_takes_credentials_from_the_environment_and_prints_none(
    spark: Any, broker: Broker, versitygw: Versitygw, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    broker.create_topic("told", 1)
    produce(broker, "told", 0, 20)
    monkeypatch.setattr(import_module("tidelog.pipeline.session"), "session", lambda *_, **__: spark)
    monkeypatch.setattr(spark, "stop", lambda: None)
    found = {
        "AWS_ENDPOINT_URL": versitygw.endpoint,
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": KEYS["access_key_id"],
    }
    for name, value in found.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret := KEYS["secret_access_key"])
    where = ["--topic", "told", "--bootstrap-server", broker.bootstrap_servers]
    command = ["pipeline", "archive", *where, "--to", f"s3://{BUCKET}/lake/told", "--json"]
    assert main(command) == 0
    told = capfd.readouterr()
    assert json.loads(told.out)["rows"] == 20
    assert secret not in told.out + told.err
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", wrong := "not-the-secret-1234")
    assert main(command) == 1
    told = capfd.readouterr()
    assert told.err.splitlines()[-1].startswith(f"tidelog: the archive s3://{BUCKET}/lake/told: ")
    assert "look at the credentials, the region and the rights" in told.err
    assert wrong not in told.out + told.err
    assert told.out == ""


def test_an_archive_is_the_same_whatever_zone_its_session_has(spark: Any, broker: Broker, versitygw: Versitygw) -> None:
    broker.create_topic("zones", 1)
    produce(broker, "zones", 0, 30)  # at midnight of UTC, which is in New York the day before
    folder, live = f"s3://{BUCKET}/lake/zones", source(broker, "zones")
    everything = rows_of(spark.read.format("tidelog").options(**live, includeHeaders="true").load())
    store = open_store(folder, versitygw.options)
    try:
        spark.conf.set("spark.sql.session.timeZone", "America/New_York")
        archive(spark, live, folder, store=versitygw.options)
        spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
        assert rows_of(read_archive(spark, folder, store=versitygw.options)) == everything
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    keys = keys_of(store, "data/")
    assert {key.split("/")[2] for key in keys} == {"date=2024-10-04", "date=2024-10-05", "date=2024-10-06"}
    kinds = {pq.read_schema(versitygw.root / BUCKET / "lake/zones" / key).field("timestamp").type for key in keys}
    assert kinds == {pa.timestamp("us", tz="UTC")}
