"""confluent-kafka, the Python binding of librdkafka, as a driver."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from support.patience import PATIENCE_S

from .base import Job, Message


def producer(bootstrap: str, **settings: Any) -> Producer:
    """Settings with _ for the dots of librdkafka's names."""
    return Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 20, **_dotted(settings)})


def consumer(bootstrap: str, group: str = "unused", **settings: Any) -> Consumer:
    """A consumer from the earliest offset, without automatic commits, unless the settings say otherwise."""
    defaults = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    return Consumer({**defaults, **_dotted(settings)})


def _dotted(settings: dict[str, Any]) -> dict[str, Any]:
    # log_level is the one setting that librdkafka itself spells with an underscore.
    return {name if name == "log_level" else name.replace("_", "."): value for name, value in settings.items()}


def message_of(message: Any) -> Message:
    """confluent-kafka's message as ours; raises the error that came in its place."""
    if message.error() is not None:
        raise KafkaException(message.error())
    headers = tuple((name, value) for name, value in message.headers() or ())
    return Message(
        message.partition(), message.offset(), message.timestamp()[1], message.key(), message.value(), headers
    )


class Deliveries:
    """Counts acknowledgements and keeps the errors: `on_delivery=deliveries`."""

    def __init__(self) -> None:
        self.offsets: list[tuple[int, int]] = []
        self.errors: list[KafkaError] = []

    def __call__(self, error: KafkaError | None, message: Any) -> None:
        if error is not None:
            self.errors.append(error)
        else:
            self.offsets.append((message.partition(), message.offset()))


class LibrdkafkaDriver:
    name = "confluent-kafka"

    def __init__(self, bootstrap: str, timeout_s: float = PATIENCE_S) -> None:
        self._bootstrap = bootstrap
        self._timeout_s = timeout_s

    def write(self, topic: str, jobs: Sequence[Job]) -> None:
        for job in jobs:
            deliveries = Deliveries()
            p = producer(self._bootstrap, compression_type=job.codec)
            for r in job.records:
                p.produce(
                    topic,
                    r.value,
                    r.key,
                    job.partition,
                    on_delivery=deliveries,
                    timestamp=r.timestamp or 0,
                    headers=list(r.headers),
                )
            left = p.flush(self._timeout_s)
            assert left == 0, f"{left} records not acknowledged"
            assert not deliveries.errors, deliveries.errors[0]

    def read(self, topic: str, count: int) -> list[Message]:
        c = consumer(self._bootstrap)
        try:
            partitions = c.list_topics(topic, self._timeout_s).topics[topic].partitions
            c.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in partitions])
            messages: list[Message] = []
            deadline = time.monotonic() + self._timeout_s
            while len(messages) < count and time.monotonic() < deadline:
                messages += [message_of(m) for m in c.consume(500, 0.5)]
            return messages
        finally:
            c.close()
