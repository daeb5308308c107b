"""System calls that a small warm request costs the loop's thread of a daemon, counted by strace: a number that does not swing.

Allowed besides is what the timers of an idle daemon make: SPARE of all. Looks at the thread's clock are counted by themselves:
the daemon takes them after a read that took long by the wall's clock, which is what tracing makes of every read.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.daemon import Daemon
from support.patience import PATIENCE_S
from support.wire_client import WireClient, request_frame
from tidelog.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from tidelog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.record_batch import Record

REQUESTS = 480
SPARE = 0.02
MOST_ALONE = 4.0
"""For each request, of one connection with one in flight: wait, read, write or look, send."""
MOST_OF_SIXTEEN = 3.2
"""Of sixteen connections, which the loop finds ready together."""
MOST_CLOCKS = 2
"""Before and after each read, at the worst."""
_ROW = re.compile(r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(?P<calls>\d+)\s+(?:\d+\s+)?(?P<name>\w+)$", re.MULTILINE)


def _may_trace() -> bool:
    """True if there is strace, and the system lets it look at another process."""
    strace = shutil.which("strace")
    if strace is None:
        return False
    with subprocess.Popen(["sleep", "60"]) as looked_at:
        try:
            with subprocess.Popen(
                [strace, "-c", "-p", str(looked_at.pid)], stderr=subprocess.PIPE, text=True
            ) as looking:
                assert looking.stderr is not None
                found = "attached" in looking.stderr.readline()
                looking.send_signal(signal.SIGINT)
                return found
        finally:
            looked_at.kill()


pytestmark = pytest.mark.skipif(not _may_trace(), reason="needs strace, and leave to trace a process")


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("calls") / "data") as running:
        with WireClient(running.address) as client:
            topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in ("written", "read")]
            made = client.ask(CreateTopicsRequest(topics=topics, timeout_ms=5000), 4, CreateTopicsResponse)
            assert [topic.error_code for topic in made.topics] == [0, 0]
            client.send(produce("read"))
            client.receive()
        yield running


def produce(topic: str = "written") -> bytes:
    records = build_batch([Record(0, 1_700_000_000_000, None, bytes(1024))])
    data = [TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=records)])]
    return request_frame(ProduceRequest(acks=1, timeout_ms=1000, topic_data=data), 9)


def fetch() -> bytes:
    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topics = [FetchTopic(topic="read", partitions=[part])]
    request = FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=1 << 20, session_epoch=-1, topics=topics)
    return request_frame(request, 11)


def calls_of(daemon: Daemon, work: Callable[[], None], told: Path) -> Counter[str]:
    """System calls that the loop's thread, which is the daemon's first, makes while `work` runs."""
    program = ["strace", "-c", "-o", str(told), "-p", str(daemon.pid)]
    with subprocess.Popen(program, stderr=subprocess.PIPE, text=True) as tracing:
        assert tracing.stderr is not None
        assert "attached" in tracing.stderr.readline()
        try:
            work()
        finally:
            tracing.send_signal(signal.SIGINT)
            tracing.communicate(timeout=PATIENCE_S)
    rows = {match["name"]: int(match["calls"]) for match in _ROW.finditer(told.read_text())}
    rows.pop("total", None)
    return Counter(rows)


def without_clock(calls: Counter[str]) -> int:
    return calls.total() - calls["clock_gettime"]


@pytest.mark.parametrize(("connections", "most"), [(1, MOST_ALONE), (16, MOST_OF_SIXTEEN)])
@pytest.mark.parametrize("request_of", [produce, fetch])
def test_a_warm_request_costs_few_system_calls(
    daemon: Daemon, request_of: Callable[[], bytes], connections: int, most: float, tmp_path: Path
) -> None:
    frame = request_of()
    with ExitStack() as stack:
        clients = [stack.enter_context(WireClient(daemon.address)) for _ in range(connections)]

        def round_of_requests() -> None:
            for client in clients:
                client.send(frame)
            for client in clients:
                assert client.receive()

        def work() -> None:
            for _ in range(REQUESTS // connections):
                round_of_requests()

        for _ in range(20):
            round_of_requests()
        found = min((calls_of(daemon, work, tmp_path / f"{turn}") for turn in range(3)), key=without_clock)
    assert without_clock(found) <= most * REQUESTS * (1 + SPARE), found
    assert found["clock_gettime"] <= MOST_CLOCKS * REQUESTS * (1 + SPARE), found
