"""The settings of transactions: how long they may take, who looks after those that nobody ends, what is forgotten when."""

from __future__ import annotations

from ..setting import ANY, Importance, Setting, SettingType, at_least

_GROUP = "Transactions"
_INT, _BOOLEAN = SettingType.INT, SettingType.BOOLEAN
_HIGH, _LOW = Importance.HIGH, Importance.LOW
_HOUR_MS = 60 * 60 * 1000

TRANSACTION_ROWS: tuple[Setting, ...] = (
    Setting(
        "transaction.max.timeout.ms",
        _INT,
        15 * 60 * 1000,
        "Longest time in milliseconds that a producer may ask for its transactions (transaction.timeout.ms); one that asks "
        "for more is refused. It bounds how long an abandoned transaction keeps readers of committed data waiting.",
        at_least(1),
        _HIGH,
        group=_GROUP,
    ),
    Setting(
        "transactional.id.expiration.ms",
        _INT,
        7 * 24 * _HOUR_MS,
        "Milliseconds after which a transactional id that is not used any more is forgotten.",
        at_least(1),
        _HIGH,
        group=_GROUP,
    ),
    Setting(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        _INT,
        10_000,
        "Milliseconds between two looks for transactions whose time is over; these are aborted.",
        at_least(1),
        _LOW,
        group=_GROUP,
    ),
    Setting(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        _INT,
        _HOUR_MS,
        "Milliseconds between two looks for transactional ids to forget.",
        at_least(1),
        _LOW,
        group=_GROUP,
    ),
    Setting(
        "transaction.partition.verification.enable",
        _BOOLEAN,
        True,
        "Whether a batch is refused that belongs to no transaction under way in its partition. It keeps a batch that was "
        "delayed past its transaction's end out of the next one; producers of transaction.version 2 have that anyway.",
        ANY,
        _LOW,
        dynamic=True,
        group=_GROUP,
    ),
)
