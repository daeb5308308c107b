"""Reads one partition of `__transaction_state` back. Runs in a pool thread while the daemon serves.

The last record of each transactional id counts. Records that cannot be read are counted, named once, and passed over.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from ..coordinator.internal_topic import ReplayBatch
from .records import TransactionRecordError, read_transaction_key, read_transaction_value
from .states import TransactionMetadata

log = logging.getLogger(__name__)

#: The loader holds the interpreter for about this many records, then lets the loop thread in.
RECORDS_PER_TURN = 64


@dataclass(slots=True)
class LoadedTransactions:
    """Transactions of one loaded partition. `skipped`: number of records of unknown kinds, `broken`: of unreadable ones."""

    by_id: dict[str, TransactionMetadata] = field(default_factory=dict)
    skipped: int = 0
    broken: int = 0


def load_transactions(name: str, batches: Iterable[ReplayBatch]) -> LoadedTransactions:
    """Plays the batches, in the order of the log. `name` is for log lines. Any thread; blocks where `batches` does."""
    loaded = LoadedTransactions()
    newest: dict[bytes, tuple[int, bytes]] = {}
    turn = 0
    for batch in batches:
        if batch.is_control:
            continue
        for offset, key, value in batch.records:
            if key is None:
                loaded.skipped += 1
            elif value is None:
                newest.pop(key, None)
            else:
                newest[key] = offset, value
        turn += len(batch.records)
        if turn >= RECORDS_PER_TURN:
            turn = 0
            time.sleep(0)
    for number, (key, (offset, value)) in enumerate(newest.items()):
        try:
            transactional_id = read_transaction_key(key)
            if transactional_id is None:
                loaded.skipped += 1
            else:
                loaded.by_id[transactional_id] = read_transaction_value(transactional_id, value)
        except TransactionRecordError as error:
            if not loaded.broken:
                log.error("%s: the record at offset %d cannot be read and is passed over: %s", name, offset, error)
            loaded.broken += 1
        if number % RECORDS_PER_TURN == 0:
            time.sleep(0)
    return loaded
