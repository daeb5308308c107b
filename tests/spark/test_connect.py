"""Spark Connect: a session without context, RDDs or a JVM of its own does all that users are told to do with a session."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

from support.connect_session import KEYS, RECORDS

PROGRAM = Path(__file__).resolve().parents[1] / "support" / "connect_session.py"


def test_a_session_of_spark_connect_reads_writes_streams_and_runs_jobs(tmp_path: Path) -> None:
    assert importlib.util.find_spec("grpc_status"), "PySpark's extra `connect` is missing: make .venv/.spark"
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    environment["PYTHONPATH"] = str(PROGRAM.parents[1])
    done = subprocess.run(
        [sys.executable, PROGRAM, tmp_path], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout.splitlines()[-1])
    values = list(range(RECORDS))
    assert found == {
        "session": "pyspark.sql.connect.session",
        "read": values,
        "counted": RECORDS,
        "filtered": RECORDS,
        "streamed": values,
        "latest": [KEYS, KEYS],
        "archived": [RECORDS, RECORDS],
        "replayed": RECORDS,
        "profiled": RECORDS,
        "written": KEYS,
        "audited": {"lost": 1, "examples": {"lost": ["t-0 at 1"]}, "before": 3},
        "files": {"counted": 6, "read": list(range(9)), "streamed": 9},
    }
