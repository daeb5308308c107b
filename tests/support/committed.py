"""What readers of committed data see of a topic, by a client that is not ours."""

from __future__ import annotations

import time
from typing import Any

from support.patience import PATIENCE_S

LIMIT_S = PATIENCE_S


def create_topic(bootstrap: str, name: str, partitions: int = 1, **settings: str) -> None:
    from kafka.admin import KafkaAdminClient, NewTopic

    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        admin.create_topics([NewTopic(name, partitions, 1, topic_configs=settings)])
    finally:
        admin.close()


def committed(bootstrap: str, topic: str) -> list[Any]:
    """All records up to the last stable offset of each partition, which must be its end within a while."""
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, isolation_level="read_committed", enable_auto_commit=False,
        auto_offset_reset="earliest",
    )  # fmt: skip
    try:
        deadline = time.monotonic() + LIMIT_S
        places = [TopicPartition(topic, number) for number in sorted(consumer.partitions_for_topic(topic) or ())]
        assert places, f"there is no topic {topic}"
        consumer.assign(places)
        consumer.seek_to_beginning(*places)
        ends = _high_watermarks(bootstrap, places)
        found: list[Any] = []
        while any(consumer.position(place) < ends[place] for place in places):
            assert time.monotonic() < deadline, f"{topic} has an open transaction below {ends}"
            for records in consumer.poll(timeout_ms=500).values():
                found += records
        return found
    finally:
        consumer.close()


def committed_values(bootstrap: str, topic: str) -> list[str]:
    return [record.value.decode() for record in committed(bootstrap, topic)]


def _high_watermarks(bootstrap: str, places: list[Any]) -> dict[Any, int]:
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(bootstrap_servers=bootstrap)
    try:
        return dict(consumer.end_offsets(places))
    finally:
        consumer.close()
