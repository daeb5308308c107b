"""Settings of what is neither topic nor broker: groups (KIP-848, KIP-932, KIP-1071) and subscriptions to clients' metrics
(KIP-714). Names, types, defaults and ranges are Kafka 4.3's.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..setting import ANY, Allowed, Importance, Setting, SettingType, Synonym, Value, at_least, between, one_of

_BOOLEAN, _INT, _LIST, _STRING = SettingType.BOOLEAN, SettingType.INT, SettingType.LIST, SettingType.STRING
_SECONDS = r"\d+(\.\d{1,9})?S"
_TIME = rf"T(\d+H(\d+M)?({_SECONDS})?|\d+M({_SECONDS})?|{_SECONDS})"
_DURATION = rf"P(\d+D({_TIME})?|{_TIME})"


def _row(name: str, kind: SettingType, default: Value, allowed: Allowed, doc: str, synonym: str = "") -> Setting:
    return Setting(
        name,
        kind,
        default,
        doc,
        allowed,
        Importance.MEDIUM,
        dynamic=True,
        synonyms=(Synonym(synonym or f"group.{name}"),),
    )


def _table(rows: Iterable[Setting]) -> dict[str, Setting]:
    return {row.name: row for row in rows}


# Here is what no broker can allow; the limits of this one, which lie within, are looked at by `group_limits`.
_SESSION = at_least(1)
_HEARTBEAT = at_least(1)
_ASSIGNMENT = at_least(0)

GROUP_SETTINGS: dict[str, Setting] = _table(
    row
    for kind in ("consumer", "share", "streams")
    for row in (
        _row(
            f"{kind}.session.timeout.ms",
            _INT,
            45_000,
            _SESSION,
            f"Milliseconds without a heartbeat after which a member of the {kind} group is taken for gone.",
        ),
        _row(
            f"{kind}.heartbeat.interval.ms",
            _INT,
            5_000,
            _HEARTBEAT,
            f"Milliseconds between the heartbeats of a member of the {kind} group.",
        ),
        _row(
            f"{kind}.assignment.interval.ms",
            _INT,
            1_000,
            _ASSIGNMENT,
            f"Least milliseconds between two assignments of the {kind} group.",
        ),
    )
) | _table(
    (
        _row(
            "share.record.lock.duration.ms",
            _INT,
            30_000,
            at_least(1_000),
            "Milliseconds for which a share group's consumer has a record before others get it.",
        ),
        _row(
            "share.delivery.count.limit",
            _INT,
            5,
            at_least(2),
            "How often a share group delivers a record before it is given up.",
        ),
        _row(
            "share.partition.max.record.locks",
            _INT,
            2_000,
            at_least(100),
            "Records of one partition that consumers of a share group may have at once.",
        ),
        _row(
            "share.auto.offset.reset",
            _STRING,
            "latest",
            Allowed(
                pattern=f"^(earliest|latest|by_duration:{_DURATION})$",
                text="earliest, latest or by_duration:PnDTnHnMnS",
            ),
            "Where a share group begins in a partition: earliest, latest, or by_duration: and how long ago.",
            "share.auto.offset.reset",
        ),
        _row(
            "share.isolation.level",
            _STRING,
            "read_uncommitted",
            one_of("read_uncommitted", "read_committed"),
            "Whether a share group gets records of transactions that are open or were aborted.",
            "share.isolation.level",
        ),
        _row(
            "share.renew.acknowledge.enable",
            _BOOLEAN,
            True,
            ANY,
            "Whether consumers of a share group may ask to keep a record for longer.",
            "share.renew.acknowledge.enable",
        ),
        _row(
            "streams.num.standby.replicas",
            _INT,
            0,
            at_least(0),
            "Stand-by copies of each task of a streams group.",
        ),
        _row(
            "streams.initial.rebalance.delay.ms",
            _INT,
            3_000,
            at_least(0),
            "Milliseconds that the first member of a new streams group waits for others.",
        ),
    )
)
"""By name, whatever protocol the group speaks."""

CLIENT_METRICS_SETTINGS: dict[str, Setting] = {
    row.name: row
    for row in (
        Setting(
            "interval.ms",
            _INT,
            300_000,
            "Milliseconds between two pushes of a client.",
            between(100, 3_600_000),
            dynamic=True,
        ),
        Setting(
            "match",
            _LIST,
            (),
            "Which clients push: NAME=EXPRESSION for client_instance_id, client_id, client_software_name, "
            "client_software_version, client_source_address, client_source_port; all must match.",
            dynamic=True,
        ),
        Setting(
            "metrics",
            _LIST,
            (),
            "Metrics that clients push, by the beginnings of their names; * is all.",
            dynamic=True,
        ),
    )
}
"""Of a subscription, by name."""
