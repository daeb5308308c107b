"""DescribeConfigs, API key 32, versions 0 to 4: settings in force, read off the table of settings.

- 1 tells where a value comes from and what else could have set it (KIP-226), 3 types and documentation (KIP-569), 4 is
  flexible. Version 0 has only "is this the default".
- Topics; this broker, by its id; what brokers share (the empty name); this broker's loggers; groups; subscriptions to
  clients' metrics. A group that nobody has given settings has the broker's, a subscription the defaults.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...config.describe import (
    ConfigEntry,
    ConfigSource,
    describe_broker,
    describe_group,
    describe_resource,
    describe_topic,
)
from ...config.table.resources import CLIENT_METRICS_SETTINGS
from ...protocol.api_keys import ApiKey
from ...protocol.config_resources import ConfigResourceType
from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from ..metadata import store as kinds
from ..metadata.topics import check_name
from ..requests.access import DENIED, requires_each
from ..requests.registry import api
from ..runtime.cooperative import ChunkedResult, Steps, run_in_chunks
from ..runtime.error_codes import error_code
from ..runtime.logging import levels
from ..security.acl.model import CLUSTER_NAME, AclOperation, ResourceType

if TYPE_CHECKING:
    from ...config.broker_config import BrokerConfig
    from ..requests.context import RequestContext

HTTP_LISTENER = "http.listener"
_DYNAMIC_BROKER_LOGGER_CONFIG = 6
_GUARDS: dict[int, ResourceType] = {
    ConfigResourceType.TOPIC: ResourceType.TOPIC,
    ConfigResourceType.GROUP: ResourceType.GROUP,
    ConfigResourceType.BROKER: ResourceType.CLUSTER,
    ConfigResourceType.BROKER_LOGGER: ResourceType.CLUSTER,
    ConfigResourceType.CLIENT_METRICS: ResourceType.CLUSTER,
}

_MOST_SETTINGS = 200_000
"""In one answer, about 100 MB while it is written: those of some thousand topics. A group may be asked for by any name."""

MOST_OF_RESOURCE = 1000
"""Settings of one resource that a request may name: some times as many as there are, and 10 ms of the network thread."""


@api(
    ApiKey.DESCRIBE_CONFIGS,
    (0, 4),
    DescribeConfigsRequest,
    requires=(
        requires_each(AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC),
        requires_each(AclOperation.DESCRIBE_CONFIGS, ResourceType.GROUP),
        requires_each(AclOperation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, "for brokers, loggers, client metrics"),
    ),
    many_names=True,
)
def describe_configs(
    request: DescribeConfigsRequest, context: RequestContext
) -> DescribeConfigsResponse | ChunkedResult[DescribeConfigsResponse]:
    return run_in_chunks(_steps(request, context), context)


def _steps(request: DescribeConfigsRequest, context: RequestContext) -> Steps[DescribeConfigsResponse]:
    results = []
    left = _MOST_SETTINGS
    for resource in request.resources:
        result = DescribeConfigsResult(resource_type=resource.resource_type, resource_name=resource.resource_name)
        try:
            check_allowed(AclOperation.DESCRIBE_CONFIGS, resource.resource_type, resource.resource_name, context)
            if left <= 0:
                raise ProtocolError(
                    ErrorCode.INVALID_REQUEST,
                    f"the answer has {_MOST_SETTINGS} settings already: ask for fewer resources at once",
                )
            result.configs = _describe(resource, request, context)
            left -= len(result.configs)
        except Exception as error:
            result.error_code, result.error_message = error_code(error)
        results.append(result)
        yield 2 + len(result.configs)
    return DescribeConfigsResponse(results=results)


def check_allowed(operation: AclOperation, kind: int, name: str, context: RequestContext) -> None:
    """Raises ProtocolError, topics and groups for themselves, the rest for the cluster. A kind that is not known passes."""
    if kind not in _GUARDS:
        return
    guard = _GUARDS[kind]
    if not context.allows(operation, guard, CLUSTER_NAME if guard is ResourceType.CLUSTER else name):
        raise ProtocolError(DENIED[guard])


def _describe(
    resource: DescribeConfigsResource, request: DescribeConfigsRequest, context: RequestContext
) -> list[DescribeConfigsResourceResult]:
    services, name = context.services, resource.resource_name
    keys = resource.configuration_keys or ()
    if len(keys) > MOST_OF_RESOURCE:
        raise ProtocolError(
            ErrorCode.INVALID_REQUEST, f"{len(keys)} settings of one resource are named, {MOST_OF_RESOURCE} may be"
        )
    names = dict.fromkeys(keys) or None  # an empty list asks for all, as null does
    if resource.resource_type == ConfigResourceType.TOPIC:
        check_name(name)
        topic = services.topics.get(name)
        if topic is None:
            raise ProtocolError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic '{name}'")
        dynamic = services.settings
        entries = describe_topic(dynamic.static, topic.config, topic.overrides, names, dynamic.layers)
        return [_row(entry, request, context.api_version) for entry in entries]
    if resource.resource_type == ConfigResourceType.BROKER:
        dynamic = services.settings
        if not name:  # defaults for all brokers: only those that were set
            shared = dict(dynamic.layers[1][1])
            wanted = [key for key in shared if names is None or key in names]
            entries = describe_broker(dynamic.static, wanted, None, dynamic.layers[1:])
            return [_row(entry, request, context.api_version) for entry in entries]
        _check_broker(name, services.logs.node_id)
        node_id = str(services.logs.node_id)
        actual = {"node.id": node_id, "broker.id": node_id, **_bound(dynamic.static, services.http_port)}
        entries = describe_broker(dynamic.static, names, actual, dynamic.layers)
        return [_row(entry, request, context.api_version) for entry in entries]
    if resource.resource_type == ConfigResourceType.BROKER_LOGGER:
        _check_broker(name, services.logs.node_id)
        return [
            _logger_row(logger, level, context.api_version)
            for logger, level in levels()
            if names is None or logger in names
        ]
    if resource.resource_type in (ConfigResourceType.CLIENT_METRICS, ConfigResourceType.GROUP):
        if not name:
            raise ProtocolError(ErrorCode.INVALID_REQUEST, "the resource has no name")
        if resource.resource_type == ConfigResourceType.GROUP:
            dynamic = services.settings
            entries = describe_group(dynamic.static, services.resources.own(kinds.GROUP, name), names, dynamic.layers)
        else:
            entries = describe_resource(
                CLIENT_METRICS_SETTINGS,
                services.resources.own(kinds.CLIENT_METRICS, name),
                ConfigSource.CLIENT_METRICS_CONFIG,
                names,
            )
        return [_row(entry, request, context.api_version) for entry in entries]
    raise ProtocolError(ErrorCode.INVALID_REQUEST, f"resource type {resource.resource_type} has no settings")


def _bound(config: BrokerConfig, port: int) -> dict[str, str]:
    """`http.listener` with the port that it is bound to, where any free one was asked for: commands find it by this."""
    listener = config.http_listener
    if listener is None or listener.port or not port:
        return {}
    text = config.given.get(HTTP_LISTENER, "")
    return {HTTP_LISTENER: f"{text.rpartition(':')[0]}:{port}"}


def _check_broker(name: str, node_id: int) -> None:
    if name != str(node_id):
        raise ProtocolError(ErrorCode.INVALID_REQUEST, f"this is broker {node_id}, not '{name}'")


def _row(entry: ConfigEntry, request: DescribeConfigsRequest, version: int) -> DescribeConfigsResourceResult:
    row = DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.sensitive,
        config_type=entry.type,
    )
    if version == 0:
        row.is_default = entry.source is ConfigSource.DEFAULT_CONFIG
    if request.include_synonyms:
        row.synonyms = [DescribeConfigsSynonym(name=s.name, value=s.value, source=s.source) for s in entry.synonyms]
    if request.include_documentation:
        row.documentation = entry.documentation
    return row


def _logger_row(name: str, level: str, version: int) -> DescribeConfigsResourceResult:
    row = DescribeConfigsResourceResult(
        name=name, value=level, read_only=False, config_source=_DYNAMIC_BROKER_LOGGER_CONFIG
    )
    if version == 0:
        row.is_default = True
    return row
