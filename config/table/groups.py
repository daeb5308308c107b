"""Rows of settings of the coordinators: sessions of classic groups, committed offsets, producer ids and the internal topics
(`COORDINATOR_ROWS`), groups led by heartbeats (KIP-848 and after) and the protocols there are, transactions."""

from __future__ import annotations

from ..setting import BOOLEAN, HIGH, INT, INT_MAX, LIST, LONG, LOW, STRING, Allowed, Group, Setting, at_least, one_of

# fmt: off
COORDINATOR_ROWS: tuple[Setting, ...] = (
    Setting(
        "group.initial.rebalance.delay.ms", type=INT, default=3000, allowed=at_least(0), group=Group.GROUPS,
        doc="Milliseconds that the first member of an empty group waits for others before partitions are given out.",
        why_different="Kafka checks no range",
    ),
    Setting(
        "group.min.session.timeout.ms", type=INT, default=6000, allowed=at_least(0), group=Group.GROUPS,
        doc="Shortest session time-out in milliseconds that a member may ask for.",
        why_different="Kafka checks no range",
    ),
    Setting(
        "group.max.session.timeout.ms", type=INT, default=30 * 60 * 1000, allowed=at_least(0), group=Group.GROUPS,
        doc="Longest session time-out in milliseconds that a member may ask for.",
        why_different="Kafka checks no range",
    ),
    Setting(
        "group.max.size", type=INT, default=INT_MAX, allowed=at_least(1), group=Group.GROUPS,
        doc="Members that one group may have.",
    ),
    Setting(
        "offsets.topic.num.partitions", type=INT, default=50, allowed=at_least(1), group=Group.GROUPS, importance=HIGH,
        doc="Partitions of __consumer_offsets when it is made. It must not change afterwards: it decides where a group is.",
    ),
    Setting(
        "offsets.topic.segment.bytes", type=INT, default=100 * 1024 * 1024, allowed=at_least(1), group=Group.GROUPS,
        importance=HIGH,
        doc="Segment size in bytes of __consumer_offsets when it is made; smaller ones load faster.",
    ),
    Setting(
        "offsets.retention.minutes", type=INT, default=7 * 24 * 60, allowed=at_least(1), group=Group.GROUPS, importance=HIGH,
        doc="Minutes after which the committed offsets of a group without members are forgotten.",
    ),
    Setting(
        "offsets.retention.check.interval.ms", type=LONG, default=10 * 60 * 1000, allowed=at_least(1), group=Group.GROUPS,
        importance=HIGH,
        doc="Milliseconds between two looks for committed offsets to forget.",
    ),
    Setting(
        "offset.metadata.max.bytes", type=INT, default=4096, allowed=at_least(0), group=Group.GROUPS, importance=HIGH,
        doc="Longest text in bytes that may go with a committed offset.",
        why_different="Kafka checks no range",
    ),
    Setting(
        "producer.id.expiration.ms", type=INT, default=24 * 60 * 60 * 1000, allowed=at_least(1), group=Group.GROUPS,
        importance=LOW, dynamic=True,
        doc="Milliseconds after which what is known of an idempotent producer that fell silent is forgotten.",
    ),
    Setting(
        "producer.id.expiration.check.interval.ms", type=INT, default=10 * 60 * 1000, allowed=at_least(1), group=Group.GROUPS,
        importance=LOW, internal=True,
        doc="Milliseconds between two looks for producers to forget.",
    ),
    Setting(
        "transaction.state.log.num.partitions", type=INT, default=50, allowed=at_least(1), group=Group.GROUPS,
        importance=HIGH,
        doc="Partitions of __transaction_state when it is made.",
    ),
    Setting(
        "transaction.state.log.segment.bytes", type=INT, default=100 * 1024 * 1024, allowed=at_least(1), group=Group.GROUPS,
        importance=HIGH,
        doc="Segment size in bytes of __transaction_state when it is made.",
    ),
)

GROUP_ROWS: tuple[Setting, ...] = (
    Setting(
        "group.coordinator.rebalance.protocols", type=LIST, default=("classic", "consumer", "streams"),
        allowed=one_of("consumer", "classic", "share", "streams"), group=Group.CONSUMER_GROUPS,
        doc="Group protocols that are answered. classic is always one of them; the others need their feature too "
            "(group.version …).",
    ),
    Setting(
        "group.consumer.session.timeout.ms", type=INT, default=45_000, allowed=at_least(1), group=Group.CONSUMER_GROUPS,
        doc="Milliseconds without a heartbeat after which a member of a consumer group is taken for gone. A group may have "
            "its own.",
    ),
    Setting(
        "group.consumer.min.session.timeout.ms", type=INT, default=45_000, allowed=at_least(1), group=Group.CONSUMER_GROUPS,
        doc="Shortest session time-out in milliseconds that a consumer group may be given.",
    ),
    Setting(
        "group.consumer.max.session.timeout.ms", type=INT, default=60_000, allowed=at_least(1), group=Group.CONSUMER_GROUPS,
        doc="Longest session time-out in milliseconds that a consumer group may be given.",
    ),
    Setting(
        "group.consumer.heartbeat.interval.ms", type=INT, default=5_000, allowed=at_least(1), group=Group.CONSUMER_GROUPS,
        doc="Milliseconds between the heartbeats of a member of a consumer group. A group may have its own.",
    ),
    Setting(
        "group.consumer.min.heartbeat.interval.ms", type=INT, default=5_000, allowed=at_least(1), group=Group.CONSUMER_GROUPS,
        doc="Shortest heartbeat interval in milliseconds that a consumer group may be given.",
    ),
    Setting(
        "group.consumer.max.heartbeat.interval.ms", type=INT, default=15_000, allowed=at_least(1),
        group=Group.CONSUMER_GROUPS,
        doc="Longest heartbeat interval in milliseconds that a consumer group may be given.",
    ),
    Setting(
        "group.consumer.max.size", type=INT, default=INT_MAX, allowed=at_least(1), group=Group.CONSUMER_GROUPS,
        doc="Members that one consumer group may have; group.max.size is for classic ones.",
    ),
    Setting(
        "group.consumer.assignors", type=LIST, default=("uniform", "range"), allowed=one_of("uniform", "range"),
        group=Group.CONSUMER_GROUPS,
        doc="Assignors that members of consumer groups may ask for. The first is used where nobody asks.",
        why_different="Kafka also loads classes; there are none to load here",
    ),
    Setting(
        "group.consumer.migration.policy", type=STRING, default="bidirectional",
        allowed=Allowed(pattern="(?i)^(disabled|downgrade|upgrade|bidirectional)$",
                        text="disabled, downgrade, upgrade or bidirectional"),
        group=Group.CONSUMER_GROUPS,
        doc="Whether a group with members changes its protocol: to the consumer protocol with the first member that speaks it "
            "(upgrade), back with the last one that goes (downgrade), both or neither. Empty groups always may.",
    ),
    Setting(
        "group.consumer.assignment.interval.ms", type=INT, default=1_000, allowed=at_least(0), group=Group.CONSUMER_GROUPS,
        dynamic=True,
        doc="Least milliseconds between two assignments of a consumer group. A group may have its own.",
    ),
    Setting(
        "group.consumer.min.assignment.interval.ms", type=INT, default=0, allowed=at_least(0), group=Group.CONSUMER_GROUPS,
        doc="Shortest assignment interval in milliseconds that a consumer group may be given.",
    ),
    Setting(
        "group.consumer.max.assignment.interval.ms", type=INT, default=15_000, allowed=at_least(0),
        group=Group.CONSUMER_GROUPS,
        doc="Longest assignment interval in milliseconds that a consumer group may be given.",
    ),
    Setting(
        "group.consumer.regex.refresh.interval.ms", type=INT, default=600_000, allowed=at_least(10_000),
        group=Group.CONSUMER_GROUPS, internal=True,
        doc="Milliseconds after which regular expressions are matched against all topics anew, even if none was made.",
    ),
    Setting(
        "group.streams.session.timeout.ms", type=INT, default=45_000, allowed=at_least(1), group=Group.CONSUMER_GROUPS,
        doc="Milliseconds without a heartbeat after which a member of a streams group is taken for gone. A group may have its "
            "own.",
    ),
    Setting(
        "group.streams.min.session.timeout.ms", type=INT, default=45_000, allowed=at_least(1), group=Group.CONSUMER_GROUPS,
        doc="Shortest session time-out in milliseconds that a streams group may be given.",
    ),
    Setting(
        "group.streams.max.session.timeout.ms", type=INT, default=60_000, allowed=at_least(1), group=Group.CONSUMER_GROUPS,
        doc="Longest session time-out in milliseconds that a streams group may be given.",
    ),
    Setting(
        "group.streams.heartbeat.interval.ms", type=INT, default=5_000, allowed=at_least(1), group=Group.CONSUMER_GROUPS,
        doc="Milliseconds between the heartbeats of a member of a streams group. A group may have its own.",
    ),
    Setting(
        "group.streams.min.heartbeat.interval.ms", type=INT, default=5_000, allowed=at_least(1), group=Group.CONSUMER_GROUPS,
        doc="Shortest heartbeat interval in milliseconds that a streams group may be given.",
    ),
    Setting(
        "group.streams.max.heartbeat.interval.ms", type=INT, default=15_000, allowed=at_least(1), group=Group.CONSUMER_GROUPS,
        doc="Longest heartbeat interval in milliseconds that a streams group may be given.",
    ),
    Setting(
        "group.streams.max.size", type=INT, default=INT_MAX, allowed=at_least(1), group=Group.CONSUMER_GROUPS,
        doc="Members (threads of an application) that one streams group may have.",
    ),
    Setting(
        "group.streams.num.standby.replicas", type=INT, default=0, allowed=at_least(0), group=Group.CONSUMER_GROUPS,
        doc="Stand-by copies of each task with state. A group may have its own.",
    ),
    Setting(
        "group.streams.max.standby.replicas", type=INT, default=2, allowed=at_least(0), group=Group.CONSUMER_GROUPS,
        doc="Most stand-by copies that a streams group may be given.",
    ),
    Setting(
        "group.streams.initial.rebalance.delay.ms", type=INT, default=3_000, allowed=at_least(0), group=Group.CONSUMER_GROUPS,
        doc="Milliseconds that the first assignment of a new streams group waits for more members. A group may have its own.",
    ),
    Setting(
        "group.streams.assignment.interval.ms", type=INT, default=1_000, allowed=at_least(0), group=Group.CONSUMER_GROUPS,
        dynamic=True,
        doc="Least milliseconds between two assignments of a streams group. A group may have its own.",
    ),
    Setting(
        "group.streams.min.assignment.interval.ms", type=INT, default=0, allowed=at_least(0), group=Group.CONSUMER_GROUPS,
        doc="Shortest assignment interval in milliseconds that a streams group may be given.",
    ),
    Setting(
        "group.streams.max.assignment.interval.ms", type=INT, default=15_000, allowed=at_least(0),
        group=Group.CONSUMER_GROUPS,
        doc="Longest assignment interval in milliseconds that a streams group may be given.",
    ),
    Setting(
        "group.streams.topology.descriptions.max.bytes", type=LONG, default=16 * 1024 * 1024, allowed=at_least(0),
        group=Group.CONSUMER_GROUPS, dynamic=True, own=True,
        doc="Bytes that the descriptions of all streams groups' topologies may take: the graphs of nodes that `tidelog groups "
            "describe --topology` shows (KIP-1331). One that does not fit is not kept, and not asked for again. 0 turns it "
            "off: applications are not asked for theirs. Apache Kafka has a plug-in for this "
            "(group.streams.topology.description.plugin.class).",
    ),
)


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
