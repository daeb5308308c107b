"""Filter of the topics that the client of a request may see."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..groups.store.visible_topics import Visible, all_visible
from ..security.acl.model import AclOperation, ResourceType

if TYPE_CHECKING:
    from .context import RequestContext


def visible_topics(context: RequestContext) -> Visible:
    """Make the filter of topics for the client of this request. The filter is called later, on the loop thread."""
    if context.services.authorizer is None:
        return all_visible
    return lambda names: frozenset(
        name for name in names if context.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, name, quietly=True)
    )
