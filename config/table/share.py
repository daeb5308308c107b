"""The settings of share groups (KIP-932): what their members and records may do, and how that is kept.

A group's own settings (`resources.py`) go before those that are named like them here; `min` and `max` say what
groups may ask for.
"""

from __future__ import annotations

from ..setting import HIGH, INT, LOW, Group, Setting, at_least, between

# fmt: off
SHARE_ROWS: tuple[Setting, ...] = (
    Setting(
        "group.share.session.timeout.ms", type=INT, default=45_000, allowed=at_least(1), group=Group.SHARE_GROUPS,
        doc="Milliseconds without a heartbeat after which a member of a share group is taken for gone.",
    ),
    Setting(
        "group.share.min.session.timeout.ms", type=INT, default=45_000, allowed=at_least(1), group=Group.SHARE_GROUPS,
        doc="Shortest session time-out that a group may have.",
    ),
    Setting(
        "group.share.max.session.timeout.ms", type=INT, default=60_000, allowed=at_least(1), group=Group.SHARE_GROUPS,
        doc="Longest session time-out that a group may have.",
    ),
    Setting(
        "group.share.heartbeat.interval.ms", type=INT, default=5_000, allowed=at_least(1), group=Group.SHARE_GROUPS,
        doc="Milliseconds between the heartbeats of a member of a share group.",
    ),
    Setting(
        "group.share.min.heartbeat.interval.ms", type=INT, default=5_000, allowed=at_least(1), group=Group.SHARE_GROUPS,
        doc="Shortest such interval that a group may have.",
    ),
    Setting(
        "group.share.max.heartbeat.interval.ms", type=INT, default=15_000, allowed=at_least(1), group=Group.SHARE_GROUPS,
        doc="Longest such interval that a group may have.",
    ),
    Setting(
        "group.share.max.size", type=INT, default=200, allowed=between(1, 1000), group=Group.SHARE_GROUPS,
        doc="Members that one share group may have.",
    ),
    Setting(
        "group.share.assignment.interval.ms", type=INT, default=1_000, allowed=at_least(0), group=Group.SHARE_GROUPS,
        dynamic=True,
        doc="Least milliseconds between two assignments of partitions to the members of a share group.",
    ),
    Setting(
        "group.share.min.assignment.interval.ms", type=INT, default=0, allowed=at_least(0), group=Group.SHARE_GROUPS,
        doc="Shortest such interval that a group may have.",
    ),
    Setting(
        "group.share.max.assignment.interval.ms", type=INT, default=15_000, allowed=at_least(0), group=Group.SHARE_GROUPS,
        doc="Longest such interval that a group may have.",
    ),
    Setting(
        "group.share.delivery.count.limit", type=INT, default=5, allowed=between(2, 10), group=Group.SHARE_GROUPS,
        doc="How often a record is delivered to a share group before it is given up.",
    ),
    Setting(
        "group.share.min.delivery.count.limit", type=INT, default=2, allowed=between(2, 5), group=Group.SHARE_GROUPS,
        doc="Lowest such limit that a group may have.",
    ),
    Setting(
        "group.share.max.delivery.count.limit", type=INT, default=10, allowed=between(5, 25), group=Group.SHARE_GROUPS,
        doc="Highest such limit that a group may have.",
    ),
    Setting(
        "group.share.record.lock.duration.ms", type=INT, default=30_000, allowed=between(1_000, 3_600_000),
        group=Group.SHARE_GROUPS,
        doc="Milliseconds for which a member of a share group has a record before others get it.",
    ),
    Setting(
        "group.share.min.record.lock.duration.ms", type=INT, default=15_000, allowed=between(1_000, 30_000),
        group=Group.SHARE_GROUPS,
        doc="Shortest such time that a group may have.",
    ),
    Setting(
        "group.share.max.record.lock.duration.ms", type=INT, default=60_000, allowed=between(30_000, 3_600_000),
        group=Group.SHARE_GROUPS,
        doc="Longest such time that a group may have.",
    ),
    Setting(
        "group.share.partition.max.record.locks", type=INT, default=2_000, allowed=between(100, 10_000),
        group=Group.SHARE_GROUPS,
        doc="Records of one partition that are in flight in a share group at most, from the first that is not done with to "
            "the last that was delivered; what is left of that one's batch comes on top.",
    ),
    Setting(
        "group.share.min.partition.max.record.locks", type=INT, default=100, allowed=between(100, 2_000),
        group=Group.SHARE_GROUPS,
        doc="Lowest such limit that a group may have.",
    ),
    Setting(
        "group.share.max.partition.max.record.locks", type=INT, default=4_000, allowed=between(2_000, 10_000),
        group=Group.SHARE_GROUPS,
        doc="Highest such limit that a group may have.",
    ),
    Setting(
        "group.share.max.share.sessions", type=INT, default=2_000, allowed=at_least(1), group=Group.SHARE_GROUPS,
        doc="Members of all share groups that may fetch at a time; others are told to come again.",
    ),
    Setting(
        "share.coordinator.state.topic.num.partitions", type=INT, default=50, allowed=at_least(1), group=Group.SHARE_GROUPS,
        importance=HIGH,
        doc="Partitions of __share_group_state when it is made. It must not change afterwards: it decides where a key is.",
    ),
    Setting(
        "share.coordinator.state.topic.segment.bytes", type=INT, default=100 * 1024 * 1024, allowed=at_least(1),
        group=Group.SHARE_GROUPS, importance=HIGH,
        doc="Segment size in bytes of __share_group_state when it is made.",
    ),
    Setting(
        "share.coordinator.snapshot.update.records.per.snapshot", type=INT, default=500, allowed=between(0, 500),
        group=Group.SHARE_GROUPS,
        doc="Changes of a partition's state that are written between two records with all of it.",
    ),
    Setting(
        "share.coordinator.state.topic.prune.interval.ms", type=INT, default=300_000, allowed=at_least(1),
        group=Group.SHARE_GROUPS, importance=LOW, internal=True,
        doc="Milliseconds between two looks for records of __share_group_state that newer ones have made redundant.",
    ),
    Setting(
        "share.coordinator.cold.partition.snapshot.interval.ms", type=INT, default=300_000, allowed=at_least(1),
        group=Group.SHARE_GROUPS, importance=LOW, internal=True,
        doc="Milliseconds after which all of a partition's state is written again though nothing changed, so that older "
            "records can go.",
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
