"""Charges a request to its client's quotas, and writes the throttle time into its answer.

Only made while a quota is set; the dispatcher asks it when the answer is there. Loop thread.
"""

from __future__ import annotations

import struct
import time
from typing import TYPE_CHECKING, cast

from ...protocol.api_keys import ApiKey
from ..network.outbound import total_size

if TYPE_CHECKING:
    from ..network.connection import Answer
    from ..quotas.manager import QuotaManager

_INT32 = struct.Struct(">i")
_CLIENT_ID_AT = 8
_NAME_AT = 10
#: Bytes before `throttle_time_ms` in a framed Fetch response: size, correlation id; and a tagged fields' count.
_FETCH_THROTTLE_AT, _FETCH_FLEXIBLE_FROM = 8, 12
_PRODUCE_FLEXIBLE_FROM = 9
_FETCHES = (ApiKey.FETCH, ApiKey.SHARE_FETCH)


class RequestMeter:
    """Measures one request; created when the request is taken up."""

    __slots__ = ("_key", "_quotas", "_size", "_spent_s", "_started", "_user", "_version", "client_id")

    def __init__(
        self, quotas: QuotaManager, buffer: bytearray, start: int, end: int, key: int, version: int, user: str
    ) -> None:
        """buffer[start:end] is the request with its header, `user` its sender."""
        self._user = user
        self._quotas = quotas
        self._key = key
        self._version = version
        self._size = end - start
        self.client_id = client_id_of(buffer, start, end)
        self._spent_s = 0.0
        self._started = time.perf_counter()

    def waits(self) -> None:
        """Stop the clock: the request waits for something else than the loop thread from now on."""
        self._spent_s = time.perf_counter() - self._started

    def waited(self, busy_s: float = 0.0) -> None:
        """Let the clock go on. `busy_s`: seconds that the request had the loop thread meanwhile, in chunks."""
        self._started = time.perf_counter() - self._spent_s - busy_s

    def took(self, seconds: float) -> None:
        """Add time that the request took on the loop thread, or on one beside it."""
        self._started = time.perf_counter() - seconds

    def handled(self) -> int:
        """Charge the loop thread's time until now; returns the throttle time in ms."""
        return self._quotas.handled(self.client_id, time.perf_counter() - self._started, self._user)

    def settle(self, answer: Answer) -> tuple[Answer, int]:
        """Charge the answer to a Produce, Fetch or ShareFetch request: the answer with the throttle time in it, and
        that time in ms.
        """
        wait = self.handled()
        if self._key == ApiKey.PRODUCE:
            wait = max(wait, self._quotas.produced(self.client_id, self._size, self._user))
            if wait and isinstance(answer, bytes):
                answer = _with_produce_throttle(answer, self._version, wait)
        elif self._key in _FETCHES and answer:
            parts = answer if isinstance(answer, list) else [answer]
            size = total_size(parts)
            wait = max(wait, self._quotas.fetched(self.client_id, size, self._user))
            if wait:
                version = self._version if self._key == ApiKey.FETCH else _FETCH_FLEXIBLE_FROM  # ShareFetch always is
                answer = [_with_fetch_throttle(cast(bytes, parts[0]), version, wait), *parts[1:]]
        return answer, wait


def client_id_of(buffer: bytearray, start: int, end: int) -> str | None:
    """Client id in a request header of version 1 or 2; None if it has none, or is cut off."""
    if end - start < _NAME_AT:
        return None
    length = int.from_bytes(buffer[start + _CLIENT_ID_AT : start + _NAME_AT], "big", signed=True)
    name = start + _NAME_AT
    if length < 0 or name + length > end:
        return None
    return buffer[name : name + length].decode("utf-8", "replace")


def _with_produce_throttle(frame: bytes, version: int, wait_ms: int) -> bytes:
    """Set the throttle time: the last field (from version 1 on), before the tagged fields, of which there are none."""
    if version == 0:
        return frame
    end = len(frame) - (1 if version >= _PRODUCE_FLEXIBLE_FROM else 0)
    return b"".join((frame[: end - 4], _INT32.pack(wait_ms), frame[end:]))


def _with_fetch_throttle(frame: bytes, version: int, wait_ms: int) -> bytes:
    """Set the throttle time: the first field (from version 1 on)."""
    if version == 0:
        return frame
    at = _FETCH_THROTTLE_AT + (1 if version >= _FETCH_FLEXIBLE_FROM else 0)
    return b"".join((frame[:at], _INT32.pack(wait_ms), frame[at + 4 :]))
