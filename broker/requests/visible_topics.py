"""Which topics the client of a request may know of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..groups.store.visible_topics import Visible, all_visible
from ..security.acl.model import AclOperation, ResourceType

if TYPE_CHECKING:
    from .context import RequestContext


def visible_topics(context: RequestContext) -> Visible:
    """What the client of this request may know of; called later, in the loop thread."""
    if context.broker.authorizer is None:
        return all_visible
    return lambda names: frozenset(
        name for name in names if context.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, name, quietly=True)
    )
