"""Assigns producer ids to idempotent producers, one by one from blocks of a thousand that the store keeps.

A block is stored as taken before its first id is given out, so no id is ever given twice, over crashes too; what was
left of a block at a stop is never used. Kafka does the same (KIP-360's blocks).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .store import MetadataStore

BLOCK = 1000


class ProducerIds:
    """Hands out blocks of producer ids. Loop thread only."""

    __slots__ = ("_end", "_floor", "_lock", "_next", "_store")

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._next = 0
        self._end = 0
        self._floor = 0
        self._lock = asyncio.Lock()

    def never_below(self, producer_id: int) -> None:
        """Assign no id below `producer_id`: some log has it. Matters after the loss of metadata.db."""
        self._floor = max(self._floor, producer_id)

    async def next(self) -> int:
        """Assign an id that was never assigned before. Raises `KafkaStorageError` when the next block can't be stored."""
        while self._next >= self._end or self._next < self._floor:
            async with self._lock:
                if self._next >= self._end or self._next < self._floor:  # nobody fetched a block meanwhile
                    first = await self._store.reserve_producer_ids(BLOCK, self._floor)
                    self._next, self._end = first, first + BLOCK
        taken = self._next
        self._next += 1
        return taken
