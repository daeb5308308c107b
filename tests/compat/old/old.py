"""Old Python clients, each in an interpreter of its own: old.py LIBRARY VERSION HOST:PORT write | read | group NAME

LIBRARY is kafka-python (0.9.5 under Python 2.7, 1.4.7), pykafka or confluent-kafka; VERSION the broker's that it is told,
whose requests it then sends. The text form is that of tests/support/clients/old_clients.py. Runs under Python 2.7 too.
"""

import binascii
import os
import sys
import time

TIMEOUT_S = 40


def bytes_of(text):
    return None if text == "-" else binascii.unhexlify(text)


def text_of(data):
    return "-" if data is None else binascii.hexlify(data).decode()


def tell(topic, partition, offset, timestamp, key, value):
    timestamp = -1 if timestamp is None else timestamp
    print("\t".join(str(field) for field in (topic, partition, offset, timestamp, text_of(key), text_of(value))))


def tell_committed(topic, partition, offset):
    print("\t".join(("committed", topic, str(partition), str(offset))))


class KafkaPython14:
    """kafka-python 1.4.7, told a broker's version, or `auto`, when it asks."""

    def __init__(self, version, bootstrap):
        self.settings = {"bootstrap_servers": bootstrap}
        if version != "auto":
            self.settings["api_version"] = tuple(int(part) for part in version.split("."))

    def write(self, rows):
        from kafka import KafkaProducer

        producers, sent = {}, []
        for topic, partition, codec, key, value in rows:
            if codec not in producers:
                chosen = None if codec == "none" else codec
                producers[codec] = KafkaProducer(compression_type=chosen, linger_ms=20, acks="all", **self.settings)
            sent.append(producers[codec].send(topic, value, key=key, partition=partition))
        for future in sent:
            future.get(TIMEOUT_S)

    def read(self, wanted, group):
        from kafka import KafkaConsumer, TopicPartition
        from kafka.structs import OffsetAndMetadata

        partitions = [TopicPartition(topic, partition) for topic, partition in wanted]
        joins = group is not None and self.settings.get("api_version", (9,)) >= (0, 9)
        settings = dict(self.settings, group_id=group, enable_auto_commit=False, auto_offset_reset="earliest")
        consumer = KafkaConsumer(**settings)
        if joins:
            consumer.subscribe(sorted({topic for topic, _ in wanted}))
        else:
            consumer.assign(partitions)
            for partition in partitions:
                consumer.seek(partition, 0)
        left, end = sum(wanted.values()), time.time() + TIMEOUT_S
        positions = dict.fromkeys(partitions, 0)
        while left > 0 and time.time() < end:
            for partition, records in consumer.poll(200).items():
                for record in records:
                    left -= 1
                    positions[partition] = record.offset + 1
                    tell(record.topic, record.partition, record.offset, record.timestamp, record.key, record.value)
        if group is not None:
            consumer.commit({partition: OffsetAndMetadata(at, "") for partition, at in positions.items()})
            consumer.close()
            consumer = KafkaConsumer(**settings)
            for partition in partitions:
                tell_committed(partition.topic, partition.partition, consumer.committed(partition))


class KafkaPython09:
    """kafka-python 0.9.5: requests of version 0 alone, offsets of the ZooKeeper kind. Python 2.7."""

    def __init__(self, _version, bootstrap):
        from kafka import KafkaClient

        self.client = KafkaClient(bootstrap)

    def write(self, rows):
        from kafka.common import ProduceRequest
        from kafka.protocol import CODEC_GZIP, CODEC_NONE, CODEC_SNAPPY, create_message_set

        codecs = {"none": CODEC_NONE, "gzip": CODEC_GZIP, "snappy": CODEC_SNAPPY}
        sets = {}
        for topic, partition, codec, key, value in rows:
            sets.setdefault((topic, partition, codec), []).append((value, key))
        for (topic, partition, codec), messages in sorted(sets.items()):
            self.client.ensure_topic_exists(topic)
            for at in range(0, len(messages), 20):
                made = create_message_set(messages[at : at + 20], codecs[codec])
                for answer in self.client.send_produce_request([ProduceRequest(topic, partition, made)]):
                    assert answer.error == 0, answer

    def read(self, wanted, group):
        from kafka import SimpleConsumer

        for (topic, partition), count in sorted(wanted.items()):
            settings = {"auto_commit": False, "partitions": [partition], "max_buffer_size": None}
            consumer = SimpleConsumer(self.client, group, topic, iter_timeout=5, **settings)
            for at, message in consumer.get_messages(count=count, block=True, timeout=TIMEOUT_S) if count else ():
                tell(topic, partition, at if isinstance(at, int) else message.offset, None, message.key, message.value)
            if group is not None:
                consumer.commit()
                again = SimpleConsumer(self.client, group, topic, **settings)
                tell_committed(topic, partition, again.offsets[partition])


class PyKafka:
    """pykafka 2.8, which puts messages of format 1 into Produce version 0 when it is told 0.10."""

    def __init__(self, version, bootstrap):
        from pykafka import KafkaClient

        self.version = version
        self.client = KafkaClient(hosts=bootstrap, broker_version=version)

    def write(self, rows):
        from pykafka.common import CompressionType

        codecs = {"none": CompressionType.NONE, "gzip": CompressionType.GZIP, "snappy": CompressionType.SNAPPY}
        jobs = {}
        for topic, partition, codec, key, value in rows:
            jobs.setdefault((topic, partition, codec), []).append((key, value))
        for (topic, wanted, codec), records in sorted(jobs.items()):

            def chosen(partitions, _key, wanted=wanted):
                return next(one for one in partitions if one in (wanted, getattr(one, "id", None)) or one.id == wanted)

            with self.client.topics[topic.encode()].get_producer(
                compression=codecs[codec], linger_ms=20, required_acks=-1, partitioner=chosen, sync=False
            ) as producer:
                for key, value in records:
                    producer.produce(value, partition_key=key)

    def read(self, wanted, group):
        from pykafka.common import OffsetType

        for (topic, index), count in sorted(wanted.items()):
            found = self.client.topics[topic.encode()]
            settings = {
                "consumer_group": None if group is None else group.encode(),
                "partitions": [found.partitions[index]],
                "auto_offset_reset": OffsetType.EARLIEST,
            }
            consumer = found.get_simple_consumer(consumer_timeout_ms=TIMEOUT_S * 1000, **settings)
            for _ in range(count):
                message = consumer.consume()
                if message is None:
                    break
                tell(topic, index, message.offset, None, message.partition_key, message.value)
            if group is not None:
                consumer.commit_offsets()
                consumer.stop()
                consumer = found.get_simple_consumer(consumer_timeout_ms=1000, **settings)
                consumer.fetch_offsets()
                tell_committed(topic, index, consumer.held_offsets[index] + 1)
            consumer.stop()


class Librdkafka:
    """librdkafka without ApiVersions: it takes the broker for one of that version."""

    def __init__(self, version, bootstrap):
        self.version = version
        self.settings = {
            "bootstrap.servers": bootstrap,
            "api.version.request": False,
            "broker.version.fallback": version,
        }

    def write(self, rows):
        from confluent_kafka import Producer

        producers, failures = {}, []
        for topic, partition, codec, key, value in rows:
            if codec not in producers:
                producers[codec] = Producer(dict(self.settings, **{"compression.codec": codec, "linger.ms": 20}))
            producers[codec].produce(
                topic, value, key, partition, on_delivery=lambda error, _: error and failures.append(error)
            )
        left = sum(producer.flush(TIMEOUT_S) for producer in producers.values())
        assert (left, failures) == (0, [])

    def read(self, wanted, group):
        from confluent_kafka import Consumer, TopicPartition

        joins = group is not None and self.version >= "0.9"
        settings = dict(self.settings)
        settings.update({"group.id": group or "none", "auto.offset.reset": "earliest", "enable.auto.commit": False})
        consumer = Consumer(settings)
        if joins:
            consumer.subscribe(sorted({topic for topic, _ in wanted}))
        else:
            consumer.assign([TopicPartition(topic, partition, 0) for topic, partition in wanted])
        left, end = sum(wanted.values()), time.time() + TIMEOUT_S
        positions = {}
        while left > 0 and time.time() < end:
            for message in consumer.consume(500, 0.2):
                assert not message.error(), message.error()
                left -= 1
                positions[message.topic(), message.partition()] = message.offset() + 1
                kind, timestamp = message.timestamp()
                tell(
                    message.topic(), message.partition(), message.offset(), timestamp if kind else None,
                    message.key(), message.value(),
                )  # fmt: skip
        if group is not None:
            read = [TopicPartition(topic, partition, at) for (topic, partition), at in positions.items()]
            consumer.commit(offsets=read, asynchronous=False)
            for found in consumer.committed([TopicPartition(*where) for where in wanted], timeout=TIMEOUT_S):
                tell_committed(found.topic, found.partition, found.offset)
        consumer.close()


LIBRARIES = {
    "kafka-python": KafkaPython14,
    "kafka-python-0.9": KafkaPython09,
    "pykafka": PyKafka,
    "confluent-kafka": Librdkafka,
}


def main():
    library, version, bootstrap, mode = sys.argv[1:5]
    client = LIBRARIES[library](version, bootstrap)
    lines = [line.rstrip("\n").split("\t") for line in sys.stdin]
    if mode == "write":
        client.write([(row[0], int(row[1]), row[2], bytes_of(row[3]), bytes_of(row[4])) for row in lines])
    else:
        client.read({(row[0], int(row[1])): int(row[2]) for row in lines}, sys.argv[5] if mode == "group" else None)
    sys.stdout.flush()
    os._exit(0)  # some have threads that do not end


if __name__ == "__main__":
    main()
