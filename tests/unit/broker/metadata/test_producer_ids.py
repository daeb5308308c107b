from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from support.topic_world import topic_world
from tidelog.broker.metadata.producer_ids import BLOCK
from tidelog.storage.exceptions import KafkaStorageError


async def test_ids_count_up_and_never_come_twice(tmp_path: Path) -> None:
    async with topic_world(tmp_path) as world:
        taken = await asyncio.gather(*(world.producer_ids.next() for _ in range(BLOCK + 5)))
        assert sorted(taken) == list(range(BLOCK + 5))
    async with topic_world(tmp_path) as world:  # what was left of the second block is gone
        assert await world.producer_ids.next() == 2 * BLOCK


async def test_ids_that_logs_know_are_passed_over(tmp_path: Path) -> None:
    async with topic_world(tmp_path) as world:
        assert await world.producer_ids.next() == 0
        world.producer_ids.never_below(500)
        assert await world.producer_ids.next() == BLOCK  # the block of 0 is dropped: it has ids below 500
        world.producer_ids.never_below(5000)
        assert await world.producer_ids.next() == 5000
        world.producer_ids.never_below(10**15)  # by one step, not block by block
        assert await world.producer_ids.next() == 10**15


async def test_an_id_is_stored_as_taken_before_it_is_given_out(tmp_path: Path) -> None:
    async with topic_world(tmp_path / "missing") as world:
        with pytest.raises(KafkaStorageError, match="can't be written"):
            await world.producer_ids.next()
        (tmp_path / "missing").mkdir()
        assert await world.producer_ids.next() == 0
