"""AlterConfigs, API key 33, versions 0 to 2 (flexible): replaces all settings of its own that a topic has,
or all that a broker was given while it runs.

Settings that the request does not name go back to the broker's values, which is why IncrementalAlterConfigs took its place; both
refuse the same.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.config_resources import ConfigResourceType
from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from ..metadata.topics import check_name
from ..requests.access import requires_each
from ..requests.registry import api
from ..runtime.error_codes import error_code
from ..security.acl.model import AclOperation, ResourceType
from .describe_configs import check_allowed
from .incremental_alter_configs import (
    RESOURCES,
    alter_broker,
    alter_resource,
    changed_at_once,
    check_configs,
    check_resource,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..metadata.topics import Topic
    from ..requests.context import RequestContext


@api(
    ApiKey.ALTER_CONFIGS,
    (0, 2),
    AlterConfigsRequest,
    requires=(
        requires_each(AclOperation.ALTER_CONFIGS, ResourceType.TOPIC),
        requires_each(AclOperation.ALTER_CONFIGS, ResourceType.GROUP),
        requires_each(AclOperation.ALTER_CONFIGS, ResourceType.CLUSTER, "for brokers, client metrics"),
    ),
    audited=True,
    many_names=True,
)
async def alter_configs(request: AlterConfigsRequest, context: RequestContext) -> AlterConfigsResponse:
    times = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    answers: list[AlterConfigsResourceResponse] = []
    for some in changed_at_once(request.resources):
        if answers:
            await context.next_turn()
        answers += await asyncio.gather(
            *(
                _replace(
                    resource, context, request.validate_only, times[resource.resource_type, resource.resource_name]
                )
                for resource in some
            )
        )
    return AlterConfigsResponse(responses=answers)


async def _replace(
    resource: AlterConfigsResource, context: RequestContext, validate_only: bool, times: int
) -> AlterConfigsResourceResponse:
    topics = context.services.topics
    result = AlterConfigsResourceResponse(resource_type=resource.resource_type, resource_name=resource.resource_name)

    def change(_present: Topic | Mapping[str, str]) -> Mapping[str, str]:
        return {item.name: item.value for item in resource.configs if item.value is not None}

    try:
        check_resource(resource.resource_type, times, len(resource.configs))
        check_allowed(AclOperation.ALTER_CONFIGS, resource.resource_type, resource.resource_name, context)
        check_configs(resource.configs, resource.configs)
        if resource.resource_type == ConfigResourceType.BROKER:
            await alter_broker(resource.resource_name, change, context, validate_only)
            return result
        if (kind := RESOURCES.get(resource.resource_type)) is not None:
            await alter_resource(kind, resource.resource_name, change, context, validate_only)
            return result
        if resource.resource_type == ConfigResourceType.BROKER_LOGGER:
            raise ProtocolError(
                ErrorCode.INVALID_REQUEST, "levels of loggers are changed one by one, by IncrementalAlterConfigs"
            )
        check_name(resource.resource_name)
        if validate_only:
            topics.check_alter(resource.resource_name, change)
        else:
            await topics.alter(resource.resource_name, change)
    except Exception as error:
        result.error_code, result.error_message = error_code(error)
    return result
