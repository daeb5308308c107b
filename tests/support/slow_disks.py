"""Partitions in two data directories whose writes take as long as a test says, and clients that produce to them.

`/a` and `/b` have one partition each of the topic `t`: 0 and 1. Threads are what `ManualThreads` runs when asked to, so that
a test decides what happens between which two steps of the loop.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Callable, Mapping
from time import perf_counter_ns
from types import SimpleNamespace
from typing import Any

from support.fake_filesystem import FakeFile
from support.logs import World
from tidelog.broker.apis.produce import produce
from tidelog.broker.partitions.append_offload import AppendOffload
from tidelog.broker.partitions.conversion_thread import Conversions
from tidelog.broker.partitions.partition import Partition
from tidelog.broker.requests.counters import RequestCounters
from tidelog.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tidelog.protocol.schema import decode, encode

DIRECTORIES = ("/a", "/b")
VERSION = 9


class ManualThreads:
    """Stand-in for `DiskWorkers` with one thread that works only in `run`."""

    def __init__(self) -> None:
        self.queue: deque[tuple[Callable[[], Any], Callable[[Any], None]]] = deque()

    def submit(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        self.queue.append((work, done))

    def run(self, count: int = 1) -> int:
        """Does the next `count` pieces of work and tells of each; returns how many there were."""
        ran = 0
        while ran < count and self.queue:
            work, done = self.queue.popleft()
            try:
                outcome = work()
            except Exception as error:
                outcome = error
            done(outcome)
            ran += 1
        return ran


class SlowDisks:
    """Inside a running loop. `write_s[path]` is how long a write to a directory takes, `now` the clock that shows it."""

    def __init__(self, patch: Any, *, threads: Any = None, queue_bytes: int = 1 << 20, **settings: Any) -> None:
        """`patch` is a MonkeyPatch. `threads`: one for each directory's appends, manual ones unless given."""
        self.now = 0.0
        self.write_s = dict.fromkeys(DIRECTORIES, 0.0)
        self.machine = World(directories=DIRECTORIES)
        self.machine.start(**settings)
        loop = asyncio.get_running_loop()
        self.syncers = [ManualThreads() for _ in DIRECTORIES]
        self.writers: Any = threads or [ManualThreads() for _ in DIRECTORIES]
        self.offloads: list[AppendOffload] = []
        self.partitions: list[Partition] = []
        self.conversions = Conversions(loop)
        for number, (path, pace) in enumerate(self.machine.manager.paces):
            pace.clock = lambda: self.now
            log = self.machine.log("t", number)
            assert log.directory.startswith(path + "/")
            self.offloads.append(AppendOffload(pace, self.writers[number], loop, queue_bytes))
            self.partitions.append(Partition(log, loop, self.syncers[number], self.offloads[number], self.conversions))  # type: ignore[arg-type]
        self.counters = RequestCounters()
        self.broker: Any = SimpleNamespace(
            counters=self.counters, authorizer=None, partitions=SimpleNamespace(fence=None, get=self._get)
        )
        take = FakeFile.append

        def append(file: FakeFile, buffer: bytes) -> None:
            self.write(file.path)
            take(file, buffer)

        patch.setattr(FakeFile, "append", append)

    def _get(self, topic: str, index: int) -> Partition | None:
        return self.partitions[index] if topic == "t" and index < len(self.partitions) else None

    def write(self, path: str) -> None:
        """What happens before each append to a file; tests replace it."""
        self.now += self.write_s[path[:2]]

    def make_slow(self, number: int) -> None:
        self.machine.manager.paces[number][1].note(1.0)

    def ask(self, batches: Mapping[int, bytes | bytearray], acks: int = 1) -> Any:
        """A produce request as a connection hands it over; the buffer is overwritten as soon as it has returned."""
        parts = [PartitionProduceData(index=index, records=bytes(data)) for index, data in batches.items()]
        request = ProduceRequest(
            transactional_id=None,
            acks=acks,
            timeout_ms=1,
            topic_data=[TopicProduceData(name="t", partition_data=parts)],
        )
        frame = bytearray(struct.pack(">hhihb", 0, VERSION, 7, -1, 0) + encode(request, VERSION))
        try:
            connection: Any = SimpleNamespace(last_active=perf_counter_ns(), client="10.0.0.1")
            return produce(self.broker, frame, 0, len(frame), VERSION, 7, connection)
        finally:
            frame[:] = bytes(len(frame))

    async def turn(self) -> None:
        """Lets the loop do all that it has to, short of what waits for threads."""
        for _ in range(8):
            await asyncio.sleep(0)

    async def drain(self) -> None:
        """Lets the threads, manual ones, do all they have."""
        while any(threads.run(1000) for threads in (*self.writers, *self.syncers)):
            await self.turn()

    def stop(self) -> None:
        self.conversions.close()
        self.machine.stop()


def answers_of(answer: bytes) -> list[PartitionProduceResponse]:
    """The partitions' rows of a produce response."""
    response, _ = decode(ProduceResponse, VERSION, answer, 9)  # behind size, correlation id and tagged fields
    return list(response.responses[0].partition_responses)
