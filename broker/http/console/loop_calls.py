"""Asking the loop thread: what a client could ask over the wire is asked of the same handlers, without a wire.

So a page tells what `kafka-groups` or `kafka-configs` would tell, and an action is validated as theirs is, has its line in the
audit log, and is brought to its end though the page is not waited for; an API that is added to the daemon is here at once.
HTTP's threads, any of them; each call blocks until the loop has answered.
"""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from ...requests import registry
from ...requests.context import RequestContext
from ...security.principal import ANONYMOUS
from .page_request import UNAVAILABLE, PageError

if TYPE_CHECKING:
    from ....protocol.api_keys import ApiKey
    from ...monitoring.node_state import NodeState
    from ...network.connection import Connection
    from ...network.fair_queue import FairQueue, Ticket

T = TypeVar("T")
ANSWER_TIMEOUT_S = 5.0
ACTION_TIMEOUT_S = 30.0
CLIENT_ID = "tidelog-console"


class _Listener(NamedTuple):
    name: str


class Caller(NamedTuple):
    """User for whom a page calls an API, for the audit log and quotas. `principal` as in Kafka, `host` an address."""

    principal: str = ANONYMOUS
    host: str = "127.0.0.1"


NOBODY = Caller()
CALLER: ContextVar[Caller] = ContextVar("caller", default=NOBODY)
"""Caller of the request that the current thread answers."""


class _Console:
    """Stand-in for a connection: the attributes and methods that handlers use."""

    peer_port = 0
    local_address = ("127.0.0.1", 0)
    listener = _Listener("CONSOLE")
    software = (CLIENT_ID, "")

    def __init__(self, caller: Caller, turns: FairQueue) -> None:
        self._turns = turns
        self.principal, self.peer_host = caller
        self.user = caller.principal.partition(":")[2]

    def mute(self, milliseconds: int) -> None:
        """Does nothing: no other request waits behind this one."""

    def wait_turn(self, go_on: Callable[[], None]) -> Ticket:
        """A ticket for the next chunk of long work, as `Connection.wait_turn`: all pages are one client."""
        return self._turns.join(CLIENT_ID, go_on)


class LoopCalls:
    """Calls from HTTP's threads to the loop thread; see the module."""

    def __init__(self, node: NodeState) -> None:
        self._node = node

    def run(self, call: Callable[[], Awaitable[T] | T], timeout_s: float = ANSWER_TIMEOUT_S) -> T:
        """Run `call` on the loop thread and return its result. PageError if it takes too long; else raises what `call`
        does.
        """

        async def on_loop() -> T:
            found = call()
            return await found if inspect.isawaitable(found) else found

        coroutine = on_loop()
        try:
            asked = asyncio.run_coroutine_threadsafe(coroutine, self._node.loop)
        except RuntimeError:  # closed
            coroutine.close()
            raise PageError(UNAVAILABLE, "The daemon stops.") from None
        try:
            return asked.result(timeout_s)
        except TimeoutError:
            asked.cancel()
            raise PageError(
                UNAVAILABLE, f"The event loop has not answered for {timeout_s:g} s. See Overview for what is wrong."
            ) from None

    def has(self, key: ApiKey) -> bool:
        """True if the daemon answers this API."""
        return registry.registration(key) is not None

    def ask(
        self,
        key: ApiKey,
        request: Any | Callable[[Any], Any],
        *,
        version: int | None = None,
        timeout_s: float = ANSWER_TIMEOUT_S,
    ) -> Any:
        """The response to a request, or to what `request` makes of the class of requests; in the API's newest version."""

        caller = CALLER.get()

        def call() -> Any:
            found = registry.registration(key)
            assert found is not None
            found = registry.loaded(found)
            assert found.handler is not None
            if (services := self._node.services) is None:
                raise PageError(UNAVAILABLE, "The daemon is loading its logs, or stops.")
            context = RequestContext(
                # The right to make the request was decided by roles (`access.py`): no access rules.
                dataclasses.replace(services, authorizer=None),
                cast("Connection", _Console(caller, services.socket_server.fair_queue)),
                key,
                found.max_version if version is None else version,
                0,
                CLIENT_ID,
            )
            asked = request(found.request) if callable(request) else request
            if not found.audited:
                return found.handler(asked, context)
            services.changes.check()
            return services.changes.keep(_audited(asked, found.handler(asked, context), context))[1]

        return self.run(call, timeout_s)


async def _audited(request: Any, response: Any, context: RequestContext) -> Any:
    """The response of an audited API, once it is there, and what the request did is in the audit log. Loop thread."""
    from ...requests.audit_text import audit_entries

    done = await response if inspect.isawaitable(response) else response
    context.services.audit.get().did(context, audit_entries(request, done, context))
    return done
