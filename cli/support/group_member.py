"""A member of a consumer group by our own client: Kafka's classic protocol, assignor `range`, as Java's and librdkafka's have it.

    member = GroupMember(client, "g", "orders")
    committed = member.join()      # the partitions it has now, each with its committed offset, or None
    member.beat()                  # often; False: join again
    member.commit({0: 12})
    member.leave()

One thread: who joined calls `beat` at least each `SESSION_S` seconds, or the group goes on without it. The client is for this
alone: answers to others' requests would come in between.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ...clients.kafka.conversations import CoordinatorKind
from ...pipeline.exceptions import BrokerError, BrokerUnreachableError
from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from ...protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ...protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ...protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from ...protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ...protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic, OffsetFetchResponse
from ...protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from ...protocol.schema import ApiMessage, Message, decode, encode_with_version
from .kafka_client import KafkaFailure

if TYPE_CHECKING:
    from ...pipeline.wire.client import KafkaClient

M = TypeVar("M", bound=Message)
ResponseT = TypeVar("ResponseT", bound=ApiMessage)
T = TypeVar("T")

#: As Java's consumers have them.
SESSION_S, BEAT_S = 45, 3
#: How long others wait for this member in a rebalance.
_REBALANCE_S = 60
#: A rebalance takes as long as its slowest member may: by default five minutes of Java's and librdkafka's consumers.
_JOIN_S = 310
#: How often the leader looks whether a topic has more partitions by now.
_LOOK_S = 60
_PROTOCOL_TYPE, _RANGE = "consumer", "range"
#: Asking for the whole again goes on from these.
_JOIN_AGAIN = (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID)
#: From 8 on OffsetFetch asks for several groups, from 10 on OffsetCommit has topics' ids, from 3 on LeaveGroup is of several
#: members.
_FETCH_UP_TO, _COMMIT_UP_TO, _LEAVE_UP_TO = 7, 9, 2


class Reader(NamedTuple):
    """A member as the leader sees it, in the order in which partitions are given out: static members first."""

    is_dynamic: bool
    instance_id: str
    member_id: str
    topics: frozenset[str]


def assign_by_range(readers: Collection[Reader], counts: Mapping[str, int]) -> dict[str, dict[str, list[int]]]:
    """Member id → topic → partitions: neighbours of each topic; the first members have one more where it does not come out even.

    `counts`: partitions of each topic; topics that are not in it are left out.
    """
    given: dict[str, dict[str, list[int]]] = {reader.member_id: {} for reader in readers}
    for topic, count in sorted(counts.items()):
        wanting = sorted(reader for reader in readers if topic in reader.topics)
        first = 0
        for at, reader in enumerate(wanting):
            size = count // len(wanting) + (at < count % len(wanting))
            if size:
                given[reader.member_id][topic] = list(range(first, first + size))
            first += size
    return given


def _opened(cls: type[M], data: bytes) -> M:
    """The newest version that is known here reads those behind it. ProtocolError."""
    if len(data) < struct.calcsize(">h"):
        raise ProtocolError(ErrorCode.INVALID_REQUEST, "it has no version")
    (version,) = struct.unpack_from(">h", data)
    message, _ = decode(cls, min(max(version, 0), cls.VERSIONS[1]), data, 2)
    return message


class GroupMember:
    """Reads one topic; the client's errors and KafkaFailure come out of all that asks the coordinator.

    `tell` is called with what users should know, `on_wait` with what is waited for.

    Attributes:
        committed_only: offsets that a transaction is about to commit are waited for.
        is_forgotten: the group has gone on without this member: others may have read its partitions. Set to False by who knows.
    """

    def __init__(
        self, client: KafkaClient, group: str, topic: str, *, committed_only: bool = False,
        tell: Callable[[str], None] = lambda _text: None, on_wait: Callable[[str], None] = lambda _why: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self.is_forgotten = False
        self._client = client
        self._group = group
        self._topic = topic
        self.committed_only = committed_only
        self._tell = tell
        self._on_wait = on_wait
        self._clock = clock
        self._member_id = ""
        self._generation = -1
        self._due = 0.0
        #: Of the leader: partitions of each topic when it gave them out, and when it looks again.
        self._counts: dict[str, int] | None = None
        self._look_at = 0.0

    def join(self) -> dict[int, int | None]:
        """The partitions that this member reads from now on, and their committed offsets. Blocks until all others have joined."""
        while True:
            self._generation = -1
            try:
                partitions = self._sync(self._join())
                found = self.committed(partitions)
            except BrokerError as error:
                if error.code not in _JOIN_AGAIN:
                    raise
                self._forget_member(error.code)
                continue
            self._due = self._clock() + BEAT_S
            return {partition: found.get(partition) for partition in partitions}

    def beat(self) -> bool:
        """Tell the group that this member lives, if it is time to. False: it has to join again."""
        now = self._clock()
        if now >= self._due:
            request = HeartbeatRequest(group_id=self._group, generation_id=self._generation, member_id=self._member_id)
            if not self._ask_as_member(request, HeartbeatResponse, up_to=4):
                return False
            self._due = now + BEAT_S
        if self._counts is not None and now >= self._look_at:
            self._look_at = now + _LOOK_S
            return self._counts == self._partitions_of(self._counts)
        return True

    def commit(self, offsets: Mapping[int, int]) -> bool:
        """Have it written down that these offsets are next. False: this member has to join again, and nothing was written."""
        parts = [
            OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset, committed_metadata="")
            for partition, offset in sorted(offsets.items())
        ]
        request = OffsetCommitRequest(
            group_id=self._group, generation_id_or_member_epoch=self._generation, member_id=self._member_id,
            topics=[OffsetCommitRequestTopic(name=self._topic, partitions=parts)],
        )  # fmt: skip
        return not parts or self._ask_as_member(
            request, OffsetCommitResponse, up_to=_COMMIT_UP_TO, at_least=2, error_of=_error_of_partitions
        )

    def committed(self, partitions: Collection[int]) -> dict[int, int]:
        """Committed offsets, of those partitions that have one."""
        if not partitions:
            return {}
        topics = [OffsetFetchRequestTopic(name=self._topic, partition_indexes=sorted(partitions))]
        request = OffsetFetchRequest(group_id=self._group, topics=topics, require_stable=self.committed_only)
        # Before version 7 there is no way to wait for transactions that commit offsets.
        answer = self._client.request_coordinator(
            self._group, CoordinatorKind.GROUP, request, OffsetFetchResponse,
            up_to=_FETCH_UP_TO, at_least=7 if self.committed_only else 1,
            error_of=lambda answer: answer.error_code or _error_of_partitions(answer),
        )  # fmt: skip
        return {
            part.partition_index: part.committed_offset
            for topic in answer.topics
            for part in topic.partitions
            if part.committed_offset >= 0
        }

    def leave(self) -> None:
        """Partitions are others' at once. A coordinator that can't be told notices after `SESSION_S`."""
        member_id, self._member_id, self._generation = self._member_id, "", -1
        if not member_id:
            return
        request = LeaveGroupRequest(group_id=self._group, member_id=member_id)
        node = self._client.coordinators([self._group], CoordinatorKind.GROUP).get(self._group)
        if node is not None:
            self._client.connection(node).request(request, LeaveGroupResponse, up_to=_LEAVE_UP_TO)

    # -- inside

    def _join(self) -> JoinGroupResponse:
        subscription = ConsumerProtocolSubscription(topics=[self._topic])
        # Version 1 is what all clients read; nothing of the later ones is used.
        metadata = encode_with_version(subscription, 1)

        def ask() -> JoinGroupResponse:
            request = JoinGroupRequest(
                group_id=self._group, session_timeout_ms=SESSION_S * 1000, rebalance_timeout_ms=_REBALANCE_S * 1000,
                member_id=self._member_id, protocol_type=_PROTOCOL_TYPE,
                protocols=[JoinGroupRequestProtocol(name=_RANGE, metadata=metadata)],
            )  # fmt: skip
            return self._client.request_coordinator(
                self._group, CoordinatorKind.GROUP, request, JoinGroupResponse, up_to=9, at_least=1,
                error_of=lambda answer: 0 if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED else answer.error_code,
            )  # fmt: skip

        try:
            while True:
                answer = self._patiently(ask)
                self._member_id = answer.member_id
                if answer.error_code != ErrorCode.MEMBER_ID_REQUIRED:
                    break
        except BrokerError as error:
            if error.code != ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
                raise
            raise KafkaFailure(
                f"group {self._group} has members that share out partitions by something else than range, which is all that "
                "our own client can: --client librdkafka --property partition.assignment.strategy=… may be one of them"
            ) from None
        self._generation = answer.generation_id
        return answer

    def _sync(self, joined: JoinGroupResponse) -> list[int]:
        """The partitions of the topic that are this member's."""
        self._counts = None
        given: list[SyncGroupRequestAssignment] = []
        if joined.leader == joined.member_id and not joined.skip_assignment:
            given = self._assignments(joined)
        request = SyncGroupRequest(
            group_id=self._group, generation_id=self._generation, member_id=self._member_id,
            protocol_type=_PROTOCOL_TYPE, protocol_name=joined.protocol_name, assignments=given,
        )  # fmt: skip
        answer = self._patiently(
            lambda: self._client.request_coordinator(
                self._group, CoordinatorKind.GROUP, request, SyncGroupResponse, up_to=5
            )
        )
        if not answer.assignment:
            return []
        try:
            mine = _opened(ConsumerProtocolAssignment, answer.assignment)
        except ProtocolError as error:
            raise KafkaFailure(f"group {self._group}: what its leader assigns cannot be read: {error}") from None
        return [
            number for topic in mine.assigned_partitions if topic.topic == self._topic for number in topic.partitions
        ]

    def _assignments(self, joined: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        """Everybody's partitions, of all topics that anybody of the group reads: this member is its leader."""
        readers = []
        for member in joined.members:
            try:
                topics = frozenset(_opened(ConsumerProtocolSubscription, member.metadata).topics)
            except ProtocolError as error:
                raise KafkaFailure(
                    f"group {self._group}: what its member {member.member_id} subscribes to cannot be read: {error}"
                ) from None
            readers.append(
                Reader(member.group_instance_id is None, member.group_instance_id or "", member.member_id, topics)
            )
        wanted = frozenset().union(*(reader.topics for reader in readers))
        counts = self._partitions_of(wanted)
        self._counts, self._look_at = {topic: counts.get(topic, 0) for topic in wanted}, self._clock() + _LOOK_S
        return [
            SyncGroupRequestAssignment(
                member_id=member_id,
                assignment=encode_with_version(
                    ConsumerProtocolAssignment(
                        assigned_partitions=[TopicPartition(topic=t, partitions=p) for t, p in topics.items()]
                    ),
                    0,
                ),
            )
            for member_id, topics in assign_by_range(readers, counts).items()
        ]

    def _partitions_of(self, topics: Collection[str]) -> dict[str, int]:
        """Number of partitions of each; 0 where there is no such topic."""
        there = {
            topic.name: len(topic.partitions)
            for topic in self._client.metadata(sorted(topics)).topics
            if not topic.error_code
        }
        return {topic: there.get(topic, 0) for topic in topics}

    def _patiently(self, ask: Callable[[], T]) -> T:
        """Ask again when an answer takes longer than one request may: the rest of the group decides when it comes."""
        until = self._clock() + _JOIN_S
        while True:
            try:
                return ask()
            except BrokerUnreachableError as error:
                if self._clock() >= until:
                    raise
                self._on_wait(f"the other members of group {self._group} ({error})")

    def _ask_as_member(
        self, request: ApiMessage, response: type[ResponseT], *, up_to: int, at_least: int = 0,
        error_of: Callable[[ResponseT], int] = lambda answer: getattr(answer, "error_code", 0),
    ) -> bool:  # fmt: skip
        """False: the group has another generation, or does not know this member any more."""
        try:
            self._client.request_coordinator(
                self._group, CoordinatorKind.GROUP, request, response, up_to=up_to, at_least=at_least, error_of=error_of
            )
        except BrokerError as error:
            if error.code not in _JOIN_AGAIN:
                raise
            self._forget_member(error.code)
            return False
        return True

    def _forget_member(self, code: int) -> None:
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            return
        if self._generation >= 0:
            self.is_forgotten = True
            self._tell(
                f"group {self._group} went on without this member: what was printed since its last commit may be printed again"
            )
        self._generation = -1
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            self._member_id = ""


def _error_of_partitions(answer: OffsetCommitResponse | OffsetFetchResponse) -> int:
    codes = (part.error_code for topic in answer.topics for part in topic.partitions)
    return next((code for code in codes if code), 0)
