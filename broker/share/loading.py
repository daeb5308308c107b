"""Reads one partition of `__share_group_state` back. Runs in a pool thread while the daemon serves.

Records that cannot be read are counted, named once, and passed over.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from typing import NamedTuple

from ..coordinator.internal_topic import ReplayBatch
from .records import SNAPSHOT, ShareRecordError, read_key, read_snapshot, read_update
from .state import StateShard

log = logging.getLogger(__name__)

#: The loader holds the interpreter for about this many records, then lets the loop thread in.
RECORDS_PER_TURN = 64


class Loaded(NamedTuple):
    """State of one loaded partition. `skipped`: number of records of unknown kinds, `broken`: of unreadable ones."""

    shard: StateShard
    skipped: int
    broken: int


def load_share_state(name: str, batches: Iterable[ReplayBatch]) -> Loaded:
    """Plays the batches, in the order of the log. `name` is for log lines. Any thread; blocks where `batches` does."""
    shard = StateShard(0)  # only its entries are taken over
    skipped = broken = turn = 0
    for batch in batches:
        if batch.is_control:
            continue
        for offset, key, value in batch.records:
            try:
                if key is None or not _play(shard, offset, key, value):
                    skipped += 1
            except ShareRecordError as error:
                if not broken:
                    log.error("%s: the record at offset %d cannot be read and is passed over: %s", name, offset, error)
                broken += 1
        turn += len(batch.records)
        if turn >= RECORDS_PER_TURN:
            turn = 0
            time.sleep(0)
    return Loaded(shard, skipped, broken)


def _play(shard: StateShard, offset: int, key: bytes, value: bytes | None) -> bool:
    read = read_key(key)
    if read is None:
        return False
    kind, partition = read
    if kind == SNAPSHOT:
        if value is None:
            shard.forget(partition)
        else:
            shard.snapshot(partition, read_snapshot(value), offset)
        return True
    if value is None:  # no broker writes that
        return False
    shard.update(partition, read_update(value), offset)
    return True
