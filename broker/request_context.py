"""What a handler knows about a request besides its fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..protocol.api_keys import ApiKey
    from .connection import Connection
    from .security.acl import AclOperation, ResourceType
    from .server import Broker


@dataclass(frozen=True, slots=True)
class RequestContext:
    """One request's surroundings. Loop thread."""

    broker: Broker
    connection: Connection
    api_key: ApiKey
    api_version: int
    correlation_id: int
    client_id: str | None

    @property
    def client_host(self) -> str:
        """The peer's address as Kafka's groups show it: `/127.0.0.1`."""
        return f"/{self.connection.peer_host}"

    @property
    def user(self) -> str:
        """Who the client is, by name: ANONYMOUS where the listener does not ask."""
        return self.connection.user

    @property
    def listener(self) -> str:
        """Name of the listener that the connection came in by."""
        return self.connection.listener.name

    @property
    def local_address(self) -> tuple[str, int]:
        """(host, port) that names this node to this client: what it dialled, or `advertised.listeners`."""
        return self.connection.local_address

    def allows(self, operation: AclOperation, resource_type: ResourceType, resource_name: str) -> bool:
        """Whether the client may do this to this resource: everything, where there is no authorizer."""
        authorizer = self.broker.authorizer
        if authorizer is None:
            return True
        connection = self.connection
        return authorizer.allows(connection.principal, connection.peer_host, operation, resource_type, resource_name)

    def allows_any(self, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Whether there is any resource of this type to which the client may do this (KIP-679)."""
        authorizer = self.broker.authorizer
        connection = self.connection
        return authorizer is None or authorizer.allows_any(
            connection.principal, connection.peer_host, operation, resource_type
        )
