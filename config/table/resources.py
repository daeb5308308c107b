"""Settings of what is neither topic nor broker: groups (KIP-848, KIP-932, KIP-1071) and subscriptions to clients' metrics
(KIP-714). Names, types, defaults and ranges are Kafka 4.4's.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..setting import BOOLEAN, INT, LIST, STRING, Allowed, Setting, Synonym, at_least, between, one_of

_SECONDS = r"\d+(\.\d{1,9})?S"
_TIME = rf"T(\d+H(\d+M)?({_SECONDS})?|\d+M({_SECONDS})?|{_SECONDS})"
_DURATION = rf"P(\d+D({_TIME})?|{_TIME})"


def _table(rows: Iterable[Setting]) -> dict[str, Setting]:
    return {row.name: row for row in rows}


# Here is what no broker can allow; the limits of this one, which lie within, are looked at by `group_limits`.
_SESSION = at_least(1)
_HEARTBEAT = at_least(1)
_ASSIGNMENT = at_least(0)

# fmt: off
GROUP_SETTINGS: dict[str, Setting] = _table(
    row
    for kind in ("consumer", "share", "streams")
    for row in (
        Setting(
            f"{kind}.session.timeout.ms", type=INT, default=45_000, allowed=_SESSION, dynamic=True,
            synonyms=(Synonym(f"group.{kind}.session.timeout.ms"),),
            doc=f"Milliseconds without a heartbeat after which a member of the {kind} group is taken for gone.",
        ),
        Setting(
            f"{kind}.heartbeat.interval.ms", type=INT, default=5_000, allowed=_HEARTBEAT, dynamic=True,
            synonyms=(Synonym(f"group.{kind}.heartbeat.interval.ms"),),
            doc=f"Milliseconds between the heartbeats of a member of the {kind} group.",
        ),
        Setting(
            f"{kind}.assignment.interval.ms", type=INT, default=1_000, allowed=_ASSIGNMENT, dynamic=True,
            synonyms=(Synonym(f"group.{kind}.assignment.interval.ms"),),
            doc=f"Least milliseconds between two assignments of the {kind} group.",
        ),
    )
) | _table(
    (
        Setting(
            "share.record.lock.duration.ms", type=INT, default=30_000, allowed=at_least(1_000), dynamic=True,
            synonyms=(Synonym("group.share.record.lock.duration.ms"),),
            doc="Milliseconds for which a share group's consumer has a record before others get it.",
        ),
        Setting(
            "share.delivery.count.limit", type=INT, default=5, allowed=at_least(2), dynamic=True,
            synonyms=(Synonym("group.share.delivery.count.limit"),),
            doc="How often a share group delivers a record before it is given up.",
        ),
        Setting(
            "share.partition.max.record.locks", type=INT, default=2_000, allowed=at_least(100), dynamic=True,
            synonyms=(Synonym("group.share.partition.max.record.locks"),),
            doc="Records of one partition that consumers of a share group may have at once.",
        ),
        Setting(
            "share.auto.offset.reset", type=STRING, default="latest",
            allowed=Allowed(pattern=f"^(earliest|latest|by_duration:{_DURATION})$",
                            text="earliest, latest or by_duration:PnDTnHnMnS"),
            dynamic=True, synonyms=(Synonym("share.auto.offset.reset"),),
            doc="Where a share group begins in a partition: earliest, latest, or by_duration: and how long ago.",
        ),
        Setting(
            "share.isolation.level", type=STRING, default="read_uncommitted",
            allowed=one_of("read_uncommitted", "read_committed"), dynamic=True, synonyms=(Synonym("share.isolation.level"),),
            doc="Whether a share group gets records of transactions that are open or were aborted.",
        ),
        Setting(
            "share.renew.acknowledge.enable", type=BOOLEAN, default=True, dynamic=True,
            synonyms=(Synonym("share.renew.acknowledge.enable"),),
            doc="Whether consumers of a share group may ask to keep a record for longer.",
        ),
        Setting(
            "streams.num.standby.replicas", type=INT, default=0, allowed=at_least(0), dynamic=True,
            synonyms=(Synonym("group.streams.num.standby.replicas"),),
            doc="Stand-by copies of each task of a streams group.",
        ),
        Setting(
            "streams.initial.rebalance.delay.ms", type=INT, default=3_000, allowed=at_least(0), dynamic=True,
            synonyms=(Synonym("group.streams.initial.rebalance.delay.ms"),),
            doc="Milliseconds that the first member of a new streams group waits for others.",
        ),
        Setting(
            "streams.assignor.name", type=STRING, default="sticky", allowed=one_of("sticky"), dynamic=True,
            doc="How tasks of a streams group are assigned: sticky, there is no other.",
        ),
        Setting(
            "streams.rack.aware.assignment.tags", type=LIST, default=(),
            allowed=Allowed(choices=("",), text="empty: stand-by tasks are not spread by tags"), dynamic=True,
            doc="Tags by which the stand-by tasks of a streams group are spread: none, they are not.",
        ),
        Setting(
            "errors.deadletterqueue.topic.name", type=STRING, default="",
            allowed=Allowed(choices=("",), text="empty: there is no dead-letter queue"), dynamic=True,
            doc="Topic for what a share group gives up (KIP-1191): none, it is archived.",
        ),
        Setting(
            "errors.deadletterqueue.copy.record.enable", type=BOOLEAN, default=False, dynamic=True,
            doc="Whether a record goes to the dead-letter queue as a whole: there is none, so that this says nothing.",
        ),
    )
)
"""By name, whatever protocol the group speaks."""

CLIENT_METRICS_SETTINGS: dict[str, Setting] = {
    row.name: row
    for row in (
        Setting(
            "interval.ms", type=INT, default=300_000, allowed=between(100, 3_600_000), dynamic=True,
            doc="Milliseconds between two pushes of a client.",
        ),
        Setting(
            "match", type=LIST, default=(), dynamic=True,
            doc="Which clients push: NAME=EXPRESSION for client_instance_id, client_id, client_software_name, "
                "client_software_version, client_source_address, client_source_port; all must match.",
        ),
        Setting(
            "metrics", type=LIST, default=(), dynamic=True,
            doc="Metrics that clients push, by the beginnings of their names; * is all.",
        ),
    )
}
"""Settings of a client metrics subscription, by name."""
