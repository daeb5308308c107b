"""TxnOffsetCommit, API key 28, versions 0 to 6: offsets of a group that count when the transaction is committed.

- 2 has leader epochs, 3 says which member commits, so that one that is out is refused (KIP-447); 4 knows
  TRANSACTION_ABORTABLE, before it is INVALID_TXN_STATE.
- The group's partition of `__consumer_offsets` must be in the transaction: up to 4 AddOffsetsToTxn has added it and it is
  verified here, from 5 on it is added here (KIP-890).
- 6: topics by id, and what OffsetCommit says of a group that does not exist, GROUP_ID_NOT_FOUND, and of an outdated member
  epoch, STALE_MEMBER_EPOCH: before, both are ILLEGAL_GENERATION (KIP-1319).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
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
from ..requests.access import requires_each, requires_field
from ..requests.registry import api
from ..runtime.cooperative import CHUNK_UNITS, ChunkedResult, run_in_chunks
from ..runtime.error_codes import error_code
from ..security.acl.model import AclOperation, ResourceType
from ..transactions.states import VERSION_2, Producer
from .offset_commit import Outcome, check_offsets, commit_in_pieces

if TYPE_CHECKING:
    from ..requests.context import RequestContext

ABORTABLE_FROM = 4
ADDS_PARTITIONS_FROM = 5
BY_ID_FROM = 6


@api(
    ApiKey.TXN_OFFSET_COMMIT,
    (0, 6),
    TxnOffsetCommitRequest,
    requires=(
        requires_field(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, "transactional_id"),
        requires_field(AclOperation.READ, ResourceType.GROUP, "group_id"),
        requires_each(AclOperation.READ, ResourceType.TOPIC),
    ),
    many_names=True,
    is_slow_change=True,
)
async def txn_offset_commit(request: TxnOffsetCommitRequest, context: RequestContext) -> TxnOffsetCommitResponse:
    version = context.api_version
    checking = check_offsets(
        request.topics,
        version >= BY_ID_FROM,
        context,
        TxnOffsetCommitResponseTopic,
        TxnOffsetCommitResponsePartition,
    )
    checked = run_in_chunks(checking, context)
    topics, offsets, places = await checked if isinstance(checked, ChunkedResult) else checked
    if offsets:
        try:
            codes = await _commit(context, request, offsets, version)
        except Exception as error:
            codes = [_code(error, version)] * len(places)
        for place, code in zip(places, codes, strict=True):
            place.error_code = code
    return TxnOffsetCommitResponse(topics=topics)


async def _commit(
    context: RequestContext, request: TxnOffsetCommitRequest, offsets: list[OffsetToCommit], version: int
) -> list[ErrorCode]:
    services = context.services
    producer = Producer(request.producer_id, request.producer_epoch)
    partition = services.groups.partition_of(request.group_id)
    if not request.transactional_id:
        raise ProtocolError(ErrorCode.INVALID_REQUEST)
    if version >= ADDS_PARTITIONS_FROM:
        wait = services.transactions.get().add_partitions(request.transactional_id, producer, {partition}, VERSION_2)
        if wait is not None:
            await asyncio.shield(wait)

    def commit(some: Sequence[OffsetToCommit]) -> Outcome:
        if version < ADDS_PARTITIONS_FROM and services.config.transaction_partition_verification_enable:
            # Before each piece: the transaction may have ended since the last one, with the epoch that is still the producer's.
            services.transactions.get().verify(request.transactional_id, producer, partition)
        asked = CommitRequest(
            request.group_id,
            some,
            request.member_id,
            request.group_instance_id,
            request.generation_id_or_member_epoch,
            unknown_group_error=ErrorCode.GROUP_ID_NOT_FOUND if version >= BY_ID_FROM else ErrorCode.ILLEGAL_GENERATION,
            version=version,
        )
        return services.groups.commit_in_transaction(TxnCommitRequest(asked, *producer))

    if len(offsets) > CHUNK_UNITS:
        return await commit_in_pieces(offsets, commit, context, lambda error: _code(error, version))
    outcome = commit(offsets)
    return outcome if isinstance(outcome, list) else await outcome


def _code(error: Exception, version: int) -> ErrorCode:
    code, _ = error_code(error)
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < ABORTABLE_FROM:
        return ErrorCode.INVALID_TXN_STATE
    return code
