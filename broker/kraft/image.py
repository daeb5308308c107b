"""Image of Apache Kafka's metadata, made from its records in order: topics, settings, features, producer ids.

Records inside a metadata transaction (KIP-868) count when it ends. Records of users, rules, quotas and tokens are kept
as they came: `kraft_security` and the import read them, and `kraft_export` hands on what we do not keep; those about brokers
and controllers mean nothing to one node.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import UUID

from ...protocol.config_resources import ConfigResourceType
from ...protocol.metadata_records import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    MetadataRecord,
    MetadataRecordType,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UserScramCredentialRecord,
    decode_record,
)

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator

_TYPES = frozenset(MetadataRecordType)


@dataclass(slots=True)
class PartitionImage:
    """A partition: the node ids of its replicas, and the epoch of its leader."""

    replicas: tuple[int, ...]
    leader_epoch: int


@dataclass(slots=True)
class TopicImage:
    """A topic with its partitions by number."""

    name: str
    topic_id: UUID
    partitions: dict[int, PartitionImage] = field(default_factory=dict)

    @property
    def partition_count(self) -> int:
        return max(self.partitions, default=-1) + 1


class MetadataImage:
    """The state after the records so far. One thread.

    Attributes:
        topics: by name.
        configs: (ConfigResourceType, resource) → name → value.
        features: name → finalised level.
        next_producer_id: ids below it were given out.
        carried: records that are kept whole, by what they are about.
        records: how many there were.
        unknown: type → how many of a type that Kafka 4.4 does not have; they were passed over.
    """

    def __init__(self) -> None:
        self.topics: dict[str, TopicImage] = {}
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        self.features: dict[str, int] = {}
        self.next_producer_id = 0
        self.carried: dict[Hashable, MetadataRecord] = {}
        self.records = 0
        self.unknown: Counter[int] = Counter()
        self._by_id: dict[bytes, TopicImage] = {}
        self._transaction: list[MetadataRecord] | None = None

    @classmethod
    def of(cls, values: Iterable[bytes]) -> MetadataImage:
        """The image after these records' values. Raises as `replay`."""
        image = cls()
        for value in values:
            image.replay(value)
        return image

    def configs_of(self, kind: ConfigResourceType) -> Iterator[tuple[str, dict[str, str]]]:
        """(resource, its settings) of one kind of resource."""
        for (resource_type, resource), settings in self.configs.items():
            if resource_type == kind:
                yield resource, settings

    def replay(self, value: bytes) -> None:
        """Takes one record in. Raises what `decode_record` raises, and ValueError for one that does not fit."""
        self.records += 1
        record_type, _version, message = decode_record(value)
        if message is None:
            if record_type not in _TYPES:
                self.unknown[record_type] += 1
            return
        match message:
            case BeginTransactionRecord():
                self._transaction = []
            case AbortTransactionRecord():
                self._transaction = None
            case EndTransactionRecord():
                pending, self._transaction = self._transaction or [], None
                for record in pending:
                    self._apply(record)
            case _ if self._transaction is not None:
                self._transaction.append(message)
            case _:
                self._apply(message)

    def _apply(self, message: MetadataRecord) -> None:
        match message:
            case TopicRecord():
                topic = TopicImage(message.name, UUID(bytes=message.topic_id))
                self.topics[message.name] = self._by_id[message.topic_id] = topic
            case PartitionRecord():
                partition = PartitionImage(tuple(message.replicas), message.leader_epoch)
                self._topic(message.topic_id).partitions[message.partition_id] = partition
            case PartitionChangeRecord():
                self._change_partition(message)
            case RemoveTopicRecord():
                topic = self._topic(message.topic_id)
                del self.topics[topic.name], self._by_id[message.topic_id]
                self.configs.pop((ConfigResourceType.TOPIC, topic.name), None)
            case ConfigRecord():
                self._configure(message)
            case FeatureLevelRecord():
                if message.feature_level:
                    self.features[message.name] = message.feature_level
                else:
                    self.features.pop(message.name, None)
            case ProducerIdsRecord():
                self.next_producer_id = max(self.next_producer_id, message.next_producer_id)
            case RegisterBrokerRecord():
                pass
            case _:
                self._carry(message)

    def _topic(self, topic_id: bytes) -> TopicImage:
        topic = self._by_id.get(topic_id)
        if topic is None:
            raise ValueError(f"a record is about the topic id {UUID(bytes=topic_id)}, which no topic has")
        return topic

    def _change_partition(self, change: PartitionChangeRecord) -> None:
        topic = self._topic(change.topic_id)
        partition = topic.partitions.get(change.partition_id)
        if partition is None:
            raise ValueError(f"a record changes partition {change.partition_id} of {topic.name}, which does not exist")
        if change.replicas is not None:
            partition.replicas = tuple(change.replicas)
        if change.leader != -2:  # an election
            partition.leader_epoch += 1

    def _configure(self, record: ConfigRecord) -> None:
        key = (record.resource_type, record.resource_name)
        if record.value is not None:
            self.configs.setdefault(key, {})[record.name] = record.value
        elif settings := self.configs.get(key):
            settings.pop(record.name, None)
            if not settings:
                del self.configs[key]

    def _carry(self, message: MetadataRecord) -> None:
        carried = self.carried
        match message:
            case UserScramCredentialRecord():
                carried[UserScramCredentialRecord, message.name, message.mechanism] = message
            case RemoveUserScramCredentialRecord():
                carried.pop((UserScramCredentialRecord, message.name, message.mechanism), None)
            case AccessControlEntryRecord():
                carried[AccessControlEntryRecord, message.id] = message
            case RemoveAccessControlEntryRecord():
                carried.pop((AccessControlEntryRecord, message.id), None)
            case DelegationTokenRecord():
                carried[DelegationTokenRecord, message.token_id] = message
            case RemoveDelegationTokenRecord():
                carried.pop((DelegationTokenRecord, message.token_id), None)
            case ClientQuotaRecord():
                entity = tuple((part.entity_type, part.entity_name) for part in message.entity)
                key = (ClientQuotaRecord, entity, message.key)
                if message.remove:
                    carried.pop(key, None)
                else:
                    carried[key] = message
