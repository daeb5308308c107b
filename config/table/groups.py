"""The settings of groups that the coordinator leads with heartbeats (KIP-848 and after), and which protocols there are."""

from __future__ import annotations

from ..setting import INT_MAX, Allowed, Importance, Setting, SettingType, Value, at_least, one_of

_GROUP = "Consumer groups"
_INT, _LIST, _STRING = SettingType.INT, SettingType.LIST, SettingType.STRING


def _row(
    name: str,
    kind: SettingType,
    default: Value,
    allowed: Allowed,
    doc: str,
    *,
    dynamic: bool = False,
    internal: bool = False,
    why_different: str = "",
) -> Setting:
    return Setting(
        name,
        kind,
        default,
        doc,
        allowed,
        Importance.MEDIUM,
        dynamic,
        internal=internal,
        group=_GROUP,
        why_different=why_different,
    )


GROUP_ROWS: tuple[Setting, ...] = (
    _row(
        "group.coordinator.rebalance.protocols",
        _LIST,
        ("classic", "consumer", "streams"),
        one_of("consumer", "classic", "share", "streams"),
        "Group protocols that are answered. classic is always one of them; the others need their feature too (group.version …).",
    ),
    _row(
        "group.consumer.session.timeout.ms",
        _INT,
        45_000,
        at_least(1),
        "Milliseconds without a heartbeat after which a member of a consumer group is taken for gone. A group may have its own.",
    ),
    _row(
        "group.consumer.min.session.timeout.ms",
        _INT,
        45_000,
        at_least(1),
        "Shortest session time-out in milliseconds that a consumer group may be given.",
    ),
    _row(
        "group.consumer.max.session.timeout.ms",
        _INT,
        60_000,
        at_least(1),
        "Longest session time-out in milliseconds that a consumer group may be given.",
    ),
    _row(
        "group.consumer.heartbeat.interval.ms",
        _INT,
        5_000,
        at_least(1),
        "Milliseconds between the heartbeats of a member of a consumer group. A group may have its own.",
    ),
    _row(
        "group.consumer.min.heartbeat.interval.ms",
        _INT,
        5_000,
        at_least(1),
        "Shortest heartbeat interval in milliseconds that a consumer group may be given.",
    ),
    _row(
        "group.consumer.max.heartbeat.interval.ms",
        _INT,
        15_000,
        at_least(1),
        "Longest heartbeat interval in milliseconds that a consumer group may be given.",
    ),
    _row(
        "group.consumer.max.size",
        _INT,
        INT_MAX,
        at_least(1),
        "Members that one consumer group may have; group.max.size is for classic ones.",
    ),
    _row(
        "group.consumer.assignors",
        _LIST,
        ("uniform", "range"),
        one_of("uniform", "range"),
        "Assignors that members of consumer groups may ask for. The first is used where nobody asks.",
        why_different="Kafka also loads classes; there are none to load here",
    ),
    _row(
        "group.consumer.migration.policy",
        _STRING,
        "bidirectional",
        Allowed(
            pattern="(?i)^(disabled|downgrade|upgrade|bidirectional)$",
            text="disabled, downgrade, upgrade or bidirectional",
        ),
        "Whether a group with members changes its protocol: to the consumer protocol with the first member that speaks it "
        "(upgrade), back with the last one that goes (downgrade), both or neither. Empty groups always may.",
    ),
    _row(
        "group.consumer.assignment.interval.ms",
        _INT,
        1_000,
        at_least(0),
        "Least milliseconds between two assignments of a consumer group. A group may have its own.",
        dynamic=True,
    ),
    _row(
        "group.consumer.min.assignment.interval.ms",
        _INT,
        0,
        at_least(0),
        "Shortest assignment interval in milliseconds that a consumer group may be given.",
    ),
    _row(
        "group.consumer.max.assignment.interval.ms",
        _INT,
        15_000,
        at_least(0),
        "Longest assignment interval in milliseconds that a consumer group may be given.",
    ),
    _row(
        "group.consumer.regex.refresh.interval.ms",
        _INT,
        600_000,
        at_least(10_000),
        "Milliseconds after which regular expressions are matched against all topics anew, even if none was made.",
        internal=True,
    ),
    _row(
        "group.streams.session.timeout.ms",
        _INT,
        45_000,
        at_least(1),
        "Milliseconds without a heartbeat after which a member of a streams group is taken for gone. A group may have its own.",
    ),
    _row(
        "group.streams.min.session.timeout.ms",
        _INT,
        45_000,
        at_least(1),
        "Shortest session time-out in milliseconds that a streams group may be given.",
    ),
    _row(
        "group.streams.max.session.timeout.ms",
        _INT,
        60_000,
        at_least(1),
        "Longest session time-out in milliseconds that a streams group may be given.",
    ),
    _row(
        "group.streams.heartbeat.interval.ms",
        _INT,
        5_000,
        at_least(1),
        "Milliseconds between the heartbeats of a member of a streams group. A group may have its own.",
    ),
    _row(
        "group.streams.min.heartbeat.interval.ms",
        _INT,
        5_000,
        at_least(1),
        "Shortest heartbeat interval in milliseconds that a streams group may be given.",
    ),
    _row(
        "group.streams.max.heartbeat.interval.ms",
        _INT,
        15_000,
        at_least(1),
        "Longest heartbeat interval in milliseconds that a streams group may be given.",
    ),
    _row(
        "group.streams.max.size",
        _INT,
        INT_MAX,
        at_least(1),
        "Members (threads of an application) that one streams group may have.",
    ),
    _row(
        "group.streams.num.standby.replicas",
        _INT,
        0,
        at_least(0),
        "Stand-by copies of each task with state. A group may have its own.",
    ),
    _row(
        "group.streams.max.standby.replicas",
        _INT,
        2,
        at_least(0),
        "Most stand-by copies that a streams group may be given.",
    ),
    _row(
        "group.streams.initial.rebalance.delay.ms",
        _INT,
        3_000,
        at_least(0),
        "Milliseconds that the first assignment of a new streams group waits for more members. A group may have its own.",
    ),
    _row(
        "group.streams.assignment.interval.ms",
        _INT,
        1_000,
        at_least(0),
        "Least milliseconds between two assignments of a streams group. A group may have its own.",
        dynamic=True,
    ),
    _row(
        "group.streams.min.assignment.interval.ms",
        _INT,
        0,
        at_least(0),
        "Shortest assignment interval in milliseconds that a streams group may be given.",
    ),
    _row(
        "group.streams.max.assignment.interval.ms",
        _INT,
        15_000,
        at_least(0),
        "Longest assignment interval in milliseconds that a streams group may be given.",
    ),
)
