"""Logs without files, for tests of what makes and deletes them; and an executor that runs in the caller's thread."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any
from uuid import UUID

from tidelog.config.log_config import LogConfig


class FakeProducers:
    """The part of `ProducerStateManager` that tells who is known."""

    def __init__(self, producer_ids: list[int]) -> None:
        self._ids = producer_ids

    def active_producers(self) -> list[Any]:
        return [type("Entry", (), {"producer_id": producer_id}) for producer_id in self._ids]


class FakeLog:
    """The part of `UnifiedLog` that topics and their APIs look at."""

    def __init__(self, topic: str, partition: int, topic_id: UUID, config: LogConfig) -> None:
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.config = config
        self.leader_epoch = 0
        self.producers = FakeProducers([])

    def update_config(self, config: LogConfig) -> None:
        self.config = config


class FakeLogs:
    """`LogManager` as the topic registry sees it. `trace` has every call that makes or deletes.

    `fail_after(n, error)`: the n-th call from now that makes a log raises `error`.
    """

    def __init__(self, node_id: int = 1, cluster_id: str = "tidelog-test-cluster-1") -> None:
        self.node_id = node_id
        self.cluster_id = cluster_id
        self.trace: list[str] = []
        self._logs: dict[tuple[str, int], FakeLog] = {}
        self._failure: tuple[int, Exception] | None = None

    def fail_after(self, calls: int, error: Exception) -> None:
        self._failure = (calls, error)

    def get(self, topic: str, partition: int) -> Any:
        return self._logs.get((topic, partition))

    def get_or_create(self, topic: str, partition: int, topic_id: UUID, config: LogConfig) -> Any:
        if self._failure is not None:
            left, error = self._failure
            self._failure = (left - 1, error) if left > 1 else None
            if left == 1:
                raise error
        self.trace.append(f"make {topic}-{partition}")
        return self._logs.setdefault((topic, partition), FakeLog(topic, partition, topic_id, config))

    def delete(self, topic: str, partition: int) -> None:
        self.trace.append(f"delete {topic}-{partition}")
        self._logs.pop((topic, partition), None)

    def logs(self) -> list[Any]:
        return list(self._logs.values())

    def names(self) -> list[str]:
        """The partitions that are there, sorted."""
        return sorted(f"{topic}-{partition}" for topic, partition in self._logs)


class InlineExecutor(Executor):
    """Runs what is submitted at once, where it is submitted: what a pool would do, in a fixed order."""

    def submit(self, task: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(task(*arguments, **named))
        except Exception as error:
            future.set_exception(error)
        return future
