"""Who may do what: the question that APIs ask. `RequestContext.allows` asks it for a request."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .model import AclOperation, ResourceType


class Authorizer(ABC):
    """Decides; never blocks and never raises. Loop thread. There is none where `authorizer.class.name` is empty.

    `allowed` and `denied` count answers since the start; `rule_count` is how many rules there are.
    """

    allowed: int = 0
    denied: int = 0

    @property
    def rule_count(self) -> int:
        return 0

    @abstractmethod
    def allows(
        self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType, resource_name: str
    ) -> bool:
        """Whether `principal` ("User:alice") from `host` (an address) may do this to this resource."""

    @abstractmethod
    def allows_any(self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Whether there is a resource of this type, of whatever name, to which it may do this (KIP-679)."""

    def why(
        self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType, resource_name: str
    ) -> str:
        """What decides this question, for a log line; "" where nothing is known about it. Not counted."""
        return ""
