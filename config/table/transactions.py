"""The settings of transactions: how long they may take, who looks after those that nobody ends, what is forgotten when."""

from __future__ import annotations

from ..setting import BOOLEAN, HIGH, INT, LOW, Group, Setting, at_least

_HOUR_MS = 60 * 60 * 1000

# fmt: off
TRANSACTION_ROWS: tuple[Setting, ...] = (
    Setting(
        "transaction.max.timeout.ms", type=INT, default=15 * 60 * 1000, allowed=at_least(1), group=Group.TRANSACTIONS,
        importance=HIGH,
        doc="Longest time in milliseconds that a producer may ask for its transactions (transaction.timeout.ms); one that "
            "asks for more is refused. It bounds how long an abandoned transaction keeps readers of committed data waiting.",
    ),
    Setting(
        "transactional.id.expiration.ms", type=INT, default=7 * 24 * _HOUR_MS, allowed=at_least(1), group=Group.TRANSACTIONS,
        importance=HIGH,
        doc="Milliseconds after which a transactional id that is not used any more is forgotten.",
    ),
    Setting(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms", type=INT, default=10_000, allowed=at_least(1),
        group=Group.TRANSACTIONS, importance=LOW,
        doc="Milliseconds between two looks for transactions whose time is over; these are aborted.",
    ),
    Setting(
        "transaction.remove.expired.transaction.cleanup.interval.ms", type=INT, default=_HOUR_MS, allowed=at_least(1),
        group=Group.TRANSACTIONS, importance=LOW,
        doc="Milliseconds between two looks for transactional ids to forget.",
    ),
    Setting(
        "transaction.partition.verification.enable", type=BOOLEAN, default=True, group=Group.TRANSACTIONS, importance=LOW,
        dynamic=True,
        doc="Whether a batch is refused that belongs to no transaction under way in its partition. It keeps a batch that was "
            "delayed past its transaction's end out of the next one; producers of transaction.version 2 have that anyway.",
    ),
)
