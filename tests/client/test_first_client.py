"""One real client against a fresh daemon: the ring of `make test` that opens sockets (all clients: tests/compat)."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator

import pytest
from kafka import KafkaAdminClient, TopicPartition
from support.clients.base import CODECS, Job, messages_of, random_name, sample_records
from support.clients.kafka_python import KafkaPythonDriver, consumer, producer, take
from support.daemon import Daemon
from support.patience import PATIENCE_S, until

TOPIC = "first"
PARTITIONS = 3


@pytest.fixture(scope="module", params=["uvloop", "asyncio"])
def daemon(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    settings = {
        "event.loop": request.param,
        "group.initial.rebalance.delay.ms": 0,
        "num.partitions": PARTITIONS,
        "log.retention.ms": -1,  # some of the records are years old
        "log.segment.bytes": 16384,
        "log.index.interval.bytes": 512,
    }
    with Daemon(tmp_path_factory.mktemp("first") / "data", settings) as running:
        yield running
    # kafka-python leaves sockets whose connection was refused to the collector, which would blame a later test.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def number(i: int) -> bytes:
    return b"%06d " % i + b"." * (i % 90)


def test_bytes_come_back_over_a_clean_restart(daemon: Daemon) -> None:
    """Auto-created topic, five codecs, many segments, a group that goes on after the restart where it committed."""
    group = random_name("group")
    p = producer(daemon.bootstrap)
    sent = [p.send(TOPIC, number(i), partition=i % PARTITIONS) for i in range(3000)]
    assert [f.get(PATIENCE_S).offset for f in sent] == [i // PARTITIONS for i in range(3000)]
    p.close()

    first = consumer(daemon.bootstrap, TOPIC, group_id=group)
    assert {m.value for m in take(first, 3000)} == {number(i) for i in range(3000)}
    first.commit()
    first.close()
    segments = len(list(daemon.directory.glob(f"{TOPIC}-0/*.log")))
    assert segments > 2

    daemon.restart()

    assert len(list(daemon.directory.glob(f"{TOPIC}-0/*.log"))) >= segments
    p = producer(daemon.bootstrap)
    sent = [p.send(TOPIC, number(i), partition=i % PARTITIONS) for i in range(3000, 3300)]
    assert [f.get(PATIENCE_S).offset for f in sent] == [i // PARTITIONS for i in range(3000, 3300)]
    p.close()
    second = consumer(daemon.bootstrap, TOPIC, group_id=group)
    assert {m.value for m in take(second, 300)} == {number(i) for i in range(3000, 3300)}
    assert [second.committed(TopicPartition(TOPIC, i)) for i in range(PARTITIONS)] == [1000] * PARTITIONS
    second.close()
    everything = KafkaPythonDriver(daemon.bootstrap).read(TOPIC, 3300)
    assert sorted((m.partition, m.offset, m.value) for m in everything) == sorted(
        (i % PARTITIONS, i // PARTITIONS, number(i)) for i in range(3300)
    )


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec(daemon: Daemon, codec: str) -> None:
    driver, topic, records = KafkaPythonDriver(daemon.bootstrap), random_name(codec), sample_records(60, full=False)
    driver.write(topic, [Job(1, codec, records)])
    assert driver.read(topic, len(records)) == messages_of(1, records)


def test_seek_by_time_after_kill_9(daemon: Daemon) -> None:
    """What was acknowledged is there after a crash, and the rebuilt time index finds it."""
    partition = TopicPartition(random_name("time"), 0)
    p = producer(daemon.bootstrap)
    times = [1_700_000_000_000 + 1000 * i for i in range(1000)]
    sent = [p.send(partition.topic, number(i), partition=0, timestamp_ms=t) for i, t in enumerate(times)]
    assert [f.get(PATIENCE_S).offset for f in sent] == list(range(1000))
    p.close()

    daemon.kill()
    daemon.start()

    c = consumer(daemon.bootstrap)
    c.assign([partition])
    for i in (0, 1, 499, 998, 999):
        assert c.offsets_for_times({partition: times[i] - 500})[partition].offset == i
    assert c.offsets_for_times({partition: times[-1] + 1})[partition] is None
    assert c.end_offsets([partition]) == {partition: 1000}
    c.seek(partition, 700)
    assert [m.value for m in take(c, 300)] == [number(i) for i in range(700, 1000)]
    c.close()


def test_deleted_topic_is_gone_from_metadata_and_disk(daemon: Daemon) -> None:
    topic, admin = random_name("deleted"), KafkaAdminClient(bootstrap_servers=daemon.bootstrap)
    admin.create_topics({topic: {"num_partitions": 2}})
    assert topic in admin.list_topics()
    assert sorted(path.name for path in daemon.directory.glob(f"{topic}-?")) == [f"{topic}-0", f"{topic}-1"]
    admin.delete_topics([topic])
    assert topic not in admin.list_topics()
    until(lambda: not list(daemon.directory.glob(f"{topic}-?")), "the partitions' directories are gone")
    admin.close()
