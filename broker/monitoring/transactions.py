"""What the transaction coordinator counts, as metrics: zeros where nobody has had a transaction. Loop thread."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..runtime.metric_family import COUNTER, GAUGE, AnyFamily, one

if TYPE_CHECKING:
    from ..transactions.coordinator import TransactionCoordinator


def transaction_families(transactions: TransactionCoordinator | None) -> Iterator[AnyFamily]:
    """None: it has not been asked for yet."""
    ids, ongoing, completing, timed_out = (0, 0, 0, 0) if transactions is None else (
        transactions.id_count, transactions.ongoing_count, transactions.completing_count, transactions.timed_out,
    )  # fmt: skip
    yield one("tidelog_transactional_ids", GAUGE, "Transactional ids that are known.", ids)
    yield one("tidelog_transactions_ongoing", GAUGE, "Transactions that nobody has committed or aborted yet.", ongoing)
    yield one(
        "tidelog_transactions_completing",
        GAUGE,
        "Transactions that are decided while some of their markers are still to be written; one that stays: see the log.",
        completing,
    )
    yield one(
        "tidelog_transactions_timed_out",
        COUNTER,
        "Transactions that were aborted because their time was over: producers that died, or that are too slow.",
        timed_out,
    )
