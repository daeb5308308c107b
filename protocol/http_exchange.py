"""One HTTP request and its answer, limited in time (however slowly the server drips), in bytes, and in where it goes:
it follows no redirect and uses no proxy. For URLs from settings: an issuer's keys, an issuer's tokens.

Blocks, so that it runs on a thread of its own or in a client. Its users import it when they need it.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import SplitResult


class ExchangeError(Exception):
    """The request got no answer; the text names the address and the cause, and nothing of the request. A retry may
    succeed.
    """


class Answer(NamedTuple):
    """An HTTP answer. `location`: target of a redirection, else ""."""

    status: int
    reason: str
    location: str
    data: bytes


class Endpoint:
    """An `https://…` or `http://…` address to send requests to."""

    def __init__(self, url: SplitResult, authorities: str | None = None) -> None:
        """`authorities`: a PEM file, replaces the system's trusted authorities. ValueError names what can't be used."""
        self._url = url._replace(query="", fragment="").geturl()  # as messages show it
        self._host = url.hostname or ""
        self._path = (url.path or "/") + (f"?{url.query}" if url.query else "")
        self._context: ssl.SSLContext | None = None
        secure = url.scheme == "https"
        try:
            self._port = url.port or (443 if secure else 80)
        except ValueError:
            raise ValueError(f"{self._url} has an invalid port") from None
        if secure:
            try:
                self._context = ssl.create_default_context(cafile=authorities)
            except OSError as error:  # an SSLError is one
                why = error.strerror or str(error)
                raise ValueError(f"{authorities}: no authorities can be read from it: {why}") from None

    def __str__(self) -> str:
        return self._url

    def ask(
        self, method: str, headers: Mapping[str, str], *, body: bytes | None = None, timeout_s: float, max_bytes: int
    ) -> Answer:
        """Send one request and read the answer. Blocks, for at most `timeout_s` including name resolution.
        ExchangeError.
        """
        late = threading.Event()
        try:
            raw = socket.create_connection((self._host, self._port), timeout=timeout_s)
        except OSError as error:
            raise ExchangeError(f"{self._url} can't be reached: {error.strerror or error}") from None
        # Of the same connection: the one that is read from moves into TLS, and time-outs of reads begin anew with each.
        with raw.dup() as guard:
            watch = threading.Timer(timeout_s, _cut, (guard, late))
            watch.daemon = True
            watch.start()
            try:
                answer = self._exchange(raw, method, headers, body, max_bytes)
                if late.is_set():  # a truncated body can look whole
                    raise TimeoutError
                return answer
            except (OSError, http.client.HTTPException) as error:
                if late.is_set() or isinstance(error, TimeoutError):
                    raise ExchangeError(f"{self._url} did not answer within {timeout_s:g} s") from None
                why = getattr(error, "verify_message", "") or getattr(error, "strerror", "") or type(error).__name__
                raise ExchangeError(f"{self._url} gave no answer that can be read: {why}") from None
            finally:
                watch.cancel()
                raw.close()

    def _exchange(
        self, raw: socket.socket, method: str, headers: Mapping[str, str], body: bytes | None, max_bytes: int
    ) -> Answer:
        sock = raw if self._context is None else self._context.wrap_socket(raw, server_hostname=self._host)
        connection = http.client.HTTPConnection(self._host, self._port)
        connection.sock = sock
        with contextlib.closing(connection):
            connection.request(method, self._path, body, {**headers, "Connection": "close"})
            with connection.getresponse() as response:  # which holds the socket by itself from here on
                data = response.read(max_bytes + 1)
            if len(data) > max_bytes:
                raise ExchangeError(f"{self._url} answers with more than {max_bytes} bytes")
            if response.length:
                raise http.client.IncompleteRead(data, response.length)
            location = response.headers.get("Location") or ""
            return Answer(response.status, response.reason[:100], location[:200], data)


def _cut(guard: socket.socket, late: threading.Event) -> None:
    late.set()
    with contextlib.suppress(OSError):
        guard.shutdown(socket.SHUT_RDWR)
