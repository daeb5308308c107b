"""What a task says in a Python without tidelog: what Spark ships to it is opened in another process that is kept from it."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from pyspark import cloudpickle
from tidelog.pipeline.options import parse_options
from tidelog.pipeline.sink.options import parse_sink_options
from tidelog.pipeline.sink.writers import BatchWriter, StreamWriter
from tidelog.pipeline.source import SCHEMA, BatchReader, sized_for, stream_reader

READING = {"path": "/nowhere", "subscribe": "t"}
WRITING = {"kafka.bootstrap.servers": "localhost:9092", "topic": "t"}
MADE = {
    "batch": lambda: BatchReader(parse_options(READING), SCHEMA),
    "source": lambda: sized_for(4)(dict(READING)),
    "stream": lambda: stream_reader(parse_options(READING), SCHEMA),
    "batch sink": lambda: BatchWriter(parse_sink_options(WRITING, streaming=False), SCHEMA, overwrite=False),
    "stream sink": lambda: StreamWriter(parse_sink_options(WRITING, streaming=True), SCHEMA),
}
#: What follows is given the name of a package that this process is not to have.
OPENING = """
import sys

class Kept:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == sys.argv[1]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Kept())
from pyspark import cloudpickle
cloudpickle.loads(sys.stdin.buffer.read())
"""


def opened_without(package: str, shipped: bytes) -> str:
    """The last line of what a Python says that opens it, or nothing."""
    command = [sys.executable, "-c", OPENING, package]
    done = subprocess.run(command, input=shipped, capture_output=True, check=False)
    lines = done.stderr.decode().strip().splitlines()
    return lines[-1] if done.returncode else ""


@pytest.mark.parametrize("what", MADE)
def test_a_task_without_tidelog_says_what_to_do(what: str) -> None:
    shipped = cloudpickle.dumps(MADE[what]())
    said = opened_without("tidelog", shipped)
    assert said.startswith("ModuleNotFoundError: tidelog is not installed in the Python of this executor (")
    assert "--archives environment.tar.gz#environment" in said
    assert "--py-files is not enough" in said
    assert opened_without("a_package_that_nobody_needs", shipped) == "", "and with it it is opened"


def test_what_tidelog_itself_lacks_is_named() -> None:
    lacking = opened_without("pyarrow", cloudpickle.dumps(MADE["batch"]()))
    assert lacking.startswith(
        "ModuleNotFoundError: pyarrow, which tidelog needs, is missing in the Python of this executor ("
    )


def test_what_is_opened_is_what_was_sent() -> None:
    reader: Any = BatchReader(parse_options(READING), SCHEMA)
    again = cloudpickle.loads(cloudpickle.dumps(reader))
    assert type(again) is BatchReader
    assert again.__dict__ == reader.__dict__
