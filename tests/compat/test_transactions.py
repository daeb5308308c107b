"""Transactions with the clients of Python: librdkafka, kafka-python and aiokafka, all of version 1 (the Java client, in
test_java.py, is of version 2); consume, transform, produce over kills; and Kafka's own tool on `__transaction_state`."""

from __future__ import annotations

import asyncio
import itertools
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaProducer
from support.clients import transform
from support.clients.librdkafka import consumer
from support.clients.programs import java_command, run_cases
from support.daemon import Daemon
from support.dump_log_segments import dump
from support.patience import PATIENCE_S, until
from support.wire_client import WireClient
from tidelog.broker.transactions.states import TransactionState
from tidelog.protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from tidelog.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from tidelog.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse

MakeTopic = Callable[..., str]
QUIET = {"log_level": 0}


def transactional(bootstrap: str, name: str) -> Producer:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "linger.ms": 0, **QUIET})
    producer.init_transactions(20)
    return producer


def read(bootstrap: str, topic: str, partitions: int = 1, *, committed: bool = True) -> list[bytes]:
    """All that there is to read, by partition."""
    level = "read_committed" if committed else "read_uncommitted"
    reader = consumer(bootstrap, isolation_level=level, enable_partition_eof=True, **QUIET)
    reader.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    found: dict[int, list[bytes]] = {partition: [] for partition in range(partitions)}
    left = set(found)

    def done() -> bool:
        for message in reader.consume(500, 0.2):
            if message.error() is not None:
                left.discard(message.partition())
            else:
                found[message.partition()].append(message.value())
        return not left

    until(done, f"the ends of partitions of {topic}")
    reader.close()
    return list(itertools.chain.from_iterable(found.values()))


# -- librdkafka


def test_librdkafka_commits_and_aborts(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic("rd-txn", 2)
    producer = transactional(bootstrap, topic)
    for number in range(9):
        producer.begin_transaction()
        for partition in (0, 1):
            producer.produce(topic, b"%d" % number, partition=partition)
        producer.flush(10)
        producer.abort_transaction(20) if number % 3 == 1 else producer.commit_transaction(20)
    expected = [b"%d" % number for number in range(9) if number % 3 != 1]
    assert read(bootstrap, topic, 2) == expected * 2
    assert len(read(bootstrap, topic, 2, committed=False)) == 18


def test_librdkafka_fences(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic("rd-fence")
    old = transactional(bootstrap, topic)
    old.begin_transaction()
    old.produce(topic, b"old")
    old.flush(10)
    new = transactional(bootstrap, topic)
    old.produce(topic, b"zombie")
    with pytest.raises(KafkaException) as caught:
        old.commit_transaction(20)
    assert caught.value.args[0].fatal()
    new.begin_transaction()
    new.produce(topic, b"new")
    new.commit_transaction(20)
    assert read(bootstrap, topic) == [b"new"]


def test_librdkafka_exactly_once(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic("rd-eos")
    producer, reader = transactional(bootstrap, topic), consumer(bootstrap, topic, **QUIET)
    place = TopicPartition(topic, 0)
    for offset, commit in ((5, True), (9, False)):
        producer.begin_transaction()
        producer.send_offsets_to_transaction([TopicPartition(topic, 0, offset)], reader.consumer_group_metadata(), 20)
        producer.commit_transaction(20) if commit else producer.abort_transaction(20)
        assert reader.committed([place], 20)[0].offset == 5
    reader.close()


# -- kafka-python


def test_kafka_python(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic("kp-txn")
    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=topic)
    producer.init_transactions()
    for number in range(6):
        producer.begin_transaction()
        producer.send(topic, b"%d" % number).get(PATIENCE_S)
        producer.commit_transaction() if number % 2 else producer.abort_transaction()
    producer.close()
    assert read(bootstrap, topic) == [b"1", b"3", b"5"]


# -- aiokafka


def test_aiokafka(bootstrap: str, make_topic: MakeTopic) -> None:
    topic = make_topic("aio-txn")

    async def write() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=topic)
        await producer.start()
        for number in range(6):
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"%d" % number)
            await (producer.commit_transaction() if number % 2 else producer.abort_transaction())
        await producer.stop()

    asyncio.run(write())
    assert read(bootstrap, topic) == [b"1", b"3", b"5"]


# -- a daemon of a test's own


def test_consume_transform_produce_over_kills(data_directory: Path, seed: int, pytestconfig: pytest.Config) -> None:
    """Each of the input's records is in the output once, in order, though the program and the daemon are killed."""
    count, chance = 300, random.Random(seed)
    kills: int = 2 * pytestconfig.getoption("--kill-rounds")
    settings: dict[str, str | int] = {"group.initial.rebalance.delay.ms": 0, "transaction.state.log.num.partitions": 2}
    with Daemon(data_directory, settings) as daemon:
        admin = AdminClient({"bootstrap.servers": daemon.bootstrap, **QUIET})
        for future in admin.create_topics([NewTopic("in", 1), NewTopic("out", 1)]).values():
            future.result()
        plain = Producer({"bootstrap.servers": daemon.bootstrap, **QUIET})
        for number in range(count):
            plain.produce("in", b"%d" % number, partition=0)
        assert plain.flush(20) == 0
        for life in range(kills + 1):
            program = subprocess.Popen(
                [sys.executable, transform.__file__, daemon.bootstrap, f"{seed} {life}"],
                stdout=subprocess.PIPE,
                text=True,
            )
            assert program.stdout is not None
            with program, program.stdout:
                said = program.stdout.readline()
                if life < kills:  # in its second transaction, or a moment later
                    said = program.stdout.readline()
                    time.sleep(chance.random() * 0.005)
                    both = [daemon.kill, program.kill]
                    for kill in chance.sample(both, 1 + chance.randrange(2)):
                        kill()
                    program.kill()
                    if not daemon.running:
                        daemon.start()
                while said and said != "end\n":
                    said = program.stdout.readline()
        assert said == "end\n"
        assert read(daemon.bootstrap, "out") == [b"%d" % number for number in range(count)]


def test_at_level_1_the_java_client_keeps_its_epoch(data_directory: Path) -> None:
    """UpdateFeatures takes transaction.version back to 1: the same client behaves as before KIP-890's second part."""
    cases = ("transactions", "exactly-once", "fencing", "hanging-transaction")
    with Daemon(data_directory, {"group.initial.rebalance.delay.ms": 0}) as daemon:
        host, _, port = daemon.bootstrap.rpartition(":")
        with WireClient((host, int(port))) as client:
            down = FeatureUpdateKey(feature="transaction.version", max_version_level=1, upgrade_type=2)
            answer = client.ask(UpdateFeaturesRequest(feature_updates=[down]), 1, UpdateFeaturesResponse)
            assert answer.error_code == 0
            found = run_cases(java_command(), daemon.bootstrap, 90, *cases)
            assert [found[case] for case in cases if not found[case].startswith("PASS ")] == []
            listed = client.ask(ListTransactionsRequest(), 2, ListTransactionsResponse).transaction_states
            names = [one.transactional_id for one in listed if "fencing" not in one.transactional_id]
            request = DescribeTransactionsRequest(transactional_ids=names)
            described = client.ask(request, 0, DescribeTransactionsResponse).transaction_states
            assert [one.producer_epoch for one in described] == [0] * 3


def test_kafkas_tool_decodes_our_transaction_log(data_directory: Path) -> None:
    with Daemon(data_directory, {"transaction.state.log.num.partitions": 1}) as daemon:
        admin = AdminClient({"bootstrap.servers": daemon.bootstrap, **QUIET})
        admin.create_topics([NewTopic("t", 2)])["t"].result()
        producer = transactional(daemon.bootstrap, "decoded")
        for commit in (True, False):
            producer.begin_transaction()
            producer.produce("t", b"v", partition=1)
            producer.flush(10)
            producer.commit_transaction(20) if commit else producer.abort_transaction(20)
    (path,) = data_directory.glob("__transaction_state-0/*.log")
    text = dump([path], "--transaction-log-decoder")
    states = [TransactionState(int(number)) for number in re.findall(r'"transactionStatus":(\d)', text)]  # type: ignore[call-arg]
    assert [state.label for state in states] == [
        "Empty", "Ongoing", "PrepareCommit", "CompleteCommit", "Ongoing", "PrepareAbort", "CompleteAbort",
    ]  # fmt: skip
    assert text.count('key: {"type":"0","data":{"transactionalId":"decoded"}}') == 7
    assert text.count('"transactionPartitions":[{"topic":"t","partitionIds":[1]}]') == 4
    (index,) = data_directory.glob("t-1/*.txnindex")
    assert "producerId: 0 firstOffset: 2 lastOffset: 3 lastStableOffset: 4" in dump([index])
