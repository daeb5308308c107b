"""The message-set protocol's requests, from a frame to the answer: what `message.set.listeners` serve.

Connections, their limits and their order are those of the Kafka listeners (`socket_server.py`, `connection.py`); this stands
in the dispatcher's place. Where clients have to authenticate, `message_set/authentication.py` comes before it. The bytes are in
`protocol/message_set/wire.py`.

A request that can't be read is answered with INVALID_REQUEST, and a log line says why: its frame was whole, so what follows can
be trusted, and the author of a client sees what is wrong with it.
"""

from __future__ import annotations

import logging
import struct
from collections import Counter
from collections.abc import Awaitable, Container, Sequence
from time import perf_counter_ns
from typing import TYPE_CHECKING

from ...protocol.api_keys import ApiKey
from ...protocol.errors import ErrorCode, MalformedRequest, ProtocolError
from ...protocol.message_set.kafka07 import is_message_set
from ...protocol.message_set.wire import (
    TYPE_SIZE,
    FetchBody,
    OffsetsBody,
    ProduceBody,
    RequestType,
    offsets_answer,
    parse_fetch,
    parse_multi_fetch,
    parse_multi_produce,
    parse_offsets,
    parse_produce,
    refusal_answer,
)
from ..network.kafka07 import refusal
from ..network.outbound import total_size
from ..requests.context import RequestContext
from ..requests.counters import BITS
from ..runtime.error_codes import error_code
from ..security.acl.model import AclOperation, ResourceType
from .fetch import MAX_FETCHES, MessageSetFetches
from .offsets import offsets_before
from .produce import MAX_PRODUCES, MessageSetAppends

if TYPE_CHECKING:
    from ..network.connection import Connection
    from ..network.outbound import Part
    from ..quotas.manager import QuotaManager
    from ..requests.services import Services

log = logging.getLogger(__name__)

_TYPE = struct.Struct(">h")
#: One line about requests that can't be read in so many seconds; it says how many there were.
LOG_INTERVAL_S = 1.0

#: Operation on a topic that each API requires.
_OPERATIONS = {
    ApiKey.FETCH: AclOperation.READ,
    ApiKey.PRODUCE: AclOperation.WRITE,
    ApiKey.LIST_OFFSETS: AclOperation.DESCRIBE,
}

SetAnswer = bytes | list["Part"]
"""`Answer` of this protocol, in which every request has one."""


class MessageSetListener:
    """Handles requests. Loop thread only.

    Attributes:
        latencies: by type, requests that were answered, by the bit length of the nanoseconds that took.
        nanoseconds: by type, what those took together.
        errors: (fetch, produce, offsets or malformed; error code) → how often a set, or a request, was answered so.
    """

    __slots__ = ("_appends", "_fetches", "_next_line", "_services", "_unsaid", "errors", "latencies", "nanoseconds")

    #: As `Dispatches.quick`.
    quick = None

    def __init__(self, services: Services) -> None:
        self._services = services
        self._next_line = 0.0
        self._unsaid = 0
        self.latencies = [[0] * BITS for _ in RequestType]
        self.nanoseconds = [0] * len(RequestType)
        self.errors: Counter[tuple[str, int]] = Counter()
        self._fetches = MessageSetFetches(services, services.config.message_set_max_magic, self.errors)
        self._appends = MessageSetAppends(services, self.errors)

    @property
    def requests(self) -> list[int]:
        """Number of answered requests, by type."""
        return [sum(by_bits) for by_bits in self.latencies]

    def dispatch(
        self, buffer: bytearray, start: int, end: int, connection: Connection
    ) -> SetAnswer | Awaitable[SetAnswer]:
        """Dispatch as `Dispatches.dispatch`. Every request is answered; for a set of Kafka 0.7 ConnectionAborted is raised, with
        the answer."""
        kind = _TYPE.unpack_from(buffer, start)[0] if end - start >= TYPE_SIZE else -1
        quotas = self._services.quotas
        if quotas.active:
            meter = _Meter(quotas, kind, end - start, connection.user)
            answer = self._handle(kind, buffer, start + TYPE_SIZE, end, connection)
            if isinstance(answer, bytes | list):
                meter.settle(answer, connection)
            else:
                answer = meter.settle_later(answer, connection)
        else:
            answer = self._handle(kind, buffer, start + TYPE_SIZE, end, connection)
        if 0 <= kind < len(RequestType):
            if isinstance(answer, bytes | list):
                self.answered(kind, connection.last_active)
            else:
                connection.pending_key, connection.pending_since = kind, connection.last_active
        return answer

    def answered(self, key: int, since: int) -> None:
        """A request of type `key` is answered now. `since`: when it came, by `perf_counter_ns`."""
        taken = perf_counter_ns() - since
        self.latencies[key][taken.bit_length()] += 1
        self.nanoseconds[key] += taken

    def name_of(self, key: int) -> str:
        """As the connections' page and /metrics call it: `message_set_produce` is no Produce of Kafka's protocol."""
        return f"message_set_{RequestType(key).name.lower()}"

    def _handle(
        self, kind: int, buffer: bytearray, position: int, end: int, connection: Connection
    ) -> SetAnswer | Awaitable[SetAnswer]:
        try:
            if kind == RequestType.FETCH:
                fetch = parse_fetch(buffer, position, end)
                return self._fetches.fetch(fetch, self._denied(ApiKey.FETCH, connection, [fetch]), connection.client)
            if kind == RequestType.PRODUCE:
                produce = parse_produce(buffer, position, end)
                _refuse_kafka07(kind, buffer, produce, connection)
                denied = self._denied(ApiKey.PRODUCE, connection, [produce])
                return self._appends.produce(buffer, produce, denied, connection.client)
            if kind == RequestType.MULTIFETCH:
                fetches = parse_multi_fetch(buffer, position, end, MAX_FETCHES)
                denied = self._denied(ApiKey.FETCH, connection, fetches)
                return self._fetches.multi_fetch(fetches, denied, connection.client)
            if kind == RequestType.MULTIPRODUCE:
                produces = parse_multi_produce(buffer, position, end, MAX_PRODUCES)
                if produces:
                    _refuse_kafka07(kind, buffer, produces[0], connection)
                denied = self._denied(ApiKey.PRODUCE, connection, produces)
                return self._appends.multi_produce(buffer, produces, denied, connection.client)
            if kind == RequestType.OFFSETS:
                offsets = parse_offsets(buffer, position, end)
                return self._offsets(offsets, self._denied(ApiKey.LIST_OFFSETS, connection, [offsets]))
            if kind == RequestType.AUTHENTICATE:
                # Reached by clients that have authenticated, or that believe that this listener has users.
                self.errors["authenticate", ErrorCode.ILLEGAL_SASL_STATE] += 1
                return refusal_answer(kind, ErrorCode.ILLEGAL_SASL_STATE)
            raise MalformedRequest(f"{end - position + TYPE_SIZE} bytes of the unknown type {kind}")
        except MalformedRequest as error:
            return self._malformed(kind, str(error), connection)

    def _malformed(self, kind: int, what: str, connection: Connection) -> bytes:
        self.errors["malformed", ErrorCode.INVALID_REQUEST] += 1
        self._unsaid += 1
        now = self._services.loop.time()
        if now >= self._next_line:
            name = RequestType(kind).name if 0 <= kind < len(RequestType) else "request"
            more = f" ({self._unsaid} such since the last line)" if self._unsaid > 1 else ""
            log.warning("%s: malformed %s: %s%s", connection, name, what, more)
            self._next_line = now + LOG_INTERVAL_S
            self._unsaid = 0
        return refusal_answer(kind, ErrorCode.INVALID_REQUEST)

    def _denied(
        self, api_key: ApiKey, connection: Connection, bodies: Sequence[FetchBody | ProduceBody | OffsetsBody]
    ) -> Container[str]:
        """The topics that the client may not have this done with: what the API of the same kind asks is asked here."""
        services = self._services
        if services.authorizer is None:
            return ()
        context = RequestContext(services, connection, api_key, 0, 0, None)
        operation = _OPERATIONS[api_key]
        topics = dict.fromkeys(body.topic for body in bodies)
        return {topic for topic in topics if not context.allows(operation, ResourceType.TOPIC, topic)}

    async def _offsets(self, body: OffsetsBody, denied: Container[str]) -> bytes:
        services = self._services
        try:
            if body.topic in denied:
                raise ProtocolError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            partition = services.partitions.get(body.topic, body.partition)
            if partition is None:
                raise ProtocolError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            found = await services.loop.run_in_executor(
                services.io_pool, offsets_before, partition.log, body.time, body.max_number
            )
        except Exception as error:
            code = error_code(error)[0]
            self.errors["offsets", code] += 1
            return offsets_answer(code, [])
        return offsets_answer(ErrorCode.NONE, found)


def _refuse_kafka07(kind: int, buffer: bytearray, body: ProduceBody, connection: Connection) -> None:
    """Raise ConnectionAborted for a set of Kafka 0.7. Its client reads no answer and would send on and on; who reads it, writes a
    client of this protocol with the messages of that one.
    """
    if is_message_set(buffer, body.start, body.end):
        answer = refusal_answer(kind, ErrorCode.INVALID_RECORD)
        raise refusal(RequestType(kind), body.topic, connection, answer=answer)


class _Meter:
    """Quotas of one request. There are no client ids here: default quotas hold, and the user's. The answers have no field for the
    throttle time, so the client only sees its connection stand still.
    """

    __slots__ = ("_kind", "_quotas", "_size", "_started", "_user")

    def __init__(self, quotas: QuotaManager, kind: int, size: int, user: str) -> None:
        self._user = user
        self._quotas = quotas
        self._kind = kind
        self._size = size
        self._started = perf_counter_ns()

    def settle(self, answer: SetAnswer, connection: Connection) -> None:
        """Charge the answer to the request's quotas."""
        quotas = self._quotas
        wait = quotas.handled(None, (perf_counter_ns() - self._started) / 1e9, self._user)
        if self._kind in (RequestType.PRODUCE, RequestType.MULTIPRODUCE):
            wait = max(wait, quotas.produced(None, self._size, self._user))
        elif self._kind in (RequestType.FETCH, RequestType.MULTIFETCH):
            parts = [answer] if isinstance(answer, bytes) else answer
            size = total_size(parts)
            wait = max(wait, quotas.fetched(None, size, self._user))
        if wait:
            connection.mute(wait)

    async def settle_later(self, answer: Awaitable[SetAnswer], connection: Connection) -> SetAnswer:
        """Charge an answer that waits for something else than the loop thread, as `settle`."""
        done = await answer
        self._started = perf_counter_ns()
        self.settle(done, connection)
        return done
