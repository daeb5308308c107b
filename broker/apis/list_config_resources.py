"""ListConfigResources, API key 74, versions 0 and 1: what has settings, by kind (KIP-1142).

Version 0 was ListClientMetricsResources and tells subscriptions to clients' metrics alone (KIP-714). No kind asks for
all; one that there is not is UNSUPPORTED_VERSION. Groups are those with settings of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.config_resources import ConfigResourceType
from ...protocol.errors import ErrorCode
from ...protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from ..metadata import store as kinds
from ..requests.access import requires_cluster
from ..requests.registry import api
from ..security.acl.model import AclOperation

if TYPE_CHECKING:
    from ..requests.context import RequestContext

_ALL = tuple(ConfigResourceType)


@api(
    ApiKey.LIST_CONFIG_RESOURCES,
    (0, 1),
    ListConfigResourcesRequest,
    requires=(requires_cluster(AclOperation.DESCRIBE_CONFIGS),),
)
def list_config_resources(request: ListConfigResourcesRequest, context: RequestContext) -> ListConfigResourcesResponse:
    services = context.services
    wanted = set(request.resource_types or _ALL) if context.api_version >= 1 else {ConfigResourceType.CLIENT_METRICS}
    if not wanted <= set(_ALL):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    names = {
        ConfigResourceType.TOPIC: lambda: [topic.name for topic in services.topics.all()],
        ConfigResourceType.BROKER: lambda: [str(services.logs.node_id)],
        ConfigResourceType.BROKER_LOGGER: lambda: [str(services.logs.node_id)],
        ConfigResourceType.CLIENT_METRICS: lambda: services.resources.names(kinds.CLIENT_METRICS),
        ConfigResourceType.GROUP: lambda: services.resources.names(kinds.GROUP),
    }
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind)
            for kind in _ALL
            if kind in wanted
            for name in names[kind]()
        ]
    )
