"""The well-behaved client whose patience is measured: it writes a record, reads it back, and waits a little."""

from __future__ import annotations

import threading
import time
from typing import NamedTuple

from support.patience import PATIENCE_S
from support.wire_client import WireClient
from tidelog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tidelog.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.record_batch import Record

TOPIC = "victim"
PAUSE_S = 0.005


class Latencies(NamedTuple):
    """Of so many round trips (a produce and the fetch that brings it back), in milliseconds."""

    count: int
    median_ms: float
    p99_ms: float
    worst_ms: float


class Victim:
    """A thread that goes round until it is stopped. Use as a context manager."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._times: list[float] = []
        self.error: BaseException | None = None

    def __enter__(self) -> Victim:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(PATIENCE_S)

    def measure(self, seconds: float) -> Latencies:
        """What the next `seconds` are like; at least twenty round trips, however long they take. Raises what went wrong."""
        first = len(self._times)
        until, latest = time.monotonic() + seconds, time.monotonic() + seconds + PATIENCE_S
        while time.monotonic() < until or len(self._times) - first < 20:
            if self.error is not None:
                raise self.error
            if time.monotonic() > latest:
                raise TimeoutError(f"{len(self._times) - first} round trips in {seconds + PATIENCE_S} s")
            time.sleep(0.05)
        times = sorted(self._times[first:])
        return Latencies(
            len(times),
            1000 * times[len(times) // 2],
            1000 * times[min(len(times) - 1, len(times) * 99 // 100)],
            1000 * times[-1],
        )

    def _run(self) -> None:
        try:
            with WireClient(self._address, PATIENCE_S) as writer, WireClient(self._address, PATIENCE_S) as reader:
                while not self._over.is_set():
                    began = time.perf_counter()
                    _round_trip(writer, reader)
                    self._times.append(time.perf_counter() - began)
                    time.sleep(PAUSE_S)
        except BaseException as error:
            self.error = error


def _round_trip(writer: WireClient, reader: WireClient) -> None:
    records = build_batch([Record(0, int(time.time() * 1000), b"key", bytes(1000))])
    data = [TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=0, records=records)])]
    request = ProduceRequest(acks=1, timeout_ms=1000, topic_data=data)
    row = writer.ask(request, 9, ProduceResponse).responses[0].partition_responses[0]
    assert row.error_code == 0, row
    partition = FetchPartition(partition=0, fetch_offset=row.base_offset, partition_max_bytes=1 << 20)
    fetch = FetchRequest(
        max_wait_ms=1000, min_bytes=1, max_bytes=1 << 20, topics=[FetchTopic(topic=TOPIC, partitions=[partition])]
    )
    got = reader.ask(fetch, 4, FetchResponse).responses[0].partitions[0]
    assert got.error_code == 0, got
    assert got.records, "what was written is there"
