from __future__ import annotations

import asyncio
import dataclasses
import os
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
from tidelog.broker.metadata.creation_limits import NOBODYS, Makers
from tidelog.broker.metadata.store import FILE_NAME, SCHEMA_VERSION, MetadataStore, StoredMetadata, TopicRecord
from tidelog.storage.exceptions import DataDirectoryError, KafkaStorageError
from tidelog.storage.io.filesystem import RealFile

MADE = Makers("User:a", {"User:a": 2, "User:b": 1})
ORDERS = TopicRecord("orders", UUID(int=1), 3, {"retention.ms": "5", "cleanup.policy": "compact"}, 1000, makers=MADE)
EVENTS = TopicRecord("events", UUID(int=2), 1, {}, 2000)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MetadataStore]:
    opened = MetadataStore(str(tmp_path))
    yield opened
    opened.close()


def reread(store: MetadataStore) -> list[TopicRecord]:
    other = MetadataStore(str(Path(store.path).parent))
    try:
        return other.open()
    finally:
        other.close()


def damage(path: Path) -> None:
    """Everything behind the first page."""
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    path.write_bytes(data)


def test_nothing_is_made_before_something_is_stored(store: MetadataStore) -> None:
    assert store.open() == []
    assert not os.path.exists(store.path)


async def test_what_was_stored_is_read_again(store: MetadataStore) -> None:
    await asyncio.gather(store.add_topic(ORDERS), store.add_topic(EVENTS))
    assert reread(store) == [EVENTS, ORDERS]


async def test_a_topic_changes_row_by_row(store: MetadataStore) -> None:
    await store.add_topic(ORDERS)
    await store.set_partitions("orders", 5, ORDERS.makers)
    await store.set_overrides("orders", {"segment.bytes": "100"})
    await store.set_topic_id("orders", UUID(int=9))
    await store.mark_deleting("orders")
    assert reread(store) == [TopicRecord("orders", UUID(int=9), 5, {"segment.bytes": "100"}, 1000, True, MADE)]


async def test_a_removed_topic_takes_its_settings_along(store: MetadataStore) -> None:
    await store.add_topic(ORDERS)
    await store.remove_topic("orders")
    await store.add_topic(TopicRecord("orders", UUID(int=3), 1, {}, 0))
    assert reread(store) == [TopicRecord("orders", UUID(int=3), 1, {}, 0)]


async def test_who_made_partitions_is_replaced_with_their_number(store: MetadataStore) -> None:
    await store.add_topic(ORDERS)
    grown = Makers("User:a", {"User:a": 2, "User:b": 5})
    await store.set_partitions("orders", 7, grown)
    (read,) = reread(store)
    assert (read.partitions, read.makers) == (7, grown)
    await store.set_partitions("orders", 8, Makers("", {"User:b": 5}))
    assert reread(store)[0].makers == Makers("", {"User:b": 5})
    await store.set_partitions("orders", 9, NOBODYS)
    assert reread(store)[0].makers == NOBODYS


async def test_who_made_a_topic_is_forgotten_with_it(store: MetadataStore) -> None:
    await store.add_topic(ORDERS)
    await store.remove_topic("orders")
    await store.add_topic(TopicRecord("orders", UUID(int=3), 1, {}, 0))
    assert reread(store)[0].makers == NOBODYS


async def test_producer_ids_are_given_out_once(store: MetadataStore) -> None:
    assert await asyncio.gather(*(store.reserve_producer_ids(1000) for _ in range(3))) == [0, 1000, 2000]
    other = MetadataStore(str(Path(store.path).parent))
    assert await other.reserve_producer_ids(10) == 3000
    assert await other.reserve_producer_ids(10, at_least=7000) == 7000
    assert await other.reserve_producer_ids(10, at_least=5) == 7010
    other.close()


async def test_everything_is_replaced_in_one_commit(store: MetadataStore) -> None:
    await store.add_topic(ORDERS)
    everything = StoredMetadata(
        (EVENTS, TopicRecord("going", UUID(int=5), 2, {"a": "b"}, 7, deleting=True)),
        {"": {"log.retention.ms": "5"}, "1": {"log.retention.ms": "6", "x": "y"}},
        {"metadata.version": 30},
        4000,
        "a position",
        {"quota": {'{"user":null}': {"producer_byte_rate": "5.0"}}, "group": {"g": {"a": "b", "c": "d"}}},
    )
    store.replace(everything)
    assert store.read() == everything
    assert reread(store) == list(everything.topics)
    assert await store.reserve_producer_ids(10) == 4000
    store.replace(StoredMetadata())
    assert store.read() == StoredMetadata()


async def test_a_replacement_that_fails_changes_nothing(store: MetadataStore) -> None:
    await store.add_topic(ORDERS)
    before = store.read()
    twice = (EVENTS, TopicRecord("other", EVENTS.topic_id, 1, {}, 0))
    with pytest.raises(KafkaStorageError, match="UNIQUE constraint"):
        store.replace(StoredMetadata(twice))
    assert store.read() == before


async def test_resources_are_set_as_a_whole_and_forgotten_without_settings(store: MetadataStore) -> None:
    await store.set_resource("group", "g", {"a": "1", "b": "2"})
    await store.set_resource("group", "h", {"a": "3"})
    await store.set_resource("quota", "g", {"c": "4"})
    await store.set_resource("group", "g", {"b": "5"})
    await store.set_resource("group", "h", {})
    assert store.read().resources == {"group": {"g": {"b": "5"}}, "quota": {"g": {"c": "4"}}}
    await store.set_resources("acl", {"1": {"rule": "one"}, "2": {"rule": "two"}, "3": {"rule": "three"}})
    await store.set_resources("acl", {"1": {}, "2": {"rule": "other"}, "none": {}})
    assert store.read().resources["acl"] == {"2": {"rule": "other"}, "3": {"rule": "three"}}
    assert store.changes == 7


@pytest.mark.parametrize(
    ("version", "lacking"),
    [
        (1, ("broker_configs", "features", "kraft", "resource_configs", "topic_makers", "topology_descriptions")),
        (2, ("resource_configs", "topic_makers", "topology_descriptions")),
        (3, ("topic_makers", "topology_descriptions")),
        (4, ("topology_descriptions",)),
    ],
)
async def test_a_file_of_an_older_schema_gets_the_tables_it_lacks(
    store: MetadataStore, version: int, lacking: tuple[str, ...]
) -> None:
    await store.add_topic(ORDERS)
    await store.reserve_producer_ids(1000)
    unmade = dataclasses.replace(ORDERS, makers=NOBODYS) if "topic_makers" in lacking else ORDERS
    store.close()
    with sqlite3.connect(store.path) as database:
        database.executescript(
            "".join(f"DROP TABLE {table};" for table in lacking) + f"PRAGMA user_version = {version}"
        )
    database.close()
    store.__init__(os.path.dirname(store.path))  # type: ignore[misc]  # for the fixture to close
    assert store.read() == StoredMetadata((unmade,), next_producer_id=1000)
    store.replace(StoredMetadata((ORDERS,), features={"f": 1}))
    assert store.read().features == {"f": 1}


async def test_writes_that_wait_together_share_one_commit(
    store: MetadataStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits: list[str] = []
    connect = sqlite3.connect

    def traced(path: str) -> sqlite3.Connection:
        database = connect(path)
        database.set_trace_callback(commits.append)
        return database

    monkeypatch.setattr(sqlite3, "connect", traced)
    await store.add_topic(EVENTS)  # the file is there
    assert "COMMIT" in commits
    commits.clear()
    await asyncio.gather(*(store.add_topic(TopicRecord(f"t{n}", UUID(int=100 + n), 1, {}, 0)) for n in range(20)))
    # The first write may start a commit of its own before the others are queued; these are then one.
    assert 1 <= commits.count("COMMIT") <= 2
    assert len(reread(store)) == 21


async def test_a_write_that_fails_takes_nothing_with_it_to_disk(store: MetadataStore) -> None:
    await store.add_topic(ORDERS)
    with pytest.raises(KafkaStorageError, match="UNIQUE constraint"):
        await store.add_topic(TopicRecord("other", ORDERS.topic_id, 1, {"a": "b"}, 0))
    assert reread(store) == [ORDERS]
    await store.add_topic(EVENTS)  # and the next one works
    assert reread(store) == [EVENTS, ORDERS]


@pytest.mark.parametrize(
    "refused",
    [
        TopicRecord("other", ORDERS.topic_id, 1, {"a": "b"}, 0),
        TopicRecord("other", UUID(int=3), 1, {"a": "\ud800"}, 0),
    ],
    ids=["twice", "no-unicode"],
)
async def test_a_write_that_fails_takes_none_with_it_that_waits_beside_it(
    store: MetadataStore, refused: TopicRecord
) -> None:
    await store.add_topic(ORDERS)
    free = threading.Event()
    store._thread.submit(free.wait)
    writes = (store.reserve_producer_ids(10), store.add_topic(refused), store.add_topic(EVENTS))
    free.set()
    ids, failure, made = await asyncio.gather(*writes, return_exceptions=True)
    assert (ids, made) == (0, None)
    assert isinstance(failure, KafkaStorageError)
    assert reread(store) == [EVENTS, ORDERS]
    assert await store.reserve_producer_ids(10) == 10


async def test_a_crash_before_the_tables_were_made_is_mended(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).touch()
    store = MetadataStore(str(tmp_path))
    assert store.open() == []
    await store.add_topic(ORDERS)
    assert reread(store) == [ORDERS]
    store.close()


@pytest.mark.parametrize("content", [b"not a database, but long enough to look like a file" * 100, b"x", b"x" * 511])
def test_a_damaged_file_is_an_error_and_stays(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(content)
    store = MetadataStore(str(tmp_path))
    with pytest.raises(DataDirectoryError, match="if it is damaged, move it away"):
        store.open()
    store.close()
    assert (tmp_path / FILE_NAME).read_bytes() == content


async def test_a_damaged_page_is_found(store: MetadataStore) -> None:
    await store.add_topic(ORDERS)
    store.close()
    damage(Path(store.path))
    with pytest.raises(DataDirectoryError, match="can't be read"):
        reread(store)
    store.__init__(os.path.dirname(store.path))  # type: ignore[misc]  # for the fixture to close


def test_another_programs_file_and_a_newer_one_are_refused(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE something (x)")
    database.close()
    store = MetadataStore(str(tmp_path))
    with pytest.raises(DataDirectoryError, match="is not tidelog's"):
        store.open()
    store.close()
    path.unlink()
    with sqlite3.connect(path) as database:
        database.executescript(
            f"CREATE TABLE topics (x); PRAGMA application_id = {0x7469646C}; PRAGMA user_version = {SCHEMA_VERSION + 1}"
        )
    database.close()
    store = MetadataStore(str(tmp_path))
    with pytest.raises(DataDirectoryError, match="newer tidelog"):
        store.open()
    store.close()


def modes(store: MetadataStore) -> dict[str, int]:
    return {path.name: path.stat().st_mode & 0o777 for path in Path(store.path).parent.iterdir()}


async def test_nobody_but_its_owner_reads_it(store: MetadataStore) -> None:
    """Also one that was made before, with another mode."""
    await store.add_topic(ORDERS)
    assert modes(store) == {FILE_NAME: 0o600, f"{FILE_NAME}-wal": 0o600, f"{FILE_NAME}-shm": 0o600}
    os.chmod(store.path, 0o644)
    assert reread(store) == [ORDERS]
    assert modes(store)[FILE_NAME] == 0o600


async def test_a_secret_is_made_once_and_is_no_metadata(store: MetadataStore) -> None:
    made = store.secret("one")
    assert len(made) == 32
    assert store.secret("one") == made
    assert store.secret("two") != made
    assert store.read() == StoredMetadata()
    await store.set_resource("scram", "one", {"a": "b"})
    store.replace(StoredMetadata(resources={"acl": {"x": {"y": "z"}}}))
    assert store.read().resources == {"acl": {"x": {"y": "z"}}}
    again = MetadataStore(str(Path(store.path).parent))
    try:
        assert again.secret("one") == made, "after a restart, and after Kafka's metadata were read in between"
    finally:
        again.close()


def test_a_secret_that_can_not_be_kept_is_an_error(tmp_path: Path) -> None:
    store = MetadataStore(str(tmp_path / "nowhere"))
    with pytest.raises(KafkaStorageError, match=r"metadata\.db"):
        store.secret("one")
    store.close()


async def test_what_a_killed_process_left_is_on_disk_before_anything_is_committed_behind_it(
    store: MetadataStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sync may have failed: SQLite would read what is in memory alone."""
    await store.add_topic(ORDERS)
    left = shutil.copytree(tmp_path, tmp_path / "left")
    size = (left / f"{FILE_NAME}-wal").stat().st_size
    assert size
    calls: list[tuple[str, str, int]] = []
    rewrite, sync, connect = RealFile.rewrite, RealFile.sync, sqlite3.connect
    monkeypatch.setattr(
        RealFile, "rewrite", lambda f, data, at: (calls.append(("write", f.path, len(data))), rewrite(f, data, at))[1]
    )
    monkeypatch.setattr(RealFile, "sync", lambda f: (calls.append(("sync", f.path, 0)), sync(f))[1])
    monkeypatch.setattr(sqlite3, "connect", lambda path: (calls.append(("read", path, 0)), connect(path))[1])
    other = MetadataStore(str(left))
    assert other.open() == [ORDERS]
    other.close()
    wal = f"{left}/{FILE_NAME}-wal"
    assert calls == [("write", wal, size), ("sync", wal, 0), ("read", f"{left}/{FILE_NAME}", 0)]


async def test_a_disk_that_takes_no_write_ahead_log_stops_the_start(
    store: MetadataStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.add_topic(ORDERS)
    left = shutil.copytree(tmp_path, tmp_path / "left")

    def fail(file: RealFile) -> None:
        raise OSError(5, "Input/output error", file.path)

    monkeypatch.setattr(RealFile, "sync", fail)
    other = MetadataStore(str(left))
    with pytest.raises(DataDirectoryError, match="Input/output error"):
        other.open()
    other.close()
