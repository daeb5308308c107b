"""Dispatcher: hands a request frame to its API's handler, and encodes the answer.

Produce and Fetch are parsed by the compiled codec and answered by handlers that work on the receive buffer. Every other
request is copied, decoded by its declared schema, and given to the handler that its module registered.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections import Counter
from collections.abc import Awaitable, Iterator
from functools import partial
from time import perf_counter, perf_counter_ns
from typing import TYPE_CHECKING, Any

from ...protocol.api_keys import API_NAMES, ApiKey
from ...protocol.errors import ErrorCode, MalformedRequest, ProtocolError
from ...protocol.headers import parse_request_header, response_header_bytes
from ...protocol.messages.api_versions import ApiVersionsResponse
from ...protocol.schema import decode, encode
from ..network.outbound import received
from ..runtime.cooperative import ChunkedResult
from ..runtime.error_codes import error_code
from ..runtime.exceptions import ConnectionAborted
from .access import refusal
from .bulk_lane import LONG_BYTES
from .context import RequestContext
from .error_responses import error_frame, errors_of, has_field, shorten_messages, unsupported
from .registry import Registration, loaded
from .throttling import RequestMeter

if TYPE_CHECKING:
    from ...protocol.headers import RequestHeader
    from ..network.connection import Answer, Connection, QuickDispatch, Reply
    from .bulk_lane import BulkRequestLane, Permit
    from .services import Services

log = logging.getLogger(__name__)

_read_header = struct.Struct(">hhi").unpack_from  # api key, api version, correlation id
_SIZE = struct.Struct(">i")

#: Decoded fields take many times their bytes: requests other than Produce and Fetch end here, whatever
#: socket.request.max.bytes says.
MAX_REQUEST_BYTES = 16 << 20


class Dispatcher:
    """Dispatcher of the Kafka listeners' requests to their handlers. Loop thread only."""

    __slots__ = ("_counters", "_latencies", "_nanoseconds", "_registrations", "_services", "quick")

    def __init__(self, services: Services, registrations: dict[int, Registration]) -> None:
        self._services = services
        self._registrations = registrations
        self._counters = counters = services.counters
        self._latencies = counters.latencies
        self._nanoseconds = counters.nanoseconds
        #: As `Dispatches.quick`; the node's is `produce_fetch/_quick.pyx`.
        self.quick: QuickDispatch | None = None

    def dispatch(self, buffer: bytearray, start: int, end: int, connection: Connection) -> Reply:
        """Dispatch one request, as `Dispatches.dispatch`."""
        if end - start < 8:
            raise ConnectionAborted(f"a request of {end - start} bytes is shorter than its header")
        key, version, correlation_id = _read_header(buffer, start)
        registration = self._registrations.get(key)
        if registration is None or not registration.min_version <= version <= registration.max_version:
            if key == ApiKey.API_VERSIONS:
                return self._unsupported_api_versions(correlation_id)
            if (old_client := _kafka07(buffer, start, end, connection)) is not None:
                raise old_client
            return self._unsupported(registration, key, version, correlation_id, connection)
        if registration.handler is None:
            registration = loaded(registration)
        assert registration.handler is not None
        quotas = self._services.quotas
        meter = RequestMeter(quotas, buffer, start, end, key, version, connection.user) if quotas.active else None
        answer: Reply
        if registration.raw:
            try:
                answer = registration.handler(self._services, buffer, start, end, version, correlation_id, connection)
            except ValueError as error:
                reason = f"malformed {registration.api_key.name} v{version}: {error}"
                raise _unreadable(reason, buffer, start, end, connection) from None
            if meter is not None:
                answer = self.metered(answer, meter, connection)
        elif end - start > MAX_REQUEST_BYTES:
            name, size = registration.api_key.name, end - start
            reason = f"a {name} request of {size} bytes; only Produce may have more than {MAX_REQUEST_BYTES}"
            raise _unreadable(reason, buffer, start, end, connection)
        elif end - start > LONG_BYTES and registration.many_names:
            requests = self._services.long_changes if registration.is_change else self._services.long_requests
            with requests.admit(connection, end - start) as permit:
                frame = bytes(memoryview(buffer)[start:end])
                work = self._long(registration, frame, version, correlation_id, connection, meter, requests, permit)
                if registration.audited:
                    task, answer = self._services.changes.keep(work)
                else:
                    answer = task = self._services.loop.create_task(work)
                task.add_done_callback(permit.release)  # also where the client leaves before it has begun
        else:
            frame = bytes(memoryview(buffer)[start:end])
            answer = self._generic(registration, frame, version, correlation_id, connection, meter)
        kind = type(answer)
        if kind is bytes or kind is list or answer is None:
            taken = perf_counter_ns() - connection.last_active
            self._latencies[key][taken.bit_length()] += 1
            self._nanoseconds[key] += taken
        else:
            connection.pending_key, connection.pending_since = key, connection.last_active
        return answer

    def answered(self, key: int, since: int) -> None:
        """Record the latency of an answered request, as `Dispatches.answered`."""
        taken = perf_counter_ns() - since
        self._latencies[key][taken.bit_length()] += 1
        self._nanoseconds[key] += taken

    def name_of(self, key: int) -> str:
        """Name of an API, as `Dispatches.name_of`."""
        return API_NAMES[key]

    def metered(self, answer: Reply, meter: RequestMeter, connection: Connection) -> Reply:
        """Charge an answer to its client's quotas, when it is there: what is to be sent."""
        if answer is None or isinstance(answer, bytes | list):
            return self._settled(answer, meter, connection)
        meter.waits()
        return self._metered_later(answer, meter, connection)

    async def _metered_later(self, answer: Awaitable[Answer], meter: RequestMeter, connection: Connection) -> Answer:
        done = await received(answer)
        meter.waited()
        return self._settled(done, meter, connection)

    def _settled(self, answer: Answer, meter: RequestMeter, connection: Connection) -> Answer:
        answer, wait = meter.settle(answer)
        if wait:
            connection.mute(wait)
        return answer

    def _generic(
        self,
        registration: Registration,
        frame: bytes,
        version: int,
        correlation_id: int,
        connection: Connection,
        meter: RequestMeter | None,
    ) -> Reply:
        key = registration.api_key
        try:
            header, request = _read(registration, version, frame)
        except ProtocolError as error:
            reason = f"malformed {key.name} v{version}: {error}"
            raise _unreadable(reason, frame, 0, len(frame), connection) from None
        context = RequestContext(self._services, connection, key, version, correlation_id, header.client_id)
        assert registration.handler is not None
        if (
            self._services.authorizer is not None
            and (code := refusal(registration.requires, request, context)) is not None
        ):
            return self._answer(key, version, correlation_id, refused(key, version, request, code), connection, meter)
        if registration.audited:
            self._services.changes.check()
        try:
            response = registration.handler(request, context)
        except ConnectionAborted:
            raise
        except Exception as error:
            return self._failed(registration, version, correlation_id, error)
        if _comes_later(response):
            if meter is not None:
                meter.waits()
            work = self._later(registration, request, context, response, meter)
            return self._services.changes.keep(work)[1] if registration.audited else work
        if registration.audited:
            self._services.audit.get().did(context, audit_entries_of(request, response, context))
        return self._answer(key, version, correlation_id, response, connection, meter)

    async def _later(
        self,
        registration: Registration,
        request: Any,
        context: RequestContext,
        response: Awaitable[Any],
        meter: RequestMeter | None,
    ) -> Answer:
        version, correlation_id = context.api_version, context.correlation_id
        first_s = _busy_s(response)  # the meter has it already
        try:
            done = await response
            if _comes_later(done):  # it was handled in chunks, and waits for other clients now
                done = await done
        except ConnectionAborted:
            raise
        except Exception as error:
            return self._failed(registration, version, correlation_id, error)
        if meter is not None:
            meter.waited(_busy_s(response) - first_s)
        if registration.audited:
            self._services.audit.get().did(context, audit_entries_of(request, done, context))
        return self._answer(registration.api_key, version, correlation_id, done, context.connection, meter)

    async def _long(
        self,
        registration: Registration,
        frame: bytes,
        version: int,
        correlation_id: int,
        connection: Connection,
        meter: RequestMeter | None,
        requests: BulkRequestLane,
        permit: Permit,
    ) -> Answer:
        """As `_generic`, for a request with very many names: decoded and encoded on a thread beside the loop, whose
        time is charged to the client too. Nothing is charged while others have their turns, or a disk is waited for; the lane is
        free for others while it waits for other clients.
        """
        key, handler = registration.api_key, registration.handler
        assert handler is not None
        began = perf_counter()
        try:
            header, request = await requests.aside(partial(_read, registration, version, frame))
        except ProtocolError as error:
            reason = f"malformed {key.name} v{version}: {error}"
            raise _unreadable(reason, frame, 0, len(frame), connection) from None
        del frame
        context = RequestContext(self._services, connection, key, version, correlation_id, header.client_id)
        if (
            self._services.authorizer is not None
            and (code := refusal(registration.requires, request, context)) is not None
        ):
            response = await requests.aside(partial(refused, key, version, request, code))
        else:
            try:
                response = handler(request, context)
                if type(response) is ChunkedResult or (_comes_later(response) and not registration.waits_for_others):
                    since, work, busy_s = perf_counter(), response, _busy_s(response)
                    response = await work
                    began += perf_counter() - since - (_busy_s(work) - busy_s)
                if _comes_later(response):  # for other clients
                    permit.release()
                    waits_since = perf_counter()
                    response = await response
                    began += perf_counter() - waits_since
            except ConnectionAborted:
                raise
            except Exception as error:
                return self._failed(registration, version, correlation_id, error)
            if registration.audited:
                audit = self._services.audit.get()
                await requests.aside(partial(audit.did, context, audit_entries_of(request, response, context)))
        told = getattr(response, "throttle_time_ms", 0)
        if meter is not None:
            meter.took(perf_counter() - began)
            if (wait := meter.handled()) > told:
                told = wait
                if has_field(type(response), "throttle_time_ms", version):
                    response.throttle_time_ms = wait
        # Giving a million objects back takes a while too: the thread has the last reference to them.
        last = [response, request]
        del response, request
        codes, answer = await requests.aside(partial(_counted, key, version, correlation_id, last))
        for error_code_, count in codes.items():
            self._counters.errors[key, error_code_] += count
        if told:
            connection.mute(told)
        return answer

    def _answer(
        self,
        key: ApiKey,
        version: int,
        correlation_id: int,
        response: Any,
        connection: Connection,
        meter: RequestMeter | None,
    ) -> bytes:
        """Encode an answer. An answer with a throttle time mutes the connection for that time (KIP-219)."""
        frame = self._frame(key, version, correlation_id, response)
        told = getattr(response, "throttle_time_ms", 0)
        if meter is not None and (wait := meter.handled()) > told:
            if has_field(type(response), "throttle_time_ms", version):
                response.throttle_time_ms = wait
                frame = response_frame(key, version, correlation_id, response)
            told = wait
        if told:
            connection.mute(told)
        return frame

    def _failed(self, registration: Registration, version: int, correlation_id: int, error: Exception) -> bytes:
        """Answer for a handler's exception. Where the response has no place for an error, the connection ends."""
        code, message = error_code(error)
        self._counters.errors[registration.api_key, code] += 1
        frame = error_frame(registration, version, correlation_id, code, message)
        if frame is None:
            raise ConnectionAborted(f"{registration.api_key.name} v{version} failed with {code.name}: {message}")
        return frame

    def _frame(self, key: ApiKey, version: int, correlation_id: int, response: Any) -> bytes:
        for code in errors_of(response):
            self._counters.errors[key, code] += 1
        return response_frame(key, version, correlation_id, response)

    def _unsupported(
        self, registration: Registration | None, key: int, version: int, correlation_id: int, connection: Connection
    ) -> bytes:
        if key < 0 or version < 0:
            raise ConnectionAborted(f"API key {key} version {version}: that is no request of Kafka's protocol")
        log.info("%s: API key %d version %d is not answered: UNSUPPORTED_VERSION", connection, key, version)
        if registration is not None:  # any other number is the client's invention, and no label
            self._counters.errors[key, ErrorCode.UNSUPPORTED_VERSION] += 1
        return unsupported(registration, key, version, correlation_id)

    def _unsupported_api_versions(self, correlation_id: int) -> bytes:
        """KIP-511: answer an unknown version in version 0 with our range, so that clients ask again."""
        own = [api for api in self._services.listed_apis if api.api_key == ApiKey.API_VERSIONS]
        response = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=own)
        return self._frame(ApiKey.API_VERSIONS, 0, correlation_id, response)


def _comes_later(response: Any) -> bool:
    """True if a handler returned something to await."""
    return asyncio.isfuture(response) or asyncio.iscoroutine(response) or type(response) is ChunkedResult


def _busy_s(response: Any) -> float:
    """Seconds that a response which comes later has had the loop thread, as far as that is known: in chunks."""
    return response.busy_s if type(response) is ChunkedResult else 0.0


def _read(registration: Registration, version: int, frame: bytes) -> tuple[RequestHeader, Any]:
    """Decode header and body of a request. Any thread."""
    header, body = parse_request_header(frame)
    request, end = decode(registration.request, version, frame, body)
    if end < len(frame):  # Kafka ignores that, and no client of Kafka's sends it
        from ...protocol.message_set.kafka07 import recognise

        if recognise(frame, 0, len(frame)) is not None:
            raise MalformedRequest("bytes are left over")
    return header, request


def _kafka07(frame: bytes | bytearray, start: int, end: int, connection: Connection) -> ConnectionAborted | None:
    """As `kafka_refusal`, whose module is loaded with the first request that can't be read."""
    from ..network.kafka07 import kafka_refusal

    return kafka_refusal(frame, start, end, connection)


def _unreadable(
    reason: str, frame: bytes | bytearray, start: int, end: int, connection: Connection
) -> ConnectionAborted:
    """What ends a connection over a request that can't be read: for `reason`, unless its client is one of Kafka 0.7."""
    return _kafka07(frame, start, end, connection) or ConnectionAborted(reason)


def _counted(key: ApiKey, version: int, correlation_id: int, last: list[Any]) -> tuple[Counter[int], bytes]:
    """Count the errors in the answer that is first in `last`, and encode it; empties `last`. Any thread."""
    codes, frame = Counter(errors_of(last[0])), response_frame(key, version, correlation_id, last[0])
    last.clear()
    return codes, frame


def audit_entries_of(request: Any, response: Any, context: RequestContext) -> Iterator[str]:
    """Audit log entries for an administrative request that was answered."""
    from .audit_text import audit_entries

    return audit_entries(request, response, context)


def refused(key: ApiKey, version: int, request: Any, code: ErrorCode) -> Any:
    """The answer to a request that the client may not make: the code for the whole, or else for each of its parts."""
    from .error_responses import error_answer, request_class

    kind = request_class(key, "Response")
    if not has_field(kind, "error_code", version):
        # A request without parts, whose answer has room for an error in them only, gets the empty answer that it is due.
        return error_answer(key, version, request, code) or kind()
    response: Any = kind()
    response.error_code = code
    if has_field(kind, "error_message", version):
        response.error_message = code.text
    return response


def response_frame(key: ApiKey, version: int, correlation_id: int, response: Any) -> bytes:
    """Size, header and body of a response. ConnectionAborted where this version cannot say it.

    Of an error message that is too long for a string, as one that quotes a setting's long value, the beginning is said.
    """
    header = response_header_bytes(key, version, correlation_id)
    try:
        try:
            body = encode(response, version)
        except ValueError:
            shorten_messages(response)
            body = encode(response, version)
    except ValueError as error:
        # A name of bytes that are no UTF-8 is three times as long when it is said again: Kafka has no answer either.
        raise ConnectionAborted(f"the answer to {key.name} v{version} can't be written: {error}") from None
    return b"".join((_SIZE.pack(len(header) + len(body)), header, body))
