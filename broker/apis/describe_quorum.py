"""DescribeQuorum, API key 55, versions 0 to 2: one voter, this node, which leads and is never behind.

- The log that a quorum keeps elsewhere is `metadata.db` here: its end is the number of changes stored since the start.
- Any partition but the metadata log's is UNKNOWN_TOPIC_OR_PARTITION, as in Kafka.
- 1 tells when voters last fetched (KIP-836): the leader of now. 2 tells directories' ids and where voters listen
  (KIP-853).
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode
from ...protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionResult,
    ReplicaState,
    TopicResult,
)
from ...storage.segment.names import CLUSTER_METADATA_TOPIC
from ..requests.access import requires_cluster
from ..requests.registry import api
from ..runtime.cooperative import ChunkedResult, Steps, run_in_chunks
from ..security.acl.model import AclOperation

if TYPE_CHECKING:
    from ..requests.context import RequestContext

_PARTITION = 0


@api(
    ApiKey.DESCRIBE_QUORUM,
    (0, 2),
    DescribeQuorumRequest,
    requires=(requires_cluster(AclOperation.DESCRIBE),),
    many_names=True,
)
def describe_quorum(
    request: DescribeQuorumRequest, context: RequestContext
) -> DescribeQuorumResponse | ChunkedResult[DescribeQuorumResponse]:
    partitions = ((topic.topic_name, part.partition_index) for topic in request.topics for part in topic.partitions)
    if list(islice(partitions, 2)) != [(CLUSTER_METADATA_TOPIC, _PARTITION)]:
        return run_in_chunks(_unknown(request), context)
    logs = context.services.logs
    end, now = context.services.metadata.changes, context.services.time.milliseconds()
    voter = ReplicaState(
        replica_id=logs.node_id, log_end_offset=end, last_fetch_timestamp=now, last_caught_up_timestamp=now
    )
    if context.api_version >= 2:
        voter.replica_directory_id = logs.directory_ids[logs.directories[0]].bytes
    quorum = PartitionResult(
        partition_index=_PARTITION, leader_id=logs.node_id, leader_epoch=1, high_watermark=end, current_voters=[voter]
    )
    response = DescribeQuorumResponse(topics=[TopicResult(topic_name=CLUSTER_METADATA_TOPIC, partitions=[quorum])])
    if context.api_version >= 2:
        host, port = context.local_address
        response.nodes = [Node(node_id=logs.node_id, listeners=[Listener(name=context.listener, host=host, port=port)])]
    return response


def _unknown(request: DescribeQuorumRequest) -> Steps[DescribeQuorumResponse]:
    """The answer to who asks for anything else than the one partition."""
    topics = []
    for topic in request.topics:
        yield 1
        rows = []
        for part in topic.partitions:
            yield 1
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            rows.append(PartitionResult(partition_index=part.partition_index, error_code=code))
        topics.append(TopicResult(topic_name=topic.topic_name, partitions=rows))
    return DescribeQuorumResponse(topics=topics)
