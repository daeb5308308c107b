"""The public keys that tokens are signed with (RFC 7517), kept and read again: when they get old, and when a token names
one that is not there, which is how a rotation shows.

Reading is done by one thread at a time, never by the loop. Nobody can make it happen more often than every
`BETWEEN_S` seconds, or than the pauses after failures allow.
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

import jwt

from .jwks_source import FETCH_TIMEOUT_S, Source, SourceError

log = logging.getLogger(__name__)

MAX_KEYS = 1000
BETWEEN_S = 5.0
"""Seconds between two readings that tokens with unknown keys ask for: they cost a stranger nothing."""

_RSA = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
# What a key can sign, by its type and curve (RFC 7518, RFC 8037). Secrets that both sides know ("oct") are not here: with one of
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
    """One key of the set. `algorithms`: what it may be used with, by its own word or by its type; never by a token's."""

    key_id: str | None
    algorithms: tuple[str, ...]
    key: Any


class Pauses(NamedTuple):
    """Seconds: how old keys may get, and how long to wait after failures, doubled from one to the next."""

    refresh_s: float
    retry_s: float
    retry_max_s: float


class Wait(NamedTuple):
    """What who looks for a key has to wait for. `is_asked_for`: this token's name of a key caused it, which a stranger can do."""

    reading: Future[None]
    is_asked_for: bool


def parse_keys(data: bytes) -> tuple[PublicKey, ...]:
    """The keys of a set that signatures can be checked with. ValueError where that is no key set, or has none.

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
    """The keys of one source. `find` is for a loop's thread, `find_blocking` for any other; a reading ends on its own thread by
    setting attributes whole."""

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
        self._next_s = clock()
        """When the keys are too old, or a failed reading is tried again."""
        self._asked_s = -BETWEEN_S
        """When a reading was last begun."""
        self._failures_in_a_row = 0
        self.reads = 0
        self.failed_reads = 0

    @property
    def known(self) -> bool:
        """Whether there are keys, be they old."""
        return bool(self._keys)

    def read_now(self) -> None:
        """Reads on this thread. Raises `SourceError`."""
        self._keys = self._parsed()
        self.reads += 1
        self._asked_s = self._clock()
        self._next_s = self._asked_s + self._pauses.refresh_s

    def begin(self) -> Future[None]:
        """Reads on a thread of its own, unless that is being done. The result is there when the future is done, not in it."""
        with self._lock:
            if self._reading is not None:
                return self._reading
            reading: Future[None] = Future()
            self._reading = reading
            self._asked_s = self._clock()
        try:
            self._run(lambda: self._read(reading))
        except RuntimeError:  # no thread is to be had now; the keys from before hold
            self._reading = None
            reading.set_result(None)
        return reading

    async def find(self, key_id: str | None, algorithm: str) -> PublicKey | None:
        """The key that a token of `algorithm` names. None: there is none; see `known` for whether there are any.

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
        """The same on a thread that may block, for as long as `wait` does, which need not wait to the end."""
        search = self._search(key_id, algorithm)
        while True:
            try:
                wait(next(search))
            except StopIteration as end:
                found: PublicKey | None = end.value
                return found

    # -- inside

    def _search(self, key_id: str | None, algorithm: str) -> Generator[Wait, None, PublicKey | None]:
        if self._clock() >= self._next_s or (self._reading is not None and not self._keys):
            reading = self.begin()
            if not self._failures_in_a_row:
                yield Wait(reading, False)
        found = self._select(key_id, algorithm)
        if found is None and self._may_look_again():
            yield Wait(self.begin(), True)
            found = self._select(key_id, algorithm)
        return found

    def _select(self, key_id: str | None, algorithm: str) -> PublicKey | None:
        """The first with that name; for a token without one, the key that fits if it is the only one."""
        fitting = [one for one in self._keys if algorithm in one.algorithms]
        if key_id is None:
            return fitting[0] if len(fitting) == 1 else None
        return next((one for one in fitting if one.key_id == key_id), None)

    def _may_look_again(self) -> bool:
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
        """Thread of its own. The attributes that `find` decides by are set before anybody is woken."""
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
    """Of the reading, or of patience: a name that is not resolved is nobody's fault here, and must not hold a client."""
    if not reading.done():
        await asyncio.wait([asyncio.wrap_future(reading)], timeout=2 * FETCH_TIMEOUT_S)
