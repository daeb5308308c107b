from __future__ import annotations

import itertools
from uuid import UUID

import pytest
from tidelog.broker.kraft.image import MetadataImage
from tidelog.protocol.config_resources import ConfigResourceType
from tidelog.protocol.metadata_records import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    ClientQuotaRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    QuotaEntity,
    RemoveAccessControlEntryRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UserScramCredentialRecord,
    encode_record,
)

A, B = UUID(int=1), UUID(int=2)
TOPIC = ConfigResourceType.TOPIC


def image(*messages: MetadataRecord) -> MetadataImage:
    return MetadataImage.of(encode_record(message, message.VERSIONS[1]) for message in messages)


def topic(name: str, topic_id: UUID, partitions: int = 1) -> list[MetadataRecord]:
    made: list[MetadataRecord] = [TopicRecord(name=name, topic_id=topic_id.bytes)]
    made += [
        PartitionRecord(partition_id=n, topic_id=topic_id.bytes, replicas=[1], isr=[1], leader=1, leader_epoch=0)
        for n in range(partitions)
    ]
    return made


def config(name: str, value: str | None, resource: str = "t", kind: ConfigResourceType = TOPIC) -> ConfigRecord:
    return ConfigRecord(resource_type=kind, resource_name=resource, name=name, value=value)


def test_topics_partitions_and_settings() -> None:
    state = image(
        FeatureLevelRecord(name="metadata.version", feature_level=30),
        *topic("t", A, 3),
        config("retention.ms", "5"),
        config("retention.ms", "6"),
        config("segment.ms", "7"),
        config("segment.ms", None),
        config("log.retention.ms", "8", "", ConfigResourceType.BROKER),
    )
    assert state.topics["t"].topic_id == A
    assert state.topics["t"].partition_count == 3
    assert dict(state.configs_of(TOPIC)) == {"t": {"retention.ms": "6"}}
    assert dict(state.configs_of(ConfigResourceType.BROKER)) == {"": {"log.retention.ms": "8"}}
    assert state.features == {"metadata.version": 30}
    assert state.records == 10


def test_a_removed_topic_takes_its_settings_along() -> None:
    state = image(*topic("t", A), config("a", "b"), RemoveTopicRecord(topic_id=A.bytes), *topic("t", B, 2))
    assert {name: (one.topic_id, one.partition_count) for name, one in state.topics.items()} == {"t": (B, 2)}
    assert state.configs == {}


def test_an_election_raises_the_leader_epoch() -> None:
    change = PartitionChangeRecord(partition_id=0, topic_id=A.bytes, isr=[], leader=-1)
    quiet = PartitionChangeRecord(partition_id=0, topic_id=A.bytes, replicas=[1, 2])
    partition = image(*topic("t", A), change, quiet, change).topics["t"].partitions[0]
    assert (partition.leader_epoch, partition.replicas) == (2, (1, 2))


def test_a_transaction_counts_when_it_ends() -> None:
    begin, end, abort = BeginTransactionRecord(name="x"), EndTransactionRecord(), AbortTransactionRecord()
    assert set(image(begin, *topic("t", A), end).topics) == {"t"}
    assert set(image(begin, *topic("t", A), abort).topics) == set()
    assert set(image(begin, *topic("t", A)).topics) == set()
    assert set(image(begin, *topic("t", A), abort, *topic("u", B)).topics) == {"u"}


def test_features_and_producer_ids() -> None:
    state = image(
        FeatureLevelRecord(name="group.version", feature_level=1),
        FeatureLevelRecord(name="group.version", feature_level=0),
        ProducerIdsRecord(broker_id=1, broker_epoch=2, next_producer_id=3000),
    )
    assert (state.features, state.next_producer_id) == ({}, 3000)


def test_what_is_carried_on_until_it_is_removed() -> None:
    rule = AccessControlEntryRecord(id=A.bytes, principal="User:a")
    user = UserScramCredentialRecord(name="u", mechanism=1, salt=b"s", iterations=4096)
    quota = ClientQuotaRecord(entity=[QuotaEntity(entity_type="user", entity_name=None)], key="k", value=1.0)
    assert list(image(rule, user, quota).carried.values()) == [rule, user, quota]
    removals = [
        RemoveAccessControlEntryRecord(id=A.bytes),
        RemoveUserScramCredentialRecord(name="u", mechanism=1),
        ClientQuotaRecord(entity=quota.entity, key="k", remove=True),
    ]
    for one in itertools.permutations(removals):
        assert image(rule, user, quota, *one).carried == {}


def test_types_that_nobody_knows_are_counted() -> None:
    state = MetadataImage.of([bytes.fromhex("01140000"), bytes.fromhex("01e80700"), bytes.fromhex("01e80701aa")])
    assert state.records == 3
    assert state.unknown == {1000: 2}


@pytest.mark.parametrize(
    "message", [PartitionRecord(topic_id=B.bytes), RemoveTopicRecord(topic_id=B.bytes), PartitionChangeRecord()]
)
def test_records_about_a_topic_that_is_not_there(message: MetadataRecord) -> None:
    with pytest.raises(ValueError, match="which no topic has"):
        image(*topic("t", A), message)
