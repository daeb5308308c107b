"""Kafka's error codes, and the exceptions of this package.

Codes, names and what may be retried are Kafka's (up to 4.4); the texts are ours. A text goes to clients where the
protocol has a field for it, so it says what happened, not what to do inside the daemon.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TypeVar


class ErrorCode(IntEnum):
    """An error's number on the wire. `text` explains it in a few words; `retriable`: True if clients try again."""

    text: str
    retriable: bool

    def __new__(cls, value: int, retriable: bool, text: str) -> ErrorCode:
        self = int.__new__(cls, value)
        self._value_ = value
        self.retriable = retriable
        self.text = text
        return self

    UNKNOWN_SERVER_ERROR = -1, False, "the server met an error it did not expect"
    NONE = 0, False, "no error"
    OFFSET_OUT_OF_RANGE = 1, False, "the offset is below the log's start or above its end"
    CORRUPT_MESSAGE = 2, True, "a record batch has a wrong checksum or size, or lacks a key that its topic requires"
    UNKNOWN_TOPIC_OR_PARTITION = 3, True, "there is no such topic or partition here"
    INVALID_FETCH_SIZE = 4, False, "the fetch size is not valid"
    LEADER_NOT_AVAILABLE = 5, True, "the partition has no leader at the moment"
    NOT_LEADER_OR_FOLLOWER = 6, True, "this broker does not hold the partition in the role asked for"
    REQUEST_TIMED_OUT = 7, True, "the request was not done in its time"
    BROKER_NOT_AVAILABLE = 8, False, "the broker is not available"
    REPLICA_NOT_AVAILABLE = 9, True, "the replica is not available"
    MESSAGE_TOO_LARGE = 10, False, "a record batch is larger than the topic allows"
    STALE_CONTROLLER_EPOCH = 11, False, "the controller has moved"
    OFFSET_METADATA_TOO_LARGE = 12, False, "the text beside a committed offset is too long"
    NETWORK_EXCEPTION = 13, True, "the connection broke before the answer came"
    COORDINATOR_LOAD_IN_PROGRESS = 14, True, "the coordinator is still loading"
    COORDINATOR_NOT_AVAILABLE = 15, True, "the coordinator is not available"
    NOT_COORDINATOR = 16, True, "another broker coordinates this"
    INVALID_TOPIC_EXCEPTION = 17, False, "the topic's name is not allowed"
    RECORD_LIST_TOO_LARGE = 18, False, "the record batches are larger than a segment may be"
    NOT_ENOUGH_REPLICAS = 19, True, "fewer replicas are in sync than the topic requires; nothing was written"
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20, True, "written, but to fewer replicas in sync than the topic requires"
    INVALID_REQUIRED_ACKS = 21, False, "acks must be -1, 0 or 1"
    ILLEGAL_GENERATION = 22, False, "the group has moved to another generation"
    INCONSISTENT_GROUP_PROTOCOL = 23, False, "the member supports none of the protocols that all others support"
    INVALID_GROUP_ID = 24, False, "the group id is not valid"
    UNKNOWN_MEMBER_ID = 25, False, "the group has no such member"
    INVALID_SESSION_TIMEOUT = 26, False, "the session timeout is outside of what the broker allows"
    REBALANCE_IN_PROGRESS = 27, False, "the group is rebalancing: join again"
    INVALID_COMMIT_OFFSET_SIZE = 28, False, "the offsets are too large to be committed together"
    TOPIC_AUTHORIZATION_FAILED = 29, False, "not allowed on this topic"
    GROUP_AUTHORIZATION_FAILED = 30, False, "not allowed on this group"
    CLUSTER_AUTHORIZATION_FAILED = 31, False, "not allowed on this cluster"
    INVALID_TIMESTAMP = 32, False, "a record's timestamp is outside of what the topic allows"
    UNSUPPORTED_SASL_MECHANISM = 33, False, "the SASL mechanism is not offered"
    ILLEGAL_SASL_STATE = 34, False, "the request does not fit the state of authentication"
    UNSUPPORTED_VERSION = 35, False, "this version of the API is not supported"
    TOPIC_ALREADY_EXISTS = 36, False, "a topic of that name exists"
    INVALID_PARTITIONS = 37, False, "the number of partitions is not valid"
    INVALID_REPLICATION_FACTOR = 38, False, "the replication factor is not between 1 and the number of brokers"
    INVALID_REPLICA_ASSIGNMENT = 39, False, "the replica assignment is not valid"
    INVALID_CONFIG = 40, False, "a setting is not valid"
    NOT_CONTROLLER = 41, True, "this broker is not the controller"
    INVALID_REQUEST = 42, False, "the request contradicts itself or can't be read"
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, False, "the topic's message format can't do this"
    POLICY_VIOLATION = 44, False, "a policy of the server forbids this"
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, False, "the producer's sequence number is not the one that comes next"
    DUPLICATE_SEQUENCE_NUMBER = 46, False, "the producer's sequence number was written before"
    INVALID_PRODUCER_EPOCH = 47, False, "a producer with a newer epoch has taken over"
    INVALID_TXN_STATE = 48, False, "the transaction's state does not allow this"
    INVALID_PRODUCER_ID_MAPPING = 49, False, "the producer id does not belong to this transactional id"
    INVALID_TRANSACTION_TIMEOUT = 50, False, "the transaction timeout is longer than the server allows"
    CONCURRENT_TRANSACTIONS = 51, True, "the producer's last transaction is still being completed"
    TRANSACTION_COORDINATOR_FENCED = 52, False, "the transaction coordinator that asks has been replaced"
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, False, "not allowed to use this transactional id"
    SECURITY_DISABLED = 54, False, "security features are off"
    OPERATION_NOT_ATTEMPTED = 55, False, "not tried, because another part of the request failed"
    KAFKA_STORAGE_ERROR = 56, True, "the disk under the log failed"
    LOG_DIR_NOT_FOUND = 57, False, "there is no such log directory"
    SASL_AUTHENTICATION_FAILED = 58, False, "authentication failed"
    UNKNOWN_PRODUCER_ID = 59, False, "nothing of this producer is left in the partition"
    REASSIGNMENT_IN_PROGRESS = 60, False, "the partition is being reassigned"
    DELEGATION_TOKEN_AUTH_DISABLED = 61, False, "delegation tokens are off"
    DELEGATION_TOKEN_NOT_FOUND = 62, False, "there is no such delegation token"
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, False, "the delegation token belongs to somebody else"
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64, False, "delegation tokens can't be asked for on this connection"
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, False, "not allowed on this delegation token"
    DELEGATION_TOKEN_EXPIRED = 66, False, "the delegation token has expired"
    INVALID_PRINCIPAL_TYPE = 67, False, "the type of principal is not supported"
    NON_EMPTY_GROUP = 68, False, "the group has members"
    GROUP_ID_NOT_FOUND = 69, False, "there is no such group"
    FETCH_SESSION_ID_NOT_FOUND = 70, True, "there is no such fetch session"
    INVALID_FETCH_SESSION_EPOCH = 71, True, "the fetch session's epoch is not the one that comes next"
    LISTENER_NOT_FOUND = 72, True, "the partition's leader has no listener of this name"
    TOPIC_DELETION_DISABLED = 73, False, "deleting topics is off"
    FENCED_LEADER_EPOCH = 74, True, "the client's leader epoch is older than the broker's"
    UNKNOWN_LEADER_EPOCH = 75, True, "the client's leader epoch is newer than the broker's"
    UNSUPPORTED_COMPRESSION_TYPE = 76, False, "the compression type does not go with this version of the API"
    STALE_BROKER_EPOCH = 77, False, "the broker's epoch is out of date"
    OFFSET_NOT_AVAILABLE = 78, True, "the leader does not know its high watermark yet"
    MEMBER_ID_REQUIRED = 79, False, "join again with the member id in this answer"
    PREFERRED_LEADER_NOT_AVAILABLE = 80, True, "the preferred leader is not available"
    GROUP_MAX_SIZE_REACHED = 81, False, "the group is full"
    FENCED_INSTANCE_ID = 82, False, "another member has joined with this group instance id"
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, True, "no replica can become leader"
    ELECTION_NOT_NEEDED = 84, True, "the partition has the leader it should have"
    NO_REASSIGNMENT_IN_PROGRESS = 85, False, "the partition is not being reassigned"
    GROUP_SUBSCRIBED_TO_TOPIC = 86, False, "the group still consumes this topic"
    INVALID_RECORD = 87, False, "a record breaks a rule of its topic or of the format"
    UNSTABLE_OFFSET_COMMIT = 88, True, "offsets of an open transaction are not settled yet"
    THROTTLING_QUOTA_EXCEEDED = 89, True, "the quota is used up for now"
    PRODUCER_FENCED = 90, False, "a newer producer has this transactional id"
    RESOURCE_NOT_FOUND = 91, False, "there is no such resource"
    DUPLICATE_RESOURCE = 92, False, "the resource is named twice"
    UNACCEPTABLE_CREDENTIAL = 93, False, "the credential is not acceptable"
    INCONSISTENT_VOTER_SET = 94, False, "one side of the vote does not belong to the voters"
    INVALID_UPDATE_VERSION = 95, False, "the version to be updated to is not valid"
    FEATURE_UPDATE_FAILED = 96, False, "features could not be updated"
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, False, "the principal in a forwarded request can't be read"
    SNAPSHOT_NOT_FOUND = 98, False, "there is no such snapshot"
    POSITION_OUT_OF_RANGE = 99, False, "the position is outside of the snapshot"
    UNKNOWN_TOPIC_ID = 100, True, "there is no topic with this id here"
    DUPLICATE_BROKER_REGISTRATION = 101, False, "a broker with this id is registered"
    BROKER_ID_NOT_REGISTERED = 102, False, "no broker with this id is registered"
    INCONSISTENT_TOPIC_ID = 103, True, "the topic has another id here"
    INCONSISTENT_CLUSTER_ID = 104, False, "this is another cluster"
    TRANSACTIONAL_ID_NOT_FOUND = 105, False, "there is no such transactional id"
    FETCH_SESSION_TOPIC_ID_ERROR = 106, True, "one fetch session must use either names or ids of topics"
    INELIGIBLE_REPLICA = 107, False, "the replica may not be counted as in sync"
    NEW_LEADER_ELECTED = 108, False, "the partition's leader has changed"
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, False, "the offset is in tiered storage"
    FENCED_MEMBER_EPOCH = 110, False, "the member's epoch is fenced: join again"
    UNRELEASED_INSTANCE_ID = 111, False, "another live member has this group instance id"
    UNSUPPORTED_ASSIGNOR = 112, False, "the group has no such assignor"
    STALE_MEMBER_EPOCH = 113, False, "the member's epoch is out of date"
    MISMATCHED_ENDPOINT_TYPE = 114, False, "sent to the wrong kind of endpoint"
    UNSUPPORTED_ENDPOINT_TYPE = 115, False, "the kind of endpoint is not supported"
    UNKNOWN_CONTROLLER_ID = 116, False, "there is no such controller"
    UNKNOWN_SUBSCRIPTION_ID = 117, False, "the telemetry subscription has changed"
    TELEMETRY_TOO_LARGE = 118, False, "the telemetry is larger than the server allows"
    INVALID_REGISTRATION = 119, False, "the broker's registration is not valid"
    TRANSACTION_ABORTABLE = 120, False, "the transaction must be aborted"
    INVALID_RECORD_STATE = 121, False, "the record's state in the share group does not allow this"
    SHARE_SESSION_NOT_FOUND = 122, True, "there is no such share session"
    INVALID_SHARE_SESSION_EPOCH = 123, True, "the share session's epoch is not the one that comes next"
    FENCED_STATE_EPOCH = 124, False, "the share group's state has a newer epoch"
    INVALID_VOTER_KEY = 125, False, "the voter's key is not the receiver's"
    DUPLICATE_VOTER = 126, False, "the voter is in the set"
    VOTER_NOT_FOUND = 127, False, "the voter is not in the set"
    INVALID_REGULAR_EXPRESSION = 128, False, "the regular expression is not valid"
    REBOOTSTRAP_REQUIRED = 129, False, "the client's metadata is too old: start from the bootstrap servers"
    STREAMS_INVALID_TOPOLOGY = 130, False, "the topology is not valid"
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, False, "the topology's epoch is not valid"
    STREAMS_TOPOLOGY_FENCED = 132, False, "the topology's epoch is out of date"
    SHARE_SESSION_LIMIT_REACHED = 133, True, "there are too many share sessions"
    GROUP_DELETION_FAILED = 134, False, "the group could not be deleted"
    STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED = 135, False, "the topology description could not be kept"
    CONTROLLER_ID_NOT_REGISTERED = 136, False, "no controller with this id is registered"


ERRORS = {int(code): code for code in ErrorCode}
"""Number on the wire → error; a newer broker may send others."""

ErrorT = TypeVar("ErrorT", bound=Exception)


def unpickled(kind: type[ErrorT], args: tuple[object, ...]) -> ErrorT:
    """Make an exception again without `__init__`: for the `__reduce__` of a class whose `__init__` takes other arguments than
    what `args` has, which are all that an exception is pickled with by default."""
    return kind.__new__(kind, *args)


class ProtocolError(Exception):
    """An error that is answered with an error code. `message` goes to the client; without one, the code's text does."""

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        super().__init__(message or code.text)
        self.code = code
        self.message = message or code.text

    def __reduce__(self) -> tuple[object, ...]:
        return unpickled, (type(self), self.args), vars(self)


class ManyElements(Exception):
    """A request has more elements than its reader accepts in one go. The request itself is valid."""


class MalformedRequest(ProtocolError):
    """The bytes are no request. Kafka closes the connection then: nothing that follows can be trusted."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.INVALID_REQUEST, message)


class UnsupportedFieldError(ProtocolError):
    """A field has a value, or is null, which the requested version cannot express."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.UNSUPPORTED_VERSION, message)
