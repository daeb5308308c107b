"""Promise: the machine is lost, and a restored backup goes on where it was: records, groups, transactions, settings."""

from __future__ import annotations

import shutil
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic
from support.daemon import Daemon, DaemonError
from support.patience import PATIENCE_S
from tidelog.backup.restore.catalog import Catalog
from tidelog.backup.store.opening import open_store
from tidelog.cli.main import main


def covered(daemon: Daemon) -> bool:
    """True if all that was acknowledged before this call is in the backup."""
    before = time.time()
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        with urllib.request.urlopen(f"http://{daemon.http}/metrics", timeout=PATIENCE_S) as answer:
            text = answer.read().decode()
        lag = [line.split()[1] for line in text.splitlines() if line.startswith("tidelog_backup_lag_seconds ")]
        if lag and time.time() - float(lag[0]) > before + 0.05:
            return True
        time.sleep(0.05)
    return False


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    (tmp_path / "store").mkdir()
    settings = {
        "backup.url": f"file://{tmp_path}/store",
        "backup.interval.ms": 200,
        "log.segment.bytes": 1 << 20,
        "offsets.topic.num.partitions": 3,
        "transaction.state.log.num.partitions": 3,
    }
    with Daemon(tmp_path / "data", settings) as made:
        yield made


def lost_and_restored(daemon: Daemon, tmp_path: Path, *arguments: str) -> None:
    """Kill the daemon, lose its directory, restore the newest cut in its place, and start."""
    daemon.kill()
    shutil.rmtree(daemon.directory)
    assert main(["restore", "--from", f"file://{tmp_path}/store", *arguments, str(daemon.directory)]) == 0
    assert main(["log", "verify", "--quiet", str(daemon.directory)]) == 0
    daemon.start()


def consumed(daemon: Daemon, topic: str, group: str | None = None, **options: Any) -> list[bytes]:
    """Values of all that can be read of a topic's partition 0, from the group's offset on."""
    consumer = KafkaConsumer(
        bootstrap_servers=daemon.bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        **options,
    )
    with closing(consumer):
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        end = consumer.end_offsets([partition])[partition]
        found: list[bytes] = []
        deadline = time.monotonic() + PATIENCE_S
        while consumer.position(partition) < end and time.monotonic() < deadline:
            for records in consumer.poll(timeout_ms=500).values():
                found += [record.value for record in records]
        if group is not None:
            consumer.commit()
        return found


def test_a_lost_machine_goes_on_from_its_backup(daemon: Daemon, tmp_path: Path) -> None:
    with closing(KafkaAdminClient(bootstrap_servers=daemon.bootstrap)) as admin:
        admin.create_topics([NewTopic("orders", 1, 1, topic_configs={"retention.ms": "123456789"})])
    with closing(KafkaProducer(bootstrap_servers=daemon.bootstrap, transactional_id="t")) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("orders", b"first").get(PATIENCE_S)
        producer.commit_transaction()
        assert consumed(daemon, "orders", "readers", isolation_level="read_committed") == [b"first"]
        producer.begin_transaction()
        producer.send("orders", b"second").get(PATIENCE_S)
        producer.commit_transaction()
        producer.begin_transaction()
        producer.send("orders", b"aborted").get(PATIENCE_S)
        producer.abort_transaction()
        producer.begin_transaction()
        producer.send("orders", b"open").get(PATIENCE_S)
        assert covered(daemon)
        with closing(open_store(f"file://{tmp_path}/store")) as store:
            cut = Catalog(store).newest().header.number
        before = (daemon.directory / "meta.properties").read_text()
    # kafka-python leaves sockets behind when its broker dies, so it went before; what that changed is in later cuts.
    lost_and_restored(daemon, tmp_path, "--cut", str(cut))
    committed = consumed(daemon, "orders", "readers", isolation_level="read_committed")
    assert committed == [b"second"]
    assert consumed(daemon, "orders") == [b"first", b"second", b"aborted", b"open"]
    with closing(KafkaProducer(bootstrap_servers=daemon.bootstrap, transactional_id="t")) as producer:
        producer.init_transactions()  # fences the one before, whose transaction is aborted
        producer.begin_transaction()
        producer.send("orders", b"after").get(PATIENCE_S)
        producer.commit_transaction()
    assert consumed(daemon, "orders", "readers", isolation_level="read_committed") == [b"after"]
    after = (daemon.directory / "meta.properties").read_text()
    assert [line for line in before.splitlines() if line.startswith("cluster")] == [
        line for line in after.splitlines() if line.startswith("cluster")
    ]


def test_cuts_go_on_after_a_restore(daemon: Daemon, tmp_path: Path) -> None:
    with closing(KafkaProducer(bootstrap_servers=daemon.bootstrap)) as producer:
        for number in range(3):
            producer.send("orders", b"%d" % number).get(PATIENCE_S)
            assert covered(daemon)
    lost_and_restored(daemon, tmp_path)
    with closing(KafkaProducer(bootstrap_servers=daemon.bootstrap)) as producer:
        producer.send("orders", b"3").get(PATIENCE_S)
        assert covered(daemon)
    lost_and_restored(daemon, tmp_path)
    assert consumed(daemon, "orders") == [b"0", b"1", b"2", b"3"]


def test_a_second_daemon_stops_the_backup_of_the_first(daemon: Daemon, tmp_path: Path) -> None:
    with closing(KafkaProducer(bootstrap_servers=daemon.bootstrap)) as producer:
        producer.send("orders", b"1").get(PATIENCE_S)
        assert covered(daemon)
        other = tmp_path / "other"
        assert main(["restore", "--from", f"file://{tmp_path}/store", str(other)]) == 0
        with Daemon(other, daemon.settings) as second:
            with closing(KafkaProducer(bootstrap_servers=second.bootstrap)) as to_second:
                to_second.send("orders", b"2").get(PATIENCE_S)
            assert covered(second)
            producer.send("orders", b"lost").get(PATIENCE_S)
            deadline = time.monotonic() + PATIENCE_S
            text = ""
            while "backup_stopped" not in text and time.monotonic() < deadline:
                try:
                    with urllib.request.urlopen(f"http://{daemon.http}/health", timeout=PATIENCE_S) as answer:
                        text = answer.read().decode()
                except urllib.error.HTTPError as error:
                    text = error.read().decode()
                time.sleep(0.05)
            assert "another daemon has published cut" in text


def test_a_directory_of_an_unfinished_restore_is_refused_and_gone_on_with(daemon: Daemon, tmp_path: Path) -> None:
    with closing(KafkaProducer(bootstrap_servers=daemon.bootstrap)) as producer:
        producer.send("orders", b"1").get(PATIENCE_S)
        assert covered(daemon)
    daemon.stop()
    with closing(open_store(f"file://{tmp_path}/store")) as store:
        cut = Catalog(store).newest()
    new = tmp_path / "new"
    new.mkdir()
    marker = (
        f'{{"version":1,"store":"file://{tmp_path}/store","cut":{cut.header.number},"session":"{cut.header.session}",'
    )
    (new / "tidelog-restore").write_text(marker + f'"directories":["{new}"]}}')
    with pytest.raises(DaemonError, match="has not come to its end"):
        Daemon(new).start()
    assert main(["restore", "--from", f"file://{tmp_path}/store", str(new)]) == 0
    with Daemon(new) as restored:
        assert consumed(restored, "orders") == [b"1"]
    assert main(["restore", "--from", f"file://{tmp_path}/store", str(new)]) == 1
