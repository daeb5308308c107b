"""Secrets of a metadata database: left out of the copy that is backed up, or sealed in it with a key of the user's.

A sealed copy is the database without its secrets and with a table more:

    tidelog_sealed_secrets    content: 12 bytes of nonce, then AES-256-GCM of JSON
                              {"resource_configs": [row], "broker_configs": [row]}

Secrets are salted passwords (SCRAM), what the daemon made up for itself, and settings of brokers that are passwords. All else
(topics, settings, rules, quotas) can be read without the key. The key is a file of 64 hexadecimal digits; its name, which
manifests have, is a hash of it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from ...config.definitions import is_secret
from ...storage.exceptions import StorageError

SECRET_KINDS = ("scram", "secret")
"""Kinds of `resource_configs` (`broker/metadata/store.py`) that are secrets."""
EXTRA = "pip install 'tidelog[backup]'"
_TABLE = "tidelog_sealed_secrets"
_PURPOSE = b"tidelog backup secrets 1"
_NONCE_BYTES = 12
_KEY = re.compile(r"[0-9a-fA-F]{64}")
_MOST_BYTES = 4096

_RESOURCES = f"kind IN ({', '.join('?' * len(SECRET_KINDS))})"
_BROKERS = "name IN ({})"


class SecretsError(StorageError):
    """A key can't be read, or is another one."""


class Key(NamedTuple):
    """A key. `name`: what may be shown of it."""

    secret: bytes
    name: str
    path: str

    def __repr__(self) -> str:
        return f"Key({self.name})"


OMIT = Key(b"", "", "")
"""The key of who does without secrets."""


def read_key(path: str) -> Key:
    """The key in a file. SecretsError, with one sentence."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            text = file.read(_MOST_BYTES).strip()
    except OSError as error:
        raise SecretsError(f"{path}: the key of the backup's secrets can't be read: {error.strerror}") from None
    if _KEY.fullmatch(text) is None:
        raise SecretsError(
            f"{path} is no key: write 64 hexadecimal digits into it, as `openssl rand -hex 32` makes them"
        )
    secret = bytes.fromhex(text)
    return Key(secret, hashlib.blake2b(secret, digest_size=8, person=b"tidelog key").hexdigest(), path)


def without_secrets(data: bytes) -> bytes:
    """The database without its secrets."""
    with _opened(data) as database:
        _take_out(database)
        return _image(database)


def sealed(data: bytes, key: Key) -> bytes:
    """The database with its secrets sealed. SecretsError: a library is missing."""
    cipher = cipher_of(key)
    with _opened(data) as database:
        rows = json.dumps(_take_out(database)).encode()
        nonce = os.urandom(_NONCE_BYTES)
        database.execute(f"CREATE TABLE {_TABLE} (content BLOB NOT NULL)")
        content = nonce + cipher.encrypt(nonce, rows, _PURPOSE)
        database.execute(f"INSERT INTO {_TABLE} VALUES (?)", (content,))  # noqa: S608 (our own word)
        return _image(database)


def unsealed(data: bytes, key: Key) -> bytes:
    """The database with its secrets again; with OMIT, without them. SecretsError: another key, or damage."""
    with _opened(data) as database:
        row = database.execute(f"SELECT content FROM {_TABLE}").fetchone()  # noqa: S608
        database.execute(f"DROP TABLE {_TABLE}")
        if key is not OMIT:
            _put_back(database, _unsealed_rows(bytes(row[0]), key))
        return _image(database)


def is_sealed(data: bytes) -> bool:
    """True if a database has sealed secrets."""
    with _opened(data) as database:
        found = database.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (_TABLE,)).fetchone()
        return found is not None


def check_key(name: str, key: Key | None) -> Key:
    """The key, if secrets that were sealed with the one of that name can be opened with it, or OMIT. SecretsError."""
    if key is None:
        raise SecretsError(
            f"passwords in this cut are sealed with the key {name}: set backup.secrets.key.file to its file, or restore without "
            "them (--without-secrets)"
        )
    if key is not OMIT and key.name != name:
        raise SecretsError(
            f"passwords in this cut are sealed with the key {name}, and {key.path} has the key {key.name}: name the other file, "
            "or restore without them (--without-secrets)"
        )
    return key


def _unsealed_rows(content: bytes, key: Key) -> dict[str, list[list[Any]]]:
    from cryptography.exceptions import InvalidTag

    cipher = cipher_of(key)
    try:
        rows: dict[str, list[list[Any]]] = json.loads(
            cipher.decrypt(content[:_NONCE_BYTES], content[_NONCE_BYTES:], _PURPOSE)
        )
    except (InvalidTag, ValueError):
        raise SecretsError(
            f"{key.path}: the secrets of this backup can't be opened with it: they are damaged"
        ) from None
    return rows


def cipher_of(key: Key) -> Any:
    """The cipher of a key. SecretsError: the library is not installed."""
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ModuleNotFoundError:
        raise SecretsError(f"backup.secrets=encrypt needs cryptography, which is not installed; {EXTRA}") from None
    return AESGCM(key.secret)


@contextmanager
def _opened(data: bytes) -> Iterator[sqlite3.Connection]:
    """The database in memory."""
    database = sqlite3.connect(":memory:")
    try:
        image = bytearray(data)
        image[18:20] = b"\1\1"  # of a database in WAL mode, which one in memory can't be
        database.deserialize(bytes(image))
        yield database
    finally:
        database.close()


def _image(database: sqlite3.Connection) -> bytes:
    database.commit()
    database.execute("VACUUM")  # what was deleted is in free pages else
    return database.serialize()


def _take_out(database: sqlite3.Connection) -> dict[str, list[list[Any]]]:
    """Delete the secrets; returns their rows."""
    there = database.execute("SELECT DISTINCT name FROM broker_configs").fetchall()
    names = [name for (name,) in there if is_secret(name)]
    found: dict[str, list[list[Any]]] = {}
    for table, where, values in (
        ("resource_configs", _RESOURCES, list(SECRET_KINDS)),
        ("broker_configs", _BROKERS.format(", ".join("?" * len(names))), names),
    ):
        columns = "kind, resource, name, value" if table == "resource_configs" else "node, name, value"
        rows = database.execute(f"SELECT {columns} FROM {table} WHERE {where}", values).fetchall()  # noqa: S608 (our own words)
        found[table] = [list(row) for row in rows]
        database.execute(f"DELETE FROM {table} WHERE {where}", values)  # noqa: S608
    return found


def _put_back(database: sqlite3.Connection, rows: dict[str, list[list[Any]]]) -> None:
    database.executemany("INSERT OR REPLACE INTO resource_configs VALUES (?, ?, ?, ?)", rows["resource_configs"])
    database.executemany("INSERT OR REPLACE INTO broker_configs VALUES (?, ?, ?)", rows["broker_configs"])
