"""IncrementalAlterConfigs, API key 44, versions 0 and 1 (flexible): changes single settings of topics (KIP-339).

- An operation sets (0), deletes (1: back to the broker's value), appends to (2) or subtracts from (3) a setting. The
  last two are for lists, and start from the value in force where the topic has none of its own.
- A resource is changed as a whole or not at all; resources are independent. One that is named twice is refused.
- The broker's own settings are read at start and can't be changed here; groups and client metrics have none.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Protocol

from ...config.definitions import TOPIC_SETTINGS
from ...config.describe import describe_topic
from ...config.setting import SettingType
from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ..error_mapping import error_code
from ..topics import check_name
from .describe_configs import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from .registry import api

if TYPE_CHECKING:
    from ...config.broker_config import BrokerConfig
    from ..request_context import RequestContext
    from ..topics import Topic


class Operation(IntEnum):
    """What is done to a setting."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


_KINDS = {BROKER: "broker", BROKER_LOGGER: "logger", CLIENT_METRICS: "client metrics", GROUP: "group"}


class NamedConfig(Protocol):
    """What the requests of both APIs that change settings have in common."""

    name: str
    value: str | None


@api(ApiKey.INCREMENTAL_ALTER_CONFIGS, (0, 1), IncrementalAlterConfigsRequest)
async def incremental_alter_configs(
    request: IncrementalAlterConfigsRequest, context: RequestContext
) -> IncrementalAlterConfigsResponse:
    times = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    return IncrementalAlterConfigsResponse(
        responses=await asyncio.gather(
            *(
                _alter(resource, context, request.validate_only, times[resource.resource_type, resource.resource_name])
                for resource in request.resources
            )
        )
    )


async def _alter(
    resource: AlterConfigsResource, context: RequestContext, validate_only: bool, times: int
) -> AlterConfigsResourceResponse:
    topics, config = context.broker.topics, context.broker.config
    result = AlterConfigsResourceResponse(resource_type=resource.resource_type, resource_name=resource.resource_name)

    def change(topic: Topic) -> Mapping[str, str]:
        return changed(topic, resource.configs, config)

    try:
        check_resource(resource.resource_type, times)
        check_configs(
            [item for item in resource.configs if item.config_operation != Operation.DELETE], resource.configs
        )
        check_name(resource.resource_name)
        if validate_only:
            topics.check_alter(resource.resource_name, change)
        else:
            await topics.alter(resource.resource_name, change)
    except Exception as error:
        result.error_code, result.error_message = error_code(error)
    return result


def check_resource(kind: int, times: int) -> None:
    """Raises `ProtocolError` INVALID_REQUEST unless this is a topic, and named once."""
    if times > 1:
        raise ProtocolError(ErrorCode.INVALID_REQUEST, "a resource may be in the request once")
    if kind == TOPIC:
        return
    if kind in _KINDS:
        raise ProtocolError(ErrorCode.INVALID_REQUEST, f"{_KINDS[kind]} settings can't be changed while running")
    raise ProtocolError(ErrorCode.INVALID_REQUEST, f"resource type {kind} has no settings")


def check_configs(valued: Sequence[NamedConfig], configs: Sequence[NamedConfig]) -> None:
    """Raises `ProtocolError` INVALID_REQUEST for a setting that is named twice, or null among `valued`."""
    twice = [name for name, times in Counter(item.name for item in configs).items() if times > 1]
    if twice:
        raise ProtocolError(ErrorCode.INVALID_REQUEST, f"settings named more than once: {', '.join(twice)}")
    nulls = [item.name for item in valued if item.value is None]
    if nulls:
        raise ProtocolError(ErrorCode.INVALID_REQUEST, f"settings without a value: {', '.join(nulls)}")


def changed(topic: Topic, operations: Sequence[AlterableConfig], config: BrokerConfig) -> dict[str, str]:
    """The topic's own settings after these operations. Raises `ProtocolError`; values are not checked here."""
    overrides = dict(topic.overrides)
    for operation in operations:
        name, value = operation.name, operation.value or ""
        match operation.config_operation:
            case Operation.SET:
                overrides[name] = value
            case Operation.DELETE:
                overrides.pop(name, None)
            case Operation.APPEND | Operation.SUBTRACT:
                row = TOPIC_SETTINGS.get(name)
                if row is None or row.type is not SettingType.LIST:
                    raise ProtocolError(
                        ErrorCode.INVALID_CONFIG, f"{name} is not a list: it can only be set or deleted"
                    )
                (entry,) = describe_topic(config, topic.config, topic.overrides, (name,))
                present, given = _items(entry.value or ""), _items(value)
                if operation.config_operation == Operation.APPEND:
                    items = [*present, *(item for item in given if item not in present)]
                else:
                    items = [item for item in present if item not in given]
                overrides[name] = ",".join(items)
            case unknown:
                raise ProtocolError(ErrorCode.INVALID_REQUEST, f"there is no operation {unknown}")
    return overrides


def _items(text: str) -> list[str]:
    return [item for item in (part.strip() for part in text.split(",")) if item]
