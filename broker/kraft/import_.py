"""Takes what Apache Kafka kept in `__cluster_metadata-0` over into `metadata.db`, before any log is loaded.

Kafka 4 has topics, their ids and settings nowhere else, so until this is read nothing can be deleted or cleaned. It is
read when Kafka has run since the last time: then its word counts, else `metadata.db`'s (which may have changed since).

- A topic of Kafka's has Kafka's id, partitions and settings; settings that only we have (Kafka can't keep them) stay.
  Where Kafka's word on what to delete can't be ours (an empty `cleanup.policy`, that is: none), everything is kept.
- A topic that Kafka does not know stays while it has a directory, as nothing must get lost; without one, Kafka has
  deleted it.
- Users with SCRAM credentials and access rules are Kafka's. Our own from before Kafka ever wrote here stay beside them.
- Producer ids go on behind the higher of both marks. Brokers' settings and feature levels are Kafka's.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ...config.definitions import TOPIC_SETTINGS
from ...config.validation import validate
from ...protocol.config_resources import ConfigResourceType
from ...protocol.errors import ProtocolError
from ...protocol.metadata_records import ClientQuotaRecord
from ...storage.exceptions import DataDirectoryError
from ...storage.inspect.metadata_log import MetadataLogFiles, MetadataLogReader, find_metadata_log
from ...storage.segment.names import CLUSTER_METADATA_TOPIC, DirectoryState, parse_directory_name
from ..metadata.creation_limits import NOBODYS
from ..metadata.features import NEWEST_KAFKA, SUPPORTED
from ..metadata.store import ACL, CLIENT_METRICS, GROUP, QUOTA, SCRAM, MetadataStore, StoredMetadata, TopicRecord
from ..metadata.topics import KEEP_EVERYTHING
from ..quotas.manager import entity_name
from .image import MetadataImage
from .security import security_resources

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ...storage.io.filesystem import FileSystem

log = logging.getLogger(__name__)

SEGMENT_BYTES = "segment.bytes"
INTERNAL_SEGMENT_BYTES = "internal.segment.bytes"
KAFKA_MIN_SEGMENT_BYTES = 1 << 20
"""Kafka from 4.1 on does not start with smaller ones in `segment.bytes`, but takes any `internal.segment.bytes`."""


def import_metadata(
    store: MetadataStore, file_system: FileSystem, directories: Sequence[str], node_id: int, now_ms: int
) -> StoredMetadata:
    """Import Kafka's metadata log if that is due, and return what `store` holds then. The directories must be locked.

    Raises `DataDirectoryError` when the log or metadata.db can't be read, `KafkaStorageError` when the latter can't be
    written. Blocks.
    """
    stored = store.read()
    files = find_metadata_log(file_system, directories)
    if files is None or files.position == stored.kraft_position:
        return stored
    image = read_image(file_system, files)
    try:
        merged = merge(stored, image, live_topics(file_system, directories), files.position, now_ms)
    except ValueError as error:
        raise DataDirectoryError(store.path, str(error), "put a copy of the file in its place") from None
    store.replace(merged)
    topics = len(image.topics)
    partitions = sum(topic.partition_count for topic in image.topics.values())
    parts = [
        f"{_counted(topics, 'topic')} with {_counted(partitions, 'partition')}",
        _counted(sum(len(settings) for _, settings in image.configs_of(ConfigResourceType.TOPIC)), "setting"),
        f"{sum(len(settings) for _, settings in image.configs_of(ConfigResourceType.BROKER))} of brokers",
        _counted(len(image.features), "feature"),
        _counted(len(merged.resources.get(SCRAM, {})), "user"),
        _counted(len(merged.resources.get(ACL, {})), "access rule"),
    ]
    log.info(
        "taken over from Apache Kafka: %s (%s, %d of unknown types)",
        ", ".join(parts),
        _counted(image.records, "record"),
        image.unknown.total(),
    )
    _tell_what_is_unknown(image, files.path)
    elsewhere = sum(
        node_id not in partition.replicas for topic in image.topics.values() for partition in topic.partitions.values()
    )
    if elsewhere:
        log.warning(
            "%s had no replica on node %d, and %s empty here",
            _counted(elsewhere, "partition"),
            node_id,
            "is" if elsewhere == 1 else "are",
        )
    return merged


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _tell_what_is_unknown(image: MetadataImage, path: str) -> None:
    """Log one line about records that were passed over, and one about levels of features that are not known here."""
    if image.unknown:
        log.warning(
            "%s: Apache Kafka wrote records of types that are not known here (%s): they were passed over, and export-kraft "
            "would leave them out; a newer tidelog may know them",
            path,
            ", ".join(f"type {kind}: {count}" for kind, count in sorted(image.unknown.items())),
        )
    newer = [
        f"{name} {level} (known: {SUPPORTED[name].highest})"
        for name, level in sorted(image.features.items())
        if name in SUPPORTED and level > SUPPORTED[name].highest
    ]
    if newer:
        log.warning(
            "%s: Apache Kafka has features at levels that are not known here: %s; clients are told the known ones, "
            "export-kraft hands on Kafka's",
            path,
            ", ".join(newer),
        )


def read_image(file_system: FileSystem, files: MetadataLogFiles) -> MetadataImage:
    """Replay the log's records into an image; DataDirectoryError when they can't be read."""
    return read_with_controls(file_system, files)[0]


def read_with_controls(file_system: FileSystem, files: MetadataLogFiles) -> tuple[MetadataImage, MetadataLogReader]:
    """The image, and the reader with what it knows when it is through."""
    reader = MetadataLogReader(file_system, files)
    image = MetadataImage()
    try:
        for value in reader:
            image.replay(value)
    except (ProtocolError, ValueError) as error:
        raise DataDirectoryError(
            files.path,
            f"Apache Kafka's metadata can't be understood (record {image.records}): {error}",
            f"if a newer Kafka than {NEWEST_KAFKA} wrote it, a newer tidelog may read it",
        ) from error
    if reader.cut_bytes:
        log.warning("%s: the last %d bytes are no whole batch and are left out", files.path, reader.cut_bytes)
    return image, reader


def live_topics(file_system: FileSystem, directories: Iterable[str]) -> frozenset[str]:
    """Topics that have a directory."""
    names = set()
    for directory in directories:
        for entry in file_system.list_directory(directory):
            name = parse_directory_name(entry)
            if name is not None and name.state is DirectoryState.LIVE and name.topic != CLUSTER_METADATA_TOPIC:
                names.add(name.topic)
    return frozenset(names)


def merge(
    stored: StoredMetadata, image: MetadataImage, live: frozenset[str], position: str, now_ms: int
) -> StoredMetadata:
    """Kafka's word over what was stored: see the module."""
    before = {record.name: record for record in stored.topics}
    settings = dict(image.configs_of(ConfigResourceType.TOPIC))
    topics = []
    for name, topic in image.topics.items():
        if not topic.partition_count:
            continue
        known = before.get(name)
        is_same = known is not None and known.topic_id == topic.topic_id
        overrides = for_us(name, settings.get(name, {}))
        if known is not None and is_same:
            overrides = with_own_settings(overrides, known.overrides)
        created_ms = known.created_ms if known is not None and is_same else now_ms
        makers = known.makers if known is not None and is_same else NOBODYS
        topics.append(TopicRecord(name, topic.topic_id, topic.partition_count, overrides, created_ms, makers=makers))
    ids = {record.topic_id for record in topics}
    for record in stored.topics:
        if record.name in image.topics or record.topic_id in ids:
            continue
        if record.deleting or record.name in live:
            topics.append(record)
        else:
            log.info("topic %s was deleted while Apache Kafka ran", record.name)
    return StoredMetadata(
        tuple(sorted(topics, key=lambda record: record.name)),
        dict(image.configs_of(ConfigResourceType.BROKER)),
        # Kafka does not rely on features that it has not finalised, though a new daemon would.
        {**{name: 0 for name, feature in SUPPORTED.items() if not feature.lowest}, **image.features},
        max(stored.next_producer_id, image.next_producer_id),
        position,
        {
            **_resources(image),
            # Kafka can't know of our users and rules from before its first start here; after that its own count.
            **security_resources(image.carried.values(), None if stored.kraft_position else stored.resources),
        },
    )


def _resources(image: MetadataImage) -> dict[str, dict[str, dict[str, str]]]:
    """Quotas (by entity, as `metadata.db` names it), settings of groups and of client metrics."""
    quotas: dict[str, dict[str, str]] = {}
    for record in image.carried.values():
        if isinstance(record, ClientQuotaRecord):
            parts = sorted((part.entity_type, part.entity_name) for part in record.entity)
            quotas.setdefault(entity_name(tuple(parts)), {})[record.key] = repr(record.value)
    found = {
        QUOTA: quotas,
        GROUP: dict(image.configs_of(ConfigResourceType.GROUP)),
        CLIENT_METRICS: dict(image.configs_of(ConfigResourceType.CLIENT_METRICS)),
    }
    return {kind: resources for kind, resources in found.items() if resources}


def for_us(topic: str, kafkas: Mapping[str, str]) -> dict[str, str]:
    """Kafka's settings of a topic as we take them."""
    taken = dict(kafkas)
    deciding = {name: text for name, text in kafkas.items() if name in KEEP_EVERYTHING}
    if validate(deciding, TOPIC_SETTINGS)[1]:
        # The broker's defaults in its place would delete what Kafka kept.
        taken |= KEEP_EVERYTHING
        log.warning("topic %s: Apache Kafka has %s; here it has %s", topic, deciding, KEEP_EVERYTHING)
    return taken


def with_own_settings(kafkas: Mapping[str, str], ours: Mapping[str, str]) -> dict[str, str]:
    """Kafka's settings of a topic, and those of ours that `for_kafka` had to leave out or say differently."""
    merged = dict(kafkas)
    sent = for_kafka(ours)[0]
    small = ours.get(SEGMENT_BYTES)
    is_small = small is not None and SEGMENT_BYTES not in sent and SEGMENT_BYTES not in kafkas
    if small is not None and is_small and merged.get(INTERNAL_SEGMENT_BYTES) == small:
        merged[SEGMENT_BYTES] = merged.pop(INTERNAL_SEGMENT_BYTES)
    for name, value in ours.items():
        if name not in sent and name != SEGMENT_BYTES:
            merged.setdefault(name, value)
    return merged


def for_kafka(ours: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """(a topic's settings as Kafka takes them, names of those that it has no use for)."""
    kafkas: dict[str, str] = {}
    left_out: list[str] = []
    for name, value in ours.items():
        row = TOPIC_SETTINGS.get(name)
        if row is None or row.own:
            left_out.append(name)
        elif (
            name == SEGMENT_BYTES
            and not validate({name: value}, TOPIC_SETTINGS)[1]
            and int(value) < KAFKA_MIN_SEGMENT_BYTES
        ):
            kafkas.setdefault(INTERNAL_SEGMENT_BYTES, value)
        else:
            kafkas[name] = value
    return kafkas, left_out
