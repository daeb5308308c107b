"""kafka-python as a driver."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from support.patience import PATIENCE_S

from .base import Job, Message


def producer(bootstrap: str, **settings: Any) -> KafkaProducer:
    return KafkaProducer(**{"bootstrap_servers": bootstrap, "acks": "all", "linger_ms": 20, **settings})


def consumer(bootstrap: str, *topics: str, **settings: Any) -> KafkaConsumer:
    """A consumer from the earliest offset, without automatic commits; it ends when nothing comes for a while."""
    defaults = {
        "bootstrap_servers": bootstrap,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "consumer_timeout_ms": 60_000,
        # 3.0: one that subscribes while it asks for metadata does not ask for that topic's before.
        "metadata_max_age_ms": 2000,
    }
    return KafkaConsumer(*topics, **{**defaults, **settings})


def message_of(m: Any) -> Message:
    return Message(
        m.partition, m.offset, m.timestamp, m.key, m.value, tuple((name, value) for name, value in m.headers)
    )


def take(c: KafkaConsumer, count: int) -> list[Message]:
    """The next `count` messages; fewer when nothing comes for the consumer's time limit."""
    messages: list[Message] = []
    if count:
        for m in c:
            messages.append(message_of(m))
            if len(messages) == count:
                break
    return messages


class KafkaPythonDriver:
    name = "kafka-python"

    def __init__(self, bootstrap: str, timeout_s: float = PATIENCE_S) -> None:
        self._bootstrap = bootstrap
        self._timeout_s = timeout_s

    def write(self, topic: str, jobs: Sequence[Job]) -> None:
        for job in jobs:
            p = producer(self._bootstrap, compression_type=None if job.codec == "none" else job.codec)
            try:
                futures = [
                    p.send(topic, r.value, r.key, list(r.headers), job.partition, r.timestamp) for r in job.records
                ]
                for future in futures:
                    future.get(self._timeout_s)
            finally:
                p.close(timeout=self._timeout_s)

    def read(self, topic: str, count: int) -> list[Message]:
        c = consumer(self._bootstrap)
        try:
            c.assign([TopicPartition(topic, p) for p in sorted(c.partitions_for_topic(topic) or ())])
            return take(c, count)
        finally:
            c.close()
