"""The settings of operating the daemon: containers, the console, metrics, moves of logs."""

from __future__ import annotations

from ..setting import ANY, LONG_MAX, Importance, Setting, SettingType, at_least, one_of

GROUP = "Process, log lines and metrics"

OPERATION_ROWS: tuple[Setting, ...] = (
    Setting(
        "logging.audit.level",
        SettingType.STRING,
        None,
        "The audit log's own level, whatever logging.level is: its lines are INFO, so that WARNING switches it off. "
        "Without it, logging.level holds.",
        one_of("DEBUG", "INFO", "WARNING", "ERROR"),
        Importance.LOW,
        group=GROUP,
        own=True,
    ),
    Setting(
        "log.damage.policy",
        SettingType.STRING,
        "hole",
        "What a start does about records that were durable and are damaged now: hole leaves them out, keeps their bytes "
        "beside the log as .damaged and everything else as it was; stop does not start; kafka cuts the log there, as Apache "
        "Kafka does, and what lies behind is gone. What a crash left half written is cut off in any case.",
        one_of("hole", "stop", "kafka"),
        Importance.MEDIUM,
        group="Node and directories",
        own=True,
    ),
    Setting(
        "http.admin.enable",
        SettingType.BOOLEAN,
        False,
        "Whether the console may act: clean, apply retention, delete records, change settings, set groups' offsets. Each action "
        "asks first. Without http.authentication it acts only for browsers on this machine, with it for http.users.admin. Off, "
        "it only shows.",
        ANY,
        Importance.MEDIUM,
        group="Network",
        own=True,
    ),
    Setting(
        "http.allowed.hosts",
        SettingType.LIST,
        (),
        "Host names under which the HTTP listener may be asked (console, /metrics, /health, /why, /clean), besides addresses, "
        "localhost, this machine's host name and the hosts of http.listener and advertised.listeners. Another name is answered "
        "with 421, so that no web site can read the daemon by pointing a name of its own at it. /health/live and /health/ready "
        "answer with one word under every name. With http.authentication any name will do for who has signed in.",
        ANY,
        Importance.MEDIUM,
        group="Network",
        own=True,
    ),
    Setting(
        "container.gateway.localhost",
        SettingType.BOOLEAN,
        True,
        "In a container only: whether a client that arrives from the default gateway's address, as one on the host does "
        "through a published port, is told to connect to localhost (docs/CONTAINER.md). advertised.listeners goes before it.",
        ANY,
        Importance.LOW,
        group="Network",
        own=True,
    ),
    Setting(
        "metrics.per.group",
        SettingType.BOOLEAN,
        True,
        "Whether metrics are also given for each consumer group: members, offsets and lag. See metrics.max.group.partitions.",
        ANY,
        Importance.LOW,
        dynamic=True,
        group=GROUP,
        own=True,
    ),
    Setting(
        "metrics.max.group.partitions",
        SettingType.INT,
        2000,
        "Partitions of consumer groups that /metrics has rows for, and groups whose members it has: those with the largest lag, "
        "and with the most members. The others are in the sums. Clients choose how many groups there are; a scrape has to end.",
        at_least(0),
        Importance.LOW,
        dynamic=True,
        group=GROUP,
        own=True,
    ),
    Setting(
        "metrics.max.partitions",
        SettingType.INT,
        2000,
        "Partitions that /metrics has rows for: the largest by bytes. The others are in the sums. Some 20 rows each.",
        at_least(0),
        Importance.LOW,
        dynamic=True,
        group=GROUP,
        own=True,
    ),
    Setting(
        "num.replica.alter.log.dirs.threads",
        SettingType.INT,
        None,
        "How many logs are moved between log directories at the same time. Default: as many as there are directories.",
        at_least(1),
        Importance.MEDIUM,
        group="Logs' upkeep",
        why_different="Kafka does not check it",
    ),
    Setting(
        "replica.alter.log.dirs.io.max.bytes.per.second",
        SettingType.LONG,
        LONG_MAX,
        "How many bytes a second are copied where logs are moved between log directories, all together. The default is no limit.",
        at_least(1),
        Importance.MEDIUM,
        dynamic=True,
        group="Logs' upkeep",
        why_different="a broker setting that can be changed while running, and one that every broker knows",
    ),
)
