"""What an export writes, read back as records; that Apache Kafka starts on it is tests/compat/test_export_kraft.py's."""

from __future__ import annotations

import dataclasses
import itertools
import os
import shutil
import stat
from pathlib import Path
from uuid import UUID

import pytest
from tidelog.broker.kraft.export import KAFKA_FEATURES, ExportReport, export_kraft
from tidelog.broker.kraft.import_ import import_metadata
from tidelog.broker.metadata.store import ACL, SCRAM, MetadataStore, StoredMetadata, TopicRecord
from tidelog.broker.security.acl.authorizer import stored_form
from tidelog.broker.security.acl.model import Acl, AclOperation, PatternType, Permission, ResourceType
from tidelog.broker.security.credentials import new_credential
from tidelog.protocol.metadata_records import (
    AccessControlEntryRecord,
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    UserScramCredentialRecord,
    decode_record,
)
from tidelog.storage.exceptions import DataDirectoryError, DirectoryLockedError
from tidelog.storage.inspect.metadata_log import METADATA_LOG_DIRECTORY, MetadataLogReader, find_metadata_log
from tidelog.storage.io.checkpoint import CleanShutdownFile
from tidelog.storage.io.filesystem import RealFileSystem
from tidelog.storage.log.leader_epoch import LEADER_EPOCH_CHECKPOINT
from tidelog.storage.log.partition_metadata import write_partition_metadata
from tidelog.storage.manager.data_directory import DataDirectory
from tidelog.storage.manager.meta_properties import MetaProperties, write_meta_properties

GOLDEN = Path(__file__).parents[3] / "golden" / "kafka-data" / "data"
FILES = RealFileSystem()
A, B, DIRECTORY, OTHER_DIRECTORY = (UUID(int=n) for n in (1, 2, 3, 4))
SETTINGS = {"segment.bytes": "20000", "deletion.policies": "delete-by-age", "retention.ms": "-1"}
STORED = StoredMetadata(
    (TopicRecord("a", A, 2, SETTINGS, 5), TopicRecord("b", B, 1, {}, 5)), {"1": {"log.retention.ms": "7"}}, {}, 3000
)


def directory(path: Path, directory_id: UUID, *partitions: tuple[str, int, UUID, int]) -> str:
    """A data directory after a clean stop; partitions are (topic, number, topic id, newest leader epoch or -1)."""
    path.mkdir()
    write_meta_properties(FILES, path, MetaProperties("cluster", 1, directory_id))
    for topic, number, topic_id, epoch in partitions:
        partition = path / f"{topic}-{number}"
        partition.mkdir()
        write_partition_metadata(FILES, partition, topic_id)
        text = f"0\n1\n{epoch} 0\n" if epoch >= 0 else "0\n0\n"
        (partition / LEADER_EPOCH_CHECKPOINT).write_text(text)
    CleanShutdownFile(FILES, path).write(-1)
    return str(path)


def store(path: str, metadata: StoredMetadata = STORED) -> None:
    opened = MetadataStore(path)
    opened.replace(metadata)
    opened.close()


@pytest.fixture
def paths(tmp_path: Path) -> list[str]:
    first = directory(tmp_path / "one", DIRECTORY, ("a", 0, A, 4), ("b", 0, B, -1))
    store(first)
    return [first, directory(tmp_path / "two", OTHER_DIRECTORY, ("a", 1, A, 6))]


def export(paths: list[str]) -> ExportReport:
    ids = itertools.count(100)
    return export_kraft(paths, FILES, 1234, lambda: UUID(int=next(ids)))


def written(paths: list[str]) -> list[MetadataRecord]:
    files = find_metadata_log(FILES, paths)
    assert files is not None
    messages = [decode_record(value).message for value in MetadataLogReader(FILES, files)]
    assert None not in messages
    return [message for message in messages if message is not None]


def test_the_records_of_two_directories(paths: list[str]) -> None:
    report = export(paths)
    assert report._replace(snapshot="") == ExportReport(
        "", "cluster", 1, 2, 3, 3, 3000, 30, "4.3", 0, 0, 0, (("a", "deletion.policies"),)
    )
    records = written(paths)
    assert records[0] == FeatureLevelRecord(name="metadata.version", feature_level=30)
    features = {one.name: one.feature_level for one in records if isinstance(one, FeatureLevelRecord)}
    assert features == KAFKA_FEATURES
    [broker] = [one for one in records if isinstance(one, RegisterBrokerRecord)]
    assert set(broker.log_dirs) == {DIRECTORY.bytes, OTHER_DIRECTORY.bytes}
    for path in paths:
        assert CleanShutdownFile(FILES, path).read() == broker.broker_epoch
    partitions = [one for one in records if isinstance(one, PartitionRecord)]
    assert [(one.topic_id, one.partition_id, one.leader_epoch, list(one.directories)) for one in partitions] == [
        (A.bytes, 0, 5, [DIRECTORY.bytes]),
        (A.bytes, 1, 7, [OTHER_DIRECTORY.bytes]),
        (B.bytes, 0, 0, [DIRECTORY.bytes]),
    ]
    for one in partitions:
        replicas = (one.replicas, one.isr, one.leader, one.eligible_leader_replicas, one.last_known_elr)
        assert replicas == ([1], [], -1, [1], [1])
    configs = [one for one in records if isinstance(one, ConfigRecord)]
    assert sorted((one.resource_type, one.resource_name, one.name, one.value) for one in configs) == [
        (2, "a", "internal.segment.bytes", "20000"),
        (2, "a", "retention.ms", "-1"),
        (4, "1", "log.retention.ms", "7"),
    ]
    assert [one.next_producer_id for one in records if isinstance(one, ProducerIdsRecord)] == [3000]


def test_what_was_exported_is_not_taken_over_again(paths: list[str]) -> None:
    export(paths)
    opened = MetadataStore(paths[0])
    stored = opened.read()
    assert import_metadata(opened, FILES, paths, 1, 0) == stored
    assert stored == StoredMetadata(
        STORED.topics, STORED.broker_configs, {}, 3000, "00000000000000000016-0000000001.checkpoint 0:0"
    )
    opened.close()


def test_what_has_credentials_is_its_owners_alone(paths: list[str]) -> None:
    before = os.umask(0o027)
    try:
        snapshot = Path(export(paths).snapshot)
        assert stat.S_IMODE(snapshot.stat().st_mode) == 0o600
        assert stat.S_IMODE(snapshot.parent.stat().st_mode) == 0o750
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)


def test_a_second_export_counts_more_than_the_first(paths: list[str]) -> None:
    first, second = export(paths).snapshot, export(paths).snapshot
    assert Path(first).name == "00000000000000000016-0000000001.checkpoint"
    assert Path(second).name == "00000000000000000032-0000000002.checkpoint"


def test_behind_kafkas_own_log(tmp_path: Path) -> None:
    path = tmp_path / "data"
    shutil.copytree(GOLDEN, path)
    (path / "kafka_cleanshutdown").rename(path / ".kafka_cleanshutdown")
    opened = MetadataStore(str(path))
    taken = import_metadata(opened, FILES, [str(path)], 1, 0)
    opened.close()
    report = export([str(path)])
    offset, epoch = Path(report.snapshot).stem.split("-")
    assert int(offset) > 273
    assert int(epoch) == 2
    assert (report.topics, report.partitions, report.settings) == (21, 23, 98)
    assert (path / METADATA_LOG_DIRECTORY / f"{0:020d}.log").stat().st_size == 17743  # Kafka's own stays
    other = MetadataStore(str(tmp_path))  # as if metadata.db were lost
    again = import_metadata(other, FILES, [str(path)], 1, 0)
    assert (again.topics, again.features) == (taken.topics, taken.features)
    other.close()


def test_a_directory_that_a_daemon_has(paths: list[str]) -> None:
    daemon = DataDirectory(paths[1], FILES)
    daemon.open()
    with pytest.raises(DirectoryLockedError):
        export(paths)
    daemon.close()
    assert find_metadata_log(FILES, paths) is None
    export(paths)  # nothing is left locked


def test_after_kafka_has_run(paths: list[str]) -> None:
    export(paths)
    log = Path(paths[0]) / METADATA_LOG_DIRECTORY / f"{16:020d}.log"
    log.write_bytes((GOLDEN / METADATA_LOG_DIRECTORY / f"{0:020d}.log").read_bytes()[:91])
    with pytest.raises(DataDirectoryError, match="Apache Kafka has written here since"):
        export(paths)


def test_what_does_not_fit(paths: list[str], tmp_path: Path) -> None:
    with pytest.raises(DataDirectoryError, match=r"1 partitions have no directory, a-1 for one; name all of log\.dirs"):
        export(paths[:1])
    with pytest.raises(DataDirectoryError, match=r"has no metadata\.db; name the first of log\.dirs first"):
        export(paths[1:])
    with pytest.raises(DataDirectoryError, match=r"has no meta\.properties"):
        export([str(tmp_path)])
    (Path(paths[1]) / ".kafka_cleanshutdown").unlink()
    with pytest.raises(DataDirectoryError, match="the last stop was not clean; start tidelog once"):
        export(paths)
    CleanShutdownFile(FILES, paths[1]).write(-1)
    write_partition_metadata(FILES, f"{paths[1]}/a-1", B)
    write_partition_metadata(FILES, f"{paths[0]}/a-0", B)
    with pytest.raises(DataDirectoryError, match="do not agree; start tidelog once"):
        export(paths)


def test_a_feature_that_was_changed_here_stands_beside_those_of_a_new_cluster(paths: list[str]) -> None:
    store(paths[0], dataclasses.replace(STORED, features={"share.version": 0}))
    assert export(paths).metadata_version == KAFKA_FEATURES["metadata.version"]
    levels = {one.name: one.feature_level for one in written(paths) if isinstance(one, FeatureLevelRecord)}
    assert levels == {**KAFKA_FEATURES, "share.version": 0}


def test_rules_for_ranges_of_addresses_go_to_a_kafka_that_knows_them(paths: list[str]) -> None:
    rule = Acl(ResourceType.TOPIC, "a", PatternType.LITERAL, "User:u", "10.0.0.0/8", AclOperation.READ, Permission.DENY)
    stored = dataclasses.replace(STORED, resources={ACL: stored_form([(rule, str(A))])})
    store(paths[0], stored)
    with pytest.raises(
        DataDirectoryError, match=r"1 access rules are for ranges .* metadata\.version 30: it would let in"
    ):
        export(paths)
    assert find_metadata_log(FILES, paths) is None
    store(paths[0], dataclasses.replace(stored, features={**KAFKA_FEATURES, "metadata.version": 32}))
    assert export(paths).kafka == "4.4"
    assert [one.host for one in written(paths) if isinstance(one, AccessControlEntryRecord)] == ["10.0.0.0/8"]


def test_without_eligible_replicas(paths: list[str]) -> None:
    """A cluster that had them switched off, or an older Kafka's."""
    store(paths[0], StoredMetadata(STORED.topics, {}, {"metadata.version": 25}, 0))
    assert export(paths).metadata_version == 25
    for one in written(paths):
        if isinstance(one, PartitionRecord):
            assert (one.isr, one.eligible_leader_replicas, one.last_known_elr) == ([1], None, None)
    assert not [one for one in written(paths) if isinstance(one, ProducerIdsRecord)]


def test_users_and_rules_go_along(paths: list[str]) -> None:
    rule = Acl(ResourceType.TOPIC, "a", PatternType.LITERAL, "User:u", "*", AclOperation.READ, Permission.ALLOW)
    credential = new_credential("SCRAM-SHA-256", "secret", b"salt")
    resources = {
        SCRAM: {"u": {"SCRAM-SHA-256": credential.text()}},
        ACL: stored_form([(rule, str(A))]),
    }
    store(paths[0], dataclasses.replace(STORED, resources=resources))
    report = export(paths)
    assert (report.users, report.rules, report.carried) == (1, 1, 0)
    records = written(paths)
    assert [one.stored_key for one in records if isinstance(one, UserScramCredentialRecord)] == [credential.stored_key]
    assert [one.id for one in records if isinstance(one, AccessControlEntryRecord)] == [A.bytes]
    # And once more: what Kafka was given comes from metadata.db, not a second time from its own log.
    assert export(paths).carried == 0
    assert sum(isinstance(one, AccessControlEntryRecord) for one in written(paths)) == 1


def test_a_credential_that_cannot_be_read_is_told(paths: list[str]) -> None:
    store(paths[0], dataclasses.replace(STORED, resources={SCRAM: {"u": {"SCRAM-SHA-256": "rubbish"}}}))
    with pytest.raises(DataDirectoryError, match="not a stored SCRAM credential"):
        export(paths)
