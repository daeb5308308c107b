"""Promise: the machine is lost, and a restored backup goes on where it was: records, groups, transactions, settings."""

from __future__ import annotations

import json
import shutil
import sqlite3
import time
import urllib.error
import urllib.request
import zlib
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import NotEnoughReplicasError
from support.daemon import Daemon, DaemonError
from support.patience import PATIENCE_S
from tidelog.backup.restore.catalog import Catalog
from tidelog.backup.store.opening import open_store
from tidelog.cli.main import main
from tidelog.cli.support.kafka_client import KafkaFailure
from tidelog.cli.support.own_producer import OwnProducer


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


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Exit code and output of a command."""
    capsys.readouterr()
    code = main(list(arguments))
    return code, capsys.readouterr().out


def waited_for(daemon: Daemon, path: str, word: str) -> str:
    """An answer of the daemon's HTTP that has the word in it."""
    text = ""
    deadline = time.monotonic() + PATIENCE_S
    while word not in text and time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"http://{daemon.http}{path}", timeout=PATIENCE_S) as answer:
                text = answer.read().decode()
        except urllib.error.HTTPError as error:
            text = error.read().decode()
        time.sleep(0.05)
    assert word in text
    return text


def test_status_says_what_is_there_what_it_costs_and_when_it_was_tried(
    daemon: Daemon, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"file://{tmp_path}/store"
    with closing(KafkaProducer(bootstrap_servers=daemon.bootstrap)) as producer:
        producer.send("orders", b"1").get(PATIENCE_S)
    assert covered(daemon)
    code, text = told(capsys, "backup", "status", "--from", url)
    assert code == 0
    assert " 1 partition, " in text
    assert "drill:  none yet" in text
    assert told(capsys, "backup", "verify", "--from", url, "--record")[0] == 0
    code, text = told(capsys, "backup", "status", "--from", url, "--http", daemon.http)
    assert code == 0
    assert "was read whole 0 s ago" in text
    assert "daemon: running; the last " in text
    assert "requests to the store since its start:" in text
    code, text = told(capsys, "backup", "status", "--http", daemon.http, "--json")
    content = json.loads(text)
    assert "cuts" not in content
    assert content["daemon"]["requests"]["upload"]["bytes"] > 0
    assert content["daemon"]["lastCut"] == content["daemon"]["recent"][-1]["cut"]
    code, text = told(capsys, "why", "orders", "--http", daemon.http)
    assert "in the backup up to offset 1 (by cut " in text
    assert "since 20" in text
    page = waited_for(daemon, "/backup", "Last cuts")
    assert url in page


def test_a_drill_is_made_in_the_background_and_finds_damage(daemon: Daemon, tmp_path: Path) -> None:
    daemon.stop()
    daemon.settings["backup.verify.interval.ms"] = "60000"
    daemon.start()
    with closing(KafkaProducer(bootstrap_servers=daemon.bootstrap)) as producer:
        producer.send("orders", b"1").get(PATIENCE_S)
    assert covered(daemon)
    waited_for(daemon, "/metrics", "tidelog_backup_drill_age_seconds ")
    assert waited_for(daemon, "/metrics", "tidelog_backup_drill_damaged 0")
    daemon.stop()
    store = open_store(f"file://{tmp_path}/store")
    for prefix in ("packs/", "segments/"):
        for stored in list(store.list(prefix)):
            store.delete([stored.key])
            store.upload(stored.key, stored.size, [bytes(stored.size)])
    store.delete([stored.key for stored in store.list("drills/")])
    daemon.start()
    text = waited_for(daemon, "/health", "backup_damaged")
    assert "its bytes do not fit the sum in the manifest" in text


def test_a_store_that_cannot_be_is_refused_and_one_that_refuses_is_waited_for(daemon: Daemon, tmp_path: Path) -> None:
    daemon.stop()
    daemon.settings["backup.url"] = "file://nas/tidelog"
    with pytest.raises(DaemonError, match=r"backup\.url: open file://nas/tidelog: not a path; write three slashes"):
        daemon.start()
    missing = tmp_path / "missing"
    daemon.settings["backup.url"] = missing.as_uri()
    daemon.start()
    text = waited_for(daemon, "/health", "backup_behind")
    assert "there is no such directory; make it, or mount what it is on" in text
    with closing(KafkaProducer(bootstrap_servers=daemon.bootstrap)) as producer:
        producer.send("orders", b"served").get(PATIENCE_S)
    missing.mkdir()
    assert covered(daemon)


def test_a_fence_refuses_records_while_the_store_is_away_and_takes_them_again(daemon: Daemon, tmp_path: Path) -> None:
    daemon.stop()
    daemon.settings["backup.fence.ms"] = "5000"
    daemon.start()
    with closing(KafkaProducer(bootstrap_servers=daemon.bootstrap, retries=0, acks=1)) as producer:
        producer.send("orders", b"1").get(PATIENCE_S)
        assert covered(daemon)
        store = tmp_path / "store"
        store.rename(tmp_path / "away")
        taken = 1
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            try:
                producer.send("orders", b"more").get(PATIENCE_S)
            except NotEnoughReplicasError:
                break
            taken += 1
            time.sleep(0.05)
        else:
            raise AssertionError("records are taken although nothing of them is in the backup")
        (tmp_path / "away").rename(store)
        assert covered(daemon)
        producer.send("orders", b"after").get(PATIENCE_S)
    assert len(consumed(daemon, "orders")) == taken + 1


def test_one_topic_comes_back_beside_what_runs(
    daemon: Daemon, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(KafkaAdminClient(bootstrap_servers=daemon.bootstrap)) as admin:
        settings = {"retention.ms": "3600000", "max.message.bytes": "2000000"}
        admin.create_topics([NewTopic("orders", 2, 1, topic_configs=settings)])
    with closing(KafkaProducer(bootstrap_servers=daemon.bootstrap, transactional_id="t")) as producer:
        producer.init_transactions()
        for commit in (True, False):
            producer.begin_transaction()
            for number in range(50):
                producer.send(
                    "orders", b"%d" % number, key=b"k" if number % 7 else None, partition=number % 2,
                    headers=[("h", b"x"), ("empty", b"")] if number % 5 == 0 else [], timestamp_ms=1_000_000 + number,
                )  # fmt: skip
            (producer.commit_transaction if commit else producer.abort_transaction)()
        assert covered(daemon)
    arguments = ("restore", "--from", f"file://{tmp_path}/store", "--bootstrap-server", daemon.bootstrap)
    arguments = (*arguments, "--scratch", str(tmp_path), "--topic", "orders")
    code, text = told(capsys, *arguments, "--as", "orders_yesterday")
    assert code == 0
    assert "50 committed records in 2 partitions" in text
    assert "offsets begin at 0" in text
    assert not list(tmp_path.glob("tidelog-restore-*"))
    for partition in range(2):
        with closing(KafkaConsumer(bootstrap_servers=daemon.bootstrap, auto_offset_reset="earliest")) as consumer:
            consumer.assign([TopicPartition("orders_yesterday", partition)])
            found: list[Any] = []
            deadline = time.monotonic() + PATIENCE_S
            while len(found) < 25 and time.monotonic() < deadline:
                for records in consumer.poll(timeout_ms=500).values():
                    found += records
        assert [record.value for record in found] == [b"%d" % number for number in range(partition, 50, 2)]
        for record in found:
            number = int(record.value)
            assert record.timestamp == 1_000_000 + number
            assert record.key == (b"k" if number % 7 else None)
            assert list(record.headers) == ([("h", b"x"), ("empty", b"")] if number % 5 == 0 else [])
    assert main([*arguments, "--as", "orders_yesterday"]) == 1
    assert "there is a topic orders_yesterday already: choose another name, or delete it" in capsys.readouterr().err
    assert main([*arguments[:-1], "odrers", "--as", "new"]) == 1
    assert "has no topic odrers; it has " in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([*arguments, "--as", "new", str(tmp_path / "dir")])


def test_a_topic_comes_back_whatever_the_settings_of_the_daemon_are(daemon: Daemon, tmp_path: Path) -> None:
    """Records of times and sizes that only the topic's, or only the daemon's, own settings allow."""
    daemon.stop()
    daemon.settings |= {"message.max.bytes": 3_000_000, "log.segment.bytes": 4_000_000}
    daemon.start()
    later = time.time_ns() // 1_000_000 + 100 * 3_600_000
    with closing(KafkaAdminClient(bootstrap_servers=daemon.bootstrap)) as admin:
        settings = {"message.timestamp.after.max.ms": str(1 << 60)}
        admin.create_topics([NewTopic("orders", 1, 1, topic_configs=settings)])
    with closing(KafkaProducer(bootstrap_servers=daemon.bootstrap, max_request_size=3_000_000)) as producer:
        producer.send("orders", bytes(2_000_000), timestamp_ms=later).get(PATIENCE_S)
        producer.send("orders", b"old", timestamp_ms=1000).get(PATIENCE_S)
    assert covered(daemon)
    daemon.stop()
    daemon.settings |= {"log.message.timestamp.type": "LogAppendTime", "log.message.timestamp.before.max.ms": 1000}
    daemon.start()
    arguments = ["restore", "--from", f"file://{tmp_path}/store", "--bootstrap-server", daemon.bootstrap]
    assert main([*arguments, "--topic", "orders", "--as", "again"]) == 0
    with closing(KafkaConsumer(bootstrap_servers=daemon.bootstrap, auto_offset_reset="earliest")) as consumer:
        consumer.assign([TopicPartition("again", 0)])
        found: list[Any] = []
        deadline = time.monotonic() + PATIENCE_S
        while len(found) < 2 and time.monotonic() < deadline:
            for records in consumer.poll(timeout_ms=500).values():
                found += records
    assert [(len(record.value), record.timestamp) for record in found] == [(2_000_000, later), (3, 1000)]


def test_a_topic_whose_restore_fails_is_not_left_half(
    daemon: Daemon, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(KafkaProducer(bootstrap_servers=daemon.bootstrap)) as producer:
        producer.send("orders", b"1").get(PATIENCE_S)
        assert covered(daemon)

    def fails(self: OwnProducer) -> None:
        raise KafkaFailure("the daemon went away")

    with monkeypatch.context() as patch:
        patch.setattr(OwnProducer, "flush", fails)
        arguments = ["restore", "--from", f"file://{tmp_path}/store", "--bootstrap-server", daemon.bootstrap]
        arguments += ["--topic", "orders", "--as", "half"]
        assert main(arguments) == 1
    assert "the daemon went away" in capsys.readouterr().err
    assert main(arguments) == 0
    assert consumed(daemon, "half") == [b"1"]


def test_passwords_are_sealed_and_come_back_with_the_key_alone(
    daemon: Daemon, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    daemon.stop()
    keys = [tmp_path / "key", tmp_path / "other-key"]
    for path, digits in zip(keys, ("ab", "cd"), strict=True):
        path.write_text(digits * 32)
    daemon.settings |= {"backup.secrets": "encrypt", "backup.secrets.key.file": str(keys[0])}
    daemon.start()
    (tmp_path / "password").write_text("wonderland")
    created = ["users", "create", "alice", "--password-file", str(tmp_path / "password")]
    assert main([*created, "--bootstrap-server", daemon.bootstrap]) == 0
    assert covered(daemon)
    daemon.kill()
    stored = sqlite3.connect(daemon.directory / "metadata.db")
    with closing(stored):
        credentials = [row[0] for row in stored.execute("SELECT value FROM resource_configs WHERE kind = 'scram'")]
    assert credentials
    new = tmp_path / "new"
    command = ["restore", "--from", f"file://{tmp_path}/store", str(new)]
    assert main(command) == 1
    assert "set backup.secrets.key.file to its file, or restore without them" in capsys.readouterr().err
    assert main([*command, "--set", f"backup.secrets.key.file={keys[1]}"]) == 1
    assert f"and {keys[1]} has the key " in capsys.readouterr().err
    assert not new.exists()
    assert main([*command, "--set", f"backup.secrets.key.file={keys[0]}"]) == 0
    with closing(sqlite3.connect(new / "metadata.db")) as restored:
        rows = restored.execute("SELECT value FROM resource_configs WHERE kind = 'scram'").fetchall()
    assert [row[0] for row in rows] == credentials
    bare = tmp_path / "bare"
    assert main([*command[:-1], str(bare), "--without-secrets"]) == 0
    assert "passwords were left out" in capsys.readouterr().out
    with closing(sqlite3.connect(bare / "metadata.db")) as restored:
        assert restored.execute("SELECT count(*) FROM resource_configs WHERE kind = 'scram'").fetchone() == (0,)
    for path in (tmp_path / "store").rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            with suppress(zlib.error):
                data = zlib.decompress(data)
            assert not any(credential.encode() in data for credential in credentials), path
