"""What an object store is, for backups.

An object is some bytes under a key. It is whole or not there, and never changed: there is no append and no overwriting.
Keys are ASCII letters, digits and `-_.=+,@`, in parts that `/` separates; no part is empty, begins with a dot or is longer than
200 characters, and no key continues another as a directory (`a` and `a/b`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

_KEY = re.compile(r"[A-Za-z0-9_=+,@-][A-Za-z0-9_=+,@.-]{0,199}(?:/[A-Za-z0-9_=+,@-][A-Za-z0-9_=+,@.-]{0,199})*")
_LONGEST_KEY = 800


class Stored(NamedTuple):
    """One object of a listing: its key, bytes, and when the store took it (ms since 1970, the store's clock)."""

    key: str
    size: int
    modified_ms: int


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """What an URL does not say. Empty or None: as the cloud's own SDKs find it (environment, profile, instance role)."""

    endpoint: str = ""
    """URL of an S3-compatible server, or of an emulator."""
    region: str = ""
    path_style: bool = True
    """S3: the bucket is the first part of the path; False: it is the first label of the host's name."""
    access_key_id: str = ""
    """S3: access key; Azure: name of the account. Google takes `credentials_file`."""
    secret_access_key: str = field(default="", repr=False)
    """S3: secret key; Azure: key of the account."""
    session_token: str = field(default="", repr=False)
    credentials_file: str = ""
    """Google Cloud: path of a service account's JSON file."""
    allow_http: bool = False
    """Plain HTTP to `endpoint`: for servers on the same machine or network."""
    ca_file: str = ""
    """PEM file of certificate authorities to trust beside the system's."""
    timeout_s: float = 30.0
    """Of one request, from connecting to the last byte of its answer."""
    connect_timeout_s: float = 5.0
    retries: int = 3
    """Of one request, with growing pauses; a caller that goes on by itself wants few."""
    retry_timeout_s: float = 60.0
    """No further try of a request later than this after its first."""
    part_bytes: int = 8 << 20
    """`upload` sends parts of this size: 5 MiB to 5 GiB in S3, which takes 10,000 of them."""
    parts_at_once: int = 2
    """Parts on their way at one time: `upload` holds up to this and one more in memory."""


class ObjectStore(Protocol):
    """Objects under keys. Calls block and may come from any threads at once; not from the event loop's.

    Every call may raise `Denied` (trying again does not help) and `Unavailable` (it does; a `create`, `upload` or
    `delete` that ends so may have worked). ValueError: not a key.
    """

    @property
    def name(self) -> str:
        """The store's URL without secrets, for messages."""

    def create(self, key: str, data: bytes) -> None:
        """Keep `data` (up to some MiB) under a key that has nothing. Durable on return.

        AlreadyThere if there is an object, which stays as it is. Of two callers one alone succeeds. After an answer that was
        lost the object may be one's own: who must know compares contents.
        """

    def upload(self, key: str, size: int, blocks: Iterable[bytes]) -> None:
        """Keep a large object of `size` bytes, taken block by block and sent in parts: memory is bounded by some parts.

        Durable on return; until then, and after any error, nothing has this key. The same key again, with the same content, is
        harmless. StoreError if the blocks are not `size` bytes together; what iterating over them raises is raised.
        """

    def read(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        """Up to `length` bytes from `start`, fewer only at the object's end; all of the rest without `length`. NotThere."""

    def list(self, prefix: str, after: str = "") -> Iterator[Stored]:
        """Objects whose keys begin with `prefix` (empty, or with `/` at its end) and come behind `after`, in order of their
        keys as ASCII. What is created or deleted meanwhile may be in it or not. Nothing found is no error.
        """

    def delete(self, keys: Sequence[str]) -> None:
        """Remove objects; missing ones are no error. After an error some may be gone."""

    def close(self) -> None:
        """Let go of connections; no call comes after it."""


def without_password(url: str) -> str:
    """An URL as messages may show it, where somebody has put credentials before the host or bucket."""
    scheme, separator, rest = url.partition("://")
    place, slash, path = rest.partition("/")
    return f"{scheme}{separator}…@{place.rpartition('@')[2]}{slash}{path}" if "@" in place else url


def check_key(key: str) -> str:
    """The key; ValueError if it is not one in every store."""
    if len(key) > _LONGEST_KEY or _KEY.fullmatch(key) is None:
        raise ValueError(f"not a key of an object: {key!r}")
    return key


def check_prefix(prefix: str) -> str:
    """The prefix of a listing; ValueError if it is none."""
    if prefix and not (prefix.endswith("/") and _KEY.fullmatch(prefix[:-1])):
        raise ValueError(f"not a prefix of keys (empty, or parts and a / behind each): {prefix!r}")
    return prefix


def blocks_of_size(blocks: Iterable[bytes], size: int, part: int) -> Iterator[bytes]:
    """The same bytes in pieces of up to `part` bytes; raises WrongSize, before the last is given out, if they are not `size`."""
    seen = 0
    for block in blocks:
        seen += len(block)
        if seen > size:
            raise WrongSize(f"more than the {size} bytes that were announced")
        for start in range(0, len(block), part):
            yield block[start : start + part]
    if seen != size:
        raise WrongSize(f"{seen} bytes instead of the {size} that were announced")


class WrongSize(Exception):
    """Blocks were not as many bytes as announced; stores make a StoreError of it."""
