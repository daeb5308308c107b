"""The settings of operating the daemon: containers, the console, metrics, moves of logs, how quotas are measured."""

from __future__ import annotations

from ..setting import BOOLEAN, INT, LIST, LONG, LONG_MAX, LOW, STRING, Group, Setting, at_least, one_of

# fmt: off
OPERATION_ROWS: tuple[Setting, ...] = (
    Setting(
        "logging.audit.level", type=STRING, default=None, allowed=one_of("DEBUG", "INFO", "WARNING", "ERROR"),
        group=Group.PROCESS, importance=LOW, own=True,
        doc="The audit log's own level, whatever logging.level is: its lines are INFO, so that WARNING switches it off. "
            "Without it, logging.level holds.",
    ),
    Setting(
        "log.damage.policy", type=STRING, default="hole", allowed=one_of("hole", "stop", "kafka"), group=Group.NODE, own=True,
        doc="What a start does about records that were durable and are damaged now: hole leaves them out, keeps their bytes "
            "beside the log as .damaged and everything else as it was; stop does not start; kafka cuts the log there, as "
            "Apache Kafka does, and what lies behind is gone. What a crash left half written is cut off in any case.",
    ),
    Setting(
        "tidelog.log.scrub.bytes.per.second", type=LONG, default=1 << 20, allowed=at_least(0), group=Group.UPKEEP, dynamic=True,
        own=True,
        doc="How many bytes a second are read of each log directory to find damage early: closed segments from the first to the "
            "last, again and again, at most once an hour: checksums, offsets, indexes, producer snapshots, leader epochs. What "
            "is damaged is told by /health, metrics and the console. 0 switches it off. `tidelog log scrub` does the same "
            "once.",
    ),
    Setting(
        "http.admin.enable", type=BOOLEAN, default=False, group=Group.NETWORK, own=True,
        doc="Whether the console may act: clean, apply retention, delete records, change settings, set groups' offsets. Each "
            "action asks first. Without http.authentication it acts only for browsers on this machine, with it for "
            "http.users.admin. Off, it only shows.",
    ),
    Setting(
        "http.allowed.hosts", type=LIST, default=(), group=Group.NETWORK, own=True,
        doc="Host names under which the HTTP listener may be asked (console, /metrics, /health, /why, /clean), besides "
            "addresses, localhost, this machine's host name and the hosts of http.listener and advertised.listeners. Another "
            "name is answered with 421, so that no web site can read the daemon by pointing a name of its own at it. "
            "/health/live and /health/ready answer with one word under every name. With http.authentication any name will do "
            "for who has signed in.",
    ),
    Setting(
        "container.gateway.localhost", type=BOOLEAN, default=True, group=Group.NETWORK, importance=LOW, own=True,
        doc="In a container only: whether a client that arrives from the default gateway's address, as one on the host does "
            "through a published port, is told to connect to localhost (docs/CONTAINER.md). advertised.listeners goes before "
            "it.",
    ),
    Setting(
        "metrics.per.group", type=BOOLEAN, default=True, group=Group.PROCESS, importance=LOW, dynamic=True, own=True,
        doc="Whether metrics are also given for each consumer group: members, offsets and lag. See "
            "metrics.max.group.partitions.",
    ),
    Setting(
        "metrics.max.group.partitions", type=INT, default=2000, allowed=at_least(0), group=Group.PROCESS, importance=LOW,
        dynamic=True, own=True,
        doc="Partitions of consumer groups that /metrics has rows for, and groups whose members it has: those with the "
            "largest lag, and with the most members. The others are in the sums. Clients choose how many groups there are; a "
            "scrape has to end.",
    ),
    Setting(
        "metrics.max.partitions", type=INT, default=2000, allowed=at_least(0), group=Group.PROCESS, importance=LOW,
        dynamic=True, own=True,
        doc="Partitions that /metrics has rows for: the largest by bytes. The others are in the sums. Some 20 rows each.",
    ),
    Setting(
        "num.replica.alter.log.dirs.threads", type=INT, default=None, allowed=at_least(1), group=Group.UPKEEP,
        doc="How many logs are moved between log directories at the same time. Default: as many as there are directories.",
        why_different="Kafka does not check it",
    ),
    Setting(
        "replica.alter.log.dirs.io.max.bytes.per.second", type=LONG, default=LONG_MAX, allowed=at_least(1),
        group=Group.UPKEEP, dynamic=True,
        doc="How many bytes a second are copied where logs are moved between log directories, all together. The default is no "
            "limit.",
        why_different="a broker setting that can be changed while running, and one that every broker knows",
    ),
)


# fmt: off
ADMINISTRATION_ROWS: tuple[Setting, ...] = (
    Setting(
        "telemetry.enable", type=BOOLEAN, default=False, group=Group.QUOTAS, importance=LOW, own=True,
        doc="Whether clients are offered to push metrics of their own (KIP-714). What they push is counted "
            "(tidelog_telemetry_*) and not kept; many clients log a line when a broker offers it. Apache Kafka offers it "
            "where a plug-in of metric.reporters takes it.",
    ),
    Setting(
        "quota.window.num", type=INT, default=11, allowed=at_least(1), group=Group.QUOTAS, importance=LOW,
        doc="Windows over which bytes and requests of a client are measured against its quota, the one in progress included.",
    ),
    Setting(
        "quota.window.size.seconds", type=INT, default=1, allowed=at_least(1), group=Group.QUOTAS, importance=LOW,
        doc="Length of each of these windows, in seconds.",
    ),
    Setting(
        "controller.quota.window.num", type=INT, default=11, allowed=at_least(1), group=Group.QUOTAS, importance=LOW,
        doc="Windows over which partitions made and deleted may be saved up against controller_mutation_rate.",
    ),
    Setting(
        "controller.quota.window.size.seconds", type=INT, default=1, allowed=at_least(1), group=Group.QUOTAS, importance=LOW,
        doc="Length of each of these windows, in seconds.",
    ),
    Setting(
        "telemetry.max.bytes", type=INT, default=1 << 20, allowed=at_least(1), group=Group.QUOTAS, importance=LOW,
        doc="Largest metrics, in bytes as they come, that a client may push at once (KIP-714).",
    ),
)
