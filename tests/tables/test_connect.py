"""`upsert` over Spark Connect: a session without context, RDDs or a JVM of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "tests" / "support" / "connect_upsert.py"
JARS = ROOT / ".cache" / "spark" / "tables"


def test_a_session_of_spark_connect_merges_into_a_table(tmp_path: Path) -> None:
    (jar,) = JARS.glob("iceberg-*.jar")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    done = subprocess.run(
        [sys.executable, PROGRAM, tmp_path, jar], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "session": "pyspark.sql.connect.session",
        "first": [["a", '{"id": 1}'], ["b", '{"id": 2}']],
        "second": [["a", '{"id": 3}']],
        "offsets": [2, 0],
        "id": 3,
    }
