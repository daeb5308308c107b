"""Tasks' parts of a batch as the sink writes them, from numbers, without Arrow: for tests of its producer and committer."""

from __future__ import annotations

from typing import Any

from support.batches import Row, columns_of
from tidelog.pipeline.sink.commit_log import encode_mark, mark_key
from tidelog.pipeline.sink.commit_protocol import Part
from tidelog.pipeline.sink.committer import COMMIT_PARTITION, ensure_commit_topic, now_ms, task_id
from tidelog.pipeline.sink.producer import Producer, ProducerId, init_producer
from tidelog.pipeline.wire.client import KafkaClient
from tidelog.protocol.records._batches import BatchBuilder
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.record_batch import Record

TOPIC, COMMITS, PREFIX = "rows", "commits", "sink"


def write(client: KafkaClient, name: str | None, values: list[bytes], **stamp: Any) -> tuple[ProducerId, Producer, int]:
    producer = init_producer(client, name)
    sender = Producer(client, producer, transactional_id=name)
    count = sender.partitions(TOPIC)
    builder = BatchBuilder(
        count,
        lambda: 0,
        batch_bytes=2000,
        producer_id=producer.id,
        epoch=producer.epoch,
        transactional=name is not None,
    )
    for start in range(0, len(values), 50):
        rows = [Row(None, value, partition=int(value) % 3) for value in values[start : start + 50]]
        builder.add(len(rows), **columns_of(rows), now=now_ms())
        sender.send(TOPIC, builder.take())
    sender.send(TOPIC, builder.take(everything=True))
    sender.flush()
    return producer, sender, builder.fingerprint


def write_part(
    client: KafkaClient, query: str, run: str, batch: int, task: int, values: list[bytes], *, attempt: int = 0
) -> Part:
    ensure_commit_topic(client, COMMITS)
    name = task_id(PREFIX, query, run, task, attempt, batch)
    producer, sender, fingerprint = write(client, name, values)
    sender.partitions(COMMITS)
    data = build_batch(
        [Record(0, now_ms(), mark_key(query, task), encode_mark(batch, run))], producer_id=producer.id,
        producer_epoch=producer.epoch, base_sequence=0, is_transactional=True,
    )  # fmt: skip
    sender.send(COMMITS, [(COMMIT_PARTITION, 1, bytearray(data))])
    sender.flush()
    return Part(task, name, producer.id, producer.epoch, len(values), fingerprint)


def numbers(first: int, count: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]
