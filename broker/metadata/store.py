"""MetadataStore: `metadata.db` in the first log directory, with topics, their ids and settings, and assigned producer
ids.

SQLite (WAL, synchronous=FULL: a commit is an fsync), on one thread of its own. The loop thread never waits for it:
reads come from what `open` returned, writes are futures. Writes that wait together share one commit. The file is made,
and sqlite3 imported, when there is something to store or to read.

Cost of losing the file: topics' own settings, never logs. Each partition directory names its topic and has its
topic id in `partition.metadata`, so topics are found again on the next start (`topics.py`). A damaged file is
therefore an error that says so, and never replaced silently: retention might delete what a lost setting kept.

    topics          name, topic_id (16 bytes), partitions, created_ms, deleting (1: deletion is to be finished)
    topic_makers    topic, principal, partitions that it made and are there, made_topic (1: it made the topic itself)
    topic_configs   topic, name, value
    producer_ids    one row: next_id, the first id that no block given out has in it
    broker_configs  node ('' is every node), name, value: what Apache Kafka keeps of brokers' settings in its metadata
    features        name, level: likewise, the finalised levels of features
    resource_configs  kind ('quota', 'group', 'client-metrics', 'scram', 'acl'), resource, name, value: what else can be set;
                      of the kind 'secret' what this daemon made up once for itself, which `read` and `replace` leave alone
    kraft           at most one row: position, that of Kafka's metadata log when it was last read or written
    topology_descriptions  group, epoch of its topology, description: the bytes of a `TopologyDescription` of the protocol
    PRAGMA user_version is the schema's version, application_id says that the file is ours. Its mode is 0600.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from uuid import UUID

from ...storage.exceptions import DataDirectoryError, KafkaStorageError
from ...storage.io.filesystem import RealFileSystem
from ...storage.io.platform import sync_all
from .creation_limits import NOBODY, NOBODYS, Makers

if TYPE_CHECKING:
    import sqlite3

T = TypeVar("T")

FILE_NAME = "metadata.db"
SCHEMA_VERSION = 5
APPLICATION_ID = 0x7469646C  # "tidl"

_SMALLEST_PAGE = 512
_CHUNK_BYTES = 1 << 20

_SCHEMA = """
CREATE TABLE topics (
    name TEXT PRIMARY KEY,
    topic_id BLOB NOT NULL UNIQUE CHECK (length(topic_id) = 16),
    partitions INTEGER NOT NULL CHECK (partitions > 0),
    created_ms INTEGER NOT NULL,
    deleting INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE TABLE topic_configs (
    topic TEXT NOT NULL REFERENCES topics (name) ON DELETE CASCADE,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (topic, name)
) WITHOUT ROWID;
CREATE TABLE producer_ids (next_id INTEGER NOT NULL CHECK (next_id >= 0));
INSERT INTO producer_ids VALUES (0);
"""
# Since version 2.
_KRAFT_SCHEMA = """
CREATE TABLE broker_configs (
    node TEXT NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (node, name)
) WITHOUT ROWID;
CREATE TABLE features (name TEXT PRIMARY KEY, level INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE kraft (position TEXT NOT NULL);
"""
# Since version 3.
_RESOURCES_SCHEMA = """
CREATE TABLE resource_configs (
    kind TEXT NOT NULL,
    resource TEXT NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (kind, resource, name)
) WITHOUT ROWID;
"""
# Since version 4.
_MAKERS_SCHEMA = """
CREATE TABLE topic_makers (
    topic TEXT NOT NULL REFERENCES topics (name) ON DELETE CASCADE,
    principal TEXT NOT NULL,
    partitions INTEGER NOT NULL CHECK (partitions > 0),
    made_topic INTEGER NOT NULL,
    PRIMARY KEY (topic, principal)
) WITHOUT ROWID;
"""
# Since version 5.
_DESCRIPTIONS_SCHEMA = """
CREATE TABLE topology_descriptions (
    group_id TEXT PRIMARY KEY,
    epoch INTEGER NOT NULL,
    description BLOB NOT NULL
);
"""
_LATER_SCHEMAS = {
    1: _KRAFT_SCHEMA + _RESOURCES_SCHEMA + _MAKERS_SCHEMA + _DESCRIPTIONS_SCHEMA,
    2: _RESOURCES_SCHEMA + _MAKERS_SCHEMA + _DESCRIPTIONS_SCHEMA,
    3: _MAKERS_SCHEMA + _DESCRIPTIONS_SCHEMA,
    4: _DESCRIPTIONS_SCHEMA,
}
"""Schema statements that a file of an older version lacks."""
_TABLES = (
    "topic_configs", "topic_makers", "topics", "broker_configs", "features", "kraft", "producer_ids", "topology_descriptions",
)  # fmt: skip

QUOTA, GROUP, CLIENT_METRICS, SCRAM, ACL = "quota", "group", "client-metrics", "scram", "acl"
"""Kinds of resources besides topics and brokers."""
_SECRET = "secret"  # noqa: S105 (the kind's name)
_SECRET_BYTES = 32


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """A topic as stored."""

    name: str
    topic_id: UUID
    partitions: int
    overrides: Mapping[str, str]
    created_ms: int
    deleting: bool = False
    makers: Makers = NOBODYS


class StoredDescription(NamedTuple):
    """What is known of a topology description that is stored: its topology's epoch, and its bytes' number."""

    epoch: int
    size: int


@dataclass(frozen=True, slots=True)
class StoredMetadata:
    """Contents of the file.

    Attributes:
        topics: by name.
        broker_configs: node id as text, or '' for every node → name → value.
        features: finalised levels that Apache Kafka or UpdateFeatures wrote; empty where neither has.
        next_producer_id: the first that no block given out has in it.
        resources: kind → resource → name → value.
        kraft_position: `MetadataLogFiles.position` of Kafka's metadata log that this was taken from, or that was
            written from this; '' for neither.
        descriptions: group → its topology's description. Written by `set_topology_description` alone: `replace` forgets all.
    """

    topics: tuple[TopicRecord, ...] = ()
    broker_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    features: Mapping[str, int] = field(default_factory=dict)
    next_producer_id: int = 0
    kraft_position: str = ""
    resources: Mapping[str, Mapping[str, Mapping[str, str]]] = field(default_factory=dict)
    descriptions: Mapping[str, StoredDescription] = field(default_factory=dict)


class MetadataStore:
    """`open`, `read`, `replace`, `secret` and `close` block and may be called from any thread; the rest is for the loop
    thread and returns futures.

    A future fails with `KafkaStorageError` when the disk refused; what it was to write is then not stored.
    """

    def __init__(self, directory: str) -> None:
        """`directory`: the first log directory. Does no I/O."""
        self.path = os.path.join(directory, FILE_NAME)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="metadata")
        self._database: sqlite3.Connection | None = None
        self._lock = threading.Lock()
        self.changes = 0
        """Number of writes requested since the start."""
        # Writes that no commit has taken yet, with the futures that wait for it.
        self._queue: list[tuple[Callable[[sqlite3.Connection], Any], asyncio.Future[Any]] | Future[bytes | None]] = []

    def open(self) -> list[TopicRecord]:
        """Read all stored topics; none without a file. The directory's lock must be held.

        Raises `DataDirectoryError` when the file is damaged, not ours, newer than this program, or can't be read.
        """
        return list(self.read().topics)

    def read(self) -> StoredMetadata:
        """Read the whole file, as `open` does."""
        if not os.path.exists(self.path):
            return StoredMetadata()
        return self._thread.submit(self._read).result()

    def replace(self, metadata: StoredMetadata) -> None:
        """Replace the whole contents, in one commit. Called before the loop thread writes.

        Raises `KafkaStorageError`; the file is then as it was.
        """
        self._thread.submit(self._replace, metadata).result()

    def secret(self, name: str) -> bytes:
        """32 random bytes: made on first use, then the same in every run of the daemon.

        Raises `KafkaStorageError` where they can be neither read nor kept.
        """
        return self._thread.submit(self._secret, name).result()

    def close(self) -> None:
        """Wait for pending writes and close the file. Nothing may be written afterwards."""
        self._thread.submit(self._disconnect).result()
        self._thread.shutdown()

    # -- writes: loop thread

    def add_topic(self, record: TopicRecord) -> asyncio.Future[None]:
        """Store a new topic with its settings."""

        def write(database: sqlite3.Connection) -> None:
            database.execute(
                "INSERT INTO topics (name, topic_id, partitions, created_ms) VALUES (?, ?, ?, ?)",
                (record.name, record.topic_id.bytes, record.partitions, record.created_ms),
            )
            _insert_overrides(database, record.name, record.overrides)
            _insert_makers(database, record.name, record.makers)

        return self._write(write)

    def mark_deleting(self, name: str) -> asyncio.Future[None]:
        """Mark a topic as deleted: clients no longer see it, its directories are removed later."""
        return self._execute("UPDATE topics SET deleting = 1 WHERE name = ?", name)

    def remove_topic(self, name: str) -> asyncio.Future[None]:
        """Remove a topic and its settings, if it is there."""
        return self._execute("DELETE FROM topics WHERE name = ?", name)

    def set_partitions(self, name: str, partitions: int, makers: Makers) -> asyncio.Future[None]:
        """Replace a topic's number of partitions and their makers."""

        def write(database: sqlite3.Connection) -> None:
            database.execute("UPDATE topics SET partitions = ? WHERE name = ?", (partitions, name))
            database.execute("DELETE FROM topic_makers WHERE topic = ?", (name,))
            _insert_makers(database, name, makers)

        return self._write(write)

    def set_topic_id(self, name: str, topic_id: UUID) -> asyncio.Future[None]:
        return self._execute("UPDATE topics SET topic_id = ? WHERE name = ?", topic_id.bytes, name)

    def set_overrides(self, name: str, overrides: Mapping[str, str]) -> asyncio.Future[None]:
        """Replace all of a topic's own settings."""

        def write(database: sqlite3.Connection) -> None:
            database.execute("DELETE FROM topic_configs WHERE topic = ?", (name,))
            _insert_overrides(database, name, overrides)

        return self._write(write)

    def set_broker_configs(self, node: str, settings: Mapping[str, str]) -> asyncio.Future[None]:
        """Replace all dynamic settings of a node ('': of every node)."""

        def write(database: sqlite3.Connection) -> None:
            database.execute("DELETE FROM broker_configs WHERE node = ?", (node,))
            database.executemany(
                "INSERT INTO broker_configs (node, name, value) VALUES (?, ?, ?)",
                [(node, name, value) for name, value in settings.items()],
            )

        return self._write(write)

    def set_feature(self, name: str, level: int) -> asyncio.Future[None]:
        """Store the finalized level of a feature."""
        return self._execute("INSERT OR REPLACE INTO features (name, level) VALUES (?, ?)", name, level)

    def set_resource(self, kind: str, resource: str, settings: Mapping[str, str]) -> asyncio.Future[None]:
        """Replace all settings of one resource; an empty mapping removes it."""
        return self.set_resources(kind, {resource: settings})

    def set_resources(self, kind: str, resources: Mapping[str, Mapping[str, str]]) -> asyncio.Future[None]:
        """`set_resource` for several, in one commit."""

        def write(database: sqlite3.Connection) -> None:
            database.executemany(
                "DELETE FROM resource_configs WHERE kind = ? AND resource = ?", [(kind, name) for name in resources]
            )
            _insert_resources(database, {kind: resources})

        return self._write(write)

    def set_topology_description(self, group_id: str, epoch: int, description: bytes) -> asyncio.Future[None]:
        """Store the description of a group's topology in place of the one there is."""
        return self._execute(
            "INSERT OR REPLACE INTO topology_descriptions (group_id, epoch, description) VALUES (?, ?, ?)",
            group_id,
            epoch,
            description,
        )

    def remove_topology_descriptions(self, group_ids: Collection[str]) -> asyncio.Future[None]:
        """Remove the descriptions of these groups' topologies, as far as there are any."""

        def write(database: sqlite3.Connection) -> None:
            database.executemany(
                "DELETE FROM topology_descriptions WHERE group_id = ?", [(group_id,) for group_id in group_ids]
            )

        return self._write(write)

    def topology_description(self, group_id: str) -> asyncio.Future[bytes | None]:
        """Read the description of a group's topology; None if there is none. Fails as writes do."""
        return asyncio.wrap_future(self._thread.submit(self._topology_description, group_id))

    def reserve_producer_ids(self, count: int, at_least: int = 0) -> asyncio.Future[int]:
        """The first of `count` producer ids, none below `at_least`, that no caller had before or will have after."""

        def write(database: sqlite3.Connection) -> int:
            first = max(int(database.execute("SELECT next_id FROM producer_ids").fetchone()[0]), at_least)
            database.execute("UPDATE producer_ids SET next_id = ?", (first + count,))
            return first

        return self._write(write)

    def copy(self) -> Future[bytes | None]:
        """A copy of the database, as a file's content, with every write requested so far and none requested later; None: no file.

        Made on the metadata thread. The future is another thread's to wait for; it fails as writes do.
        """
        future: Future[bytes | None] = Future()
        with self._lock:
            self._queue.append(future)
            first = len(self._queue) == 1
        if first:
            self._thread.submit(self._commit_queued)
        return future

    # -- inside

    def _execute(self, statement: str, *arguments: object) -> asyncio.Future[None]:
        def write(database: sqlite3.Connection) -> None:
            database.execute(statement, arguments)

        return self._write(write)

    def _write(self, write: Callable[[sqlite3.Connection], T]) -> asyncio.Future[T]:
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.changes += 1
        with self._lock:
            self._queue.append((write, future))
            first = len(self._queue) == 1
        if first:  # else the commit that is about to start takes this one too
            self._thread.submit(self._commit_queued)
        return future

    def _commit_queued(self) -> None:
        """Write everything queued: in one transaction, or in one before each copy that is asked for. Metadata thread."""
        with self._lock:
            queue, self._queue = self._queue, []
        batch: list[tuple[Callable[[sqlite3.Connection], Any], asyncio.Future[Any]]] = []
        for entry in queue:
            if isinstance(entry, Future):
                self._commit(batch)
                batch = []
                self._make_copy(entry)
            else:
                batch.append(entry)
        self._commit(batch)

    def _commit(self, batch: Sequence[tuple[Callable[[sqlite3.Connection], Any], asyncio.Future[Any]]]) -> None:
        """Write these in one transaction; each in its own, if one of them can't be and it is not the disk that refuses."""
        if not batch:
            return
        import sqlite3

        results: list[Any] = []
        failure: Exception | None = None
        try:
            database = self._connect()
            with database:  # commits, or rolls back after an exception
                results.extend(write(database) for write, _ in batch)
        except Exception as error:
            if len(batch) > 1 and not isinstance(error, (sqlite3.OperationalError, OSError)):
                for entry in batch:
                    self._commit([entry])
                return
            failure = KafkaStorageError(f"{self.path}: can't be written: {error}")
            failure.__cause__ = error
        loop = batch[0][1].get_loop()
        loop.call_soon_threadsafe(_settle, [future for _, future in batch], results, failure)

    def _make_copy(self, future: Future[bytes | None]) -> None:
        """Body of `copy`, on the metadata thread."""
        import sqlite3

        try:
            if self._database is None and not os.path.exists(self.path):
                future.set_result(None)
                return
            copy = sqlite3.connect(":memory:")
            try:
                self._connect().backup(copy)
                future.set_result(copy.serialize())
            finally:
                copy.close()
        except Exception as error:
            failure = KafkaStorageError(f"{self.path}: can't be read: {error}")
            failure.__cause__ = error
            future.set_exception(failure)

    def _connect(self) -> sqlite3.Connection:
        """The open database, created with its tables if missing. Metadata thread."""
        if self._database is None:
            import sqlite3  # a start that stores nothing does without it

            is_new = not os.path.exists(self.path)
            _keep_to_owner(self.path)
            try:
                # SQLite would believe what a sync that failed has left in memory alone, and commit behind it.
                _write_again(f"{self.path}-wal")
            except FileNotFoundError:
                pass  # as a clean stop leaves it
            except OSError as error:
                raise sqlite3.OperationalError(f"its write-ahead log: {error.strerror or error}") from error
            database = sqlite3.connect(self.path)
            try:
                database.execute("PRAGMA journal_mode = WAL")
                database.execute("PRAGMA synchronous = FULL")
                database.execute("PRAGMA foreign_keys = ON")
                if is_new or _is_empty(database):
                    database.executescript(
                        f"BEGIN;{_SCHEMA}{_LATER_SCHEMAS[1]}PRAGMA user_version = {SCHEMA_VERSION};"
                        f"PRAGMA application_id = {APPLICATION_ID};COMMIT;"
                    )
                    _sync_directory(os.path.dirname(self.path))
                elif _pragma(database, "application_id") == APPLICATION_ID and (
                    lacking := _LATER_SCHEMAS.get(_pragma(database, "user_version"))
                ):
                    database.executescript(f"BEGIN;{lacking}PRAGMA user_version = {SCHEMA_VERSION};COMMIT;")
            except BaseException:
                database.close()
                raise
            self._database = database
        return self._database

    def _disconnect(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None

    def _secret(self, name: str) -> bytes:
        """Body of `secret`, on the metadata thread."""
        import sqlite3

        try:
            database = self._connect()
            with database:
                database.execute(
                    "INSERT OR IGNORE INTO resource_configs (kind, resource, name, value) VALUES (?, ?, '', ?)",
                    (_SECRET, name, os.urandom(_SECRET_BYTES).hex()),
                )
            found = database.execute(
                "SELECT value FROM resource_configs WHERE kind = ? AND resource = ?", (_SECRET, name)
            ).fetchone()
            return bytes.fromhex(found[0])
        except (sqlite3.Error, ValueError) as error:
            raise KafkaStorageError(f"{self.path}: can't be read or written: {error}") from error

    def _topology_description(self, group_id: str) -> bytes | None:
        """Body of `topology_description`, on the metadata thread."""
        import sqlite3

        try:
            found = (
                self._connect()
                .execute("SELECT description FROM topology_descriptions WHERE group_id = ?", (group_id,))
                .fetchone()
            )
        except sqlite3.Error as error:
            raise KafkaStorageError(f"{self.path}: can't be read: {error}") from error
        return None if found is None else bytes(found[0])

    def _replace(self, metadata: StoredMetadata) -> None:
        """Body of `replace`, on the metadata thread."""
        import sqlite3

        try:
            database = self._connect()
            with database:
                for table in _TABLES:
                    database.execute(f"DELETE FROM {table}")  # noqa: S608 (our own names)
                database.execute("DELETE FROM resource_configs WHERE kind <> ?", (_SECRET,))
                for topic in metadata.topics:
                    database.execute(
                        "INSERT INTO topics (name, topic_id, partitions, created_ms, deleting) VALUES (?, ?, ?, ?, ?)",
                        (topic.name, topic.topic_id.bytes, topic.partitions, topic.created_ms, topic.deleting),
                    )
                    _insert_overrides(database, topic.name, topic.overrides)
                    _insert_makers(database, topic.name, topic.makers)
                database.executemany(
                    "INSERT INTO broker_configs (node, name, value) VALUES (?, ?, ?)",
                    [
                        (node, name, value)
                        for node, configs in metadata.broker_configs.items()
                        for name, value in configs.items()
                    ],
                )
                database.executemany("INSERT INTO features (name, level) VALUES (?, ?)", metadata.features.items())
                database.execute("INSERT INTO producer_ids VALUES (?)", (metadata.next_producer_id,))
                _insert_resources(database, metadata.resources)
                if metadata.kraft_position:
                    database.execute("INSERT INTO kraft VALUES (?)", (metadata.kraft_position,))
        except sqlite3.Error as error:
            raise KafkaStorageError(f"{self.path}: can't be written: {error}") from error

    def _read(self) -> StoredMetadata:
        """Body of `read`, on the metadata thread."""
        import sqlite3

        try:
            # SQLite takes less than a page for an empty database, and would write over what is left of ours.
            if 0 < os.path.getsize(self.path) < _SMALLEST_PAGE:
                raise sqlite3.DatabaseError("the file was cut short")
            database = self._connect()
            version = _pragma(database, "user_version")
            if _pragma(database, "application_id") != APPLICATION_ID:
                raise DataDirectoryError(self.path, "is not tidelog's metadata", "move it away")
            if version > SCHEMA_VERSION:
                raise DataDirectoryError(
                    self.path, f"was written by a newer tidelog (schema {version})", "start that version"
                )
            if (verdict := database.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
                raise sqlite3.DatabaseError(verdict)
            return _stored(database)
        except sqlite3.Error as error:
            self._disconnect()
            raise DataDirectoryError(
                self.path,
                f"can't be read: {error}",
                "if it is damaged, move it away: topics are then found by their directories, with the broker's "
                "settings; give them their own again with any client's AlterConfigs",
            ) from error
        except DataDirectoryError:
            self._disconnect()
            raise


def _stored(database: sqlite3.Connection) -> StoredMetadata:
    """All that the tables hold. sqlite3.Error."""
    overrides: dict[str, dict[str, str]] = {}
    for topic, name, value in database.execute("SELECT topic, name, value FROM topic_configs"):
        overrides.setdefault(topic, {})[name] = value
    broker_configs: dict[str, dict[str, str]] = {}
    for node, name, value in database.execute("SELECT node, name, value FROM broker_configs"):
        broker_configs.setdefault(node, {})[name] = value
    owners: dict[str, str] = {}
    made: dict[str, dict[str, int]] = {}
    for topic, principal, count, made_topic in database.execute(
        "SELECT topic, principal, partitions, made_topic FROM topic_makers"
    ):
        made.setdefault(topic, {})[principal] = count
        if made_topic:
            owners[topic] = principal
    topics = tuple(
        TopicRecord(
            name,
            UUID(bytes=topic_id),
            partitions,
            overrides.get(name, {}),
            created_ms,
            bool(deleting),
            Makers(owners.get(name, NOBODY), made[name]) if name in made else NOBODYS,
        )
        for name, topic_id, partitions, created_ms, deleting in database.execute(
            "SELECT name, topic_id, partitions, created_ms, deleting FROM topics ORDER BY name"
        )
    )
    position = database.execute("SELECT position FROM kraft").fetchone()
    resources: dict[str, dict[str, dict[str, str]]] = {}
    for kind, resource, name, value in database.execute(
        "SELECT kind, resource, name, value FROM resource_configs WHERE kind <> ?", (_SECRET,)
    ):
        resources.setdefault(kind, {}).setdefault(resource, {})[name] = value
    return StoredMetadata(
        topics,
        broker_configs,
        dict(database.execute("SELECT name, level FROM features")),
        int(database.execute("SELECT next_id FROM producer_ids").fetchone()[0]),
        position[0] if position else "",
        resources,
        {
            group_id: StoredDescription(epoch, size)
            for group_id, epoch, size in database.execute(
                "SELECT group_id, epoch, length(description) FROM topology_descriptions"
            )
        },
    )


def _insert_overrides(database: sqlite3.Connection, topic: str, overrides: Mapping[str, str]) -> None:
    database.executemany(
        "INSERT INTO topic_configs (topic, name, value) VALUES (?, ?, ?)",
        [(topic, name, value) for name, value in overrides.items()],
    )


def _insert_makers(database: sqlite3.Connection, topic: str, makers: Makers) -> None:
    database.executemany(
        "INSERT INTO topic_makers (topic, principal, partitions, made_topic) VALUES (?, ?, ?, ?)",
        [
            (topic, principal, partitions, principal == makers.owner)
            for principal, partitions in makers.partitions.items()
        ],
    )


def _insert_resources(database: sqlite3.Connection, resources: Mapping[str, Mapping[str, Mapping[str, str]]]) -> None:
    database.executemany(
        "INSERT INTO resource_configs (kind, resource, name, value) VALUES (?, ?, ?, ?)",
        [
            (kind, resource, name, value)
            for kind, settings_of in resources.items()
            for resource, settings in settings_of.items()
            for name, value in settings.items()
        ],
    )


def _pragma(database: sqlite3.Connection, name: str) -> Any:
    return database.execute(f"PRAGMA {name}").fetchone()[0]


def _keep_to_owner(path: str) -> None:
    """Create the file, if missing, readable by its owner alone: it holds passwords among settings, and users'
    credentials. SQLite gives the files beside it the same mode.
    """
    with contextlib.suppress(OSError):  # SQLite reports what is wrong with the file
        os.close(os.open(path, os.O_RDONLY | os.O_CREAT, 0o600))
        for suffix in ("", "-wal", "-shm"):
            if os.path.exists(path + suffix):
                os.chmod(path + suffix, 0o600)


def _write_again(path: str) -> None:
    """Write a whole file over itself, durably."""
    file = RealFileSystem().open(path)
    try:
        position = 0
        while data := file.pread(_CHUNK_BYTES, position):
            file.rewrite(data, position)
            position += len(data)
        file.sync()
    finally:
        file.close()


def _is_empty(database: sqlite3.Connection) -> bool:
    """True if a crash left the file without tables."""
    return bool(database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0)


def _sync_directory(path: str) -> None:
    """Make the new file's name durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        sync_all(descriptor)
    finally:
        os.close(descriptor)


def _settle(futures: list[asyncio.Future[Any]], results: list[Any], failure: Exception | None) -> None:
    """Complete the futures of a commit. Loop thread."""
    for position, future in enumerate(futures):
        if future.done():  # cancelled meanwhile
            continue
        if failure is not None:
            future.set_exception(failure)
        else:
            future.set_result(results[position])
