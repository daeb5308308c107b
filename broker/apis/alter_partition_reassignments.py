"""AlterPartitionReassignments, API key 45, versions 0 and 1: partitions can be given to this node, where they are.

- Replicas that are this node alone are taken, and nothing is to be done; any other brokers are
  INVALID_REPLICA_ASSIGNMENT. Null, which ends a reassignment, is NO_REASSIGNMENT_IN_PROGRESS: there never is one.
- 1 may forbid to change how many copies there are (KIP-860); nothing here can.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from ..requests.access import requires_cluster
from ..requests.registry import api
from ..runtime.cooperative import ChunkedResult, Steps, run_in_chunks
from ..runtime.error_codes import error_code
from ..security.acl.model import AclOperation
from .create_topics import check_assignments

if TYPE_CHECKING:
    from ..requests.context import RequestContext


@api(
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    (0, 1),
    AlterPartitionReassignmentsRequest,
    requires=(requires_cluster(AclOperation.ALTER),),
    many_names=True,
)
def alter_partition_reassignments(
    request: AlterPartitionReassignmentsRequest, context: RequestContext
) -> AlterPartitionReassignmentsResponse | ChunkedResult[AlterPartitionReassignmentsResponse]:
    return run_in_chunks(_steps(request, context), context)


def _steps(
    request: AlterPartitionReassignmentsRequest, context: RequestContext
) -> Steps[AlterPartitionReassignmentsResponse]:
    topics = []
    for topic in request.topics:
        yield 1
        rows = []
        for wanted in topic.partitions:
            yield 1
            rows.append(_result(topic.name, wanted, context))
        topics.append(ReassignableTopicResponse(name=topic.name, partitions=rows))
    response = AlterPartitionReassignmentsResponse(responses=topics)
    if context.api_version >= 1:
        response.allow_replication_factor_change = request.allow_replication_factor_change
    return response


def _result(topic: str, wanted: ReassignablePartition, context: RequestContext) -> ReassignablePartitionResponse:
    result = ReassignablePartitionResponse(partition_index=wanted.partition_index)
    try:
        if context.services.topics.log(topic, wanted.partition_index) is None:
            raise ProtocolError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no {topic}-{wanted.partition_index}")
        if wanted.replicas is None:
            raise ProtocolError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
        check_assignments([wanted.replicas], context.services.logs.node_id)
    except ProtocolError as error:
        result.error_code, result.error_message = error_code(error)
    return result
