"""The settings of share groups (KIP-932): what their members and records may do, and how that is kept.

A group's own settings (`definitions_resources`) go before those that are named like them here; `min` and `max` say what
groups may ask for.
"""

from __future__ import annotations

from ..setting import Allowed, Importance, Setting, SettingType, at_least, between

_GROUP = "Share groups"
_INT = SettingType.INT
_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW


def _row(
    name: str,
    default: int,
    allowed: Allowed,
    doc: str,
    importance: Importance = _MEDIUM,
    *,
    dynamic: bool = False,
    internal: bool = False,
) -> Setting:
    return Setting(name, _INT, default, doc, allowed, importance, dynamic, group=_GROUP, internal=internal)


SHARE_ROWS: tuple[Setting, ...] = (
    _row(
        "group.share.session.timeout.ms",
        45_000,
        at_least(1),
        "Milliseconds without a heartbeat after which a member of a share group is taken for gone.",
    ),
    _row("group.share.min.session.timeout.ms", 45_000, at_least(1), "Shortest session time-out that a group may have."),
    _row("group.share.max.session.timeout.ms", 60_000, at_least(1), "Longest session time-out that a group may have."),
    _row(
        "group.share.heartbeat.interval.ms",
        5_000,
        at_least(1),
        "Milliseconds between the heartbeats of a member of a share group.",
    ),
    _row("group.share.min.heartbeat.interval.ms", 5_000, at_least(1), "Shortest such interval that a group may have."),
    _row("group.share.max.heartbeat.interval.ms", 15_000, at_least(1), "Longest such interval that a group may have."),
    _row("group.share.max.size", 200, between(1, 1000), "Members that one share group may have."),
    _row(
        "group.share.assignment.interval.ms",
        1_000,
        at_least(0),
        "Least milliseconds between two assignments of partitions to the members of a share group.",
        dynamic=True,
    ),
    _row("group.share.min.assignment.interval.ms", 0, at_least(0), "Shortest such interval that a group may have."),
    _row("group.share.max.assignment.interval.ms", 15_000, at_least(0), "Longest such interval that a group may have."),
    _row(
        "group.share.delivery.count.limit",
        5,
        between(2, 10),
        "How often a record is delivered to a share group before it is given up.",
    ),
    _row("group.share.min.delivery.count.limit", 2, between(2, 5), "Lowest such limit that a group may have."),
    _row("group.share.max.delivery.count.limit", 10, between(5, 25), "Highest such limit that a group may have."),
    _row(
        "group.share.record.lock.duration.ms",
        30_000,
        between(1_000, 3_600_000),
        "Milliseconds for which a member of a share group has a record before others get it.",
    ),
    _row(
        "group.share.min.record.lock.duration.ms",
        15_000,
        between(1_000, 30_000),
        "Shortest such time that a group may have.",
    ),
    _row(
        "group.share.max.record.lock.duration.ms",
        60_000,
        between(30_000, 3_600_000),
        "Longest such time that a group may have.",
    ),
    _row(
        "group.share.partition.max.record.locks",
        2_000,
        between(100, 10_000),
        "Records of one partition that are in flight in a share group at most, from the first that is not done with to the "
        "last that was delivered; what is left of that one's batch comes on top.",
    ),
    _row(
        "group.share.min.partition.max.record.locks",
        100,
        between(100, 2_000),
        "Lowest such limit that a group may have.",
    ),
    _row(
        "group.share.max.partition.max.record.locks",
        4_000,
        between(2_000, 10_000),
        "Highest such limit that a group may have.",
    ),
    _row(
        "group.share.max.share.sessions",
        2_000,
        at_least(1),
        "Members of all share groups that may fetch at a time; others are told to come again.",
    ),
    _row(
        "share.coordinator.state.topic.num.partitions",
        50,
        at_least(1),
        "Partitions of __share_group_state when it is made. It must not change afterwards: it decides where a key is.",
        _HIGH,
    ),
    _row(
        "share.coordinator.state.topic.segment.bytes",
        100 * 1024 * 1024,
        at_least(1),
        "Segment size in bytes of __share_group_state when it is made.",
        _HIGH,
    ),
    _row(
        "share.coordinator.snapshot.update.records.per.snapshot",
        500,
        between(0, 500),
        "Changes of a partition's state that are written between two records with all of it.",
    ),
    _row(
        "share.coordinator.state.topic.prune.interval.ms",
        300_000,
        at_least(1),
        "Milliseconds between two looks for records of __share_group_state that newer ones have made redundant.",
        _LOW,
        internal=True,
    ),
    _row(
        "share.coordinator.cold.partition.snapshot.interval.ms",
        300_000,
        at_least(1),
        "Milliseconds after which all of a partition's state is written again though nothing changed, so that older records "
        "can go.",
        _LOW,
        internal=True,
    ),
)

_RANGED = (
    "session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms", "delivery.count.limit", "record.lock.duration.ms",
    "partition.max.record.locks",
)  # fmt: skip

#: (lower, upper): none may be above the other.
SHARE_ORDER: tuple[tuple[str, str], ...] = (
    *((f"group.share.min.{name}", f"group.share.{name}") for name in _RANGED),
    *((f"group.share.{name}", f"group.share.max.{name}") for name in _RANGED),
    ("group.share.max.size", "group.share.max.share.sessions"),
)
