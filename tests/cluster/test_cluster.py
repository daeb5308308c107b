"""A standalone cluster whose executors have nothing but an archive: everyday work, and what clusters do to it."""

from __future__ import annotations

import json
import os
import sys
import zipfile
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from support.cluster_driver import KEYS, RECORDS
from support.committed import committed_values, create_topic
from support.daemon import Daemon
from support.object_stores import Versitygw
from support.segment_dirs import write_checkpoint, write_log
from support.spark_cluster import SparkCluster, bare_environment, run_driver
from tidelog.pipeline.session import jar
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.record_batch import Record

TESTS = Path(__file__).resolve().parents[1]
EVERY_VALUE = list(range(RECORDS))
#: Of the application whose tasks are tried twice.
SPECULATION = {
    "spark.speculation": "true", "spark.speculation.interval": "100ms", "spark.speculation.multiplier": "1.2",
    "spark.speculation.quantile": "0.5",
}  # fmt: skip
DYNAMIC_ALLOCATION = {
    "spark.dynamicAllocation.enabled": "true", "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "0", "spark.dynamicAllocation.maxExecutors": "2",
}  # fmt: skip


def drive(cluster: SparkCluster, program: str, job: dict[str, Any], folder: Path) -> Any:
    """Run of a driver's program in `folder`; its session of processes is gone afterwards."""
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    environment = {**bare_environment(), "PYTHONPATH": path, "PYSPARK_PYTHON": "./environment/bin/python"}
    return run_driver(
        Path(sys.executable), [str(TESTS / "support" / program), json.dumps({**job, "master": cluster.master})], folder,
        environment,
    )  # fmt: skip


@pytest.mark.timeout(0)  # `run_driver` ends what hangs
def test_executors_with_nothing_but_an_archive_do_all_and_lose_nothing_when_they_are_killed_or_tried_twice(
    cluster: SparkCluster, archive: Path, folder: Path, tmp_path: Path
) -> None:
    with Daemon(tmp_path / "data") as daemon, Versitygw(tmp_path / "s3") as bucket:
        for topic in ("orders", "copies", "again", "killed", "twice"):
            create_topic(daemon.bootstrap, topic, 2)
        job = {
            "archive": str(archive), "bootstrap": daemon.bootstrap, "home": str(tmp_path / "home"),
            "bucket": f"{bucket.url}/orders", "store": asdict(bucket.options), "settings": SPECULATION,
        }  # fmt: skip
        done = drive(cluster, "cluster_driver.py", job, folder)
        assert done.returncode == 0, f"{done.stderr[-4000:]}\n{cluster.logs()}"
        found = json.loads(done.stdout.splitlines()[-1])
        files = found.pop("where")
        assert files
        assert all(file.startswith(f"{cluster.directory}/") and "/environment/" in file for file in files), files
        assert found == {
            "everyday": {
                "read": EVERY_VALUE,
                "latest": KEYS,
                "archived": [RECORDS, RECORDS],
                "stored": [RECORDS, RECORDS],
                "replayed": RECORDS,
                "profiled": RECORDS,
            },
            "killed": True,
            "twice": True,
        }
        for topic in ("orders", "copies", "again", "killed", "twice"):
            # To the end, though a transaction's time-out is 15 minutes: those of lost attempts are aborted.
            assert sorted(map(int, committed_values(daemon.bootstrap, topic))) == EVERY_VALUE, topic


@pytest.mark.timeout(0)
def test_a_driver_that_is_killed_goes_on_from_its_checkpoint(
    cluster: SparkCluster, archive: Path, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "input").mkdir()
    expected = []
    for batch in range(3):
        lines = [f"{batch}-{number}" for number in range(100)]
        (tmp_path / "input" / f"{batch:04}.txt").write_text("\n".join(lines) + "\n")
        expected += lines
    # With the token written and the parts not yet ended; a worker in the middle of its task.
    kills = [
        {"who": "driver", "batch": 0, "request": 10, "when": "before", "stamp": str(tmp_path / "driver killed")},
        {"who": "worker", "batch": 1, "request": 9, "when": "after", "stamp": str(tmp_path / "worker killed")},
    ]
    with Daemon(tmp_path / "data") as daemon:
        create_topic(daemon.bootstrap, "rows", 2)
        job = {
            "bootstrap": daemon.bootstrap, "topic": "rows", "input": str(tmp_path / "input"),
            "home": str(tmp_path / "spark"), "checkpoint": str(tmp_path / "checkpoint"), "kills": kills,
            "settings": {"spark.archives": f"{archive}#environment", "spark.executor.memory": "512m",
                         "spark.driver.memory": "768m", "spark.driver.host": "127.0.0.1", **DYNAMIC_ALLOCATION},
        }  # fmt: skip
        first = drive(cluster, "sink_query.py", job, folder)
        assert first.returncode, "the driver was not killed"
        second = drive(cluster, "sink_query.py", job, folder)
        assert second.returncode == 0, f"{second.stderr[-4000:]}\n{cluster.logs()}"
        values = committed_values(daemon.bootstrap, "rows")
    assert all(Path(str(kill["stamp"])).exists() for kill in kills)
    assert Counter(values) == Counter(expected)


@pytest.mark.timeout(0)
def test_executors_without_the_jar_or_with_another_are_told(cluster: SparkCluster, tmp_path: Path) -> None:
    """Which spark.jars takes care of; a class path does not."""
    write_log(tmp_path / "logs/t-0", [[build_batch([Record(0, 1, b"k", b"v")] * 5, base_offset=0)]])
    write_checkpoint(tmp_path / "logs/replication-offset-checkpoint", {("t", 0): 5})
    other = tmp_path / "other.jar"
    with zipfile.ZipFile(jar()) as ours, zipfile.ZipFile(other, "w") as copy:
        for name in ours.namelist():
            copy.writestr(name, b"0.0.9+of-long-ago" if name == "tidelog/spark/version" else ours.read(name))
    job = {"home": str(tmp_path / "spark"), "path": str(tmp_path / "logs"), "jar": jar(), "other": str(other)}
    done = drive(cluster, "jar_driver.py", job, tmp_path)
    assert done.returncode == 0, f"{done.stderr[-4000:]}\n{cluster.logs()}"
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["same"] == 5
    assert (
        "tidelog-spark.jar is of another version on this executor (0.0.9+of-long-ago) than at the driver"
        in found["other"]
    )
    assert "ClassNotFoundException: tidelog.spark." in found["none"]
