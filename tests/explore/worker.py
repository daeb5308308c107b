"""A client of some release, in an environment of its own: does what a case asks, as an ordinary program would.

    PYTHON tests/explore/worker.py

Reads lines of JSON, {"case": NAME, "servers": HOST:PORT}, and answers each with {"failed": WHY} or {"failed": null}. It imports
nothing of tidelog, since what it runs on is the environment of an old client; nor is it imported by anything.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time

TOPIC, GROUP, COUNT = "orders", "readers", 12
VALUES = [b"%d" % number for number in range(COUNT)]
#: In which everything a case waits for has come, on a busy machine too.
PATIENCE_S = 20.0
QUICK = {"retry.backoff.ms": 20, "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 100}


class Failed(Exception):
    """The client did what it must not."""


# --- aiokafka ---


async def _aiokafka_produce(servers):
    from aiokafka import AIOKafkaProducer

    producer = AIOKafkaProducer(bootstrap_servers=servers, enable_idempotence=True, retry_backoff_ms=20)
    await producer.start()
    try:
        sent = [(await producer.send_and_wait(TOPIC, value, partition=0)).offset for value in VALUES]
    finally:
        await producer.stop()
    if sent != list(range(COUNT)):
        raise Failed(f"offsets {sent}")


def aiokafka_produce(servers):
    asyncio.run(asyncio.wait_for(_aiokafka_produce(servers), PATIENCE_S))


# --- librdkafka ---


def _confluent_producer(servers, **settings):
    from confluent_kafka import Producer

    fatal = []
    config = {"bootstrap.servers": servers, "linger.ms": 0, "error_cb": fatal.append, "log_level": 0}
    config.update(QUICK, **settings)
    return Producer(config), fatal


def confluent_produce(servers):
    """Idempotent, one record a batch, several on their way at once."""
    settings = {"enable.idempotence": True, "batch.num.messages": 1, "message.timeout.ms": int(PATIENCE_S * 1000)}
    producer, errors = _confluent_producer(servers, **settings)
    reports = []
    for value in VALUES:
        producer.produce(TOPIC, value, partition=0, on_delivery=lambda error, message: reports.append((error, message)))
        producer.poll(0)
    left = producer.flush(PATIENCE_S)
    fatal = [str(error) for error in errors if error.fatal()]
    if fatal or left or any(error for error, _ in reports):
        raise Failed(f"fatal {fatal}, {left} left, errors {[str(error) for error, _ in reports if error]}")
    offsets = [message.offset() for _, message in reports]
    if any(offset not in (number, None) for number, offset in enumerate(offsets)):  # of a duplicate it is not told
        raise Failed(f"offsets {offsets}")


def _fill(servers):
    producer, _ = _confluent_producer(servers, **{"enable.idempotence": True, "client.id": "writer"})
    for value in VALUES:
        producer.produce(TOPIC, value, partition=0)
    if producer.flush(PATIENCE_S):
        raise Failed("not written")


def _consumer_config(servers, **settings):
    config = {
        "bootstrap.servers": servers,
        "group.id": GROUP,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "fetch.wait.max.ms": 50,
        "fetch.error.backoff.ms": 20,
        "topic.metadata.refresh.interval.ms": 200,
        "log_level": 0,
    }
    config.update(QUICK, **settings)
    return config


def _consume(consumer, after=None):
    """All values, each once, in order; `after` is called with each message."""
    got = []
    deadline = time.monotonic() + PATIENCE_S
    while len(got) < COUNT:
        message = consumer.poll(0.1)
        if time.monotonic() > deadline:
            raise Failed(f"{len(got)} of {COUNT} values after {PATIENCE_S:g} s")
        if message is None or message.error():
            continue
        got.append(message.value())
        if after is not None:
            after(message)
    if got != VALUES:
        raise Failed(f"values {got}")


def confluent_consume(servers):
    """From the beginning, which it has to ask for."""
    from confluent_kafka import Consumer, TopicPartition

    _fill(servers)
    consumer = Consumer(_consumer_config(servers))
    consumer.assign([TopicPartition(TOPIC, 0)])
    _consume(consumer)
    consumer.close()


# --- kafka-python ---


def _kafka_python(servers, kind, **settings):
    import kafka

    settings.update(
        bootstrap_servers=servers, retry_backoff_ms=20, reconnect_backoff_ms=20, reconnect_backoff_max_ms=100
    )
    if kafka.__version__ < "2.1":
        settings["api_version"] = (2, 0, 0)
    return getattr(kafka, kind)(**settings)


def kafka_python_produce(servers):
    """Idempotent, one record a batch, several on their way at once."""
    producer = _kafka_python(
        servers,
        "KafkaProducer",
        enable_idempotence=True,
        batch_size=1,
        linger_ms=0,
        delivery_timeout_ms=int(PATIENCE_S * 1000),
        request_timeout_ms=5000,
    )
    futures = [producer.send(TOPIC, value, partition=0) for value in VALUES]
    try:
        sent = [future.get(PATIENCE_S).offset for future in futures]
    finally:
        producer.close(timeout=1)
    if sent != list(range(COUNT)):
        raise Failed(f"offsets {sent}")


def _kafka_python_fill(servers):
    producer = _kafka_python(
        servers,
        "KafkaProducer",
        retries=50,
        max_in_flight_requests_per_connection=1,
        client_id="writer",
        request_timeout_ms=5000,
    )
    for value in VALUES:
        producer.send(TOPIC, value, partition=0).get(PATIENCE_S)
    producer.close(timeout=1)


def kafka_python_group(servers):
    """A member of a group whose heartbeats meet trouble, while it polls and commits."""
    _kafka_python_fill(servers)
    consumer = _kafka_python(
        servers,
        "KafkaConsumer",
        group_id=GROUP,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        heartbeat_interval_ms=30,
        session_timeout_ms=6000,
        request_timeout_ms=7000,
        fetch_max_wait_ms=20,
        max_poll_records=1,
    )
    consumer.subscribe([TOPIC])
    from kafka.errors import KafkaError

    got = set()
    deadline = time.monotonic() + PATIENCE_S
    refused = 0
    until = time.monotonic() + 1.0  # heartbeats come by time
    while len(got) < COUNT or time.monotonic() < until:
        if time.monotonic() > deadline:
            raise Failed(f"{len(got)} of {COUNT} values after {PATIENCE_S:g} s, {refused} commits refused")
        for records in consumer.poll(timeout_ms=50).values():
            got.update(record.value for record in records)
        try:
            consumer.commit()
        except KafkaError:
            refused += 1
    consumer.close()


CASES = {
    function.__name__: function
    for function in (aiokafka_produce, confluent_produce, confluent_consume, kafka_python_produce, kafka_python_group)
}


def run(case, servers):
    """The failure's text; None if there is none. A case that hangs is not waited for longer than it may take."""
    ended = []

    def target():
        try:
            CASES[case](servers)
            ended.append(None)
        except BaseException as error:
            ended.append(f"{type(error).__name__}: {error}")

    thread = threading.Thread(target=target, daemon=True)
    thread.start()
    thread.join(1.5 * PATIENCE_S)
    return ended[0] if ended else "stuck"


if __name__ == "__main__":
    if len(sys.argv) > 2:
        print(run(sys.argv[1], sys.argv[2]))
    else:
        for line in sys.stdin:
            asked = json.loads(line)
            print(json.dumps({"failed": run(asked["case"], asked["servers"])}), flush=True)
