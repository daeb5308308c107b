"""Public keys that sign tokens (RFC 7517): where they are read (a file or an HTTP address), and the cache of what was read.

`tokens.py` looks for a key with `Keys.find`, or with `find_blocking` on HTTP's threads. Keys are read again when they get old,
and when a token names an unknown key, which is how a rotation shows. A read runs on a thread of its own, one at a time for each
source, never on the loop; it is bounded in time and bytes. Nobody can make reads happen more often than every `BETWEEN_S`
seconds, or than the pauses after failures allow.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import Future
from typing import Any, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

import jwt

from ....protocol.http_exchange import Endpoint, ExchangeError

log = logging.getLogger(__name__)

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


MAX_KEYS = 1000
BETWEEN_S = 5.0
"""Minimum seconds between two reads for unknown keys, which a stranger can cause at no cost."""

_RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
# Algorithms of a key, by its type and curve (RFC 7518, RFC 8037). Secrets that both sides know ("oct") are not here: with one of
# those whoever checks tokens could make them, and a public key could be taken for one.
_ALGORITHMS: dict[tuple[str, str], tuple[str, ...]] = {
    ("RSA", ""): _RSA,
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA",),
    ("OKP", "Ed448"): ("EdDSA",),
}


class PublicKey(NamedTuple):
    """One key of the set. `algorithms`: those it may be used with, by its own statement or its type; never by a
    token's.
    """

    key_id: str | None
    algorithms: tuple[str, ...]
    key: Any


class Pauses(NamedTuple):
    """Seconds: maximum age of the keys, and the delay after a failed read, doubled with each failure."""

    refresh_s: float
    retry_s: float
    retry_max_s: float


class Wait(NamedTuple):
    """A key look-up that needs a read first. `is_asked_for`: an unknown key id caused it, which a stranger can do."""

    reading: Future[None]
    is_asked_for: bool


def parse_keys(data: bytes) -> tuple[PublicKey, ...]:
    """Keys of a set that can verify signatures. ValueError for an invalid set, or one without such keys.

    Keys for encryption, of unknown types and damaged ones are left out, as RFC 7517 wants it.
    """
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        raise ValueError("that is not JSON") from None
    entries = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise ValueError('a key set is {"keys": […]} (RFC 7517)')
    if len(entries) > MAX_KEYS:
        raise ValueError(f"{len(entries)} keys are more than {MAX_KEYS}")
    keys = tuple(key for key in map(_parse_key, entries) if key is not None)
    if not keys:
        raise ValueError(f"of {len(entries)} keys none is a public key (RSA, EC, OKP) that signatures are checked with")
    return keys


def _parse_key(entry: object) -> PublicKey | None:
    if not isinstance(entry, dict) or entry.get("use", "sig") != "sig":
        return None
    operations, key_id = entry.get("key_ops"), entry.get("kid")
    if isinstance(operations, list) and "verify" not in operations:
        return None
    kind = (str(entry.get("kty")), str(entry.get("crv", "")) if entry.get("kty") != "RSA" else "")
    algorithms = _ALGORITHMS.get(kind, ())
    if "alg" in entry:
        algorithms = tuple(name for name in algorithms if name == entry["alg"])
    if not algorithms:
        return None
    public = {name: value for name, value in entry.items() if name in ("kty", "crv", "n", "e", "x", "y")}
    try:
        key = jwt.PyJWK(public, algorithms[0]).key
    except (jwt.PyJWTError, ValueError, TypeError, AttributeError) as error:
        log.warning("key %.100r of the key set is left out: %s", key_id, error)
        return None
    return PublicKey(key_id if isinstance(key_id, str) else None, algorithms, key)


def _on_a_thread(work: Callable[[], None]) -> None:
    # Of its own, and nobody waits for it at the end: name resolution can't be interrupted.
    threading.Thread(target=work, name="jwks", daemon=True).start()


class Keys:
    """Keys of one source, with what is needed to read them again. `find` is for a loop's thread, `find_blocking` for any other.
    A read ends on a thread of its own and publishes its result by replacing attributes as a whole.

    Attributes:
        reads, failed_reads: reads since the start that gave keys, and that did not; for metrics.
    """

    def __init__(
        self,
        source: Source,
        pauses: Pauses,
        clock: Callable[[], float] = time.monotonic,
        run: Callable[[Callable[[], None]], None] = _on_a_thread,
    ) -> None:
        self._source = source
        self._pauses = pauses
        self._clock = clock
        self._run = run
        self._keys: tuple[PublicKey, ...] = ()
        self._lock = threading.Lock()
        self._reading: Future[None] | None = None
        self._begun = 0
        """Number of reads that have begun, those that have ended included."""
        self._next_s = clock()
        """Time at which the keys are too old, or a failed read is repeated."""
        self._asked_s = -BETWEEN_S
        """Time at which the last read began."""
        self._failures_in_a_row = 0
        self.reads = 0
        self.failed_reads = 0

    @property
    def known(self) -> bool:
        """True if there are keys, however old."""
        return bool(self._keys)

    def read_now(self) -> None:
        """Read the keys on the calling thread. Raises `SourceError`."""
        self._keys = self._parsed()
        self.reads += 1
        self._asked_s = self._clock()
        self._next_s = self._asked_s + self._pauses.refresh_s

    def begin(self, seen: int | None = None) -> Future[None]:
        """Start reading on a thread of its own, unless a read runs. When the future is done, the attributes hold the
        result. `seen`: `_begun` from before the caller looked at the attributes; a read that has begun and ended since is as
        good.
        """
        with self._lock:
            if self._reading is not None:
                return self._reading
            reading: Future[None] = Future()
            if seen is not None and seen != self._begun:
                reading.set_result(None)
                return reading
            self._begun += 1
            self._reading = reading
            self._asked_s = self._clock()
        try:
            self._run(lambda: self._read(reading))
        except RuntimeError:  # no thread is to be had now; the keys from before hold
            self._reading = None
            reading.set_result(None)
        return reading

    async def find(self, key_id: str | None, algorithm: str) -> PublicKey | None:
        """The key for a token of `algorithm`; None if there is none (then see `known`). May wait for a read.

        Waits for a reading where keys are old or that key is not there, and not while readings fail: then the old ones hold.
        """
        search = self._search(key_id, algorithm)
        while True:
            try:
                wait = next(search)
            except StopIteration as end:
                found: PublicKey | None = end.value
                return found
            await _end_of(wait.reading)

    def find_blocking(self, key_id: str | None, algorithm: str, wait: Callable[[Wait], None]) -> PublicKey | None:
        """Find a key as `find`, on a thread that may block: for as long as `wait` does, which may give up early."""
        search = self._search(key_id, algorithm)
        while True:
            try:
                wait(next(search))
            except StopIteration as end:
                found: PublicKey | None = end.value
                return found

    # -- inside

    def _search(self, key_id: str | None, algorithm: str) -> Generator[Wait, None, PublicKey | None]:
        """Steps of a look-up, without a way to wait: yields each read that has to be waited for, and returns the key or None."""
        seen = self._begun
        if self._clock() >= self._next_s or (self._reading is not None and not self._keys):
            reading = self.begin(seen)
            if not self._failures_in_a_row:
                yield Wait(reading, False)
        seen = self._begun
        found = self._select(key_id, algorithm)
        if found is None and self._may_look_again():
            yield Wait(self.begin(seen), True)
            found = self._select(key_id, algorithm)
        return found

    def _select(self, key_id: str | None, algorithm: str) -> PublicKey | None:
        """The first key with that id; for a token without an id, the one key that fits, if there is only one."""
        fitting = [key for key in self._keys if algorithm in key.algorithms]
        if key_id is None:
            return fitting[0] if len(fitting) == 1 else None
        return next((key for key in fitting if key.key_id == key_id), None)

    def _may_look_again(self) -> bool:
        """True if a read for a key that is not known may be begun, or is under way: see `BETWEEN_S`."""
        if self._reading is not None:
            return True
        now = self._clock()
        return now >= self._next_s if self._failures_in_a_row else now >= self._asked_s + BETWEEN_S

    def _parsed(self) -> tuple[PublicKey, ...]:
        try:
            return parse_keys(self._source.read())
        except ValueError as error:
            raise SourceError(f"{self._source}: {error}") from None

    def _read(self, reading: Future[None]) -> None:
        """Body of the reading thread. Sets the attributes that `find` reads before it wakes anybody."""
        try:
            keys = self._parsed()
        except SourceError as error:
            pause = min(self._pauses.retry_s * 2.0 ** min(self._failures_in_a_row, 30), self._pauses.retry_max_s)
            log.warning(
                "keys of tokens: %s; %s; next attempt in %g s at the earliest",
                error, "the ones from before stay" if self._keys else "no token can be checked", pause,
            )  # fmt: skip
            self.failed_reads += 1
            self._failures_in_a_row += 1
            self._next_s = self._clock() + pause
        except BaseException:
            self._next_s = self._clock() + self._pauses.retry_max_s
            raise
        else:
            if keys != self._keys:
                log.info("keys of tokens: %d read from %s", len(keys), self._source)
            self._keys = keys
            self.reads += 1
            self._failures_in_a_row = 0
            self._next_s = self._clock() + self._pauses.refresh_s
        finally:
            self._reading = None
            reading.set_result(None)


async def _end_of(reading: Future[None]) -> None:
    """Wait for the read, but not for ever: a name that does not resolve must not hold a client."""
    if not reading.done():
        await asyncio.wait([asyncio.wrap_future(reading)], timeout=2 * FETCH_TIMEOUT_S)
