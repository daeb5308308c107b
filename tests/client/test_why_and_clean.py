"""`tidelog why` and `tidelog clean` against a running daemon, and what a client still finds afterwards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import NewTopic
from support.clients.base import random_name
from support.clients.kafka_python import consumer, producer
from support.daemon import Daemon
from support.patience import PATIENCE_S


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    # No pass but those that are asked for.
    settings = {"log.cleaner.backoff.ms": 3_600_000, "log.cleaner.dedupe.buffer.size": 1 << 20}
    with Daemon(tmp_path_factory.mktemp("why") / "data", settings) as running:
        yield running


def tidelog(daemon: Daemon, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tidelog.broker", *arguments, "--http", daemon.http]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def told(daemon: Daemon, *arguments: str) -> Any:
    done = tidelog(daemon, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def make(daemon: Daemon, partitions: int = 1, **configs: str) -> str:
    topic = random_name("explained")
    with closing(KafkaAdminClient(bootstrap_servers=daemon.bootstrap)) as admin:
        named = {name.replace("_", "."): value for name, value in configs.items()}
        admin.create_topics([NewTopic(topic, partitions, 1, topic_configs=named)])
    return topic


def test_the_kafka_listener_is_enough_to_find_the_port_that_http_was_given(daemon: Daemon) -> None:
    """The daemon was started with port 0: DescribeConfigs tells the one that is bound."""
    topic = make(daemon)
    for command in (["why", topic], ["clean", topic, "--wait"]):
        asked = [sys.executable, "-m", "tidelog.broker", *command, "--bootstrap-server", daemon.bootstrap]
        done = subprocess.run(asked, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert topic in done.stdout
        asked[4] = topic[:-1]
        done = subprocess.run(asked, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == f"tidelog: there is no topic '{topic[:-1]}'; did you mean {topic}?\n"


@pytest.mark.parametrize("given", [True, False])
def test_a_misspelt_topic_gets_the_nearest_name_without_any_address(daemon: Daemon, *, given: bool) -> None:
    """With no address on the command line no name was offered. An address of HTTP alone says not which Kafka listener to ask."""
    topic = make(daemon)
    environment = os.environ | {
        "TIDELOG_LISTENERS": f"PLAINTEXT://{daemon.bootstrap}",
        "TIDELOG_HTTP_LISTENER": daemon.http,
    }
    for command in (["why", topic[:-1]], ["clean", topic[:-1]]):
        asked = [sys.executable, "-m", "tidelog.broker", *command, *(["--http", daemon.http] if given else [])]
        done = subprocess.run(asked, capture_output=True, text=True, env=environment, timeout=PATIENCE_S, check=False)
        assert (done.returncode, done.stdout) == (1, "")
        guess = "" if given else f"; did you mean {topic}?"
        assert done.stderr == f"tidelog: there is no topic '{topic[:-1]}'{guess}\n"


def test_a_topic_that_is_not_there_is_told_by_its_whole_name_though_it_ends_with_a_number(daemon: Daemon) -> None:
    """`why paid-2026` said that there is no topic 'paid'."""
    with closing(KafkaAdminClient(bootstrap_servers=daemon.bootstrap)) as admin:
        admin.create_topics([NewTopic("piad-2026", 1, 1)])
    environment = os.environ | {
        "TIDELOG_LISTENERS": f"PLAINTEXT://{daemon.bootstrap}",
        "TIDELOG_HTTP_LISTENER": daemon.http,
    }
    for name, said in (
        ("paid-2026", "there is no topic 'paid-2026'; did you mean piad-2026?"),
        ("piad-2026-7", "topic 'piad-2026' has no partition 7"),
    ):
        asked = [sys.executable, "-m", "tidelog.broker", "why", name]
        done = subprocess.run(asked, capture_output=True, text=True, env=environment, timeout=PATIENCE_S, check=False)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(f"tidelog: {said}"), done.stderr


def test_a_compacted_topic_is_explained_and_cleaned_on_request(daemon: Daemon) -> None:
    topic = make(daemon, 2, cleanup_policy="compact", segment_bytes="32768", min_cleanable_dirty_ratio="1.0")
    with closing(producer(daemon.bootstrap, linger_ms=0)) as p:
        sent = [p.send(topic, key=b"k%d" % (number % 40), value=b"%0200d" % number) for number in range(1000)]
        p.flush()
        last = {
            b"k%d" % (number % 40): (future.get(PATIENCE_S), b"%0200d" % number) for number, future in enumerate(sent)
        }

    partitions = told(daemon, "why", topic)["partitions"]
    assert [one["partition"] for one in partitions] == [0, 1]
    for one in partitions:
        segments = one["segments"]
        assert segments[0]["baseOffset"] == 0
        assert segments[-1]["endOffset"] == one["logEndOffset"]
        assert segments[-1]["reason"] == "active"
        assert {segment["reason"] for segment in segments[:-1]} == {"min.cleanable.dirty.ratio"}
        assert {segment["value"] for segment in segments[:-1]} == {1.0}
    assert told(daemon, "why", f"{topic}-1")["partitions"][0]["partition"] == 1
    text = tidelog(daemon, "why", topic).stdout
    assert f"\n{topic}-1  offsets 0 to " in text
    assert "min.cleanable.dirty.ratio=1.0, now 1.00" in text

    found = told(daemon, "clean", topic, "--wait")
    assert found["removed"] == {
        "superseded": 960, "tombstone": 0, "aborted": 0, "keyless": 0, "marker": 0, "retention": 0, "delete-records": 0,
    }  # fmt: skip
    with closing(consumer(daemon.bootstrap)) as reader:
        both = [TopicPartition(topic, partition) for partition in range(2)]
        reader.assign(both)
        reader.seek_to_beginning()
        ends = reader.end_offsets(both)
        survivors: list[tuple[int, int, bytes, bytes]] = []
        while any(reader.position(each) < ends[each] for each in both):
            for batch in reader.poll(1000).values():
                survivors += [(m.partition, m.offset, m.key, m.value) for m in batch]
    assert sorted(survivors) == sorted(
        (metadata.partition, metadata.offset, key, value) for key, (metadata, value) in last.items()
    )
    after = told(daemon, "why", topic)["partitions"]
    ledgers = [one["ledger"] for one in after]
    assert sum(ledger["live"] for ledger in ledgers) == 40
    assert sum(ledger["removed"]["superseded"] for ledger in ledgers) == 960
    assert [ledger["appended"] for ledger in ledgers] == [one["logEndOffset"] for one in after]
    assert [sum(segment["live"] for segment in one["segments"]) for one in after] == [
        ledger["live"] for ledger in ledgers
    ]
    assert (
        "  since it began: 1,000 appended = 40 live + 960 superseded"
        in tidelog(daemon, "clean", topic, "--wait").stdout
    )
    assert {segment["reason"] for one in after for segment in one["segments"][:-1]} == {"clean"}
    # The daemon knows it after a restart too, and there is nothing left to do.
    daemon.restart()
    assert told(daemon, "why", topic)["partitions"][0]["firstDirtyOffset"] == after[0]["logEndOffset"]
    assert [one["ledger"] for one in told(daemon, "why", topic)["partitions"]] == ledgers
    assert set(told(daemon, "clean", topic, "--wait")["removed"].values()) == {0}
    with urllib.request.urlopen(f"http://{daemon.http}/metrics", timeout=PATIENCE_S) as answer:
        lines = [line for line in answer.read().decode().splitlines() if f'topic="{topic}"' in line]
    told_of = {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if "_log_offsets_" in line}
    for partition, ledger in enumerate(ledgers):
        place = f'partition="{partition}",topic="{topic}"'
        assert told_of[f"tidelog_log_offsets_appended_total{{{place}}}"] == ledger["appended"]
        assert told_of[f"tidelog_log_offsets_live{{{place}}}"] == ledger["live"]
        removed = f'cause="superseded",{place}'
        assert told_of[f"tidelog_log_offsets_removed_total{{{removed}}}"] == ledger["removed"]["superseded"]


def test_a_deletion_mark_is_explained(daemon: Daemon) -> None:
    topic = make(daemon, cleanup_policy="compact", delete_retention_ms="600000")
    with closing(producer(daemon.bootstrap)) as p:
        p.send(topic, key=b"a", value=b"1")
        p.send(topic, key=b"a", value=None).get(PATIENCE_S)
    assert told(daemon, "clean", topic, "--wait")["removed"]["superseded"] == 1
    (partition,) = told(daemon, "why", topic)["partitions"]
    first = partition["segments"][0]
    assert (first["reason"], first["setting"], first["value"]) == ("tombstones", "delete.retention.ms", 600_000)
    assert 590_000 < first["untilMs"] - partition["asOfMs"] <= 600_000


def test_retention_on_request(daemon: Daemon) -> None:
    topic = make(daemon, retention_bytes="0")
    with closing(producer(daemon.bootstrap)) as p:
        for number in range(10):
            p.send(topic, value=b"%d" % number)
        p.flush()
    assert told(daemon, "why", topic)["partitions"][0]["segments"][0]["reason"] == "active"
    done = tidelog(daemon, "clean", topic, "--wait")
    assert done.returncode == 0
    assert ["retention", "10"] in [line.split() for line in done.stdout.splitlines()]
    with closing(consumer(daemon.bootstrap)) as reader:
        partition = TopicPartition(topic, 0)
        assert reader.beginning_offsets([partition]) == reader.end_offsets([partition]) == {partition: 10}


def test_errors_are_one_line(daemon: Daemon) -> None:
    for command in (["why", "nothing"], ["clean", "nothing", "--wait"]):
        done = tidelog(daemon, *command)
        assert (done.returncode, done.stdout, done.stderr) == (1, "", "tidelog: there is no topic 'nothing'\n")
    nobody = subprocess.run(
        [sys.executable, "-m", "tidelog.broker", "why", "t", "--http", "127.0.0.1:1"],
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert nobody.returncode == 1
    assert nobody.stderr.startswith("tidelog: no daemon answers at http://127.0.0.1:1 (")
    assert nobody.stderr.splitlines()[1:] == [
        "tidelog: see docs/SETTINGS.md#http.listener, or `tidelog settings http.listener`"
    ]
