"""What is said of a loop that is held."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from support.many_names import Held, crowded, held, is_in_turns
from tidelog.protocol.errors import ProtocolError
from tidelog.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from tidelog.protocol.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from tidelog.protocol.schema import ApiMessage, decode, encode

ROUNDS = 2_000_000


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    made = asyncio.new_event_loop()
    thread = threading.Thread(target=made.run_forever)
    thread.start()
    yield made
    made.call_soon_threadsafe(made.stop)
    thread.join()
    made.close()


def work(loop: asyncio.AbstractEventLoop, parts: int, times: list[int]) -> None:
    async def run() -> None:
        for _ in range(parts):
            for _ in range(ROUNDS // parts):
                pass
            await asyncio.sleep(0)

    times.append(parts)
    asyncio.run_coroutine_threadsafe(run(), loop).result()


@pytest.mark.parametrize(("parts", "is_good"), [(1, False), (2, False), (3, False), (40, True)])
def test_work_in_few_parts_is_tried_three_times_and_told_from_work_in_many(
    loop: asyncio.AbstractEventLoop, parts: int, is_good: bool
) -> None:
    times: list[int] = []
    was_frozen = gc.get_freeze_count() > 0
    found = held(loop, lambda: work(loop, parts, times))
    assert is_in_turns(found) == is_good
    assert len(times) == 3 or is_good
    assert (gc.get_freeze_count() > 0) == was_frozen


@pytest.mark.parametrize("cls", [AlterShareGroupOffsetsRequest, AddPartitionsToTxnRequest])
def test_a_crowded_request_has_as_many_elements_as_it_may_in_all(cls: type[ApiMessage]) -> None:
    version = cls.VERSIONS[1]
    for _, request in crowded(cls, version, cls.MOST_ELEMENTS):
        assert decode(cls, version, encode(request, version))[0] == request
    with pytest.raises(ProtocolError):
        decode(cls, version, encode(next(_one_more(cls, version)), version))


def _one_more(cls: type[ApiMessage], version: int) -> Iterator[ApiMessage]:
    for path, request in crowded(cls, version, cls.MOST_ELEMENTS):
        if "." in path:
            inner: Any = request
            *around, last = path.split(".")
            for name in around:
                (inner,) = getattr(inner, name)
            setattr(inner, last, [*getattr(inner, last), getattr(inner, last)[0]])
            yield request


def test_what_suffices_ends_it_and_the_shortest_is_told_if_nothing_does(loop: asyncio.AbstractEventLoop) -> None:
    times: list[int] = []
    held(loop, lambda: work(loop, 1, times), lambda found: True)
    assert len(times) == 1
    seen: list[Held] = []
    assert held(loop, lambda: work(loop, 1, times), lambda found: bool(seen.append(found))) == min(seen)
    assert len(seen) == 3
