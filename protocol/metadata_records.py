"""Records of `__cluster_metadata`, in which Apache Kafka's controllers (KRaft) keep topics, ids, settings and access rules.

Names, versions, defaults and tags are those of Kafka 4.4's definitions; each may be read in all of its versions. A
change record says only what changes: what it leaves out is None, -1 or -2 as its docstring says. Other records about
brokers and controllers than a broker's registration have no declaration: one node needs none of them.

A record's value says which kind of record it is, in which version, then its fields:

    +----------------------+-------------------+-------------------+-------------
    | frame version uvarint| type uvarint      | version uvarint   | fields …        frame version 1, the only one so far
    +----------------------+-------------------+-------------------+-------------

The control records of the quorum say who the controllers are; with KRaft version 0, or without them, the voters are those of
`controller.quorum.voters` in server.properties. Reading the log's files is `storage/inspect/metadata_log.py`; what the records
come to is `broker/kraft/image.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import ClassVar, NamedTuple

from .errors import MalformedRequest
from .primitives import Buffer, read_unsigned_varint, unsigned_varint
from .schema import (
    INT32,
    STRING,
    UUIDS,
    Message,
    Struct,
    array,
    boolean,
    bytes_,
    decode,
    encode_into,
    float64,
    int8,
    int16,
    int32,
    int64,
    string,
    structure,
    uint16,
    uuid,
)


class MetadataRecordType(IntEnum):
    """All types of Kafka 4.4; 6, 13 and 16 were never released."""

    REGISTER_BROKER = 0
    UNREGISTER_BROKER = 1
    TOPIC = 2
    PARTITION = 3
    CONFIG = 4
    PARTITION_CHANGE = 5
    FENCE_BROKER = 7
    UNFENCE_BROKER = 8
    REMOVE_TOPIC = 9
    DELEGATION_TOKEN = 10
    USER_SCRAM_CREDENTIAL = 11
    FEATURE_LEVEL = 12
    CLIENT_QUOTA = 14
    PRODUCER_IDS = 15
    BROKER_REGISTRATION_CHANGE = 17
    ACCESS_CONTROL_ENTRY = 18
    REMOVE_ACCESS_CONTROL_ENTRY = 19
    NO_OP = 20
    ZK_MIGRATION_STATE = 21
    REMOVE_USER_SCRAM_CREDENTIAL = 22
    BEGIN_TRANSACTION = 23
    END_TRANSACTION = 24
    ABORT_TRANSACTION = 25
    REMOVE_DELEGATION_TOKEN = 26
    REGISTER_CONTROLLER = 27
    CLEAR_ELR = 28
    UNREGISTER_CONTROLLER = 29


class MetadataRecord(Message):
    """A record of `RECORD_TYPE`; all are flexible in every version."""

    RECORD_TYPE: ClassVar[MetadataRecordType]
    FLEXIBLE_FROM = 0


class BrokerEndpoint(Struct):
    """Address of a broker on one listener."""

    name: str = string()
    host: str = string()
    port: int = uint16()
    security_protocol: int = int16()


class BrokerFeature(Struct):
    """Levels of a feature that a broker supports."""

    name: str = string()
    min_supported_version: int = int16()
    max_supported_version: int = int16()


class RegisterBrokerRecord(MetadataRecord):
    """A broker has come. log_dirs are the ids of its data directories (version 3, KIP-858)."""

    RECORD_TYPE = MetadataRecordType.REGISTER_BROKER
    VERSIONS = (0, 4)

    broker_id: int = int32()
    is_migrating_zk_broker: bool = boolean("2+")
    incarnation_id: bytes = uuid()
    broker_epoch: int = int64()
    end_points: Sequence[BrokerEndpoint] = array(BrokerEndpoint)
    features: Sequence[BrokerFeature] = array(BrokerFeature)
    rack: str | None = string(nullable="0+")
    fenced: bool = boolean(default=True)
    in_controlled_shutdown: bool = boolean("1+")
    log_dirs: Sequence[bytes] = array(UUIDS, "3+", tag=0)
    cordoned_log_dirs: Sequence[bytes] | None = array(UUIDS, "4+", nullable="4+", default=None, tag=1)


class TopicRecord(MetadataRecord):
    """A new topic."""

    RECORD_TYPE = MetadataRecordType.TOPIC
    VERSIONS = (0, 0)

    name: str = string()
    topic_id: bytes = uuid()


class PartitionRecord(MetadataRecord):
    """A new partition, or all of one in a snapshot. Replicas are node ids, directories those of the replicas (KIP-858).

    leader is -1 while there is none. Version 2 has eligible leader replicas (KIP-966).
    """

    RECORD_TYPE = MetadataRecordType.PARTITION
    VERSIONS = (0, 2)

    partition_id: int = int32(default=-1)
    topic_id: bytes = uuid()
    replicas: Sequence[int] = array(INT32)
    isr: Sequence[int] = array(INT32)
    removing_replicas: Sequence[int] = array(INT32)
    adding_replicas: Sequence[int] = array(INT32)
    leader: int = int32(default=-1)
    leader_recovery_state: int = int8(default=0, tag=0)
    leader_epoch: int = int32(default=-1)
    partition_epoch: int = int32(default=-1)
    directories: Sequence[bytes] = array(UUIDS, "1+")
    eligible_leader_replicas: Sequence[int] | None = array(INT32, "2+", nullable="2+", default=None, tag=1)
    last_known_elr: Sequence[int] | None = array(INT32, "2+", nullable="2+", default=None, tag=2)


class PartitionChangeRecord(MetadataRecord):
    """Changes of a partition: None, leader -2 and recovery state -1 stand for no change."""

    RECORD_TYPE = MetadataRecordType.PARTITION_CHANGE
    VERSIONS = (0, 2)

    partition_id: int = int32(default=-1)
    topic_id: bytes = uuid()
    isr: Sequence[int] | None = array(INT32, nullable="0+", default=None, tag=0)
    leader: int = int32(default=-2, tag=1)
    replicas: Sequence[int] | None = array(INT32, nullable="0+", default=None, tag=2)
    removing_replicas: Sequence[int] | None = array(INT32, nullable="0+", default=None, tag=3)
    adding_replicas: Sequence[int] | None = array(INT32, nullable="0+", default=None, tag=4)
    leader_recovery_state: int = int8(default=-1, tag=5)
    directories: Sequence[bytes] | None = array(UUIDS, "1+", nullable="1+", default=None, tag=8)
    eligible_leader_replicas: Sequence[int] | None = array(INT32, "2+", nullable="2+", default=None, tag=6)
    last_known_elr: Sequence[int] | None = array(INT32, "2+", nullable="2+", default=None, tag=7)


class ConfigRecord(MetadataRecord):
    """One setting of one resource (see ConfigResourceType); a null value takes it away.

    A broker's resource name is its node id, or empty for what holds on every broker.
    """

    RECORD_TYPE = MetadataRecordType.CONFIG
    VERSIONS = (0, 0)

    resource_type: int = int8()
    resource_name: str = string()
    name: str = string()
    value: str | None = string(nullable="0+")


class RemoveTopicRecord(MetadataRecord):
    """A topic is gone, with its partitions and settings."""

    RECORD_TYPE = MetadataRecordType.REMOVE_TOPIC
    VERSIONS = (0, 0)

    topic_id: bytes = uuid()


class FeatureLevelRecord(MetadataRecord):
    """A feature's finalised level; 0 takes it away. Every log and snapshot begins with that of metadata.version."""

    RECORD_TYPE = MetadataRecordType.FEATURE_LEVEL
    VERSIONS = (0, 0)

    name: str = string()
    feature_level: int = int16()


class ProducerIdsRecord(MetadataRecord):
    """Producer ids below next_producer_id were given to some broker."""

    RECORD_TYPE = MetadataRecordType.PRODUCER_IDS
    VERSIONS = (0, 0)

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    next_producer_id: int = int64()


class QuotaEntity(Struct):
    """Part of a quota's entity; a null name is the default entity."""

    entity_type: str = string()
    entity_name: str | None = string(nullable="0+")


class ClientQuotaRecord(MetadataRecord):
    """One quota of one entity, set or removed."""

    RECORD_TYPE = MetadataRecordType.CLIENT_QUOTA
    VERSIONS = (0, 0)

    entity: Sequence[QuotaEntity] = array(QuotaEntity)
    key: str = string()
    value: float = float64()
    remove: bool = boolean()


class UserScramCredentialRecord(MetadataRecord):
    """Salted keys of a user's password, for one SCRAM mechanism."""

    RECORD_TYPE = MetadataRecordType.USER_SCRAM_CREDENTIAL
    VERSIONS = (0, 0)

    name: str = string()
    mechanism: int = int8()
    salt: bytes = bytes_()
    stored_key: bytes = bytes_()
    server_key: bytes = bytes_()
    iterations: int = int32()


class RemoveUserScramCredentialRecord(MetadataRecord):
    """Removes a user's credentials of one SCRAM mechanism."""

    RECORD_TYPE = MetadataRecordType.REMOVE_USER_SCRAM_CREDENTIAL
    VERSIONS = (0, 0)

    name: str = string()
    mechanism: int = int8()


class AccessControlEntryRecord(MetadataRecord):
    """One rule: a principal may, or may not, do an operation on a resource, from a host."""

    RECORD_TYPE = MetadataRecordType.ACCESS_CONTROL_ENTRY
    VERSIONS = (0, 0)

    id: bytes = uuid()
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8()
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


class RemoveAccessControlEntryRecord(MetadataRecord):
    """Takes the rule with this id away."""

    RECORD_TYPE = MetadataRecordType.REMOVE_ACCESS_CONTROL_ENTRY
    VERSIONS = (0, 0)

    id: bytes = uuid()


class DelegationTokenRecord(MetadataRecord):
    """A token in a user's stead. Times in milliseconds."""

    RECORD_TYPE = MetadataRecordType.DELEGATION_TOKEN
    VERSIONS = (0, 0)

    owner: str = string()
    requester: str = string()
    renewers: Sequence[str] = array(STRING)
    issue_timestamp: int = int64()
    max_timestamp: int = int64()
    expiration_timestamp: int = int64()
    token_id: str = string()


class RemoveDelegationTokenRecord(MetadataRecord):
    """Removes a delegation token."""

    RECORD_TYPE = MetadataRecordType.REMOVE_DELEGATION_TOKEN
    VERSIONS = (0, 0)

    token_id: str = string()


class BeginTransactionRecord(MetadataRecord):
    """Starts a metadata transaction: records after it apply once an EndTransactionRecord comes (KIP-868)."""

    RECORD_TYPE = MetadataRecordType.BEGIN_TRANSACTION
    VERSIONS = (0, 0)

    name: str | None = string(nullable="0+", default=None, tag=0)


class EndTransactionRecord(MetadataRecord):
    """Makes everything since the BeginTransactionRecord count."""

    RECORD_TYPE = MetadataRecordType.END_TRANSACTION
    VERSIONS = (0, 0)


class AbortTransactionRecord(MetadataRecord):
    """Makes everything since the BeginTransactionRecord not count."""

    RECORD_TYPE = MetadataRecordType.ABORT_TRANSACTION
    VERSIONS = (0, 0)

    reason: str | None = string(nullable="0+", default=None, tag=0)


RECORDS: dict[int, type[MetadataRecord]] = {cls.RECORD_TYPE: cls for cls in MetadataRecord.__subclasses__()}
"""Record class by record type."""


FRAME_VERSION = 1


class DecodedRecord(NamedTuple):
    """A decoded record. `message` is None for a type whose fields are not declared here."""

    record_type: int
    version: int
    message: MetadataRecord | None


def encode_record(message: MetadataRecord, version: int) -> bytes:
    """The value of a metadata record. Errors as `schema.encode_into`."""
    out = bytearray(unsigned_varint(FRAME_VERSION) + unsigned_varint(message.RECORD_TYPE) + unsigned_varint(version))
    encode_into(message, version, out)
    return bytes(out)


def decode_record(value: Buffer) -> DecodedRecord:
    """The record in `value`.

    Raises MalformedRequest when it is none (a frame of another version, fields that are cut off or left over), and
    ProtocolError UNSUPPORTED_VERSION for a declared type in a version that is not.
    """
    frame, position = read_unsigned_varint(value, 0)
    if frame != FRAME_VERSION:
        raise MalformedRequest(f"a metadata record's frame has the version {frame}, not {FRAME_VERSION}")
    record_type, position = read_unsigned_varint(value, position)
    version, position = read_unsigned_varint(value, position)
    cls = RECORDS.get(record_type)
    if cls is None:
        return DecodedRecord(record_type, version, None)
    message, end = decode(cls, version, value, position)
    if end != len(value):
        raise MalformedRequest(f"{len(value) - end} bytes are left over behind a {cls.__name__}")
    return DecodedRecord(record_type, version, message)


# --- control records of the quorum (KIP-853): a snapshot has them behind its header, each value without a frame ---


class KRaftVersionRecord(Message):
    """Version 1: the quorum may change, and is in the log."""

    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    version: int = int16()
    kraft_version: int = int16()


class VoterEndpoint(Struct):
    """Address of a controller on the listener `name`."""

    name: str = string()
    host: str = string()
    port: int = uint16()


class KRaftVersionFeature(Struct):
    """KRaft versions that a controller supports."""

    min_supported_version: int = int16()
    max_supported_version: int = int16()


class Voter(Struct):
    """One controller: its node id, and the id of the data directory that has its metadata log."""

    voter_id: int = int32()
    voter_directory_id: bytes = uuid()
    endpoints: Sequence[VoterEndpoint] = array(VoterEndpoint)
    kraft_version_feature: KRaftVersionFeature = structure(KRaftVersionFeature)


class VotersRecord(Message):
    """All controllers."""

    VERSIONS = (0, 0)
    FLEXIBLE_FROM = 0

    version: int = int16()
    voters: Sequence[Voter] = array(Voter)
