"""docs/examples/airflow_dag.py, loaded and run by Airflow itself: over a topic of a real broker, by the jobs in Spark.

Airflow has an environment of its own (`make airflow`), as the example says: its packages need not agree with ours.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from support.patience import PATIENCE_S
from tidelog.pipeline.sink.options import parse_sink_options
from tidelog.pipeline.sink.task import write_rows
from tidelog.testing import Broker

ROOT = Path(__file__).resolve().parents[2]
AIRFLOW = ROOT / ".cache" / "airflow" / "bin" / "python"


@pytest.mark.timeout(1800)
def test_airflow_loads_the_example_and_runs_it(tmp_path: Path) -> None:
    import pyarrow as pa

    assert AIRFLOW.exists(), f"{AIRFLOW}: run `make airflow`"
    dags = tmp_path / "dags"
    dags.mkdir()
    shutil.copy(ROOT / "docs" / "examples" / "airflow_dag.py", dags)
    rows = pa.record_batch({"key": pa.array([b"a", b"b", b"a"]), "value": pa.array([b"1", b"2", b"3"])})
    with Broker() as broker:
        broker.create_topic("orders-of-today", 2)
        target = {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": "orders-of-today"}
        write_rows(parse_sink_options(target, streaming=False), [rows], None)
        params = {
            "tidelog": str(Path(sys.executable).with_name("tidelog")),
            "brokers": broker.bootstrap_servers,
            "topic": "orders-of-today",
            "archive": str(tmp_path / "an archive; of $(today)"),
            "table": str(tmp_path / "table"),
        }
        done = subprocess.run(
            [str(AIRFLOW), str(Path(__file__).with_name("run_dag.py")), "tidelog_orders", json.dumps(params)],
            env={
                **{name: text for name, text in os.environ.items() if name != "PYTHONPATH"},
                "AIRFLOW_HOME": str(tmp_path / "home"),
                "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
                "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
                "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
            },
            capture_output=True, text=True, check=False, cwd=tmp_path, timeout=8 * PATIENCE_S,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "errors": {},
        "dags": ["tidelog_orders"],
        "order": [["archive", ["latest"]], ["latest", []]],
        "state": "success",
    }, done.stdout[-4000:]
    assert sum(pq.read_metadata(file).num_rows for file in Path(params["archive"]).rglob("*.parquet")) == 3
    found = pq.read_table(params["table"], columns=["key", "value"]).to_pylist()
    assert sorted((row["key"], row["value"]) for row in found) == [(b"a", b"3"), (b"b", b"2")]
