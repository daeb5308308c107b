"""One client connection in the simulated world: requests of `clients/kafka`'s sans-I/O core over a virtual socket.

`Channel.ask` has its answer within bounded virtual time, or finds the connection lost, or breaks the promise of liveness. A
connection that was silenced is given up by its client after a while, as a request time-out does it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeVar

from simulation.history import Broken
from simulation.machine import ADDRESS, Machine
from simulation.network import Network, SimSocket
from tidelog.clients.kafka.protocol import ClientProtocol
from tidelog.protocol.schema import ApiMessage

ResponseT = TypeVar("ResponseT", bound=ApiMessage)

ANSWER_S = 90.0
"""Every request is answered, or its connection is closed, within so long beside what it asks to wait for."""
_GIVE_UP_S = 5.0
MOST_AT_ONCE = 1 << 16
"""Bytes that a client reads at a time."""


class Lost(Exception):
    """The connection is gone; whether the last request was handled is not known."""


def _nothing(_name: str) -> None:
    pass


class Channel:
    """Connects when it has something to ask. One request at a time.

    Attributes:
        hears: told of each answer that anybody has, by the request's name, before the asker knows it.
    """

    hears: ClassVar[Callable[[str], object]] = staticmethod(_nothing)

    def __init__(self, machine: Machine, name: str, host: str = "127.0.0.1") -> None:
        self._machine = machine
        self._network = Network.of(machine.sim)
        self.name = name
        self.host = host
        self._socket: SimSocket | None = None
        self._protocol = ClientProtocol(name)
        self._inbox = bytearray()
        self.connections = 0
        self.life = 0
        """Of the daemon, when it was asked last."""

    async def ask(
        self, request: ApiMessage, response: type[ResponseT], version: int, wait_s: float = 0.0, patience_s: float = 0.0
    ) -> ResponseT:
        """The answer. Lost; Broken where it does not come."""
        (answer,) = await self.ask_all([(request, response, version)], wait_s, patience_s=patience_s)
        return answer  # type: ignore[no-any-return]

    async def ask_all(
        self,
        asked: Sequence[tuple[ApiMessage, type[ApiMessage], int]],
        wait_s: float = 0.0,
        told: list[Any] | None = None,
        patience_s: float = 0.0,
    ) -> list[Any]:
        """The answers to requests (each with the type of its answer, and a version) of which none waits for another's.

        They must come in that order; `told` has those that have come, where others do not. `patience_s`: time after which the
        client gives the connection up, and what it has sent may still come to the daemon; 0: it waits as long as it must.
        Lost; Broken.
        """
        sock = self._socket or self._connect()
        answers: list[Any] = [] if told is None else told
        tickets, data = [], bytearray()
        for request, response, version in asked:
            ticket, frame = self._protocol.send(request, response, version)
            tickets.append(ticket)
            data += frame
        limit_s = (patience_s or (_GIVE_UP_S if self._is_silent(sock) else ANSWER_S)) + wait_s
        life = self.life = self._machine.lives
        # Beside reading: a daemon need not take another request before it is rid of its answers.
        sending = asyncio.ensure_future(asyncio.get_running_loop().sock_sendall(sock, data))  # type: ignore[arg-type]
        sending.add_done_callback(lambda task: task.cancelled() or task.exception())  # told by what is read
        try:
            async with asyncio.timeout(limit_s):
                for ticket in tickets:
                    frame = await self._frame(sock)
                    answers.append(self._protocol.receive(ticket, frame))
                    Channel.hears(asked[len(answers) - 1][0].API_KEY.name)
        except (ConnectionError, EOFError) as error:
            self.close()
            raise Lost(str(error)) from None
        except TimeoutError:
            silent = self._is_silent(sock)
            self.close()
            if not silent and not patience_s and self._machine.lives == life and self._machine.is_up:
                name = asked[len(answers)][0].API_KEY.name
                raise Broken(
                    f"{self.name}: {name} is not answered within {limit_s:g} s, nor its connection closed"
                ) from None
            raise Lost("time-out") from None
        finally:
            sending.cancel()
        return answers

    async def tell(self, request: ApiMessage, response: type[ApiMessage], version: int) -> None:
        """Sends a request that has no answer. Lost."""
        sock = self._socket or self._connect()
        _, data = self._protocol.send(request, response, version)
        self._protocol.forget()
        try:
            await asyncio.wait_for(asyncio.get_running_loop().sock_sendall(sock, data), _GIVE_UP_S)  # type: ignore[arg-type]
        except (ConnectionError, TimeoutError) as error:
            self.close()
            raise Lost(str(error)) from None

    def close(self) -> None:
        self._protocol.forget()
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    @property
    def number(self) -> int:
        """The connection, of all that this one has had, by which the next request goes."""
        return self.connections + (self._socket is None)

    @property
    def is_sound(self) -> bool:
        """True while both sides have the connection, and can hear each other."""
        end = None if self._socket is None else self._socket.end
        if end is None or end.is_reset or end.silent or end.ended:
            return False
        return bool(end.peer.descriptors) and not end.peer.shut

    @property
    def is_gone(self) -> bool:
        """True where a connection that nobody has closed was ended by the other side, or reset."""
        end = None if self._socket is None else self._socket.end
        return end is not None and (end.is_reset or end.ended)

    def _is_silent(self, sock: SimSocket) -> bool:
        return sock.end is not None and sock.end.silent

    def _connect(self) -> SimSocket:
        try:
            self._socket = self._network.connect(ADDRESS, self.host)
        except ConnectionRefusedError as error:
            raise Lost(str(error)) from None
        self._protocol = ClientProtocol(self.name)
        self._inbox.clear()
        self.connections += 1
        return self._socket

    async def _frame(self, sock: Any) -> bytes:
        await self._receive(sock, 4)
        end = 4 + int.from_bytes(self._inbox[:4], "big")
        await self._receive(sock, end)
        frame = bytes(self._inbox[4:end])
        del self._inbox[:end]
        return frame

    async def _receive(self, sock: Any, count: int) -> None:
        """Reads what comes until so many bytes are there."""
        loop = asyncio.get_running_loop()
        while len(self._inbox) < count:
            chunk = await loop.sock_recv(sock, MOST_AT_ONCE)
            if not chunk:
                raise EOFError("closed by the daemon")
            self._inbox += chunk
