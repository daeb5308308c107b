"""Access requirements of an API, declared where its handler is registered (`broker/requests/registry.py`).

docs/ACCESS_CONTROL.md is generated from the declarations, and tests compare them with the checks that are really made. The
dispatcher checks `requires_cluster` and `requires_field`, which are about a whole request; the handler checks the others, by
`RequestContext.allows`, since it knows the parts. Loop thread; nothing here runs without an authorizer.
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
    """Consequence of a refusal for the request."""

    REQUEST = "the request is refused"
    PART = "its part is refused"
    HIDDEN = "it is left out of the answer"
    NEXT = "what follows is asked"
    FIELD = "a field of the answer is left out"


class Requires(NamedTuple):
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


def requires_cluster(operation: AclOperation) -> Requires:
    """The request requires this operation on the cluster; checked by the dispatcher."""
    return Requires(operation, ResourceType.CLUSTER, "", Consequence.REQUEST, guards=True)


def requires_field(operation: AclOperation, resource_type: ResourceType, field: str) -> Requires:
    """The request requires this operation on the resource that its `field` names; checked by the dispatcher."""
    return Requires(operation, resource_type, "of the request", Consequence.REQUEST, field, guards=True)


def requires_request(
    operation: AclOperation, resource_type: ResourceType, of: str = "", answer: ErrorCode | None = None
) -> Requires:
    """The request requires this operation; checked by the handler. `answer`: the refusal's code, if not the resource
    type's usual one.
    """
    return Requires(operation, resource_type, of, Consequence.REQUEST, answer=answer)


def requires_each(operation: AclOperation, resource_type: ResourceType, of: str = "each that is named") -> Requires:
    """Each part of the request requires this operation on the resource that it names; checked by the handler."""
    return Requires(operation, resource_type, of, Consequence.PART)


def shows(operation: AclOperation, resource_type: ResourceType, of: str) -> Requires:
    """The answer leaves out resources on which the client lacks this operation."""
    return Requires(operation, resource_type, of, Consequence.HIDDEN)


def suffices(operation: AclOperation, resource_type: ResourceType, of: str = "") -> Requires:
    """A client with this right needs none of the following requirements; checked by the handler."""
    return Requires(operation, resource_type, of, Consequence.NEXT)


def suffices_on_cluster(operation: AclOperation) -> Requires:
    """A client with this right on the cluster needs none of the following requirements; checked by the dispatcher."""
    return Requires(operation, ResourceType.CLUSTER, "", Consequence.NEXT, guards=True)


def reveals(operation: AclOperation, resource_type: ResourceType, of: str) -> Requires:
    """A field of the answer is left out if the client lacks this right."""
    return Requires(operation, resource_type, of, Consequence.FIELD)


def refusal(requirements: Sequence[Requires], request: Any, context: RequestContext) -> ErrorCode | None:
    """Check the requirements that are the dispatcher's: the error code for the whole request, or None to go on."""
    for required in requirements:
        if required.guards:
            # A null name is checked as the empty one; the handler refuses it.
            name = CLUSTER_NAME if required.field is None else getattr(request, required.field) or ""
            is_enough = required.consequence is Consequence.NEXT
            if not context.allows(required.operation, required.resource_type, name, quietly=is_enough):
                if not is_enough:
                    return required.code
            elif is_enough:
                return None
    return None
