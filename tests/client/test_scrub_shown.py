"""Rot in a running daemon's files, as each place tells it: /health, /metrics, /why, `tidelog why` and the console."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import NewTopic
from support.clients.kafka_python import consumer, producer
from support.console_client import Browser
from support.daemon import Daemon
from support.patience import PATIENCE_S, until

TOPIC = "rotten.topic"
SEGMENT = "00000000000000000000"
RATE = "tidelog.log.scrub.bytes.per.second"


def get(daemon: Daemon, path: str) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(f"http://{daemon.http}{path}", timeout=PATIENCE_S) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def flip(path: Path, position: int) -> None:
    """Turn one bit."""
    content = bytearray(path.read_bytes())
    content[position] ^= 0x10
    path.write_bytes(content)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """With three partitions of closed segments: one sound, one with a bit of a record flipped, one with a bit of an index."""
    settings = {
        RATE: 0,
        "log.initial.task.delay.ms": 0,
        "log.cleaner.backoff.ms": 3_600_000,
    }
    with Daemon(tmp_path_factory.mktemp("rot") / "data", settings, damaged="bits are flipped") as running:
        with closing(KafkaAdminClient(bootstrap_servers=running.bootstrap)) as admin:
            configs = {"segment.bytes": "20000", "index.interval.bytes": "1000"}
            admin.create_topics([NewTopic(TOPIC, 3, 1, topic_configs=configs)])
        with closing(producer(running.bootstrap, linger_ms=0)) as p:
            for number in range(300):
                p.send(TOPIC, value=b"%0500d" % number, partition=number % 3).get(PATIENCE_S)
        running.stop()
        flip(running.directory / f"{TOPIC}-1" / f"{SEGMENT}.log", 700)
        flip(running.directory / f"{TOPIC}-2" / f"{SEGMENT}.index", 7)
        running.settings[RATE] = str(1 << 30)  # its first pass: the next one is an hour later
        running.start()
        until(lambda: get(running, "/health")[0] == 503, "the scrubber finds it")
        until(lambda: len(get(running, "/health")[1]["reasons"]) == 2, "both")
        yield running


def test_health_names_partition_file_and_what_to_do(daemon: Daemon) -> None:
    status, content = get(daemon, "/health")
    assert status == 503
    told = {reason["subject"]: reason for reason in content["reasons"]}
    assert told.keys() == {f"{TOPIC}-1", f"{TOPIC}-2"}
    assert {reason["reason"] for reason in content["reasons"]} == {"damaged_file"}
    assert told[f"{TOPIC}-1"]["text"].startswith(f"{SEGMENT}.log at byte ")
    assert ".kafka_cleanshutdown" in told[f"{TOPIC}-1"]["text"]
    assert told[f"{TOPIC}-2"]["text"].startswith(f"{SEGMENT}.index at byte ")
    assert "makes the index anew" in told[f"{TOPIC}-2"]["text"]
    assert get(daemon, "/health/ready") == (200, {"status": "ready", "degraded": ["damaged_file"]})


def test_metrics_count_it_by_kind(daemon: Daemon) -> None:
    with urllib.request.urlopen(f"http://{daemon.http}/metrics", timeout=PATIENCE_S) as answer:
        lines = dict(line.rsplit(" ", 1) for line in answer.read().decode().splitlines() if line[:1] != "#")
    directory = f'directory="{daemon.directory}"'
    assert float(lines[f'tidelog_log_scrub_damaged_files{{{directory},kind="log"}}']) == 1
    assert float(lines[f'tidelog_log_scrub_damaged_files{{{directory},kind="index"}}']) == 1
    assert float(lines[f'tidelog_log_scrub_damaged_files{{{directory},kind="timeindex"}}']) == 0
    assert float(lines[f"tidelog_log_scrub_bytes_total{{{directory}}}"]) > 100_000
    assert float(lines['tidelog_degraded{reason="damaged_file"}']) == 2


def test_why_names_it_for_programs_and_for_people(daemon: Daemon) -> None:
    until(lambda: get(daemon, f"/why/{TOPIC}/0")[1]["partitions"][0]["scrub"]["wholeMs"], "all was read")
    sound, segment, index = get(daemon, f"/why/{TOPIC}")[1]["partitions"]
    assert sound["damage"] == []
    assert {found["kind"] for found in segment["damage"]} == {"log"}
    assert {found["kind"] for found in index["damage"]} == {"index"}
    command = [sys.executable, "-m", "tidelog.broker", "why", f"{TOPIC}-1", "--http", daemon.http]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    assert f"\n  damaged: {SEGMENT}.log at byte " in done.stdout
    assert "\n    do: stop the daemon and put the file back from a copy" in done.stdout
    assert "\n  closed segments last read whole to look for damage: " in done.stdout


def test_the_console_shows_it_where_people_look(daemon: Daemon) -> None:
    browser = Browser(f"http://{daemon.http}")
    overview = browser.get("/").words
    assert f"damaged_file {TOPIC}-1 {SEGMENT}.log at byte " in overview
    assert "all read whole 20" in overview
    damaged = browser.get(f"/topics/{TOPIC}/1").words
    assert "1 damaged file. " in damaged
    assert "What to do: stop the daemon and put the file back from a copy" in damaged
    assert "Damage" not in browser.get(f"/topics/{TOPIC}/0").words
    assert "damaged" in browser.get(f"/topics/{TOPIC}").words
    disks = browser.get("/disks")
    assert "2 damaged files. " in disks.words
    assert {f"/topics/{TOPIC}/1", f"/topics/{TOPIC}/2"} <= set(disks.page.links)


def test_a_restart_tells_it_from_the_first_answer_on(daemon: Daemon) -> None:
    """With the scrubber off, so that nothing but what was remembered can be told."""
    until(lambda: get(daemon, f"/why/{TOPIC}/0")[1]["partitions"][0]["scrub"]["wholeMs"], "all was read")
    before = get(daemon, f"/why/{TOPIC}")[1]["partitions"]
    rate = daemon.settings.pop(RATE)
    daemon.stop()
    daemon.settings[RATE] = "0"
    daemon.start()
    assert {reason["subject"] for reason in get(daemon, "/health")[1]["reasons"]} == {f"{TOPIC}-1", f"{TOPIC}-2"}
    after = get(daemon, f"/why/{TOPIC}")[1]["partitions"]
    for one, other in zip(before, after, strict=True):
        assert other["damage"] == one["damage"]
        assert other["scrub"]["wholeMs"] == one["scrub"]["wholeMs"]
        assert other["scrub"]["wholeBegunMs"] == one["scrub"]["wholeBegunMs"]
    daemon.settings[RATE] = rate


def test_what_the_runbook_says_to_do_ends_it(daemon: Daemon) -> None:
    """The last test: the batch becomes a hole, which is told as such, the index is made again, every other record is there."""
    daemon.stop()
    (daemon.directory / f"{TOPIC}-2" / f"{SEGMENT}.index").unlink()
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
        (daemon.directory / name).unlink()
    daemon.start()
    until(lambda: "damaged_file" not in get(daemon, "/health/ready")[1]["degraded"], "the scrubber finds nothing")
    (hole,) = get(daemon, "/health")[1]["reasons"]
    assert (hole["reason"], hole["subject"]) == ("damaged_log", f"{TOPIC}-1")
    with closing(consumer(daemon.bootstrap)) as reader:
        places = [TopicPartition(TOPIC, partition) for partition in range(3)]
        reader.assign(places)
        reader.seek_to_beginning()
        read: dict[int, int] = dict.fromkeys(range(3), 0)
        while any(reader.position(place) < 100 for place in places):
            for batch in reader.poll(1000).values():
                for record in batch:
                    read[record.partition] += 1
    assert read == {0: 100, 1: 99, 2: 100}
