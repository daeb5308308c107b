"""Writes `__cluster_metadata-0`, so that Apache Kafka starts on our directories with the same topics, ids and settings.

A snapshot is enough: Kafka's controller loads it, elects itself and goes on behind it. Contents:

- the levels of features: those Kafka had here before, else those that Kafka 4.3 gives a new cluster, which 4.4 takes as well;
- the broker as registered and gone again, with an epoch that the marks of a clean stop name too: so Kafka takes its
  next registration for that of the same broker after a clean stop, or it would take away its replicas' right to lead;
- each topic with its id and partitions. A partition has this node as its only replica, in the data directory where it
  lies, and no leader yet: Kafka elects one when the broker has registered. Its leader epoch is above all that our log
  has or told clients, and the election raises it once more;
- topics' settings, as far as Kafka knows them; settings of brokers; the next producer id;
- quotas, settings of groups and of client metrics; users with SCRAM credentials, access rules;
- tokens, and the voters, where Kafka had written such before. Where it had not, the voters are those in Kafka's
  `controller.quorum.voters`, or, when the controller's address is given, this node as in a directory that
  `kafka-storage format --standalone` made, for `controller.quorum.bootstrap.servers`.

Where Kafka has been, its own files stay: the snapshot lies behind the end of its log, in a newer epoch, and so counts.
"""

from __future__ import annotations

import dataclasses
import os
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from ...protocol.config_resources import ConfigResourceType
from ...protocol.metadata_records import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    ConfigRecord,
    FeatureLevelRecord,
    KRaftVersionFeature,
    KRaftVersionRecord,
    MetadataRecord,
    PartitionRecord,
    ProducerIdsRecord,
    QuotaEntity,
    RegisterBrokerRecord,
    TopicRecord,
    Voter,
    VoterEndpoint,
    VotersRecord,
    encode_record,
)
from ...protocol.schema import encode
from ...storage.exceptions import CorruptCheckpointError, DataDirectoryError
from ...storage.inspect.metadata_log import (
    KRAFT_VERSION,
    KRAFT_VOTERS,
    METADATA_LOG_DIRECTORY,
    MetadataLogFiles,
    SnapshotId,
    find_metadata_log,
    write_snapshot,
)
from ...storage.io.checkpoint import CleanShutdownFile
from ...storage.log.leader_epoch import LEADER_EPOCH_CHECKPOINT, LeaderEpochCache
from ...storage.log.partition_metadata import read_partition_metadata
from ...storage.manager.data_directory import DataDirectory
from ...storage.manager.meta_properties import META_PROPERTIES_FILE
from ...storage.segment.names import DirectoryState
from ..metadata.features import METADATA_VERSION, oldest_kafka
from ..metadata.store import ACL, CLIENT_METRICS, FILE_NAME, GROUP, QUOTA, SCRAM, MetadataStore, StoredMetadata
from ..metadata.topic_repairs import NO_ID, FoundLog, plan_repairs
from ..quotas.manager import parse_entity
from ..security.acl.rules import ADDRESS_RANGES_LEVEL, is_range
from .image import MetadataImage
from .import_ import for_kafka, read_with_controls
from .security import is_ours, security_records

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ...storage.io.filesystem import FileSystem

KAFKA_FEATURES = {
    METADATA_VERSION: 30,
    "eligible.leader.replicas.version": 1,
    "group.version": 1,
    "share.version": 1,
    "streams.version": 1,
    "transaction.version": 2,
}
"""Features that Kafka 4.3's `kafka-storage format` gives a new cluster. Kafka 4.4 starts with them, and raises those that
`kafka-features.sh upgrade` names; with 4.4's own (metadata.version 33) Kafka 4.3 would not start."""

ELR_FEATURE = "eligible.leader.replicas.version"
_REGISTER_VERSION = 3
CONTROLLER_LISTENER = "CONTROLLER"
"""The name that Kafka's own server.properties has in controller.listener.names."""


class ExportReport(NamedTuple):
    """Result of an export. `left_out`: (topic, setting) that Kafka does not have. `kafka`: the oldest release that opens it."""

    snapshot: str
    cluster_id: str
    node_id: int
    topics: int
    partitions: int
    settings: int
    next_producer_id: int
    metadata_version: int
    kafka: str
    users: int
    rules: int
    carried: int
    left_out: tuple[tuple[str, str], ...]


class FoundPartition(NamedTuple):
    """A partition on disk: where, and what its files say."""

    directory_id: UUID
    topic_id: UUID
    next_epoch: int


def export_kraft(
    paths: Sequence[str],
    file_system: FileSystem,
    now_ms: int,
    new_id: Callable[[], UUID],
    controller: tuple[str, int] | None = None,
) -> ExportReport:
    """Writes the snapshot into the first of a node's data directories, all of which must be named.

    `controller` is (host, port) of Kafka's controller listener, for a quorum that is kept in the log.
    Raises `DirectoryLockedError` while a daemon has one of them, `DataDirectoryError` when something in them does not
    fit, `KafkaStorageError` or OSError when it can't be written. Blocks.
    """
    with ExitStack() as stack:
        directories = []
        for path in paths:
            if not file_system.exists(f"{path}/{META_PROPERTIES_FILE}"):
                raise DataDirectoryError(path, f"has no {META_PROPERTIES_FILE}", "name a data directory of tidelog's")
            directory = DataDirectory(path, file_system)
            properties = directory.open()
            stack.callback(directory.close)
            directories.append((directory, properties))
        first = directories[0][1]
        assert first is not None
        found: dict[tuple[str, int], FoundPartition] = {}
        directory_ids: list[UUID] = []
        for directory, _ in directories:
            if not CleanShutdownFile(file_system, directory.path).exists():
                raise DataDirectoryError(
                    directory.path, "the last stop was not clean", "start tidelog once and stop it"
                )
            mine = directory.identify(first.cluster_id, first.node_id, new_id())
            assert mine.directory_id is not None
            directory_ids.append(mine.directory_id)
            found |= _partitions(directory, file_system, mine.directory_id)
        store = MetadataStore(paths[0])
        stack.callback(store.close)
        stored = store.read()
        if not file_system.exists(store.path):
            raise DataDirectoryError(
                paths[0], f"has no {FILE_NAME}", "name the first of log.dirs first; if it was lost, start tidelog once"
            )
        _check_agreement(paths, stored, found)
        report, broker_epoch = _export(
            _World(paths, file_system, tuple(directory_ids), found, first.cluster_id, first.node_id, controller),
            store,
            stored,
            now_ms,
            new_id(),
        )
        for path in paths:
            CleanShutdownFile(file_system, path).write(broker_epoch)
        return report


class _World(NamedTuple):
    """Metadata and settings to export."""

    paths: Sequence[str]
    file_system: FileSystem
    directory_ids: tuple[UUID, ...]
    found: Mapping[tuple[str, int], FoundPartition]
    cluster_id: str
    node_id: int
    controller: tuple[str, int] | None


def _export(
    world: _World, store: MetadataStore, stored: StoredMetadata, now_ms: int, incarnation: UUID
) -> tuple[ExportReport, int]:
    """All is locked, read and in agreement. Returns the broker's epoch too."""
    paths, file_system, node_id = world.paths, world.file_system, world.node_id
    before = MetadataImage()
    control_values: dict[int, bytes] = {}
    end_offset = epoch = 0
    files = _own_metadata_log(world, stored)
    if files is not None:
        before, reader = read_with_controls(file_system, files)
        end_offset, epoch, control_values = reader.end_offset, reader.epoch, reader.control_values
    quorum = {kind: value for kind, value in control_values.items() if kind in (KRAFT_VERSION, KRAFT_VOTERS)}
    if world.controller is not None:
        quorum = _quorum_of_one(node_id, world.directory_ids[0], *world.controller)
    left_out: list[tuple[str, str]] = []
    features = dict(stored.features)
    if METADATA_VERSION not in features:  # Kafka was never here: only what somebody changed since is stored
        features = {**KAFKA_FEATURES, **features}
    broker = RegisterBrokerRecord(
        broker_id=node_id,
        incarnation_id=incarnation.bytes,
        broker_epoch=end_offset + 1,  # Kafka's own are offsets in its log
        fenced=True,
        log_dirs=[directory_id.bytes for directory_id in world.directory_ids],
    )
    try:
        records = list(_records(stored, world.found, before, features, broker, left_out))
    except ValueError as error:
        raise DataDirectoryError(
            store.path, str(error), "set that user's password again, or put a copy of the file in its place"
        ) from None
    _check_ranges(records, features[METADATA_VERSION], store.path)
    path = files.path if files is not None else f"{paths[0]}/{METADATA_LOG_DIRECTORY}"
    # Behind everything Kafka has, and in a newer epoch: so Kafka takes it for newer than its log.
    snapshot = SnapshotId(end_offset + len(records), epoch + 1)
    file_system.make_directory(path)
    before_umask = os.umask(0o077)  # it has users' credentials and settings that are secret, as metadata.db
    try:
        write_snapshot(
            file_system,
            path,
            snapshot,
            [encode_record(record, _version(record, features)) for record in records],
            timestamp=now_ms,
            control_values=sorted(quorum.items()),
        )
    finally:
        os.umask(before_umask)
    written = find_metadata_log(file_system, paths)
    assert written is not None
    store.replace(_at(stored, written.position))
    report = ExportReport(
        f"{path}/{snapshot.file_name}",
        world.cluster_id,
        node_id,
        sum(isinstance(record, TopicRecord) for record in records),
        sum(isinstance(record, PartitionRecord) for record in records),
        sum(isinstance(record, ConfigRecord) for record in records),
        stored.next_producer_id,
        features[METADATA_VERSION],
        oldest_kafka(features),
        len(stored.resources.get(SCRAM, {})),
        len(stored.resources.get(ACL, {})),
        sum(1 for _ in _carried(before)),
        tuple(left_out),
    )
    return report, broker.broker_epoch


def _own_metadata_log(world: _World, stored: StoredMetadata) -> MetadataLogFiles | None:
    """The metadata log that is there, in which nobody has written since tidelog last read it. DataDirectoryError."""
    files = find_metadata_log(world.file_system, world.paths)
    if files is not None and files.position != stored.kraft_position:
        raise DataDirectoryError(
            files.path,
            "Apache Kafka has written here since tidelog last ran",
            "it can start as it is; to take over what it wrote, start tidelog once",
        )
    return files


def _check_ranges(records: Sequence[MetadataRecord], level: int, path: str) -> None:
    """Refuse rules that Kafka would not take for what they are at this level of metadata.version."""
    ranges = sum(isinstance(record, AccessControlEntryRecord) and is_range(record.host) for record in records)
    if ranges and level < ADDRESS_RANGES_LEVEL:
        raise DataDirectoryError(
            path,
            f"{ranges} access rules are for ranges of addresses, which Apache Kafka does not know at metadata.version {level}: "
            "it would let in whom they keep out",
            "delete them, or start tidelog and raise the level (kafka-features.sh upgrade --metadata 4.4-IV1)",
        )


def _at(stored: StoredMetadata, position: str) -> StoredMetadata:
    return dataclasses.replace(stored, kraft_position=position)


def _version(record: MetadataRecord, features: Mapping[str, int]) -> int:
    """The version that Kafka at these levels reads, from 3.7 (metadata.version 18, data directories' ids) on."""
    match record:
        case PartitionRecord():
            return 2 if features.get(ELR_FEATURE) else 1
        case RegisterBrokerRecord():
            return _REGISTER_VERSION
        case _:
            return record.VERSIONS[1]


def _partitions(
    directory: DataDirectory, file_system: FileSystem, directory_id: UUID
) -> dict[tuple[str, int], FoundPartition]:
    found = {}
    for entry in directory.partitions():
        if entry.name.state is not DirectoryState.LIVE:
            continue
        try:
            metadata = read_partition_metadata(file_system, entry.path)
            epochs = LeaderEpochCache.load(file_system, f"{entry.path}/{LEADER_EPOCH_CHECKPOINT}")
        except CorruptCheckpointError as error:
            raise DataDirectoryError(entry.path, str(error), "start tidelog once, which mends it") from None
        topic_id = NO_ID if metadata is None else metadata.topic_id
        found[entry.name.topic, entry.name.partition] = FoundPartition(directory_id, topic_id, epochs.next_epoch)
    return found


def _check_agreement(
    paths: Sequence[str], stored: StoredMetadata, found: Mapping[tuple[str, int], FoundPartition]
) -> None:
    """Kafka takes away directories that its metadata does not name with their ids, so both must say the same."""
    repairs = plan_repairs(stored.topics, (FoundLog(*key, partition.topic_id) for key, partition in found.items()))
    if repairs.create:
        topic, partition = repairs.create[0]
        raise DataDirectoryError(
            ", ".join(paths),
            f"{len(repairs.create)} partitions have no directory, {topic}-{partition} for one",
            "name all of log.dirs; if one was lost, start tidelog once without it",
        )
    nameless = [f"{topic}-{number}" for (topic, number), partition in found.items() if partition.topic_id == NO_ID]
    if any(repairs) or nameless:
        raise DataDirectoryError(
            paths[0], f"{FILE_NAME} and the partitions' directories do not agree", "start tidelog once and stop it"
        )


def _records(
    stored: StoredMetadata,
    found: Mapping[tuple[str, int], FoundPartition],
    before: MetadataImage,
    features: Mapping[str, int],
    broker: RegisterBrokerRecord,
    left_out: list[tuple[str, str]],
) -> Iterator[MetadataRecord]:
    replicas = [broker.broker_id]
    # As Kafka leaves a partition whose last replica stopped: with the feature (KIP-966), not in sync but eligible.
    eligible = replicas if features.get(ELR_FEATURE) else None
    # metadata.version comes first: it says how to read the rest.
    for name in sorted(features, key=lambda name: (name != METADATA_VERSION, name)):
        yield FeatureLevelRecord(name=name, feature_level=features[name])
    yield broker
    for topic in stored.topics:
        yield TopicRecord(name=topic.name, topic_id=topic.topic_id.bytes)
        known = before.topics.get(topic.name)
        for number in range(topic.partitions):
            here = found[topic.name, number]
            epoch = here.next_epoch
            if known is not None and number in known.partitions:
                epoch = max(epoch, known.partitions[number].leader_epoch)
            yield PartitionRecord(
                partition_id=number,
                topic_id=topic.topic_id.bytes,
                replicas=replicas,
                isr=[] if eligible else replicas,
                eligible_leader_replicas=eligible,
                last_known_elr=eligible,
                leader=-1,
                leader_epoch=epoch,
                partition_epoch=0,
                directories=[here.directory_id.bytes],
            )
        settings, missing = for_kafka(topic.overrides)
        left_out += [(topic.name, name) for name in missing]
        yield from _configs(ConfigResourceType.TOPIC, topic.name, settings)
    for node, of_node in stored.broker_configs.items():
        yield from _configs(ConfigResourceType.BROKER, node, of_node)
    for kind, name in ((ConfigResourceType.CLIENT_METRICS, CLIENT_METRICS), (ConfigResourceType.GROUP, GROUP)):
        for resource, of_resource in stored.resources.get(name, {}).items():
            yield from _configs(kind, resource, of_resource)
    if stored.next_producer_id:
        yield ProducerIdsRecord(broker_id=broker.broker_id, broker_epoch=-1, next_producer_id=stored.next_producer_id)
    for name, bounds in stored.resources.get(QUOTA, {}).items():
        entity = [QuotaEntity(entity_type=part, entity_name=value) for part, value in parse_entity(name)]
        for key, bound in bounds.items():
            yield ClientQuotaRecord(entity=entity, key=key, value=float(bound))
    yield from security_records(stored.resources)
    yield from _carried(before)


def _carried(before: MetadataImage) -> Iterator[MetadataRecord]:
    """Kafka's records about what we do not keep, as they came."""
    return (
        record
        for record in before.carried.values()
        if not isinstance(record, ClientQuotaRecord) and not is_ours(record)
    )


def _quorum_of_one(node_id: int, directory_id: UUID, host: str, port: int) -> dict[int, bytes]:
    """Type → value of the control records that make this node the only voter."""
    voter = Voter(
        voter_id=node_id,
        voter_directory_id=directory_id.bytes,
        endpoints=[VoterEndpoint(name=CONTROLLER_LISTENER, host=host, port=port)],
        kraft_version_feature=KRaftVersionFeature(min_supported_version=0, max_supported_version=1),
    )
    return {
        KRAFT_VERSION: encode(KRaftVersionRecord(kraft_version=1), 0),
        KRAFT_VOTERS: encode(VotersRecord(voters=[voter]), 0),
    }


def _configs(kind: ConfigResourceType, resource: str, settings: Mapping[str, str]) -> Iterator[ConfigRecord]:
    for name, value in settings.items():
        yield ConfigRecord(resource_type=kind, resource_name=resource, name=name, value=value)
