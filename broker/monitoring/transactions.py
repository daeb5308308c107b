"""Metrics of the coordinators of transactions and of share groups: zeros if there are none. Loop thread."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from ..runtime.metric_family import COUNTER, GAUGE, Metric, Table, if_made

if TYPE_CHECKING:
    from ..share.manager import SharePartitions
    from ..transactions.coordinator import TransactionCoordinator


# fmt: off
@cache
def transaction_metrics() -> Table[TransactionCoordinator | None]:
    """None: the coordinator has not been asked for yet."""
    return (
        Metric("tidelog_transactional_ids", GAUGE, "Transactional ids that are known.", if_made(lambda found: found.id_count)),
        Metric("tidelog_transactions_ongoing", GAUGE, "Transactions that nobody has committed or aborted yet.",
               if_made(lambda found: found.ongoing_count)),
        Metric("tidelog_transactions_completing", GAUGE,
               "Transactions that are decided while some of their markers are still to be written; one that stays: see the log.",
               if_made(lambda found: found.completing_count)),
        Metric("tidelog_transactions_timed_out", COUNTER,
               "Transactions that were aborted because their time was over: producers that died, or that are too slow.",
               if_made(lambda found: found.timed_out)),
    )


#: As KIP-932 and KIP-1222 number them.
_TYPES = ("gap", "accept", "release", "reject", "renew")

@cache
def share_metrics() -> Table[SharePartitions | None]:
    """None: nobody has asked for share groups yet."""
    return (
        Metric("tidelog_share_sessions", GAUGE, "Share sessions: members of share groups that fetch.",
               if_made(lambda shares: len(shares.sessions))),
        Metric("tidelog_share_session_partitions", GAUGE, "Partitions in share sessions, and in requests of many that wait.",
               if_made(lambda shares: shares.sessions.partition_count)),
        Metric("tidelog_share_partitions", GAUGE, "Partitions that share groups read now.",
               if_made(lambda shares: shares.partition_count)),
        Metric("tidelog_share_in_flight_records", GAUGE,
               "Offsets from the first that is not done with to the last that was delivered, over the partitions that "
               "are read now.",
               if_made(lambda shares: shares.in_flight_records)),
        Metric("tidelog_share_state_partitions", GAUGE, "Partitions of share groups whose state is kept.",
               if_made(lambda shares: shares.coordinator.partition_count)),
        Metric("tidelog_share_records_acquired", COUNTER, "Records that members of share groups were given.",
               if_made(lambda shares: shares.acquired)),
        Metric("tidelog_share_records_acknowledged", COUNTER,
               "Records that members of share groups have acknowledged, by what they said of them.",
               lambda shares: {name: 0 if shares is None else shares.acknowledged[number] for number, name in enumerate(_TYPES)},
               ("type",)),
        Metric("tidelog_share_locks_expired", COUNTER,
               "Records that came back because a member did not acknowledge them in time: it is too slow, or has died.",
               if_made(lambda shares: shares.expired)),
        Metric("tidelog_share_sessions_lost", COUNTER, "Share sessions that a lost connection ended.",
               if_made(lambda shares: shares.lost_sessions)),
        Metric("tidelog_share_state_writes", COUNTER, "Records written to __share_group_state.",
               if_made(lambda shares: shares.coordinator.writes)),
    )
