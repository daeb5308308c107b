"""What a start imports. Each module costs time before the first answer and memory for ever (the budget: 0.3 s, 60 MiB)."""

from __future__ import annotations

import json
import subprocess
import sys

#: Needed by a scrape, by stored topics, by given settings, by a compressed batch or by HTTP: imported then.
LATER = {
    "pydantic", "pydantic_core", "prometheus_client", "sqlite3", "wsgiref", "http.server", "lz4", "zstandard", "snappy",
    "cramjam", "multiprocessing", "unittest", "tomllib", "email", "xml",
}  # fmt: skip
MOST_MODULES = 462
"""The packages of some 25 rooms among them, what systemd is told, and the parser of the command line with its own."""

PROGRAM = """
import json, sys
import tidelog.cli.main, tidelog.broker.server.node
from tidelog.broker.requests.registry import load_apis
from tidelog.config.loader import load_config
tidelog.cli.main.build_parser(["serve"])
load_config(None, {}, [])
load_apis()
print(json.dumps(sorted(sys.modules)))
"""


def test_a_start_imports_only_what_the_ready_line_needs() -> None:
    printed = subprocess.run([sys.executable, "-I", "-c", PROGRAM], capture_output=True, text=True, check=True).stdout
    modules = set(json.loads(printed))
    assert modules & LATER == set()
    assert len(modules) <= MOST_MODULES
