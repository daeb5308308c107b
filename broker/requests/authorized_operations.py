"""Authorized operations as a bit field (KIP-430): bit n stands for Kafka's ACL operation n.

Without an authorizer everything that makes sense for a resource is allowed, as in Kafka. Loop thread.
`visible_topics` is the filter of the topics that the client of a request may see.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..groups.store.group import Visible, all_visible
from ..security.acl.model import CLUSTER_NAME, AclOperation, ResourceType

if TYPE_CHECKING:
    from .context import RequestContext


def _bits(operations: tuple[AclOperation, ...]) -> int:
    return sum(1 << operation for operation in operations)


NOT_ASKED = -(2**31)
"""Value of the field when the client did not ask for it."""

_SENSIBLE = {
    ResourceType.TOPIC: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        AclOperation.READ,
        AclOperation.DELETE,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        AclOperation.CREATE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
        AclOperation.IDEMPOTENT_WRITE,
    ),
}
TOPIC_OPERATIONS = _bits(_SENSIBLE[ResourceType.TOPIC])
GROUP_OPERATIONS = _bits(_SENSIBLE[ResourceType.GROUP])
CLUSTER_OPERATIONS = _bits(_SENSIBLE[ResourceType.CLUSTER])
_ALL = {
    ResourceType.TOPIC: TOPIC_OPERATIONS,
    ResourceType.GROUP: GROUP_OPERATIONS,
    ResourceType.CLUSTER: CLUSTER_OPERATIONS,
}


def operations_of(context: RequestContext, resource_type: ResourceType, name: str, is_asked: bool = True) -> int:
    """Operations that the client may do on this topic, group or cluster."""
    if not is_asked:
        return NOT_ASKED
    if context.services.authorizer is None:
        return _ALL[resource_type]
    return _bits(
        tuple(
            operation
            for operation in _SENSIBLE[resource_type]
            if context.allows(operation, resource_type, name, quietly=True)
        )
    )


def cluster_operations(context: RequestContext, is_asked: bool) -> int:
    """Operations that the client may do on the cluster, as `operations_of`; 0 if it may not describe it."""
    if is_asked and not context.allows(AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        return 0
    return operations_of(context, ResourceType.CLUSTER, CLUSTER_NAME, is_asked)


def visible_topics(context: RequestContext) -> Visible:
    """Make the filter of topics for the client of this request. The filter is called later, on the loop thread."""
    if context.services.authorizer is None:
        return all_visible
    return lambda names: frozenset(
        name for name in names if context.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, name, quietly=True)
    )
