"""DescribeCluster, API key 60, versions 0 to 2: this node, its cluster's id, and that it is its own controller.

1 can ask for controllers instead of brokers (KIP-919): there are none to connect to, which is
MISMATCHED_ENDPOINT_TYPE here as on a Kafka broker. 2 tells fenced brokers apart: this one never is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode
from ...protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from ..requests.access import reveals
from ..requests.authorized_operations import cluster_operations
from ..requests.registry import api
from ..security.acl.model import AclOperation, ResourceType

if TYPE_CHECKING:
    from ..requests.context import RequestContext

_BROKERS, _CONTROLLERS = 1, 2


@api(
    ApiKey.DESCRIBE_CLUSTER,
    (0, 2),
    DescribeClusterRequest,
    requires=(reveals(AclOperation.DESCRIBE, ResourceType.CLUSTER, "for cluster_authorized_operations"),),
)
def describe_cluster(request: DescribeClusterRequest, context: RequestContext) -> DescribeClusterResponse:
    logs = context.services.logs
    response = DescribeClusterResponse(cluster_id=logs.cluster_id)
    if context.api_version >= 1:
        response.endpoint_type = request.endpoint_type
    if request.endpoint_type != _BROKERS:
        controllers = request.endpoint_type == _CONTROLLERS
        response.error_code = ErrorCode.MISMATCHED_ENDPOINT_TYPE if controllers else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        response.error_message = (
            "brokers are to be asked here, not controllers"
            if controllers
            else f"endpoint type {request.endpoint_type} is not known"
        )
        return response
    host, port = context.local_address
    response.controller_id = logs.node_id
    response.brokers = [
        DescribeClusterBroker(broker_id=logs.node_id, host=host, port=port, rack=context.services.config.broker_rack)
    ]
    response.cluster_authorized_operations = cluster_operations(context, request.include_cluster_authorized_operations)
    return response
