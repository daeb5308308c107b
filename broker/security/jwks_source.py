"""Where the public keys of tokens come from: a file or an address of HTTP. Every way of reading is bounded, in time and in bytes.

What blocks here runs on a thread of its own (`jwks.py`).
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

MAX_BYTES = 1 << 20
"""Key sets are a few kilobytes."""
FETCH_TIMEOUT_S = 10.0
"""From the name's resolution, which has no bound of its own, to the last byte."""


class SourceError(Exception):
    """The keys can't be read: where, and why."""


class FileSource(NamedTuple):
    """`file:///path/to/keys.json`."""

    path: str

    def __str__(self) -> str:
        return self.path

    def read(self) -> bytes:
        """Raises `SourceError`."""
        try:
            with open(self.path, "rb") as file:
                return _bounded(file.read(MAX_BYTES + 1), self.path)
        except OSError as error:
            raise SourceError(f"{self.path} can't be read: {error.strerror}") from None


class HttpSource:
    """`https://…` or `http://…`. No redirect is followed and no proxy is asked: the setting says where the keys are."""

    def __init__(self, url: SplitResult, authorities: str | None = None, timeout_s: float = FETCH_TIMEOUT_S) -> None:
        """`authorities`: a PEM file, in place of those that the system trusts. Raises `SourceError`."""
        self._url = url.geturl()
        self._host = url.hostname or ""
        self._path = (url.path or "/") + (f"?{url.query}" if url.query else "")
        self._timeout_s = timeout_s
        self._context: ssl.SSLContext | None = None
        secure = url.scheme == "https"
        try:
            self._port = url.port or (443 if secure else 80)
            if secure:
                self._context = ssl.create_default_context(cafile=authorities)
        except ValueError:
            raise SourceError(f"{self._url} has a port that is none") from None
        except OSError as error:  # an SSLError is one
            raise SourceError(f"{authorities}: no authorities can be read from it: {error.strerror}") from None

    def __str__(self) -> str:
        return self._url

    def read(self) -> bytes:
        """Raises `SourceError`. Takes `timeout_s` at most, however slowly the other side drips."""
        late = threading.Event()
        try:
            raw = socket.create_connection((self._host, self._port), timeout=self._timeout_s)
        except OSError as error:
            raise SourceError(f"{self._url} can't be reached: {error.strerror or error}") from None
        # Of the same connection: the one that is read from moves into TLS, and time-outs of reads begin anew with each.
        with raw.dup() as guard:
            watch = threading.Timer(self._timeout_s, _cut, (guard, late))
            watch.daemon = True
            watch.start()
            try:
                data = self._ask(raw)
                if late.is_set():  # what was cut short can look whole
                    raise TimeoutError
                return data
            except (OSError, http.client.HTTPException) as error:
                if late.is_set() or isinstance(error, TimeoutError):
                    raise SourceError(f"{self._url} did not answer within {self._timeout_s:g} s") from None
                why = getattr(error, "verify_message", "") or getattr(error, "strerror", "") or type(error).__name__
                raise SourceError(f"{self._url} gave no answer that can be read: {why}") from None
            finally:
                watch.cancel()
                raw.close()

    def _ask(self, raw: socket.socket) -> bytes:
        sock = raw if self._context is None else self._context.wrap_socket(raw, server_hostname=self._host)
        connection = http.client.HTTPConnection(self._host, self._port)
        connection.sock = sock
        with contextlib.closing(connection):
            connection.request("GET", self._path, headers={"Accept": "application/json", "Connection": "close"})
            response = connection.getresponse()
            if 300 <= response.status < 400:
                raise SourceError(
                    f"{self._url} answers {response.status} and points elsewhere ({response.headers.get('Location')!r:.200}): "
                    "no redirect is followed, say where the keys are"
                )
            if response.status != 200:
                raise SourceError(f"{self._url} answers {response.status} {response.reason[:100]}")
            data = _bounded(response.read(MAX_BYTES + 1), self._url)
            if response.length:
                raise http.client.IncompleteRead(data, response.length)
            return data


Source = FileSource | HttpSource


def source_of(url: str, authorities: str | None = None) -> Source:
    """What an address means. Raises `SourceError` for what is none. Reads the file of authorities."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise SourceError(f"{url!r} is no address: {error}") from None
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
            raise SourceError(f"{url!r} is no address of a file here: say file:///path/to/keys.json")
        return FileSource(unquote(parts.path))
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SourceError(f"{url!r} is no address of keys: it begins with https://, http:// or file:///")
    if parts.username is not None:
        raise SourceError("an address of keys has no user and no password: keys are public")
    return HttpSource(parts, authorities)


def _bounded(data: bytes, where: str) -> bytes:
    if len(data) > MAX_BYTES:
        raise SourceError(f"{where} has more than {MAX_BYTES} bytes, which no key set has")
    return data


def _cut(guard: socket.socket, late: threading.Event) -> None:
    late.set()
    with contextlib.suppress(OSError):
        guard.shutdown(socket.SHUT_RDWR)
