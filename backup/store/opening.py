"""Which URL is which store."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from .cloud import CloudStore
from .errors import StoreError
from .files import FileStore
from .interface import ObjectStore, StoreOptions, without_password
from .memory import MemoryStore

if TYPE_CHECKING:
    from ...config.broker_config import BrokerConfig

PART_BYTES = 6 << 20
"""Of what a daemon and its commands upload. With one part of each upload on its way this bounds their memory: 10,000 of them are
more than a segment can be."""
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
        return FileStore(path_of(url))
    if url.startswith(("s3://", "gs://", "az://")):
        return CloudStore(url, options)
    problem = "not the URL of a store"
    raise StoreError("open", without_password(url), "", problem, f"one begins with {', '.join(SCHEMES)}")


def options_of(config: BrokerConfig) -> StoreOptions:
    """What the settings say of the store. What they leave out is found as the clouds' own SDKs find it."""
    return StoreOptions(
        endpoint=config.backup_endpoint.rstrip("/"),
        region=config.backup_region,
        path_style=config.backup_path_style,
        access_key_id=config.backup_access_key_id,
        secret_access_key=config.backup_secret_access_key or "",
        session_token=config.backup_session_token or "",
        credentials_file=config.backup_credentials_file,
        ca_file=config.backup_ca_file,
        allow_http=config.backup_endpoint.startswith("http://"),
        part_bytes=PART_BYTES,
        parts_at_once=1,
    )


def check_url(url: str, options: StoreOptions) -> None:
    """StoreError if no store of that URL can come about: it is wrong, an option is, or what it needs is not installed.

    Asks nothing of a disk or a network: a share that is not mounted yet is no error here.
    """
    if url.startswith("file://"):
        path_of(url)
    else:
        open_store(url, options).close()


def path_of(url: str) -> str:
    """The absolute path of a file:// URL."""
    parts = urlsplit(url)
    if parts.netloc not in ("", "localhost") or not parts.path.startswith("/") or parts.query or parts.fragment:
        shown = without_password(url)
        raise StoreError("open", shown, "", "not a path", "write three slashes: file:///mnt/nas/directory")
    return unquote(parts.path)
