from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.topic_world import TopicWorld, topic_world
from tidelog.broker.apis.init_producer_id import init_producer_id
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tidelog.protocol.schema import decode, encode


async def ask(world: TopicWorld, version: int = 5, **fields: Any) -> tuple[int, int, int]:
    response = await init_producer_id(InitProducerIdRequest(**fields), world.context(version))
    answer, _ = decode(InitProducerIdResponse, version, encode(response, version))
    return answer.error_code, answer.producer_id, answer.producer_epoch


@pytest.mark.parametrize("version", range(6))
async def test_each_producer_gets_an_id_of_its_own(tmp_path: Path, version: int) -> None:
    async with topic_world(tmp_path) as world:
        assert await ask(world, version, transactional_id=None) == (0, 0, 0)
        assert await ask(world, version, transactional_id=None) == (0, 1, 0)


async def test_a_producer_that_has_an_id_gets_a_new_one(tmp_path: Path) -> None:
    async with topic_world(tmp_path) as world:
        assert await ask(world, transactional_id=None, producer_id=77, producer_epoch=3) == (0, 0, 0)


async def test_a_block_that_cannot_be_stored_is_an_error(tmp_path: Path) -> None:
    async with topic_world(tmp_path / "missing") as world:
        assert await ask(world, transactional_id=None) == (ErrorCode.KAFKA_STORAGE_ERROR, -1, -1)
