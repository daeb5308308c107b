"""What the coordinators of transactions and of share groups count, as metrics: zeros where there are none. Loop thread."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..runtime.metric_family import COUNTER, GAUGE, AnyFamily, Family, one

if TYPE_CHECKING:
    from ..share.manager import SharePartitions
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


#: As KIP-932 and KIP-1222 number them.
_TYPES = ("gap", "accept", "release", "reject", "renew")


def share_families(shares: SharePartitions | None) -> Iterator[AnyFamily]:
    """None: nobody has asked for share groups yet."""
    sessions, partitions, in_flight, known, acquired, expired, lost, writes = (
        (0,) * 8
        if shares is None
        else (
            len(shares.sessions),
            shares.partition_count,
            shares.in_flight_records,
            shares.coordinator.partition_count,
            shares.acquired,
            shares.expired,
            shares.lost_sessions,
            shares.coordinator.writes,
        )
    )
    yield one("tidelog_share_sessions", GAUGE, "Share sessions: members of share groups that fetch.", sessions)
    yield one("tidelog_share_partitions", GAUGE, "Partitions that share groups read now.", partitions)
    yield one(
        "tidelog_share_in_flight_records",
        GAUGE,
        "Offsets from the first that is not done with to the last that was delivered, over the partitions that are read now.",
        in_flight,
    )
    yield one("tidelog_share_state_partitions", GAUGE, "Partitions of share groups whose state is kept.", known)
    yield one("tidelog_share_records_acquired", COUNTER, "Records that members of share groups were given.", acquired)
    yield Family(
        "tidelog_share_records_acknowledged",
        COUNTER,
        "Records that members of share groups have acknowledged, by what they said of them.",
        ("type",),
        [((name,), 0 if shares is None else shares.acknowledged[number]) for number, name in enumerate(_TYPES)],
    )
    yield one(
        "tidelog_share_locks_expired",
        COUNTER,
        "Records that came back because a member did not acknowledge them in time: it is too slow, or has died.",
        expired,
    )
    yield one("tidelog_share_sessions_lost", COUNTER, "Share sessions that a lost connection ended.", lost)
    yield one("tidelog_share_state_writes", COUNTER, "Records written to __share_group_state.", writes)
