"""Ours → Apache Kafka → ours → Apache Kafka, on one directory: the same records, ids, settings and committed offsets.

`tidelog log export-kraft` stands between us and Kafka; from Kafka to us nothing does. Kafka deletes a topic, makes one and
changes a setting meanwhile, which we must take over. Kafka is of its newest release and of the one before.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType
from support.clients.base import CODECS
from support.daemon import Daemon
from support.dump_log_segments import complaints, dump, files_of, first_offsets
from support.kafka_broker import KEEP, QUIET, all_led, export, free_port, kafka
from support.kafka_versions import NEWEST, PREVIOUS
from support.patience import PATIENCE_S, until
from support.wire_client import WireClient
from tidelog.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

START_MS = 1_700_000_000_000
GROUP = "readers"
TOPICS: dict[str, dict[str, str]] = {
    **{f"codec-{codec}": {"retention.ms": "-1", "segment.bytes": "30000"} for codec in CODECS},
    "append-time": {"retention.ms": "-1", "message.timestamp.type": "LogAppendTime", "index.interval.bytes": "512"},
    "compacted": {"cleanup.policy": "compact", "min.compaction.lag.ms": "86400000"},
    "with.defaults": {},
    "to-be-deleted": {"retention.ms": "-1"},
}


class Message(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp: tuple[int, int]
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class Seen(NamedTuple):
    """What clients see of a broker; the broker's own topics apart."""

    messages: list[Message]
    ids: dict[str, str]
    partitions: dict[str, int]
    settings: dict[str, dict[str, str]]
    committed: dict[tuple[str, int], int]


def see(bootstrap: str) -> Seen:
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    names = sorted(name for name in admin.list_topics(timeout=PATIENCE_S).topics if not name.startswith("__"))
    described = [one.result(PATIENCE_S) for one in admin.describe_topics(TopicCollection(names)).values()]
    configs = admin.describe_configs([ConfigResource(ResourceType.TOPIC, name) for name in names])
    settings = {
        resource.name: {
            entry.name: entry.value
            for entry in future.result(PATIENCE_S).values()
            if entry.source == 1  # the topic's own
        }
        for resource, future in configs.items()
    }
    partitions = {one.name: len(one.partitions) for one in described}
    ids = {one.name: str(one.topic_id) for one in described}
    return Seen(read_all(bootstrap, partitions), ids, partitions, settings, committed(admin))


def committed(admin: AdminClient) -> dict[tuple[str, int], int]:
    """The group's offsets, as soon as its coordinator has loaded them."""
    found: dict[tuple[str, int], int] = {}

    def ask() -> bool:
        [offsets] = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(GROUP)]).values()
        try:
            partitions = offsets.result(PATIENCE_S).topic_partitions
        except KafkaException as error:
            assert error.args[0].name() == "COORDINATOR_LOAD_IN_PROGRESS", error
            return False
        found.update(((one.topic, one.partition), one.offset) for one in partitions)
        return True

    until(ask, "the group's coordinator has loaded")
    return found


def read_all(bootstrap: str, partitions: dict[str, int]) -> list[Message]:
    settings = {"bootstrap.servers": bootstrap, "group.id": "nobody", "enable.auto.commit": False, **QUIET}
    consumer = Consumer({**settings, "enable.partition.eof": True, "auto.offset.reset": "earliest"})
    wanted = [TopicPartition(name, number, 0) for name, count in partitions.items() for number in range(count)]
    consumer.assign(wanted)
    messages, ended = [], 0
    while ended < len(wanted):
        message = consumer.poll(20)
        assert message is not None, f"{ended} of {len(wanted)} partitions ended"
        if message.error():
            assert message.error().name() == "_PARTITION_EOF", message.error()
            ended += 1
            continue
        name, number, offset = message.topic(), message.partition(), message.offset()
        headers = tuple(message.headers() or ())
        messages.append(Message(name, number, offset, message.timestamp(), message.key(), message.value(), headers))
    consumer.close()
    return sorted(messages, key=lambda one: one[:3])


def write(
    bootstrap: str, topic: str, what: str, *, codec: str = "none", idempotent: bool = True, count: int = 300
) -> None:
    settings = {"bootstrap.servers": bootstrap, "compression.type": codec, "enable.idempotence": idempotent, **QUIET}
    producer = Producer({**settings, "batch.num.messages": 20, "linger.ms": 5})
    for n in range(count):
        headers = [("n", b"%d" % n), ("n", None)] if n % 7 == 0 else []
        key, value = b"key %d" % (n % 40), f"{what} {n} ".encode() * (n % 9 + 1)
        producer.produce(topic, value, key, headers=headers, timestamp=START_MS + n)
    assert producer.flush(20) == 0


def commit(bootstrap: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP, "enable.auto.commit": False, **QUIET})
    offsets = [TopicPartition(f"codec-{codec}", 0, offset + n, metadata="m") for n, codec in enumerate(CODECS)]
    until(lambda: consumer.commit(offsets=offsets, asynchronous=False), "offsets are committed")
    consumer.close()


def by_topic(messages: list[Message], keep: Callable[[Message], bool] = lambda _: True) -> dict[str, list[Message]]:
    found: dict[str, list[Message]] = {}
    for message in filter(keep, messages):
        found.setdefault(message.topic, []).append(message)
    return found


def own_settings(name: str) -> dict[str, str]:
    """As Kafka says them: it takes small segments by another name."""
    settings = dict(TOPICS[name])
    if size := settings.pop("segment.bytes", None):
        settings["internal.segment.bytes"] = size
    return settings


@pytest.mark.parametrize("release", [NEWEST, PREVIOUS])
def test_ours_to_kafka_to_ours_to_kafka(tmp_path: Path, release: str) -> None:
    data = tmp_path / "data"
    daemon = Daemon(data, {"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 3, **KEEP})
    with daemon:
        admin = AdminClient({"bootstrap.servers": daemon.bootstrap, **QUIET})
        for future in admin.create_topics([NewTopic(n, 2, 1, config=config) for n, config in TOPICS.items()]).values():
            future.result(PATIENCE_S)
        for codec in CODECS:
            write(daemon.bootstrap, f"codec-{codec}", "first", codec=codec, idempotent=False)
        daemon.restart()  # another leader epoch
        for codec in CODECS:
            write(daemon.bootstrap, f"codec-{codec}", "second", codec=codec)
        for topic in ("append-time", "compacted", "with.defaults", "to-be-deleted"):
            write(daemon.bootstrap, topic, "only", codec="lz4")
        commit(daemon.bootstrap, 10)
        refused = export(data)
        assert refused.returncode == 1
        first, *pointers = refused.stderr.splitlines()
        assert re.fullmatch(r"tidelog: .* open .*", first), refused.stderr
        assert pointers == ["tidelog: see docs/SETTINGS.md#log.dirs, or `tidelog settings log.dirs`"]
        ours = see(daemon.bootstrap)
    assert len(ours.messages) == 300 * (2 * len(CODECS) + 4)
    assert ours.settings == TOPICS

    report = export(data, "--json")
    assert report.returncode == 0, report.stderr
    facts = json.loads(report.stdout)
    assert (facts["topics"], facts["partitions"]) == (len(TOPICS) + 1, 2 * len(TOPICS) + 3)
    epochs = {path: newest_epoch(path) for path in data.glob("*-*/leader-epoch-checkpoint")}

    with kafka(tmp_path, release=release) as bootstrap:
        theirs = see(bootstrap)
        assert theirs.messages == ours.messages
        assert set(theirs.committed.values()) == {10, 11, 12, 13, 14}
        assert (theirs.ids, theirs.partitions, theirs.committed) == (ours.ids, ours.partitions, ours.committed)
        for name in TOPICS:
            assert own_settings(name).items() <= theirs.settings[name].items()
        admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
        admin.create_topics([NewTopic("kafkas-own", 2, 1, config={"retention.ms": "-1"})])["kafkas-own"].result(
            PATIENCE_S
        )
        admin.delete_topics(["to-be-deleted"])["to-be-deleted"].result(PATIENCE_S)
        change = ConfigEntry("retention.ms", "1234567890123", incremental_operation=AlterConfigOpType.SET)
        [changed] = admin.incremental_alter_configs(
            [ConfigResource(ResourceType.TOPIC, "with.defaults", incremental_configs=[change])]
        ).values()
        changed.result(PATIENCE_S)
        for codec in CODECS:
            write(bootstrap, f"codec-{codec}", "third", codec=codec)
        until(lambda: all_led(admin), "the new topic has leaders")
        write(bootstrap, "kafkas-own", "Kafka's", codec="zstd")
        commit(bootstrap, 20)
        theirs = see(bootstrap)
    assert [path.name for path in data.iterdir() if "stray" in path.name] == []
    for path, epoch in epochs.items():
        assert not path.exists() or newest_epoch(path) >= epoch

    with daemon:
        again = see(daemon.bootstrap)
        assert again.messages == theirs.messages
        assert (again.ids, again.partitions, again.committed) == (theirs.ids, theirs.partitions, theirs.committed)
        expected = {name: settings for name, settings in TOPICS.items() if name != "to-be-deleted"}
        expected |= {"with.defaults": {"retention.ms": "1234567890123"}, "kafkas-own": {"retention.ms": "-1"}}
        assert again.settings == expected
        write(daemon.bootstrap, "kafkas-own", "ours", codec="zstd")
        commit(daemon.bootstrap, 30)
        again = see(daemon.bootstrap)
    text = dump(files_of(data, ".log", ".index", ".timeindex", ".snapshot"), "--deep-iteration")
    assert complaints(text, first_offsets(data)) == []

    assert export(data).returncode == 0
    with kafka(tmp_path, release=release) as bootstrap:
        last = see(bootstrap)
        assert last.messages == again.messages
        assert (last.ids, last.committed) == (again.ids, again.committed)


def test_two_directories_and_a_quorum_in_the_log(tmp_path: Path) -> None:
    """As `kafka-storage format --standalone` and Kafka's own server.properties have it."""
    log_dirs = f"{tmp_path}/data,{tmp_path}/more"
    daemon = Daemon(tmp_path / "data", {"log.dirs": log_dirs, "offsets.topic.num.partitions": 3, **KEEP})
    with daemon:
        admin = AdminClient({"bootstrap.servers": daemon.bootstrap, **QUIET})
        for future in admin.create_topics([NewTopic(f"codec-{codec}", 3, 1) for codec in CODECS]).values():
            future.result(PATIENCE_S)
        write(daemon.bootstrap, "codec-lz4", "ours", codec="lz4")
        commit(daemon.bootstrap, 1)
        ours = see(daemon.bootstrap)
    homes = {path.name: path.parent.name for path in tmp_path.glob("*/codec-*")}
    assert set(homes.values()) == {"data", "more"}
    port, controller = free_port(), f"127.0.0.1:{free_port()}"
    done = export(tmp_path / "data", str(tmp_path / "more"), "--controller", controller)
    assert done.returncode == 0, done.stderr
    listeners = f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://{controller}"
    with kafka(
        tmp_path,
        port=str(port),
        log_dirs=log_dirs,
        listeners=listeners,
        advertised_listeners=listeners,
        controller_quorum_voters="",
        controller_quorum_bootstrap_servers=controller,
    ) as bootstrap:
        theirs = see(bootstrap)
        assert (theirs.messages, theirs.ids, theirs.committed) == (ours.messages, ours.ids, ours.committed)
        write(bootstrap, "codec-none", "Kafka's")
        theirs = see(bootstrap)
    assert {path.name: path.parent.name for path in tmp_path.glob("*/codec-*")} == homes
    with daemon:
        again = see(daemon.bootstrap)
    assert (again.messages, again.ids, again.committed) == (theirs.messages, theirs.ids, theirs.committed)


def finalized(bootstrap: str) -> dict[str, int]:
    """Levels of features that clients are told."""
    host, _, port = bootstrap.rpartition(":")
    request = ApiVersionsRequest(client_software_name="tests", client_software_version="1")
    with WireClient((host, int(port))) as client:
        answer = client.ask(request, 4, ApiVersionsResponse)
    return {feature.name: feature.max_version_level for feature in answer.finalized_features}


def test_kafkas_own_to_ours_to_kafka(tmp_path: Path) -> None:
    """A directory that the newest Kafka formatted, with all of its newest features."""
    data = tmp_path / "data"
    with kafka(tmp_path, is_new=True, offsets_topic_num_partitions="3") as bootstrap:
        admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
        topics = {name: dict(own_settings(name)) for name in TOPICS}
        for future in admin.create_topics([NewTopic(n, 2, 1, config=config) for n, config in topics.items()]).values():
            future.result(PATIENCE_S)
        until(lambda: all_led(admin), "the topics have leaders")
        for codec in CODECS:
            write(bootstrap, f"codec-{codec}", "Kafka's", codec=codec)
        commit(bootstrap, 10)
        admin.delete_topics(["to-be-deleted"])["to-be-deleted"].result(PATIENCE_S)
        theirs, levels = see(bootstrap), finalized(bootstrap)
    daemon = Daemon(data, {"group.initial.rebalance.delay.ms": 0, **KEEP})
    with daemon:
        ours = see(daemon.bootstrap)
        assert ours == theirs
        told = finalized(daemon.bootstrap)
        assert {name: min(level, told[name]) for name, level in levels.items() if name in told} == told
        assert told["metadata.version"] == levels["metadata.version"]
        write(daemon.bootstrap, "codec-zstd", "ours", codec="zstd")
        commit(daemon.bootstrap, 20)
        ours = see(daemon.bootstrap)
    said = daemon.stderr()
    assert "taken over from Apache Kafka" in said
    assert "records of types that are not known here" not in said
    report = export(data, "--json")
    assert report.returncode == 0, report.stderr
    assert json.loads(report.stdout)["kafka"] == ".".join(NEWEST.split(".")[:2])
    with kafka(tmp_path) as bootstrap:
        last = see(bootstrap)
        assert last == ours
        assert finalized(bootstrap) == levels


def newest_epoch(path: Path) -> int:
    lines = path.read_text().splitlines()[2:]
    return int(lines[-1].split()[0]) if lines else -1
