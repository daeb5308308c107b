"""Access requirements of an API, declared where its handler is registered (`broker/requests/registry.py`).

A declaration is what docs/SECURITY.md shows, and what tests hold against the questions that really come. Those that are about
a whole request, `on_cluster` and `on_field`, the dispatcher asks by itself; the others are the handler's to ask, by
`RequestContext.allows`, since it knows the parts. Loop thread; nothing here runs where there is no authorizer.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from ...protocol.errors import ErrorCode
from ..security.acl.model import CLUSTER_NAME, AclOperation, ResourceType

if TYPE_CHECKING:
    from .context import RequestContext

DENIED = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
"""Error code of a refusal, by resource type."""


class Consequence(Enum):
    """Effect of a refusal."""

    REQUEST = "the request is refused"
    PART = "its part is refused"
    HIDDEN = "it is left out of the answer"
    NEXT = "what follows is asked"
    FIELD = "a field of the answer is left out"


class Ask(NamedTuple):
    """One access requirement. `of`: the resource, in words, for the docs; `field`: the request's field with its name;
    `guards`: True if the dispatcher checks it.
    """

    operation: AclOperation
    resource_type: ResourceType
    of: str
    consequence: Consequence
    field: str | None = None
    guards: bool = False
    answer: ErrorCode | None = None

    @property
    def code(self) -> ErrorCode:
        """Error code of a refusal."""
        return self.answer or DENIED[self.resource_type]


def on_cluster(operation: AclOperation) -> Ask:
    """The request requires this operation on the cluster; checked by the dispatcher."""
    return Ask(operation, ResourceType.CLUSTER, "", Consequence.REQUEST, guards=True)


def on_field(operation: AclOperation, resource_type: ResourceType, field: str) -> Ask:
    """The request requires this operation on the resource that its `field` names; checked by the dispatcher."""
    return Ask(operation, resource_type, "of the request", Consequence.REQUEST, field, guards=True)


def on_request(
    operation: AclOperation, resource_type: ResourceType, of: str = "", answer: ErrorCode | None = None
) -> Ask:
    """The request requires this operation; checked by the handler. `answer`: the refusal's code, if not the resource
    type's usual one.
    """
    return Ask(operation, resource_type, of, Consequence.REQUEST, answer=answer)


def on_each(operation: AclOperation, resource_type: ResourceType, of: str = "each that is named") -> Ask:
    """Each part of the request requires this operation on the resource that it names; checked by the handler."""
    return Ask(operation, resource_type, of, Consequence.PART)


def shows(operation: AclOperation, resource_type: ResourceType, of: str) -> Ask:
    """The answer leaves out resources on which the client lacks this operation."""
    return Ask(operation, resource_type, of, Consequence.HIDDEN)


def suffices(operation: AclOperation, resource_type: ResourceType, of: str = "") -> Ask:
    """A client with this right needs none of the following requirements; checked by the handler."""
    return Ask(operation, resource_type, of, Consequence.NEXT)


def suffices_on_cluster(operation: AclOperation) -> Ask:
    """A client with this right on the cluster needs none of the following requirements; checked by the dispatcher."""
    return Ask(operation, ResourceType.CLUSTER, "", Consequence.NEXT, guards=True)


def tells(operation: AclOperation, resource_type: ResourceType, of: str) -> Ask:
    """A field of the answer is left out if the client lacks this right."""
    return Ask(operation, resource_type, of, Consequence.FIELD)


def refusal(asks: Sequence[Ask], request: Any, context: RequestContext) -> ErrorCode | None:
    """Check the requirements that are the dispatcher's: the error code for the whole request, or None to go on."""
    for ask in asks:
        if ask.guards:
            # A name that is null is nobody's: asked as the empty one, and the handler's to refuse.
            name = CLUSTER_NAME if ask.field is None else getattr(request, ask.field) or ""
            is_enough = ask.consequence is Consequence.NEXT
            if not context.allows(ask.operation, ask.resource_type, name, quietly=is_enough):
                if not is_enough:
                    return ask.code
            elif is_enough:
                return None
    return None
