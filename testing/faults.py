"""Requests that fail on purpose: an error code in the answer, a delay, a connection that breaks off.

Rules are asked in the order in which they were made; the first that applies to a request decides. With a probability, the
draws come from the broker's seed: the same requests in the same order meet the same faults.
"""

from __future__ import annotations

import asyncio
import random
import struct
import threading
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from tidelog.protocol.api_keys import ApiKey
from tidelog.protocol.errors import ErrorCode, ProtocolError
from tidelog.protocol.headers import parse_request_header, response_header_bytes
from tidelog.protocol.schema import decode, encode

if TYPE_CHECKING:
    from tidelog.broker.network.connection import Answer, Dispatches
    from tidelog.broker.network.outbound import FileSlice, Part

_HEADER = struct.Struct(">hhi")
_SIZE = struct.Struct(">i")


class Peer(Protocol):
    """The connection, as far as faults go."""

    def close(self, reason: str | None = None) -> None: ...


@dataclass(eq=False)
class Fault:
    """One rule for failing requests. Made by `Faults`.

    Attributes:
        api_key: whose requests.
        times: how many it strikes; None for all.
        probability: of each that comes.
        code: what is answered in place of handling the request; with `handled`, after handling it.
        delay_s: how long the answer is held back.
        after_bytes: the connection ends when so many bytes of the answer were sent; not `handled`: before there is one.
    """

    api_key: ApiKey
    times: int | None = 1
    probability: float = 1.0
    code: ErrorCode | None = None
    handled: bool = False
    delay_s: float = 0.0
    after_bytes: int | None = None
    struck: int = field(default=0, repr=False)

    @property
    def hits(self) -> int:
        """Number of requests that it struck."""
        return self.struck


class Faults:
    """Rules may be made and removed by any thread, at any time; they hold from the next request on."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)  # noqa: S311 - to be repeated, not to be secret
        self._rules: list[Fault] = []
        self._lock = threading.Lock()

    def error(
        self,
        api: str | ApiKey,
        code: str | ErrorCode,
        *,
        times: int | None = 1,
        probability: float = 1.0,
        handled: bool = False,
    ) -> Fault:
        """Requests of that API are answered with an error code, for every topic and partition that they name.

        They are not handled; with `handled` they are, and the answer lies about it: the client's retry meets what is done
        already. A Produce with acks=0, which has no answer, ends the connection if it is not handled. Names are Kafka's:
        "Produce" or "PRODUCE", "NOT_LEADER_OR_FOLLOWER". ValueError for unknown ones, and for an API whose answers have no
        error code.
        """
        key = api_key(api)
        from tidelog.broker.requests.error_responses import request_class

        response = request_class(key, "Response")
        if not any("error_code" in name for name in _field_names(response)):
            raise ValueError(f"the answer to {key.name} has no error code")
        return self._add(Fault(key, times, probability, code=error_code(code), handled=handled))

    def delay(self, api: str | ApiKey, seconds: float, *, times: int | None = None, probability: float = 1.0) -> Fault:
        """Requests of that API are handled, and their answers held back so long (real time)."""
        if not 0 <= seconds < float("inf"):
            raise ValueError(f"a delay of {seconds} s")
        return self._add(Fault(api_key(api), times, probability, delay_s=seconds))

    def disconnect(
        self,
        api: str | ApiKey,
        *,
        after_bytes: int | None = None,
        times: int | None = 1,
        probability: float = 1.0,
    ) -> Fault:
        """The connection breaks off: when a request of that API comes, which is not handled; or, with `after_bytes`, when
        so many bytes of its answer were sent (0: it was handled, and nobody is told)."""
        if after_bytes is not None and after_bytes < 0:
            raise ValueError(f"after {after_bytes} bytes")
        handled = after_bytes is not None
        return self._add(Fault(api_key(api), times, probability, handled=handled, after_bytes=after_bytes or 0))

    def add(self, api: str | ApiKey, code: str | ErrorCode | None = None, **fields: Any) -> Fault:
        """A rule by its fields, as `Fault` has them. ValueError."""
        return self._add(Fault(api_key(api), code=None if code is None else error_code(code), **fields))

    def remove(self, fault: Fault) -> None:
        """Harmless when it is gone."""
        with self._lock:
            self._rules = [rule for rule in self._rules if rule is not fault]

    def clear(self) -> None:
        """Remove all faults: requests from now on meet none. Any thread."""
        with self._lock:
            self._rules = []

    @property
    def rules(self) -> list[Fault]:
        """Faults that may still strike."""
        return [rule for rule in self._rules if rule.times is None or rule.hits < rule.times]

    def around(self, inner: Dispatches, loop: asyncio.AbstractEventLoop) -> Dispatches:
        """A dispatcher that meets requests with these faults before `inner` sees them. Called when the test broker starts."""
        return FaultyDispatcher(self, inner, loop)

    def strike(self, key: int) -> Fault | None:
        """The fault that this request meets. Counts it."""
        if not self._rules:
            return None
        with self._lock:
            for rule in self._rules:
                if rule.api_key != key or (rule.times is not None and rule.hits >= rule.times):
                    continue
                if rule.probability < 1 and self._random.random() >= rule.probability:
                    continue
                rule.struck += 1
                return rule
        return None

    def _add(self, fault: Fault) -> Fault:
        if not 0 < fault.probability <= 1:
            raise ValueError(f"a probability is above 0 and at most 1, not {fault.probability}")
        if fault.times is not None and fault.times < 1:
            raise ValueError(f"times is at least 1, or None for always, not {fault.times}")
        with self._lock:
            self._rules.append(fault)
        return fault


class FaultyDispatcher:
    """A dispatcher in front of a broker's. Loop thread."""

    __slots__ = ("_faults", "_inner")

    #: Each request is looked at here first.
    quick = None

    def __init__(self, faults: Faults, inner: Dispatches, loop: asyncio.AbstractEventLoop) -> None:
        self._faults = faults
        self._inner = inner

    def dispatch(self, buffer: bytearray, start: int, end: int, connection: Any) -> Answer | Awaitable[Answer]:
        """Dispatch as `Dispatcher.dispatch`, except for requests that meet a fault."""
        if end - start < _HEADER.size:
            return self._inner.dispatch(buffer, start, end, connection)
        key, version, correlation_id = _HEADER.unpack_from(buffer, start)
        fault = self._faults.strike(key)
        if fault is None:
            return self._inner.dispatch(buffer, start, end, connection)
        if fault.code is not None:
            frame = bytes(memoryview(buffer)[start:end])
            if not fault.handled and not awaits_answer(fault.api_key, version, frame):
                return self._hang_up(connection)
            answer = error_frame_of(fault.api_key, version, correlation_id, frame, fault.code)
            if answer is None or not fault.handled:
                return answer if answer is not None else self._inner.dispatch(buffer, start, end, connection)
            return self._instead(self._inner.dispatch(buffer, start, end, connection), answer)
        if fault.after_bytes is not None and not fault.handled:
            return self._hang_up(connection)
        return self._later(self._inner.dispatch(buffer, start, end, connection), fault, connection)

    def answered(self, key: int, since: int) -> None:
        """Record an answer, as `Dispatcher.answered`."""
        self._inner.answered(key, since)

    def name_of(self, key: int) -> str:
        """Name of an API, as `Dispatcher.name_of`."""
        return self._inner.name_of(key)

    async def _instead(self, answer: Answer | Awaitable[Answer], otherwise: bytes) -> Answer:
        real = await _answered(answer)
        _release(real)
        # acks=0 has no answer, whatever happens.
        return otherwise if real is not None else None

    async def _hang_up(self, connection: Peer) -> Answer:
        connection.close("a fault of the test")
        return None

    async def _later(self, answer: Answer | Awaitable[Answer], fault: Fault, connection: Any) -> Answer:
        real = await _answered(answer)
        if fault.delay_s:
            try:
                await asyncio.sleep(fault.delay_s)
            except BaseException:
                _release(real)
                raise
        if fault.after_bytes is None:
            return real
        cut = whole_answer(real)[: fault.after_bytes]
        # Before the return: no request behind this one may be answered, whose answer would go on where this one breaks off.
        connection.close_after_sending()
        return cut or None


def awaits_answer(key: ApiKey, version: int, frame: bytes) -> bool:
    """False for a Produce with acks=0: its client reads none, and a broker where it fails can only end the connection."""
    if key is not ApiKey.PRODUCE:
        return True
    from tidelog.broker.requests.error_responses import request_class

    try:
        _, body = parse_request_header(frame)
        request: Any = decode(request_class(key, "Request"), version, frame, body)[0]
    except ProtocolError:
        return True
    return bool(request.acks)


def error_frame_of(key: ApiKey, version: int, correlation_id: int, frame: bytes, code: ErrorCode) -> bytes | None:
    """The framed answer to the request in `frame`; None where that is malformed or can't carry the code."""
    try:
        _, body = parse_request_header(frame)
        from tidelog.broker.requests.error_responses import error_answer, request_class

        request, _ = decode(request_class(key, "Request"), version, frame, body)
        response = error_answer(key, version, request, code)
        if response is None:
            return None
        content = response_header_bytes(key, version, correlation_id) + encode(response, version)
    except ProtocolError:
        return None
    return _SIZE.pack(len(content)) + content


async def _answered(answer: Answer | Awaitable[Answer]) -> Answer:
    if answer is None or isinstance(answer, bytes | list):
        return answer
    return await answer


def whole_answer(answer: Answer) -> bytes:
    """All bytes of an answer, file slices included; releases what the answer holds."""
    if answer is None or isinstance(answer, bytes):
        return answer or b""
    try:
        return b"".join(part if isinstance(part, bytes) else _read(part) for part in answer)
    finally:
        _release(answer)


def _read(part: FileSlice) -> bytes:
    return part.file.pread(part.count, part.position)


def _release(answer: Answer) -> None:
    if isinstance(answer, list):
        from tidelog.broker.network.outbound import release_parts

        parts: list[Part] = answer
        release_parts(parts)


def api_key(api: str | ApiKey) -> ApiKey:
    """API by Kafka's name, in either spelling. ValueError names the nearest one."""
    if isinstance(api, ApiKey):
        return api
    wanted = api.replace("_", "").upper()
    for key in ApiKey:
        if key.name.replace("_", "") == wanted:
            return key
    raise ValueError(f"there is no API {api!r}{_nearest(api.upper(), [key.name for key in ApiKey])}")


def error_code(code: str | ErrorCode) -> ErrorCode:
    """Error code by Kafka's name. ValueError names the nearest one."""
    if isinstance(code, ErrorCode):
        return code
    try:
        return ErrorCode[code.upper()]
    except KeyError:
        near = _nearest(code.upper(), [known.name for known in ErrorCode])
        raise ValueError(f"there is no error code {code!r}{near}") from None


def _nearest(name: str, names: list[str]) -> str:
    from difflib import get_close_matches

    found = get_close_matches(name, names, 1)
    return f"; did you mean {found[0]}?" if found else ""


def _field_names(cls: Any) -> list[str]:
    names = []
    for declared in cls.FIELDS:
        names.append(declared.name)
        if hasattr(declared.element, "FIELDS"):
            names += _field_names(declared.element)
    return names
