"""What an API asks before it does or tells something: declared where its handler is registered (`broker/requests/registry.py`).

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
"""How a refusal is answered."""


class Consequence(Enum):
    """What "no" means."""

    REQUEST = "the request is refused"
    PART = "its part is refused"
    HIDDEN = "it is left out of the answer"
    NEXT = "what follows is asked"
    FIELD = "a field of the answer is left out"


class Ask(NamedTuple):
    """One question. `of`: what it is about, in words. `field`: the request's field with the resource's name, for the
    dispatcher; `guards`: whether the dispatcher asks it."""

    operation: AclOperation
    resource_type: ResourceType
    of: str
    consequence: Consequence
    field: str | None = None
    guards: bool = False
    answer: ErrorCode | None = None

    @property
    def code(self) -> ErrorCode:
        """What a refusal is answered with."""
        return self.answer or DENIED[self.resource_type]


def on_cluster(operation: AclOperation) -> Ask:
    """The whole request needs it of the cluster; the dispatcher asks."""
    return Ask(operation, ResourceType.CLUSTER, "", Consequence.REQUEST, guards=True)


def on_field(operation: AclOperation, resource_type: ResourceType, field: str) -> Ask:
    """The whole request needs it of what the request's `field` names; the dispatcher asks."""
    return Ask(operation, resource_type, "of the request", Consequence.REQUEST, field, guards=True)


def on_request(
    operation: AclOperation, resource_type: ResourceType, of: str = "", answer: ErrorCode | None = None
) -> Ask:
    """The whole request needs it; the handler asks. `answer`: the refusal's code where it is another than the resource's."""
    return Ask(operation, resource_type, of, Consequence.REQUEST, answer=answer)


def on_each(operation: AclOperation, resource_type: ResourceType, of: str = "each that is named") -> Ask:
    """Each part of the request needs it of what the part names; the handler asks."""
    return Ask(operation, resource_type, of, Consequence.PART)


def shows(operation: AclOperation, resource_type: ResourceType, of: str) -> Ask:
    """What the client may not know of is left out of the answer."""
    return Ask(operation, resource_type, of, Consequence.HIDDEN)


def suffices(operation: AclOperation, resource_type: ResourceType, of: str = "") -> Ask:
    """Who has it is not asked what follows."""
    return Ask(operation, resource_type, of, Consequence.NEXT)


def suffices_on_cluster(operation: AclOperation) -> Ask:
    """Who has it of the cluster is not asked what follows; the dispatcher asks."""
    return Ask(operation, ResourceType.CLUSTER, "", Consequence.NEXT, guards=True)


def tells(operation: AclOperation, resource_type: ResourceType, of: str) -> Ask:
    """Decides over a field of the answer."""
    return Ask(operation, resource_type, of, Consequence.FIELD)


def refusal(asks: Sequence[Ask], request: Any, context: RequestContext) -> ErrorCode | None:
    """The code to refuse the whole request with, by the questions that the dispatcher asks; None: go on."""
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
