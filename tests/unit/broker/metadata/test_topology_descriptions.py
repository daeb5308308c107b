"""Descriptions of topologies in `metadata.db`: what is kept, what there is no room for, what outlives a stop."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tidelog.broker.metadata import topology_descriptions
from tidelog.broker.metadata.store import MetadataStore, StoredDescription, StoredMetadata
from tidelog.broker.metadata.topology_descriptions import DescriptionTooLarge, TopologyDescriptions
from tidelog.storage.exceptions import KafkaStorageError


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MetadataStore]:
    found = MetadataStore(str(tmp_path))
    yield found
    found.close()


def opened(store: MetadataStore, most: int = 1 << 20) -> TopologyDescriptions:
    config: Any = SimpleNamespace(group_streams_topology_descriptions_max_bytes=most)
    return TopologyDescriptions(store.read().descriptions, store, lambda: config)


async def test_what_is_put_is_read_and_outlives_a_stop(store: MetadataStore) -> None:
    kept = opened(store)
    assert (len(kept), "g" in kept, await kept.read("g")) == (0, False, None)
    await kept.put("g", 3, b"abc")
    await kept.put("h", 0, b"")
    for found in (kept, opened(store)):
        assert (found.has("g", 3), found.has("g", 2), found.has("x", 3), "g" in found) == (True, False, False, True)
        assert (await found.read("g"), await found.read("h"), found.total_bytes) == (b"abc", b"", 3)
    await kept.put("g", 4, b"defg")
    assert (kept.has("g", 3), kept.has("g", 4), kept.total_bytes) == (False, True, 4)
    await kept.forget(["g", "nobody"])
    assert (len(opened(store)), kept.total_bytes, await kept.read("g")) == (1, 0, None)


async def test_a_store_that_is_replaced_forgets_them(store: MetadataStore) -> None:
    await opened(store).put("g", 0, b"abc")
    assert store.read().descriptions == {"g": StoredDescription(0, 3)}
    store.replace(StoredMetadata())
    assert store.read().descriptions == {}


async def test_bounds(store: MetadataStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topology_descriptions, "MOST_BYTES", 10)
    monkeypatch.setattr(topology_descriptions, "MOST_DESCRIPTIONS", 3)
    kept = opened(store, most=20)
    with pytest.raises(DescriptionTooLarge, match="takes 11 bytes; 10 are kept of one"):
        await kept.put("a", 0, bytes(11))
    await kept.put("a", 0, bytes(10))
    await kept.put("b", 0, bytes(10))
    with pytest.raises(DescriptionTooLarge, match=r"descriptions\.max\.bytes=20"):
        await kept.put("c", 0, bytes(1))
    await kept.put("b", 1, bytes(9))  # in the place of its last one
    await kept.put("c", 0, bytes(1))
    with pytest.raises(DescriptionTooLarge, match="There are 3 topology descriptions"):
        await kept.put("d", 0, b"")
    await kept.put("c", 1, b"")
    assert (kept.total_bytes, opened(store).total_bytes) == (19, 19)


async def test_what_is_being_written_counts(store: MetadataStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topology_descriptions, "MOST_DESCRIPTIONS", 3)
    kept = opened(store, most=10)
    results = await asyncio.gather(*(kept.put(name, 0, bytes(4)) for name in "abc"), return_exceptions=True)
    assert [type(result) for result in results] == [type(None), type(None), DescriptionTooLarge]
    kept = opened(store, most=1000)
    results = await asyncio.gather(*(kept.put(name, 0, b"") for name in "cde"), return_exceptions=True)
    assert [type(result) for result in results] == [type(None), DescriptionTooLarge, DescriptionTooLarge]
    writing = asyncio.ensure_future(kept.put("a", 5, bytes(7)))
    await asyncio.sleep(0)
    assert ("a" in kept, kept.total_bytes) == (True, 15)
    await kept.forget(["a"])  # behind the write
    await writing
    assert (await kept.read("a"), opened(store).has("a", 5)) == (None, False)


async def test_a_write_that_fails_changes_nothing(store: MetadataStore, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = opened(store)
    await kept.put("g", 0, b"abc")

    def refuse() -> Any:
        raise OSError("full")

    monkeypatch.setattr(store, "_connect", refuse)
    for failing in (kept.put("g", 1, b"defg"), kept.forget(["g"])):
        with pytest.raises(KafkaStorageError, match="full"):
            await failing
        assert (kept.has("g", 0), kept.total_bytes) == (True, 3)
    monkeypatch.undo()
    assert await kept.read("g") == b"abc"


def test_zero_turns_it_off(store: MetadataStore) -> None:
    assert (opened(store).is_enabled, opened(store, 0).is_enabled) == (True, False)


@pytest.mark.parametrize("seed", range(10))
async def test_it_is_a_dictionary_with_bounds(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    store = MetadataStore(str(tmp_path))
    kept, model = opened(store, 60), dict[str, tuple[int, bytes]]()
    for _ in range(60):
        name = rng.choice("abcdef")
        if rng.random() < 0.2:
            await kept.forget([name])
            model.pop(name, None)
        elif rng.random() < 0.1:
            kept = opened(store, 60)
        else:
            epoch, data = rng.randrange(3), rng.randbytes(rng.randrange(30))
            fits = sum(len(each) for other, (_, each) in model.items() if other != name) + len(data) <= 60
            try:
                await kept.put(name, epoch, data)
            except DescriptionTooLarge:
                assert not fits
            else:
                assert fits
                model[name] = epoch, data
        assert {name: await kept.read(name) for name in kept.groups()} == {n: data for n, (_, data) in model.items()}
        assert all(kept.has(name, epoch) for name, (epoch, _) in model.items())
        assert kept.total_bytes == sum(len(data) for _, data in model.values())
    store.close()
