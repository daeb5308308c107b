"""What a handler knows about a request besides its fields."""

from __future__ import annotations

import asyncio
from collections.abc import Container, Iterable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ..security.acl.model import AclOperation, ResourceType

if TYPE_CHECKING:
    from ...protocol.api_keys import ApiKey
    from ..network.connection import Connection
    from ..server import Broker


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class _EveryName:
    """Contains whatever one looks for."""

    __slots__ = ()

    def __contains__(self, name: object) -> bool:
        return True


EVERY_NAME: Container[str] = _EveryName()


class RequestContext(NamedTuple):
    """One request's surroundings. Loop thread. A tuple: each request has one, and a frozen class takes thrice as long to make."""

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
    def principal(self) -> str:
        """Who the client is: `User:` and `user`. Topics that it makes are on this account."""
        return self.connection.principal

    @property
    def listener(self) -> str:
        """Name of the listener that the connection came in by."""
        return self.connection.listener.name

    async def next_turn(self) -> None:
        """Returns when everybody else has had a turn: between two slices of what is long (`cooperative.py`)."""
        come = self.broker.loop.create_future()
        self.connection.wait_turn(partial(_settle, come))
        await come

    @property
    def local_address(self) -> tuple[str, int]:
        """(host, port) that names this node to this client: what it dialled, or `advertised.listeners`."""
        return self.connection.local_address

    def allows(
        self, operation: AclOperation, resource_type: ResourceType, resource_name: str, *, quietly: bool = False
    ) -> bool:
        """Whether the client may do this to this resource: everything, where there is no authorizer.

        A "no" is noted in the audit log, unless it is asked `quietly`: since another right may do, or to filter a list.
        """
        authorizer = self.broker.authorizer
        if authorizer is None:
            return True
        connection = self.connection
        if authorizer.allows(connection.principal, connection.peer_host, operation, resource_type, resource_name):
            return True
        if not quietly:
            self._denied(operation, resource_type, resource_name)
        return False

    def allows_any(self, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Whether there is any resource of this type to which the client may do this (KIP-679)."""
        authorizer = self.broker.authorizer
        connection = self.connection
        return authorizer is None or authorizer.allows_any(
            connection.principal, connection.peer_host, operation, resource_type
        )

    def allowed(
        self, operation: AclOperation, resource_type: ResourceType, names: Iterable[str], *, quietly: bool = False
    ) -> Container[str]:
        """Those of `names` for which `allows` says yes, each asked once. Looked up in only: without an authorizer it has
        every name."""
        if self.broker.authorizer is None:
            return EVERY_NAME
        return {name for name in dict.fromkeys(names) if self.allows(operation, resource_type, name, quietly=quietly)}

    def _denied(self, operation: AclOperation, resource_type: ResourceType, resource_name: str) -> None:
        self.broker.audit.denied(self, operation, resource_type, resource_name)
