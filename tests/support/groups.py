"""Groups without a broker: a coordinator on a log in memory, a clock that the test moves, and requests with defaults.

harness = Groups()
alice = harness.new_member("alice")          # both joins, through to a member id
harness.time.advance(3000)                   # the initial rebalance delay
assert alice.joined.generation == 1
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from support.mock_time import MockTime, MockTimer
from tidelog.broker.coordinator.internal_topic import CoordinatorRecord, ReplayBatch
from tidelog.broker.coordinator.runtime import CoordinatorRuntime
from tidelog.broker.groups.classic.events import GroupProtocol, JoinRequest, JoinResult, SyncRequest, SyncResult
from tidelog.broker.groups.coordinator import GroupCoordinator
from tidelog.protocol.errors import ErrorCode

CONFIG = {
    "group_initial_rebalance_delay_ms": 3000,
    "group_min_session_timeout_ms": 6000,
    "group_max_session_timeout_ms": 1_800_000,
    "group_max_size": 2**31 - 1,
    "offset_metadata_max_bytes": 4096,
    "offsets_retention_minutes": 7 * 24 * 60,
    "offsets_retention_check_interval_ms": 600_000,
}


class MemoryCoordinatorLog:
    """A CoordinatorLog that is a list a partition. `failure` is raised by each append; with `durable` set to False,
    appends return futures that the test completes (`sync`)."""

    def __init__(self, loop: asyncio.AbstractEventLoop, partitions: int = 4, *, exists: bool = True) -> None:
        self.loop = loop
        self._size = partitions
        self.batches: list[list[ReplayBatch]] = [[] for _ in range(partitions)]
        #: Where each partition begins, as far as anybody has said so.
        self.starts = [0] * partitions
        self.exists = exists
        self.failure: Exception | None = None
        self.durable = True
        self.unsynced: list[asyncio.Future[None]] = []
        self.made = 0

    @property
    def partition_count(self) -> int:
        return self._size if self.exists else 0

    def append(
        self,
        partition: int,
        records: Sequence[CoordinatorRecord],
        now_ms: int,
        producer_id: int = -1,
        producer_epoch: int = -1,
    ) -> tuple[int, asyncio.Future[None] | None]:
        assert records
        return self.put(partition, producer_id, [(record.key, record.value) for record in records])

    def put(
        self,
        partition: int,
        producer_id: int,
        records: Sequence[tuple[bytes | None, bytes | None]],
        *,
        is_control: bool = False,
    ) -> tuple[int, asyncio.Future[None] | None]:
        """One batch at the end of the partition: the offset of its first record, and when it is durable."""
        assert self.exists
        if self.failure is not None:
            raise self.failure
        base = self.end_offset(partition)
        self.batches[partition].append(
            ReplayBatch(
                base,
                producer_id,
                producer_id >= 0,
                is_control,
                [(base + i, key, value) for i, (key, value) in enumerate(records)],
            )
        )
        if self.durable:
            return base, None
        future: asyncio.Future[None] = self.loop.create_future()
        self.unsynced.append(future)
        return base, future

    def epoch(self, partition: int) -> int:
        return 0

    def sync_again(self, partition: int) -> asyncio.Future[None] | None:
        """What was not durable is with the next `sync`."""
        future: asyncio.Future[None] = self.loop.create_future()
        self.unsynced.append(future)
        return future

    def end_offset(self, partition: int) -> int:
        return sum(len(batch.records) for batch in self.batches[partition])

    def durable_offset(self, partition: int) -> int:
        return self.end_offset(partition) if self.durable else 0

    def begin_sync(self, partition: int) -> None:
        """Nothing: tests say when everything is durable."""

    def delete_before(self, partition: int, offset: int) -> None:
        self.starts[partition] = offset

    def sync(self, error: Exception | None = None) -> None:
        """Completes what waits for durability; its callbacks run."""
        waiting, self.unsynced = self.unsynced, []
        for future in waiting:
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)
        run_callbacks(self.loop)

    def is_empty(self, partition: int) -> bool:
        return not self.batches[partition]

    def replay(self, partition: int) -> Iterator[ReplayBatch]:
        return iter(list(self.batches[partition]))

    async def ensure_topic(self) -> None:
        if not self.exists:
            self.made += 1
        self.exists = True

    @property
    def records(self) -> list[tuple[bytes | None, bytes | None]]:
        """All records of all partitions."""
        return [(key, value) for p in self.batches for batch in p for _, key, value in batch.records]


def make_runtime(log: MemoryCoordinatorLog, new_shard: Callable[[int], Any], time: MockTime) -> CoordinatorRuntime[Any]:
    """A runtime whose pool is the loop thread."""

    async def run_blocking(task: Any) -> Any:
        return task()

    return CoordinatorRuntime("topic", log, new_shard, time, MockTimer(time), log.loop, run_blocking)


def run_callbacks(loop: asyncio.AbstractEventLoop) -> None:
    """Runs what is ready in a loop that is not running."""
    if not loop.is_running():
        for _ in range(4):  # a future, the task that waits for it, and the one that waits for that
            loop.run_until_complete(asyncio.sleep(0))


class Member:
    """A client's side of one member: remembers what it was told."""

    def __init__(self, harness: Groups, name: str, **request: Any) -> None:
        self.harness = harness
        self.name = name
        self.request = request
        self.member_id = ""
        self.join_outcome: JoinResult | asyncio.Future[JoinResult] | None = None
        self.sync_outcome: SyncResult | asyncio.Future[SyncResult] | None = None

    def join(self, **changes: Any) -> Member:
        """One JoinGroup. If it is told an id (MEMBER_ID_REQUIRED), it joins again with that."""
        self.join_outcome = self.harness.join(**{"member_id": self.member_id, **self.request, **changes})
        if isinstance(self.join_outcome, JoinResult) and self.join_outcome.error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = self.join_outcome.member_id
            return self.join(**changes)
        return self

    @property
    def joined(self) -> JoinResult:
        """The answer to its join; fails the test when there is none yet."""
        result = now(self.join_outcome)
        if result.error is ErrorCode.NONE:
            self.member_id = result.member_id
        return result

    @property
    def waits_for_join(self) -> bool:
        return isinstance(self.join_outcome, asyncio.Future) and not self.join_outcome.done()

    def sync(self, assignments: Mapping[str, bytes] | None = None, **changes: Any) -> Member:
        fields: dict[str, Any] = {
            "group_id": self.request.get("group_id", "group"),
            "generation": self.joined.generation,
            "member_id": self.member_id,
            "group_instance_id": self.request.get("group_instance_id"),
            "assignments": assignments,
        }
        self.sync_outcome = self.harness.groups.sync(SyncRequest(**{**fields, **changes}))
        return self

    @property
    def synced(self) -> SyncResult:
        return now(self.sync_outcome)

    @property
    def waits_for_sync(self) -> bool:
        return isinstance(self.sync_outcome, asyncio.Future) and not self.sync_outcome.done()

    def heartbeat(self, generation: int | None = None) -> ErrorCode:
        return self.harness.groups.heartbeat(
            self.request.get("group_id", "group"),
            self.member_id,
            self.request.get("group_instance_id"),
            self.joined.generation if generation is None else generation,
        )


class Groups:
    """A coordinator on a clock that stands still. `Groups(config={...})` changes settings."""

    def __init__(
        self,
        *,
        config: Mapping[str, Any] | None = None,
        log: MemoryCoordinatorLog | None = None,
        time: MockTime | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
        exists: bool = True,
        load: bool = True,
        first_id: int = 1,
        environment: Any = None,
        run_blocking: Callable[[Any], Awaitable[Any]] | None = None,
    ) -> None:
        """`environment`: what heartbeat groups see, from `support.heartbeat_groups`; classic ones need none. `run_blocking`: the
        pool, which is the loop thread otherwise."""
        self.loop = loop or asyncio.new_event_loop()
        self.owns_loop = loop is None
        self.time = time or MockTime()
        self.log = log or MemoryCoordinatorLog(self.loop, exists=exists)
        self.ids = itertools.count(first_id)
        self.environment = environment
        self.groups = GroupCoordinator(
            self.log,
            SimpleNamespace(**{**CONFIG, **(config or {})}),  # type: ignore[arg-type]
            self.time,
            MockTimer(self.time),
            self.loop,
            run_blocking or self._run,
            lambda: self.environment,
            lambda: f"id{next(self.ids)}",
            getattr(environment, "descriptions", None),
        )
        self.groups.open()
        if load and not self.loop.is_running():
            self.loop.run_until_complete(self.groups.load())

    async def _run(self, task: Any) -> Any:
        return task()

    def close(self) -> None:
        self.groups.close()
        if self.owns_loop:
            run_callbacks(self.loop)
            self.loop.close()

    def restarted(self) -> Groups:
        """What a coordinator that starts now on the same log knows. The old one goes on undisturbed."""
        return Groups(log=self.log, time=self.time, loop=self.loop, first_id=1000, environment=self.environment)

    def join(self, **fields: Any) -> JoinResult | asyncio.Future[JoinResult]:
        request: dict[str, Any] = {
            "group_id": "group",
            "member_id": "",
            "group_instance_id": None,
            "client_id": "client",
            "client_host": "/127.0.0.1",
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 60_000,
            "protocol_type": "consumer",
            "protocols": (GroupProtocol("range", subscription("topic")),),
        }
        return self.groups.join(JoinRequest(**{**request, **fields}))

    def member(self, name: str = "member", **request: Any) -> Member:
        return Member(self, name, client_id=name, **request)

    def stable(self, *names: str, group_id: str = "group", **request: Any) -> list[Member]:
        """Members of a new group, through the first rebalance to Stable. The first one leads; each owns its name."""
        members = [self.member(name, group_id=group_id, **request).join() for name in names]
        self.time.advance(CONFIG["group_initial_rebalance_delay_ms"] * 2)
        assert all(member.joined.error is ErrorCode.NONE for member in members)
        for member in members[1:]:
            member.sync()
        members[0].sync({member.member_id: member.name.encode() for member in members})
        assert all(member.synced.error is ErrorCode.NONE for member in members)
        return members

    def state(self, group_id: str = "group") -> str:
        return self.groups.describe_group(group_id).state


def now(outcome: Any) -> Any:
    """The answer, which must be there."""
    if isinstance(outcome, asyncio.Future):
        assert outcome.done(), "the answer is still owed"
        return outcome.result()
    assert outcome is not None
    return outcome


def subscription(*topics: str) -> bytes:
    """A consumer's subscription, version 0: topics, no user data."""
    out = bytearray(b"\x00\x00") + len(topics).to_bytes(4, "big")
    for topic in topics:
        out += len(topic.encode()).to_bytes(2, "big") + topic.encode()
    return bytes(out + b"\xff\xff\xff\xff")
