"""WriteTxnMarkers, API key 27, versions 0 to 2: ends transactions in partitions, whatever the coordinator thinks.

Between Kafka's brokers this is how a transaction is completed; here the coordinator writes into the logs itself, and what
sends this is Admin.abortTransaction, for a transaction that hangs (KIP-664). 2 says which version of transactions the
marker is of (KIP-1228).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode
from ...protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ...storage.producers.transaction_marker import TransactionMarker
from ..groups.store.offsets import TopicPartition
from ..requests.access import requires_cluster, suffices_on_cluster
from ..requests.registry import api
from ..runtime.cooperative import Turns
from ..runtime.error_codes import error_code
from ..security.acl.model import AclOperation
from ..transactions.markers import MarkerWriter
from ..transactions.states import Producer

if TYPE_CHECKING:
    from ..requests.context import RequestContext


@api(
    ApiKey.WRITE_TXN_MARKERS,
    (0, 2),
    WriteTxnMarkersRequest,
    requires=(
        suffices_on_cluster(AclOperation.ALTER),
        requires_cluster(AclOperation.CLUSTER_ACTION),
    ),
    audited=True,
    many_names=True,
)
async def write_txn_markers(request: WriteTxnMarkersRequest, context: RequestContext) -> WriteTxnMarkersResponse:
    services = context.services
    writer = MarkerWriter(services.partitions, services.groups, services.time, services.loop)
    turns = Turns(context)
    return WriteTxnMarkersResponse(markers=[await _write(writer, marker, turns) for marker in request.markers])


async def _write(writer: MarkerWriter, asked: WritableTxnMarker, turns: Turns) -> WritableTxnMarkerResult:
    if turns.spent():
        await turns.next()
    marker = TransactionMarker(asked.transaction_result, asked.coordinator_epoch)
    producer = Producer(asked.producer_id, asked.producer_epoch)
    topics = []
    for topic in asked.topics:
        if turns.spent():
            await turns.next()
        results = []
        for index in topic.partition_indexes:
            if turns.spent():
                await turns.next()
            code = ErrorCode.NONE
            try:
                unsynced = writer.write(TopicPartition(topic.name, index), producer, marker, asked.transaction_version)
                if unsynced is not None:
                    await asyncio.shield(unsynced)
            except Exception as error:
                code = error_code(error)[0]
            results.append(WritableTxnMarkerPartitionResult(partition_index=index, error_code=code))
        topics.append(WritableTxnMarkerTopicResult(name=topic.name, partitions=results))
    return WritableTxnMarkerResult(producer_id=asked.producer_id, topics=topics)
