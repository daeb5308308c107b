"""A real client's round trip from outside: round_trip.py HOST:PORT [TOPIC]. Needs kafka-python and nothing of ours.

Produces one record with a key and a header, reads it back, compares. One line is printed; exit status 1 when the record
did not come back as it was sent.
"""

from __future__ import annotations

import sys
import time
import uuid

from kafka import KafkaConsumer, KafkaProducer, TopicPartition


def main(address: str, topic: str) -> int:
    value = uuid.uuid4().bytes
    producer = KafkaProducer(bootstrap_servers=address, acks="all")
    sent = producer.send(topic, key=b"key", value=value, headers=[("origin", b"round trip")]).get(timeout=20)
    producer.close()
    consumer = KafkaConsumer(bootstrap_servers=address, enable_auto_commit=False)
    partition = TopicPartition(topic, sent.partition)
    consumer.assign([partition])
    consumer.seek(partition, sent.offset)
    records = []
    deadline = time.monotonic() + 20
    while not records and time.monotonic() < deadline:
        records = consumer.poll(timeout_ms=1000).get(partition, [])
    consumer.close()
    if not records:
        print(f"nothing came back from {topic}-{sent.partition} at offset {sent.offset}")
        return 1
    record = records[0]
    came = (record.offset, record.key, record.value, list(record.headers))
    if came != (sent.offset, b"key", value, [("origin", b"round trip")]):
        print(f"another record came back than was sent: {came}")
        return 1
    print(f"one record came back from {topic}-{sent.partition} at offset {sent.offset}, byte for byte")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "round-trip"))
