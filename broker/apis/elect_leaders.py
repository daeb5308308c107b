"""ElectLeaders, API key 43, versions 0 to 2: this node leads every partition, so no election is ever needed.

- Partitions that are asked for by name are answered one by one: ELECTION_NOT_NEEDED, or UNKNOWN_TOPIC_OR_PARTITION.
- Null asks for all, and of those Kafka tells only where something was done: nothing.
- 1 can ask for unclean elections (KIP-460), which changes nothing here; 2 is flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode
from ...protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from ..requests.access import requires_cluster
from ..requests.registry import api
from ..runtime.cooperative import ChunkedResult, Steps, run_in_chunks
from ..security.acl.model import AclOperation

if TYPE_CHECKING:
    from ..requests.context import RequestContext

_ELECTION_TYPES = (0, 1)


@api(
    ApiKey.ELECT_LEADERS,
    (0, 2),
    ElectLeadersRequest,
    requires=(requires_cluster(AclOperation.ALTER),),
    many_names=True,
)
def elect_leaders(
    request: ElectLeadersRequest, context: RequestContext
) -> ElectLeadersResponse | ChunkedResult[ElectLeadersResponse]:
    if request.election_type not in _ELECTION_TYPES:
        return ElectLeadersResponse(error_code=ErrorCode.INVALID_REQUEST)
    return run_in_chunks(_steps(request, context), context)


def _steps(request: ElectLeadersRequest, context: RequestContext) -> Steps[ElectLeadersResponse]:
    results = []
    for wanted in request.topic_partitions or ():
        yield 1
        rows = []
        for partition in wanted.partitions:
            yield 1
            rows.append(_result(wanted.topic, partition, context))
        results.append(ReplicaElectionResult(topic=wanted.topic, partition_result=rows))
    return ElectLeadersResponse(replica_election_results=results)


def _result(topic: str, partition: int, context: RequestContext) -> PartitionResult:
    if context.services.topics.log(topic, partition) is None:
        return PartitionResult(
            partition_id=partition,
            error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            error_message=f"there is no {topic}-{partition}",
        )
    return PartitionResult(
        partition_id=partition,
        error_code=ErrorCode.ELECTION_NOT_NEEDED,
        error_message=f"broker {context.services.logs.node_id} leads {topic}-{partition}, and is its only replica",
    )
