"""IncrementalAlterConfigs, API key 44, versions 0 and 1 (flexible): changes single settings of topics (KIP-339).

- An operation sets (0), deletes (1: back to the broker's value), appends to (2) or subtracts from (3) a setting. The
  last two are for lists, and start from the value in force where the topic has none of its own.
- A resource is changed as a whole or not at all; resources are independent. A resource that is named twice is refused.
- Of the broker's own settings those can be changed that DescribeConfigs does not call read-only: for this node by its
  id, or with the empty name for all nodes (KIP-226).
- Groups and subscriptions to clients' metrics are changed by their names; loggers' levels are set or taken away.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ...config.definitions import BROKER_SETTINGS, TOPIC_SETTINGS
from ...config.describe import describe_broker, describe_topic
from ...config.setting import SettingType, text_of
from ...protocol.api_keys import ApiKey
from ...protocol.config_resources import ConfigOperation, ConfigResourceType
from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.messages.alter_configs import AlterConfigsResourceResponse
from ...protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ...protocol.primitives import MAX_STRING
from ..metadata import store as kinds
from ..metadata.resource_config import TABLES
from ..metadata.topics import check_name
from ..requests.access import requires_each
from ..requests.registry import api
from ..runtime import logging as logger_levels
from ..runtime.cooperative import weighed_batches
from ..runtime.error_codes import error_code
from ..security.acl.model import AclOperation, ResourceType
from .describe_configs import MOST_OF_RESOURCE, check_allowed

if TYPE_CHECKING:
    from ...config.setting import Setting
    from ..metadata.topics import Topic
    from ..requests.context import RequestContext


#: Resource types that `ResourceConfigs` keeps, and under which name.
RESOURCES: dict[int, str] = {
    ConfigResourceType.CLIENT_METRICS: kinds.CLIENT_METRICS,
    ConfigResourceType.GROUP: kinds.GROUP,
}


class HasConfigs(Protocol):
    """Fields that the resources of both APIs share."""

    configs: Sequence[Any]


Changed = TypeVar("Changed", bound=HasConfigs)


class NamedConfig(Protocol):
    """Fields that the change requests of both APIs share."""

    name: str
    value: str | None


AT_ONCE = 100
"""Resources that are changed together, between two turns of others: they share commits."""


def changed_at_once(resources: Iterable[Changed]) -> Iterator[list[Changed]]:
    """`resources` in lists that take the loop for milliseconds each, however many settings each has."""
    return weighed_batches(resources, AT_ONCE, MOST_OF_RESOURCE, lambda resource: len(resource.configs))


@api(
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    (0, 1),
    IncrementalAlterConfigsRequest,
    requires=(
        requires_each(AclOperation.ALTER_CONFIGS, ResourceType.TOPIC),
        requires_each(AclOperation.ALTER_CONFIGS, ResourceType.GROUP),
        requires_each(AclOperation.ALTER_CONFIGS, ResourceType.CLUSTER, "for brokers, loggers, client metrics"),
    ),
    audited=True,
    many_names=True,
)
async def incremental_alter_configs(
    request: IncrementalAlterConfigsRequest, context: RequestContext
) -> IncrementalAlterConfigsResponse:
    times = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    answers: list[AlterConfigsResourceResponse] = []
    for some in changed_at_once(request.resources):
        if answers:
            await context.next_turn()
        answers += await asyncio.gather(
            *(
                _alter(resource, context, request.validate_only, times[resource.resource_type, resource.resource_name])
                for resource in some
            )
        )
    return IncrementalAlterConfigsResponse(responses=answers)


async def _alter(
    resource: AlterConfigsResource, context: RequestContext, validate_only: bool, times: int
) -> AlterConfigsResourceResponse:
    topics, config, dynamic = context.services.topics, context.services.config, context.services.settings
    result = AlterConfigsResourceResponse(resource_type=resource.resource_type, resource_name=resource.resource_name)

    def change(topic: Topic) -> Mapping[str, str]:
        def in_force(name: str) -> str:
            (entry,) = describe_topic(config, topic.config, topic.overrides, (name,))
            return entry.value or ""

        return changed(topic.overrides, resource.configs, TOPIC_SETTINGS, in_force)

    def change_broker(present: Mapping[str, str]) -> Mapping[str, str]:
        def in_force(name: str) -> str:
            (entry,) = describe_broker(dynamic.static, (name,), None, dynamic.layers)
            return entry.value or ""

        return changed(present, resource.configs, BROKER_SETTINGS, in_force)

    try:
        check_resource(resource.resource_type, times, len(resource.configs))
        check_allowed(AclOperation.ALTER_CONFIGS, resource.resource_type, resource.resource_name, context)
        check_configs(
            [item for item in resource.configs if item.config_operation != ConfigOperation.DELETE], resource.configs
        )
        if resource.resource_type == ConfigResourceType.BROKER:
            await alter_broker(resource.resource_name, change_broker, context, validate_only)
            return result
        if resource.resource_type == ConfigResourceType.BROKER_LOGGER:
            _alter_loggers(resource, context, validate_only)
            return result
        if (kind := RESOURCES.get(resource.resource_type)) is not None:
            table = TABLES[kind]

            def change_resource(present: Mapping[str, str]) -> Mapping[str, str]:
                def in_force(name: str) -> str:
                    return present.get(name, text_of(table[name].default) or "")

                return changed(present, resource.configs, table, in_force)

            await alter_resource(kind, resource.resource_name, change_resource, context, validate_only)
            return result
        check_name(resource.resource_name)
        if validate_only:
            topics.check_alter(resource.resource_name, change)
        else:
            await topics.alter(resource.resource_name, change)
    except Exception as error:
        result.error_code, result.error_message = error_code(error)
    return result


def check_resource(kind: int, times: int, settings: int) -> None:
    """Raises `ProtocolError` INVALID_REQUEST unless this has settings, and is named once, with not too many `settings`."""
    if times > 1:
        raise ProtocolError(ErrorCode.INVALID_REQUEST, "a resource may be in the request once")
    if kind not in (ConfigResourceType.TOPIC, ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER, *RESOURCES):
        raise ProtocolError(ErrorCode.INVALID_REQUEST, f"resource type {kind} has no settings")
    if settings > MOST_OF_RESOURCE:
        raise ProtocolError(
            ErrorCode.INVALID_REQUEST, f"{settings} settings of one resource are changed, {MOST_OF_RESOURCE} may be"
        )


def check_configs(valued: Sequence[NamedConfig], configs: Sequence[NamedConfig]) -> None:
    """Raises `ProtocolError` INVALID_REQUEST for a setting that is named twice, or null among `valued`."""
    twice = [name for name, times in Counter(item.name for item in configs).items() if times > 1]
    if twice:
        raise ProtocolError(ErrorCode.INVALID_REQUEST, f"settings named more than once: {', '.join(twice)}")
    nulls = [item.name for item in valued if item.value is None]
    if nulls:
        raise ProtocolError(ErrorCode.INVALID_REQUEST, f"settings without a value: {', '.join(nulls)}")


def changed(
    present: Mapping[str, str],
    operations: Sequence[AlterableConfig],
    table: Mapping[str, Setting],
    in_force: Callable[[str], str],
) -> dict[str, str]:
    """A resource's own settings after these operations. Raises `ProtocolError`; values are not checked here.

    `table` has the settings of this kind of resource; `in_force` tells the value that a list has now, its own or not.
    """
    settings = dict(present)
    for operation in operations:
        name, value = operation.name, operation.value or ""
        match operation.config_operation:
            case ConfigOperation.SET:
                settings[name] = value
            case ConfigOperation.DELETE:
                settings.pop(name, None)
            case ConfigOperation.APPEND | ConfigOperation.SUBTRACT:
                row = table.get(name)
                if row is None or row.type is not SettingType.LIST:
                    raise ProtocolError(
                        ErrorCode.INVALID_CONFIG, f"{name} is not a list: it can only be set or deleted"
                    )
                settings[name] = _combined(in_force(name), value, operation.config_operation)
            case unknown:
                raise ProtocolError(ErrorCode.INVALID_REQUEST, f"there is no operation {unknown}")
    return settings


async def alter_broker(
    node: str,
    change: Callable[[Mapping[str, str]], Mapping[str, str]],
    context: RequestContext,
    validate_only: bool,
) -> None:
    """Changes settings of this broker, or those that brokers share, or only says whether that could be."""
    dynamic = context.services.settings
    dynamic.check_node(node)
    if validate_only:
        dynamic.check(node, change)
    else:
        await dynamic.alter(node, change)


async def alter_resource(
    kind: str,
    name: str,
    change: Callable[[Mapping[str, str]], Mapping[str, str]],
    context: RequestContext,
    validate_only: bool,
) -> None:
    """Changes settings of a group or a subscription, or only says whether that could be."""
    resources = context.services.resources
    if validate_only:
        resources.check(kind, name, change)
    else:
        await resources.alter(kind, name, change)


def _alter_loggers(resource: AlterConfigsResource, context: RequestContext, validate_only: bool) -> None:
    context.services.settings.check_node(resource.resource_name)
    for item in resource.configs:
        if item.config_operation not in (ConfigOperation.SET, ConfigOperation.DELETE):
            raise ProtocolError(ErrorCode.INVALID_REQUEST, "a logger's level can only be set or taken away")
    wanted = [
        (item.name, None if item.config_operation == ConfigOperation.DELETE else item.value)
        for item in resource.configs
    ]
    if validate_only:
        for name, level in wanted:
            logger_levels.check(name, level)
    else:
        logger_levels.change(wanted)


def _combined(present: str, value: str, operation: int) -> str:
    """A list with items more, or fewer. Raises `ProtocolError` INVALID_CONFIG where DescribeConfigs could not tell it."""
    items, given = _items(present), dict.fromkeys(_items(value))  # each may have ten thousand
    if operation == ConfigOperation.SUBTRACT:
        return ",".join(item for item in items if item not in given)
    known = set(items)
    made = ",".join([*items, *(item for item in given if item not in known)])
    if (size := len(made.encode())) > MAX_STRING:
        raise ProtocolError(ErrorCode.INVALID_CONFIG, f"the list would take {size} bytes, {MAX_STRING} are allowed")
    return made


def _items(text: str) -> list[str]:
    return [item for item in (part.strip() for part in text.split(",")) if item]
