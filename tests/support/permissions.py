"""Who may do what, for tests: contexts in which everything is allowed, and an authorizer of a few rules that remembers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from tidelog.broker.requests.context import EVERY_NAME
from tidelog.broker.security.acl.authorizer import Authorizer
from tidelog.broker.security.acl.model import AclOperation, ResourceType

EVERYTHING: dict[str, Callable[..., Any]] = {
    "allows": lambda *asked, quietly=False: True,
    "allowed": lambda *asked, quietly=False: EVERY_NAME,
    "allows_any": lambda *asked: True,
    "next_turn": lambda: asyncio.sleep(0),
}
"""What handlers ask of a context that is not a real one."""


class Question(NamedTuple):
    """One that the authorizer was asked. `name` is None for "any of this type"."""

    operation: AclOperation
    resource_type: ResourceType
    name: str | None


Rule = Callable[[AclOperation, ResourceType, str], bool]


def nothing(operation: AclOperation, resource_type: ResourceType, name: str) -> bool:
    return False


def only(*rules: tuple[AclOperation, ResourceType, str]) -> Rule:
    """Allows exactly these."""
    allowed = frozenset(rules)
    return lambda operation, resource_type, name: (operation, resource_type, name) in allowed


class Rules(Authorizer):
    """`rule` decides; `asked` has every question."""

    def __init__(self, rule: Rule, names: Iterable[str] = ()) -> None:
        """`names`: of the resources that "any of this type" looks among."""
        self.rule = rule
        self.names = tuple(names)
        self.asked: list[Question] = []

    def allows(
        self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType, resource_name: str
    ) -> bool:
        self.asked.append(Question(operation, resource_type, resource_name))
        return self.rule(operation, resource_type, resource_name)

    def allows_any(self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType) -> bool:
        self.asked.append(Question(operation, resource_type, None))
        return any(self.rule(operation, resource_type, name) for name in self.names)
