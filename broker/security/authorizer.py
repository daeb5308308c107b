"""Who may do what: the question that APIs ask. `RequestContext.allows` asks it for a request."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .acl import AclOperation, ResourceType


class Authorizer(ABC):
    """Decides; never blocks and never raises. Loop thread. There is none where `authorizer.class.name` is empty."""

    @abstractmethod
    def allows(
        self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType, resource_name: str
    ) -> bool:
        """Whether `principal` ("User:alice") from `host` (an address) may do this to this resource."""

    @abstractmethod
    def allows_any(self, principal: str, host: str, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Whether there is a resource of this type, of whatever name, to which it may do this (KIP-679)."""
