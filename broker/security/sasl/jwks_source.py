"""Sources of the public keys of tokens: a file or an HTTP address. Every read is bounded in time and bytes.

Blocking calls run on a thread of their own (`jwks.py`).
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from ....protocol.http_exchange import Endpoint, ExchangeError

MAX_BYTES = 1 << 20
"""Largest key set in bytes; usual ones have a few kilobytes."""
FETCH_TIMEOUT_S = 10.0
"""Time-out in seconds from the name's resolution, which has none of its own, to the last byte."""


class SourceError(Exception):
    """The keys can't be read; the text says from where, and why."""


class FileSource(NamedTuple):
    """Keys in a file: `file:///path/to/keys.json`."""

    path: str

    def __str__(self) -> str:
        return self.path

    def read(self) -> bytes:
        """Read the file. Raises `SourceError`. Blocks."""
        try:
            with open(self.path, "rb") as file:
                return _bounded(file.read(MAX_BYTES + 1), self.path)
        except OSError as error:
            raise SourceError(f"{self.path} can't be read: {error.strerror}") from None


class HttpSource:
    """Keys at `https://…` or `http://…`. Redirects and proxies are not used: the setting says where the keys are."""

    def __init__(self, url: SplitResult, authorities: str | None = None, timeout_s: float = FETCH_TIMEOUT_S) -> None:
        """`authorities`: a PEM file, replaces the system's trusted authorities. Raises `SourceError`."""
        self._url = url.geturl()
        self._timeout_s = timeout_s
        try:
            self._endpoint = Endpoint(url, authorities)
        except ValueError as error:
            raise SourceError(str(error)) from None

    def __str__(self) -> str:
        return self._url

    def read(self) -> bytes:
        """Fetch the keys. Raises `SourceError`. Blocks, for at most `timeout_s`, however slowly the server drips."""
        accept = {"Accept": "application/json"}
        try:
            answer = self._endpoint.ask("GET", accept, timeout_s=self._timeout_s, max_bytes=MAX_BYTES)
        except ExchangeError as error:
            raise SourceError(str(error)) from None
        if 300 <= answer.status < 400:
            raise SourceError(
                f"{self} answers {answer.status} and points elsewhere ({answer.location!r}): redirects are not followed, say "
                "where the keys are"
            )
        if answer.status != 200:
            raise SourceError(f"{self} answers {answer.status} {answer.reason}")
        return answer.data


Source = FileSource | HttpSource


def source_of(url: str, authorities: str | None = None) -> Source:
    """Make the source for an address. Raises `SourceError` for an invalid one. Reads the file of authorities."""
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
