"""Which topics a client may know of: a group that is subscribed by an expression must not tell it of others."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...security.acl.model import AclOperation, ResourceType

if TYPE_CHECKING:
    from ...requests.context import RequestContext

Visible = Callable[[frozenset[str]], frozenset[str]]
"""Keeps those of a set of topics that a client may know of."""


def all_visible(names: frozenset[str]) -> frozenset[str]:
    """`Visible` of who may know of everything."""
    return names


def visible_topics(context: RequestContext) -> Visible:
    """What the client of this request may know of; called later, in the loop thread."""
    if context.broker.authorizer is None:
        return all_visible
    return lambda names: frozenset(
        name for name in names if context.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, name, quietly=True)
    )
