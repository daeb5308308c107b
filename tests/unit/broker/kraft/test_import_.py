"""Taking over Kafka's metadata: of the sample in tests/golden, and rule by rule."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
from tidelog.broker.kraft.image import MetadataImage, PartitionImage, TopicImage
from tidelog.broker.kraft.import_ import for_kafka, import_metadata, merge, with_own_settings
from tidelog.broker.metadata.store import MetadataStore, StoredMetadata, TopicRecord
from tidelog.protocol.metadata_records import FeatureLevelRecord, MetadataRecord, PartitionRecord, encode_record
from tidelog.protocol.metadata_records import TopicRecord as KafkasTopicRecord
from tidelog.storage.exceptions import DataDirectoryError
from tidelog.storage.inspect.metadata_log import METADATA_LOG_DIRECTORY, SnapshotId, write_snapshot
from tidelog.storage.io.filesystem import RealFileSystem
from tidelog.storage.log.partition_metadata import decode_uuid

GOLDEN = Path(__file__).parents[3] / "golden" / "kafka-data" / "data"
FILES = RealFileSystem()
A, B = UUID(int=1), UUID(int=2)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MetadataStore]:
    opened = MetadataStore(str(tmp_path))
    yield opened
    opened.close()


def take_over(store: MetadataStore, tmp_path: Path) -> StoredMetadata:
    return import_metadata(store, FILES, [str(tmp_path)], 1, 1234)


def test_the_sample(store: MetadataStore, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    shutil.copytree(GOLDEN, tmp_path, dirs_exist_ok=True)
    caplog.set_level(logging.INFO)
    taken = take_over(store, tmp_path)
    topics = {record.name: record for record in taken.topics}
    assert len(topics) == 21
    assert sum(record.partitions for record in taken.topics) == 23
    for name, record in topics.items():
        assert f"topic_id: {decode_id(tmp_path / f'{name}-0')}" == f"topic_id: {record.topic_id}"
    assert topics["compact-lz4"].overrides["cleanup.policy"] == "compact"
    assert topics["log-append-time"].overrides["message.timestamp.type"] == "LogAppendTime"
    assert topics["txn"].overrides["retention.ms"] == "-1"
    assert topics["__consumer_offsets"].overrides["cleanup.policy"] == "compact"
    assert taken.broker_configs == {"": {"min.insync.replicas": "1"}}
    assert taken.features["metadata.version"] == 30
    assert taken.next_producer_id == 1000
    assert store.read() == taken
    assert [record.getMessage() for record in caplog.records] == [
        "taken over from Apache Kafka: 21 topics with 23 partitions, 97 settings, 1 of brokers, 6 features, 0 users, "
        "0 access rules (272 records, 0 of unknown types)"
    ]
    caplog.clear()
    assert take_over(store, tmp_path) == taken  # not read again
    assert caplog.records == []


def decode_id(directory: Path) -> UUID:
    return decode_uuid((directory / "partition.metadata").read_text().split()[-1])


def test_nothing_to_take_over(store: MetadataStore, tmp_path: Path) -> None:
    assert take_over(store, tmp_path) == StoredMetadata()
    assert list(tmp_path.iterdir()) == []


def test_a_log_that_a_newer_kafka_wrote(store: MetadataStore, tmp_path: Path) -> None:
    value = bytearray(encode_record(KafkasTopicRecord(name="t"), 0))
    value[2] = 9
    path = tmp_path / METADATA_LOG_DIRECTORY
    write_snapshot(FILES, path, SnapshotId(1, 1), [bytes(value)], timestamp=0)
    with pytest.raises(DataDirectoryError, match=r"can't be understood \(record 1\).*newer"):
        take_over(store, tmp_path)


def test_records_and_levels_that_only_a_newer_kafka_has_are_told_in_a_line_each(
    store: MetadataStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    unknown = bytes((1, 77, 0)) + b"whatever it may be"
    records: list[MetadataRecord] = [
        FeatureLevelRecord(name="metadata.version", feature_level=99),
        FeatureLevelRecord(name="group.version", feature_level=1),
        KafkasTopicRecord(name="t", topic_id=A.bytes),
        PartitionRecord(partition_id=0, topic_id=A.bytes, replicas=[1], leader_epoch=0),
    ]
    values = [encode_record(one, 0) for one in records]
    path = tmp_path / METADATA_LOG_DIRECTORY
    write_snapshot(FILES, path, SnapshotId(6, 1), [*values, unknown, unknown], timestamp=0)
    taken = take_over(store, tmp_path)
    assert [topic.name for topic in taken.topics] == ["t"]
    assert taken.features["metadata.version"] == 99  # an export hands it on
    assert [record.getMessage() for record in caplog.records] == [
        f"{path}: Apache Kafka wrote records of types that are not known here (type 77: 2): they were passed over, and "
        "export-kraft would leave them out; a newer tidelog may know them",
        f"{path}: Apache Kafka has features at levels that are not known here: metadata.version 99 (known: 33); clients are "
        "told the known ones, export-kraft hands on Kafka's",
    ]


@pytest.mark.parametrize(
    ("nodes", "partitions", "elsewhere"),
    [
        ([1], "1 partition", None),
        ([2], "1 partition", "1 partition had no replica on node 1, and is empty here"),
        ([2, 1, 2], "3 partitions", "2 partitions had no replica on node 1, and are empty here"),
    ],
)
def test_one_of_a_thing_is_told_as_one(
    store: MetadataStore, tmp_path: Path, caplog: pytest.LogCaptureFixture,
    nodes: list[int], partitions: str, elsewhere: str | None,
) -> None:  # fmt: skip
    caplog.set_level(logging.INFO)
    records: list[MetadataRecord] = [
        FeatureLevelRecord(name="group.version", feature_level=1),
        KafkasTopicRecord(name="t", topic_id=A.bytes),
        *(
            PartitionRecord(partition_id=number, topic_id=A.bytes, replicas=[node], leader_epoch=0)
            for number, node in enumerate(nodes)
        ),
    ]
    path = tmp_path / METADATA_LOG_DIRECTORY
    write_snapshot(FILES, path, SnapshotId(6, 1), [encode_record(one, 0) for one in records], timestamp=0)
    take_over(store, tmp_path)
    first, *others = [record.getMessage() for record in caplog.records]
    assert first == (
        f"taken over from Apache Kafka: 1 topic with {partitions}, 0 settings, 0 of brokers, 1 feature, 0 users, "
        f"0 access rules ({len(records)} records, 0 of unknown types)"
    )
    assert others == ([] if elsewhere is None else [elsewhere])


def kafkas(*names: str, topic_id: UUID = A, partitions: int = 1, **settings: str) -> MetadataImage:
    image = MetadataImage()
    for name in names:
        image.topics[name] = TopicImage(name, topic_id, {n: PartitionImage((1,), 0) for n in range(partitions)})
        if settings:
            image.configs[2, name] = {key.replace("_", "."): value for key, value in settings.items()}
    return image


def merged(stored: StoredMetadata, image: MetadataImage, *live: str) -> dict[str, TopicRecord]:
    return {record.name: record for record in merge(stored, image, frozenset(live), "p", 1234).topics}


def row(name: str, topic_id: UUID = A, **settings: str) -> StoredMetadata:
    overrides = {key.replace("_", "."): value for key, value in settings.items()}
    return StoredMetadata((TopicRecord(name, topic_id, 1, overrides, 55),))


def test_kafkas_settings_and_partitions_win() -> None:
    assert merged(row("t", retention_ms="1"), kafkas("t", partitions=4, segment_ms="9")) == {
        "t": TopicRecord("t", A, 4, {"segment.ms": "9"}, 55)
    }


def test_a_topic_that_was_made_anew_while_kafka_ran() -> None:
    assert merged(row("t", B, deletion_policies="x"), kafkas("t")) == {"t": TopicRecord("t", A, 1, {}, 1234)}


def test_settings_that_kafka_cannot_keep_stay() -> None:
    before = row("t", segment_bytes="20000", deletion_policies="delete-by-age", retention_ms="1")
    sent, left_out = for_kafka(before.topics[0].overrides)
    assert sent == {"internal.segment.bytes": "20000", "retention.ms": "1"}
    assert left_out == ["deletion.policies"]
    assert with_own_settings(sent, before.topics[0].overrides) == before.topics[0].overrides
    # changed meanwhile: Kafka's word counts
    assert with_own_settings({"segment.bytes": "2000000"}, before.topics[0].overrides) == {
        "segment.bytes": "2000000",
        "deletion.policies": "delete-by-age",
    }


@pytest.mark.parametrize("policy", ["", "compact,something-new"])
def test_a_policy_that_we_do_not_have_keeps_everything(policy: str) -> None:
    image = kafkas("t", cleanup_policy=policy, retention_ms="5", segment_ms="9")
    kept = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1", "segment.ms": "9"}
    assert merged(StoredMetadata(), image)["t"].overrides == kept


def test_topics_that_kafka_does_not_know() -> None:
    stored = StoredMetadata((TopicRecord("kept", A, 1, {"a": "b"}, 5), TopicRecord("gone", B, 1, {}, 5)))
    assert set(merged(stored, MetadataImage(), "kept")) == {"kept"}


def test_a_deletion_under_way_goes_on() -> None:
    stored = StoredMetadata((TopicRecord("t", A, 1, {}, 5, deleting=True),))
    assert merged(stored, MetadataImage())["t"].deleting


def test_producer_ids_go_on_behind_the_higher_mark() -> None:
    image = MetadataImage()
    image.next_producer_id = 3000
    for ours, expected in ((5000, 5000), (1000, 3000)):
        assert merge(StoredMetadata(next_producer_id=ours), image, frozenset(), "p", 0).next_producer_id == expected


@pytest.mark.parametrize("text", ["1000", "+1000", " 1000 "])
def test_a_small_segment_is_small_however_it_is_written(text: str) -> None:
    """Kafka does not start where segment.bytes is below 1 MiB, and reads +1000 as we do."""
    assert for_kafka({"segment.bytes": text}) == ({"internal.segment.bytes": text}, [])
    assert for_kafka({"segment.bytes": "+2000000"}) == ({"segment.bytes": "+2000000"}, [])
