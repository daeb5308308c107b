"""Apache Kafka's own LogCompactionTester against our daemon: deletes, every codec, and under kill -9.

The tester makes topics of random keys, many of which repeat or are deleted, waits, reads each topic from its start and
compares what is left with the last value of each key that it wrote. It stops reading after 20 seconds without a record, so
one tester per codec runs beside the others. `--compaction-kill-s SECONDS` adds the run in which the daemon is killed every
few seconds, for about as long as that.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from support.clients.base import CODECS
from support.daemon import Daemon

TEST_TIMEOUT_S = 1200
BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
SETTINGS: dict[str, str | int] = {
    "group.initial.rebalance.delay.ms": 0,
    "log.segment.bytes": 200_000,
    "log.cleaner.backoff.ms": 100,
    "log.cleaner.min.cleanable.ratio": "0.01",
}
MESSAGES = 40_000
REDUCTION = re.compile(r"(\d+) rows of data produced, (\d+) rows of data consumed")
VALIDATED = re.compile(r"Validated (\d+) values, (\d+) mismatches")


@pytest.fixture
def daemon_of_its_own(data_directory: Path, server_command: Sequence[str]) -> Iterator[Daemon]:
    with Daemon(data_directory, SETTINGS, command=server_command, start_timeout_s=60, stop_timeout_s=60) as running:
        yield running


class CompactionRun:
    """One run of the tool, in a process of its own; its files go where the test's go."""

    def __init__(self, bootstrap: str, codec: str, directory: Path, *, messages: int = MESSAGES) -> None:
        command = run_command(directory)
        command += ["--bootstrap-server", bootstrap, "--compression-type", codec, "--messages", str(messages)]
        # The pause between writing and reading is in seconds, whatever the tool's help says.
        command += ["--percent-deletes", "20", "--duplicates", "20", "--topics", "2", "--sleep", "3"]
        self.codec = codec
        self.output = tempfile.TemporaryFile("w+")  # noqa: SIM115 - lives as long as the process
        self.process = subprocess.Popen(command, stdout=self.output, stderr=subprocess.STDOUT)

    def finish(self, timeout_s: float) -> str:
        """Its output; AssertionError when it failed or does not end."""
        try:
            code = self.process.wait(timeout_s)
        finally:
            self.close()
        assert code == 0, f"{self.codec}: exit code {code}\n{self.text}"
        return self.text

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if not self.output.closed:
            self.output.seek(0)
            self.text = self.output.read()
            self.output.close()


def run_command(directory: Path) -> list[str]:
    """`java … LogCompactionTester`, with the jars and logging of benchmarks/kafka_peer.py and temporary files in `directory`."""
    script = "import json, sys, kafka_peer; print(json.dumps(kafka_peer.tool_command(sys.argv[1], [])))"
    done = subprocess.run(
        [sys.executable, "-c", script, "LogCompactionTester"],
        cwd=BENCHMARKS,
        capture_output=True,
        text=True,
        check=True,
    )
    java, *rest = json.loads(done.stdout)
    return [java, "-XX:TieredStopAtLevel=1", f"-Djava.io.tmpdir={directory}", *rest]


def check(text: str, messages: int) -> None:
    """The tool's own verdict, and that there was something for it to judge: most of it was cleaned away."""
    assert "Data verification is completed" in text, text
    produced, consumed = map(int, REDUCTION.search(text).groups())  # type: ignore[union-attr]
    assert produced == messages * 2, text
    assert consumed < produced / 2, text
    validated, mismatches = map(int, VALIDATED.search(text).groups())  # type: ignore[union-attr]
    assert validated > 0, text
    assert mismatches == 0, text


def test_kafkas_tester_finds_the_last_value_of_each_key_with_every_codec(
    daemon_of_its_own: Daemon, tmp_path: Path
) -> None:
    testers = [CompactionRun(daemon_of_its_own.bootstrap, codec, tmp_path) for codec in CODECS]
    try:
        for tester in testers:
            check(tester.finish(120), MESSAGES)
    finally:
        for tester in testers:
            tester.close()


def test_kafkas_tester_passes_while_the_daemon_is_killed_every_few_seconds(
    daemon_of_its_own: Daemon, tmp_path: Path, pytestconfig: pytest.Config, seed: int
) -> None:
    seconds: float = pytestconfig.getoption("--compaction-kill-s")
    if not seconds:
        pytest.skip("only with --compaction-kill-s")
    moments, over, kills = random.Random(seed), threading.Event(), 0
    messages = max(MESSAGES, int(seconds * 20_000))
    tester = CompactionRun(daemon_of_its_own.bootstrap, moments.choice(CODECS), tmp_path, messages=messages)
    watcher = threading.Thread(target=lambda: (tester.process.wait(), over.set()))
    watcher.start()
    try:
        while not over.wait(moments.uniform(1, 4)):  # the tool reads for 20 s at least
            daemon_of_its_own.kill()
            daemon_of_its_own.start()
            kills += 1
    finally:
        tester.process.kill()
        watcher.join()
        tester.close()
    assert kills >= 2
    check(tester.finish(1), messages)
