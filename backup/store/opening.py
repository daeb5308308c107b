"""Which URL is which store."""

from __future__ import annotations

import threading
from urllib.parse import unquote, urlsplit

from .cloud import CloudStore
from .errors import StoreError
from .files import FileStore
from .interface import ObjectStore, StoreOptions
from .memory import MemoryStore

SCHEMES = ("file://", "s3://", "gs://", "az://", "memory:")

_named: dict[str, MemoryStore] = {}
_named_lock = threading.Lock()


def open_store(url: str, options: StoreOptions | None = None) -> ObjectStore:
    """The store of an URL; StoreError says what is wrong with it. Nothing is asked of the store yet: see `probe`.

    `memory:` is a new store in this process, `memory:NAME` the one of that name.
    """
    options = options or StoreOptions()
    if url == "memory:":
        return MemoryStore()
    if url.startswith("memory:"):
        with _named_lock:
            return _named.setdefault(url, MemoryStore(url))
    if url.startswith("file://"):
        return FileStore(_path_of(url))
    if url.startswith(("s3://", "gs://", "az://")):
        return CloudStore(url, options)
    raise StoreError("open", url, "", "not the URL of a store", f"one begins with {', '.join(SCHEMES)}")


def _path_of(url: str) -> str:
    """The absolute path of a file:// URL."""
    parts = urlsplit(url)
    if parts.netloc not in ("", "localhost") or not parts.path.startswith("/") or parts.query or parts.fragment:
        raise StoreError("open", url, "", "not a path", "write three slashes: file:///mnt/nas/directory")
    return unquote(parts.path)
