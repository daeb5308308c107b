"""AddPartitionsToTxn, API key 24, versions 0 to 5: a transaction is about to write to these partitions.

- 0 to 3 are for clients: one transaction, and all partitions or none; where one of them is not there, the others are
  OPERATION_NOT_ATTEMPTED. 2 knows PRODUCER_FENCED, before it is INVALID_PRODUCER_EPOCH.
- 4 and 5 are for brokers: many transactions, and `verify_only` asks without adding (KIP-890). 5 knows
  TRANSACTION_ABORTABLE, before it is INVALID_TXN_STATE.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode
from ...protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
)
from ..groups.store.offsets import TopicPartition
from ..requests.access import requires_each, requires_request
from ..requests.registry import api
from ..runtime.cooperative import Turns
from ..runtime.error_codes import error_code
from ..security.acl.model import CLUSTER_NAME, AclOperation, ResourceType
from ..transactions.states import VERSION_2, Producer

if TYPE_CHECKING:
    from ..requests.context import RequestContext
    from ..requests.services import Services

FENCED_FROM = 2
BROKERS_FROM = 4
ABORTABLE_FROM = 5

Codes = dict[TopicPartition, ErrorCode]


@api(
    ApiKey.ADD_PARTITIONS_TO_TXN,
    (0, 5),
    AddPartitionsToTxnRequest,
    requires=(
        requires_request(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, "from version 4, which is for brokers"),
        requires_request(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, "before version 4"),
        requires_each(AclOperation.WRITE, ResourceType.TOPIC, "before version 4"),
    ),
    many_names=True,
    is_slow_change=True,
)
async def add_partitions_to_txn(
    request: AddPartitionsToTxnRequest, context: RequestContext
) -> AddPartitionsToTxnResponse:
    services, version = context.services, context.api_version
    if version < BROKERS_FROM:
        producer = Producer(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
        topics = request.v3_and_below_topics
        codes = _refusals(request.v3_and_below_transactional_id, topics, context)
        if codes is None:
            codes = await _add(services, request.v3_and_below_transactional_id, producer, topics, 0)
        if version < FENCED_FROM:
            codes = _replaced(codes, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_results(topics, codes))
    if not context.allows(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
        return AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    results = []
    turns = Turns(context)
    for transaction in request.transactions:
        if turns.spent(1 + len(transaction.topics)):
            await turns.next()
        producer = Producer(transaction.producer_id, transaction.producer_epoch)
        if transaction.verify_only:
            codes = _verify(services, transaction.transactional_id, producer, transaction.topics)
        else:
            codes = await _add(services, transaction.transactional_id, producer, transaction.topics, VERSION_2)
        if version < ABORTABLE_FROM:
            codes = _replaced(codes, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE)
        results.append(
            AddPartitionsToTxnResult(
                transactional_id=transaction.transactional_id, topic_results=_results(transaction.topics, codes)
            )
        )
    return AddPartitionsToTxnResponse(results_by_transaction=results)


def _refusals(
    transactional_id: str, topics: Sequence[AddPartitionsToTxnTopic], context: RequestContext
) -> Codes | None:
    """Error codes for what the client may not do, in which case nothing else is done; None to go on."""
    places = _places(topics)
    if not context.allows(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        return dict.fromkeys(places, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    writable = context.allowed(AclOperation.WRITE, ResourceType.TOPIC, (topic.name for topic in topics))
    if all(topic.name in writable for topic in topics):
        return None
    codes: Codes = {}
    for place in places:
        if place.topic not in writable:
            codes[place] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif context.services.partitions.get(*place) is None:
            codes[place] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        else:
            codes[place] = ErrorCode.OPERATION_NOT_ATTEMPTED
    return codes


def _places(topics: Sequence[AddPartitionsToTxnTopic]) -> list[TopicPartition]:
    return [TopicPartition(topic.name, index) for topic in topics for index in topic.partitions]


async def _add(
    services: Services,
    transactional_id: str,
    producer: Producer,
    topics: Sequence[AddPartitionsToTxnTopic],
    client_version: int,
) -> Codes:
    places = _places(topics)
    missing = {place for place in places if services.partitions.get(*place) is None}
    if missing:
        return {
            place: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if place in missing else ErrorCode.OPERATION_NOT_ATTEMPTED
            for place in places
        }
    try:
        wait = services.transactions.get().add_partitions(transactional_id, producer, frozenset(places), client_version)
        if wait is not None:
            await asyncio.shield(wait)
    except Exception as error:
        return dict.fromkeys(places, error_code(error)[0])
    return dict.fromkeys(places, ErrorCode.NONE)


def _verify(
    services: Services, transactional_id: str, producer: Producer, topics: Sequence[AddPartitionsToTxnTopic]
) -> Codes:
    codes: Codes = {}
    for place in _places(topics):
        codes[place] = ErrorCode.NONE
        try:
            services.transactions.get().verify(transactional_id, producer, place)
        except Exception as error:
            codes[place] = error_code(error)[0]
    return codes


def _replaced(codes: Codes, old: ErrorCode, new: ErrorCode) -> Codes:
    return {place: new if code is old else code for place, code in codes.items()}


def _results(topics: Sequence[AddPartitionsToTxnTopic], codes: Codes) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=index, partition_error_code=codes[TopicPartition(topic.name, index)]
                )
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]
