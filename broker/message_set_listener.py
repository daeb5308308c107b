"""The message-set protocol's requests, from a frame to the answer: what `message.set.listeners` serve.

Connections, their limits and their order are those of the Kafka listeners (`socket_server.py`, `connection.py`); this stands
in the dispatcher's place. The bytes are in `protocol/message_set/wire.py`.

A request that can't be read is answered with INVALID_REQUEST, and a log line says why: its frame was whole, so what follows can
be trusted, and whoever writes a client sees what is wrong with it.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from ..protocol.errors import ErrorCode, MalformedRequest, ProtocolError
from ..protocol.message_set.wire import (
    TYPE_SIZE,
    OffsetsBody,
    RequestType,
    message_set_header,
    offsets_answer,
    parse_fetch,
    parse_multi_fetch,
    parse_multi_produce,
    parse_offsets,
    parse_produce,
    produce_answer,
)
from .error_mapping import error_code
from .message_set_fetch import MAX_FETCHES, MessageSetFetches
from .message_set_offsets import offsets_before
from .message_set_produce import MAX_PRODUCES, MessageSetAppends
from .metric_family import Family

if TYPE_CHECKING:
    from .connection import Connection
    from .send import Part
    from .server import Broker
    from .socket_server import SocketServer

log = logging.getLogger(__name__)

_TYPE = struct.Struct(">h")
#: One line about requests that can't be read in so many seconds; it says how many there were.
LOG_INTERVAL_S = 1.0

Answer = bytes | list["Part"]


def message_set_families(listener: MessageSetListener, server: SocketServer) -> list[Family]:
    """Its metrics; bytes and records are counted with the Kafka listeners'. Loop thread."""
    requests = [((kind.name.lower(),), listener.requests[kind]) for kind in RequestType]
    errors = [((what,), count) for what, count in listener.errors.items()]
    connections = sum(connection.listener in server.message_set_endpoints for connection in server.connections)
    return [
        Family("tidelog_message_set_requests", "counter", "Requests of the message-set protocol.", ("type",), requests),
        Family("tidelog_message_set_errors", "counter", "Its message sets, offsets and malformed requests answered with "
               "an error.", ("type",), errors),
        Family("tidelog_message_set_connections", "gauge", "Its open connections.", (), [((), connections)]),
    ]  # fmt: skip


class MessageSetListener:
    """Handles requests. Loop thread only.

    Attributes:
        requests: by type, since start.
        malformed: requests that were no requests.
    """

    __slots__ = ("_appends", "_broker", "_fetches", "_next_line", "_offset_errors", "_unsaid", "malformed", "requests")

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._fetches = MessageSetFetches(broker, broker.config.message_set_max_magic)
        self._appends = MessageSetAppends(broker)
        self._offset_errors = 0
        self._next_line = 0.0
        self._unsaid = 0
        self.requests = [0] * len(RequestType)
        self.malformed = 0

    @property
    def errors(self) -> dict[str, int]:
        """Message sets, or OFFSETS, that were answered with an error, by what was asked for; requests as `malformed`."""
        return {
            "fetch": self._fetches.errors,
            "produce": self._appends.errors,
            "offsets": self._offset_errors,
            "malformed": self.malformed,
        }

    def dispatch(self, buffer: bytearray, start: int, end: int, connection: Connection) -> Answer | Awaitable[Answer]:
        """As `Dispatches` says. Every request is answered."""
        kind = _TYPE.unpack_from(buffer, start)[0] if end - start >= TYPE_SIZE else -1
        position = start + TYPE_SIZE
        try:
            if kind == RequestType.FETCH:
                fetched = parse_fetch(buffer, position, end)
                self.requests[kind] += 1
                return self._fetches.fetch(fetched)
            if kind == RequestType.PRODUCE:
                produced = parse_produce(buffer, position, end)
                self.requests[kind] += 1
                return self._appends.produce(buffer, produced)
            if kind == RequestType.MULTIFETCH:
                fetches = parse_multi_fetch(buffer, position, end, MAX_FETCHES)
                self.requests[kind] += 1
                return self._fetches.multi_fetch(fetches)
            if kind == RequestType.MULTIPRODUCE:
                produces = parse_multi_produce(buffer, position, end, MAX_PRODUCES)
                self.requests[kind] += 1
                return self._appends.multi_produce(buffer, produces)
            if kind == RequestType.OFFSETS:
                offsets = parse_offsets(buffer, position, end)
                self.requests[kind] += 1
                return self._offsets(offsets)
            raise MalformedRequest(f"{end - start} bytes of the unknown type {kind}")
        except MalformedRequest as error:
            return self._malformed(kind, str(error), connection)

    def answered(self, key: int, since: int) -> None:
        """As `Dispatches` says; requests of this protocol are counted, not timed."""

    def _malformed(self, kind: int, what: str, connection: Connection) -> bytes:
        self.malformed += 1
        self._unsaid += 1
        now = self._broker.loop.time()
        if now >= self._next_line:
            name = RequestType(kind).name if 0 <= kind < len(RequestType) else "request"
            more = f" ({self._unsaid} such since the last line)" if self._unsaid > 1 else ""
            log.warning("%s: malformed %s: %s%s", connection, name, what, more)
            self._next_line = now + LOG_INTERVAL_S
            self._unsaid = 0
        if kind == RequestType.PRODUCE:
            return produce_answer(ErrorCode.INVALID_REQUEST, -1)
        if kind == RequestType.OFFSETS:
            return offsets_answer(ErrorCode.INVALID_REQUEST, [])
        return message_set_header(0, ErrorCode.INVALID_REQUEST)

    async def _offsets(self, body: OffsetsBody) -> bytes:
        broker = self._broker
        try:
            partition = broker.partitions.get(body.topic, body.partition)
            if partition is None:
                raise ProtocolError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            found = await broker.loop.run_in_executor(
                broker.io_pool, offsets_before, partition.log, body.time, body.max_number
            )
        except Exception as error:
            self._offset_errors += 1
            return offsets_answer(error_code(error)[0], [])
        return offsets_answer(ErrorCode.NONE, found)
