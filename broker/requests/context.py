"""RequestContext: what a handler knows about a request besides its fields."""

from __future__ import annotations

import asyncio
from collections.abc import Container, Iterable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ..security.acl.model import AclOperation, ResourceType

if TYPE_CHECKING:
    from ...protocol.api_keys import ApiKey
    from ..network.connection import Connection
    from .services import Services


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class _EveryName:
    """A container that contains every name."""

    __slots__ = ()

    def __contains__(self, name: object) -> bool:
        return True


EVERY_NAME: Container[str] = _EveryName()


class RequestContext(NamedTuple):
    """Surroundings of one request. Loop thread. A tuple: each request has one, and a frozen class takes thrice as long
    to make.
    """

    services: Services
    connection: Connection
    api_key: ApiKey
    api_version: int
    correlation_id: int
    client_id: str | None

    @property
    def client_host(self) -> str:
        """Address of the client in the form of Kafka's groups: `/127.0.0.1`."""
        return f"/{self.connection.peer_host}"

    @property
    def user(self) -> str:
        """Name of the authenticated user; ANONYMOUS without authentication."""
        return self.connection.user

    @property
    def principal(self) -> str:
        """Principal of the client, `User:` and `user`, to which the topics that it creates are charged."""
        return self.connection.principal

    @property
    def listener(self) -> str:
        """Name of the connection's listener."""
        return self.connection.listener.name

    async def next_turn(self) -> None:
        """Returns when all other clients had a turn: to be awaited between two chunks of long work
        (`runtime/cooperative.py`).
        """
        come = self.services.loop.create_future()
        self.connection.wait_turn(partial(_settle, come))
        await come

    @property
    def local_address(self) -> tuple[str, int]:
        """(host, port) of this node for this client: what it dialled, or `advertised.listeners`."""
        return self.connection.local_address

    def allows(
        self, operation: AclOperation, resource_type: ResourceType, resource_name: str, *, quietly: bool = False
    ) -> bool:
        """True if the client may do this on this resource; always, without an authorizer.

        A "no" is noted in the audit log, unless it is asked `quietly`: since another right may do, or to filter a list.
        """
        authorizer = self.services.authorizer
        if authorizer is None:
            return True
        connection = self.connection
        if authorizer.allows(connection.principal, connection.peer_host, operation, resource_type, resource_name):
            return True
        if not quietly:
            self._denied(operation, resource_type, resource_name)
        return False

    def allows_any(self, operation: AclOperation, resource_type: ResourceType) -> bool:
        """True if there may be a resource of this type on which the client may do this (KIP-679)."""
        authorizer = self.services.authorizer
        connection = self.connection
        return authorizer is None or authorizer.allows_any(
            connection.principal, connection.peer_host, operation, resource_type
        )

    def allowed(
        self, operation: AclOperation, resource_type: ResourceType, names: Iterable[str], *, quietly: bool = False
    ) -> Container[str]:
        """The `names` that `allows` accepts, each checked once. For look-ups only: without an authorizer it contains
        every name.
        """
        if self.services.authorizer is None:
            return EVERY_NAME
        return {name for name in dict.fromkeys(names) if self.allows(operation, resource_type, name, quietly=quietly)}

    def _denied(self, operation: AclOperation, resource_type: ResourceType, resource_name: str) -> None:
        self.services.audit.get().denied(self, operation, resource_type, resource_name)
