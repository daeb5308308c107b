"""Texts of the audit log for administrative requests. Imported with the first such request; loop thread.

Each function takes a request and its answer, and tells of what the answer says was done. Names of settings are told, and their
values where the setting is not sensitive; of users only their names. Changes of rights (`audit.RIGHTS`) is told in full.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ...protocol.api_keys import ApiKey
from ...protocol.config_resources import ConfigResourceType
from .audit_log import quoted, quoted_whole, shown, shown_whole

if TYPE_CHECKING:
    from .context import RequestContext

_KINDS: dict[int, str] = {
    ConfigResourceType.TOPIC: "topic",
    ConfigResourceType.BROKER: "broker",
    ConfigResourceType.BROKER_LOGGER: "loggers of broker",
    ConfigResourceType.CLIENT_METRICS: "client metrics",
    ConfigResourceType.GROUP: "group",
}
_OPERATIONS = ("set", "delete", "append", "subtract")
HIDDEN = "(hidden)"


def audit_entries(request: Any, response: Any, context: RequestContext) -> Iterator[str]:
    """One entry for each thing that the request did. A request that only validates has none."""
    if not getattr(request, "validate_only", False):
        yield from ENTRIES[context.api_key](request, response)


def _create_topics(request: Any, response: Any) -> Iterator[str]:
    wanted = {topic.name: topic for topic in request.topics}
    for row in response.topics:
        if not row.error_code:
            topic = wanted[row.name]
            count = len(topic.assignments) or topic.num_partitions
            size = f"{count} partitions" if count >= 0 else "the usual number of partitions"
            settings = ", ".join(f"{shown(setting.name)}={shown(setting.value or '')}" for setting in topic.configs)
            yield f"created topic {quoted(row.name)} with {size}" + (f" and {settings}" if settings else "")


def _delete_topics(request: Any, response: Any) -> Iterator[str]:
    for row in response.responses:
        if not row.error_code:
            yield f"deleted topic {quoted(row.name)}"


def _create_partitions(request: Any, response: Any) -> Iterator[str]:
    wanted = {topic.name: topic.count for topic in request.topics}
    for row in response.results:
        if not row.error_code:
            yield f"gave topic {quoted(row.name)} {wanted[row.name]} partitions"


def _delete_records(request: Any, response: Any) -> Iterator[str]:
    for topic in response.topics:
        for row in topic.partitions:
            if not row.error_code:
                where = f"partition {row.partition_index} of topic {quoted(topic.name)}"
                yield f"deleted records below {row.low_watermark} of {where}"


def _alter_configs(request: Any, response: Any) -> Iterator[str]:
    wanted = {(resource.resource_type, resource.resource_name): resource.configs for resource in request.resources}
    for row in response.responses:
        if not row.error_code:
            changes = ", ".join(
                _change(row.resource_type, item) for item in wanted[row.resource_type, row.resource_name]
            )
            kind = _KINDS.get(row.resource_type, "resource")
            yield f"changed {kind} {quoted_whole(row.resource_name)}: {changes or 'took all its settings away'}"


def _change(kind: int, item: Any) -> str:
    operation = getattr(item, "config_operation", 0)
    verb = _OPERATIONS[operation] if operation < len(_OPERATIONS) else "?"
    if verb == "delete" or item.value is None:
        return f"delete {shown_whole(item.name)}"
    return f"{verb} {shown_whole(item.name)}={HIDDEN if _is_sensitive(kind, item.name) else shown_whole(item.value)}"


def _is_sensitive(kind: int, name: str) -> bool:
    from ...config.definitions import is_secret

    return kind == ConfigResourceType.BROKER and is_secret(name)


def _create_acls(request: Any, response: Any) -> Iterator[str]:
    for asked, row in zip(request.creations, response.results, strict=False):
        if not row.error_code:
            yield f"created a rule: {_rule(asked, asked.resource_pattern_type)}"


def _delete_acls(request: Any, response: Any) -> Iterator[str]:
    for result in response.filter_results:
        for rule in result.matching_acls:
            if not rule.error_code:
                yield f"deleted a rule: {_rule(rule, rule.pattern_type)}"


def _rule(rule: Any, pattern_type: int) -> str:
    from ..security.acl.model import AclOperation, PatternType, Permission, ResourceType

    return (
        f"{Permission(rule.permission_type).name.lower()} {shown_whole(rule.principal)} from {shown_whole(rule.host)} "
        f"to {AclOperation(rule.operation).name} {ResourceType(rule.resource_type).name.lower()} "
        f"{quoted_whole(rule.resource_name)} ({PatternType(pattern_type).name.lower()})"
    )


def _alter_users(request: Any, response: Any) -> Iterator[str]:
    from ..security.credentials import NUMBERS

    for row in response.results:
        if not row.error_code:
            for change, done in ((request.deletions, "deleted"), (request.upsertions, "set")):
                for item in change:
                    if item.name == row.user:
                        yield f"{done} the {NUMBERS.get(item.mechanism, '?')} credential of user {quoted_whole(row.user)}"


def _alter_quotas(request: Any, response: Any) -> Iterator[str]:
    for asked, row in zip(request.entries, response.entries, strict=True):
        if not row.error_code:
            entity = ", ".join(
                f"{shown_whole(part.entity_type)} {'(default)' if part.entity_name is None else quoted_whole(part.entity_name)}"
                for part in asked.entity
            )
            changes = ", ".join(
                f"delete {shown_whole(op.key)}" if op.remove else f"set {shown_whole(op.key)}={op.value:g}"
                for op in asked.ops
            )
            yield f"changed quotas of {entity}: {changes}"


def _delete_groups(request: Any, response: Any) -> Iterator[str]:
    for row in response.results:
        if not row.error_code:
            yield f"deleted group {quoted(row.group_id)}"


def _delete_offsets(request: Any, response: Any) -> Iterator[str]:
    for topic in response.topics:
        done = [str(row.partition_index) for row in topic.partitions if not row.error_code]
        if done:
            where = f"partitions {', '.join(done)} of topic {quoted(topic.name)}"
            yield f"deleted offsets of group {quoted(request.group_id)} in {where}"


def _alter_share_offsets(request: Any, response: Any) -> Iterator[str]:
    for topic in response.responses:
        done = [str(row.partition_index) for row in topic.partitions if not row.error_code]
        if done:
            where = f"partitions {', '.join(done)} of topic {quoted(topic.topic_name)}"
            yield f"moved share group {quoted(request.group_id)} in {where}"


def _delete_share_offsets(request: Any, response: Any) -> Iterator[str]:
    for topic in response.responses:
        if not topic.error_code:
            yield f"deleted offsets of share group {quoted(request.group_id)} in topic {quoted(topic.topic_name)}"


def _update_features(request: Any, response: Any) -> Iterator[str]:
    if not response.error_code:
        for update in request.feature_updates:
            yield f"set feature {quoted_whole(update.feature)} to {update.max_version_level}"


def _move_logs(request: Any, response: Any) -> Iterator[str]:
    paths = {
        (topic.name, index): directory.path
        for directory in request.dirs
        for topic in directory.topics
        for index in topic.partitions
    }
    for topic in response.results:
        for row in topic.partitions:
            if not row.error_code:
                path = paths.get((topic.topic_name, row.partition_index))
                yield f"moves partition {row.partition_index} of topic {quoted(topic.topic_name)} to {quoted(path)}"


def _write_markers(request: Any, response: Any) -> Iterator[str]:
    for asked, marker in zip(request.markers, response.markers, strict=True):
        outcome = "commit" if asked.transaction_result else "abort"
        for topic in marker.topics:
            for row in topic.partitions:
                if not row.error_code:
                    where = f"partition {row.partition_index} of topic {quoted(topic.name)}"
                    yield f"wrote {outcome} of producer {asked.producer_id} to {where}"


ENTRIES: dict[ApiKey, Callable[[Any, Any], Iterator[str]]] = {
    ApiKey.CREATE_TOPICS: _create_topics,
    ApiKey.DELETE_TOPICS: _delete_topics,
    ApiKey.CREATE_PARTITIONS: _create_partitions,
    ApiKey.DELETE_RECORDS: _delete_records,
    ApiKey.ALTER_CONFIGS: _alter_configs,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _alter_configs,
    ApiKey.CREATE_ACLS: _create_acls,
    ApiKey.DELETE_ACLS: _delete_acls,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _alter_users,
    ApiKey.ALTER_CLIENT_QUOTAS: _alter_quotas,
    ApiKey.DELETE_GROUPS: _delete_groups,
    ApiKey.OFFSET_DELETE: _delete_offsets,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: _alter_share_offsets,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: _delete_share_offsets,
    ApiKey.UPDATE_FEATURES: _update_features,
    ApiKey.ALTER_REPLICA_LOG_DIRS: _move_logs,
    ApiKey.WRITE_TXN_MARKERS: _write_markers,
}
"""Functions (request, response) → entries, by API, for the registrations that are `audited`."""
