"""TxnOffsetCommit, API key 28, versions 0 to 5: offsets of a group that count when the transaction is committed.

- 2 has leader epochs, 3 says which member commits, so that one that is out is refused (KIP-447); 4 knows
  TRANSACTION_ABORTABLE, before it is INVALID_TXN_STATE.
- The group's partition of `__consumer_offsets` must be in the transaction: up to 4 AddOffsetsToTxn has added it and it is
  verified here, from 5 on it is added here (KIP-890).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from ..groups.offset_commits import CommitRequest, OffsetToCommit, TxnCommitRequest
from ..groups.store.offsets import TopicPartition
from ..requests.access import requires_each, requires_field
from ..requests.registry import api
from ..runtime.error_codes import error_code
from ..security.acl.model import AclOperation, ResourceType
from ..transactions.states import VERSION_2, Producer

if TYPE_CHECKING:
    from ..requests.context import RequestContext
    from ..requests.services import Services

ABORTABLE_FROM = 4
ADDS_PARTITIONS_FROM = 5


@api(
    ApiKey.TXN_OFFSET_COMMIT,
    (0, 5),
    TxnOffsetCommitRequest,
    requires=(
        requires_field(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, "transactional_id"),
        requires_field(AclOperation.READ, ResourceType.GROUP, "group_id"),
        requires_each(AclOperation.READ, ResourceType.TOPIC),
    ),
    many_names=True,
)
async def txn_offset_commit(request: TxnOffsetCommitRequest, context: RequestContext) -> TxnOffsetCommitResponse:
    services = context.services
    codes: dict[TopicPartition, ErrorCode] = {}
    offsets: list[OffsetToCommit] = []
    for topic in request.topics:
        may_read = context.allows(AclOperation.READ, ResourceType.TOPIC, topic.name)
        for each in topic.partitions:
            if not may_read:
                codes[TopicPartition(topic.name, each.partition_index)] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                continue
            partition = services.partitions.get(topic.name, each.partition_index)
            if partition is None:
                codes[TopicPartition(topic.name, each.partition_index)] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                continue
            topic_id = partition.log.topic_id
            offsets.append(
                OffsetToCommit(
                    topic.name,
                    each.partition_index,
                    each.committed_offset,
                    each.committed_leader_epoch,
                    each.committed_metadata,
                    None if topic_id is None else topic_id.bytes,
                )
            )
    places = [TopicPartition(offset.topic, offset.partition) for offset in offsets]
    if offsets:
        try:
            codes.update(zip(places, await _commit(services, request, offsets, context.api_version), strict=True))
        except Exception as error:
            codes.update(dict.fromkeys(places, _code(error, context.api_version)))
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=each.partition_index,
                        error_code=codes[TopicPartition(topic.name, each.partition_index)],
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


async def _commit(
    services: Services, request: TxnOffsetCommitRequest, offsets: list[OffsetToCommit], version: int
) -> list[ErrorCode]:
    producer = Producer(request.producer_id, request.producer_epoch)
    partition = services.groups.partition_of(request.group_id)
    if not request.transactional_id:
        raise ProtocolError(ErrorCode.INVALID_REQUEST)
    if version >= ADDS_PARTITIONS_FROM:
        wait = services.transactions.get().add_partitions(request.transactional_id, producer, {partition}, VERSION_2)
        if wait is not None:
            await asyncio.shield(wait)
    elif services.config.transaction_partition_verification_enable:
        services.transactions.get().verify(request.transactional_id, producer, partition)
    commit = CommitRequest(
        request.group_id, offsets, request.member_id, request.group_instance_id, request.generation_id
    )
    outcome = services.groups.commit_in_transaction(TxnCommitRequest(commit, *producer))
    return outcome if isinstance(outcome, list) else await outcome


def _code(error: Exception, version: int) -> ErrorCode:
    code, _ = error_code(error)
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < ABORTABLE_FROM:
        return ErrorCode.INVALID_TXN_STATE
    return code
