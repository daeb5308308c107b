"""DescribeTransactions, API key 65, version 0: what the coordinator knows of transactional ids (KIP-664)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from ..requests.access import requires_each, shows
from ..requests.registry import api
from ..runtime.cooperative import ChunkedResult, Steps, each_once, run_in_chunks
from ..security.acl.model import AclOperation, ResourceType

if TYPE_CHECKING:
    from ..requests.context import RequestContext


@api(
    ApiKey.DESCRIBE_TRANSACTIONS,
    (0, 0),
    DescribeTransactionsRequest,
    requires=(
        requires_each(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID),
        shows(AclOperation.DESCRIBE, ResourceType.TOPIC, "each that is in one"),
    ),
    many_names=True,
)
def describe_transactions(
    request: DescribeTransactionsRequest, context: RequestContext
) -> DescribeTransactionsResponse | ChunkedResult[DescribeTransactionsResponse]:
    return run_in_chunks(_steps(request, context), context)


def _steps(request: DescribeTransactionsRequest, context: RequestContext) -> Steps[DescribeTransactionsResponse]:
    def tell(transactional_id: str) -> TransactionState:
        return _describe(transactional_id, context)

    def units(state: TransactionState) -> int:
        return sum(len(topic.partitions) for topic in state.topics)

    states = yield from each_once(request.transactional_ids, tell, units)
    return DescribeTransactionsResponse(transaction_states=states)


def _describe(transactional_id: str, context: RequestContext) -> TransactionState:
    if not context.allows(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return TransactionState(transactional_id=transactional_id, error_code=code)
    try:
        metadata = context.services.transactions.get().describe(transactional_id)
    except ProtocolError as error:
        return TransactionState(transactional_id=transactional_id, error_code=error.code)
    topics: dict[str, list[int]] = {}
    shown = context.allowed(
        AclOperation.DESCRIBE, ResourceType.TOPIC, (topic for topic, _ in metadata.partitions), quietly=True
    )
    for topic, index in sorted(place for place in metadata.partitions if place[0] in shown):
        topics.setdefault(topic, []).append(index)
    return TransactionState(
        transactional_id=transactional_id,
        transaction_state=metadata.state.label,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_start_time_ms=metadata.start_ms,
        producer_id=metadata.producer_id,
        producer_epoch=metadata.producer_epoch,
        topics=[TopicData(topic=topic, partitions=indexes) for topic, indexes in topics.items()],
    )
