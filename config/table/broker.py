"""The settings that only the broker has: network, topics' creation, logs' upkeep, groups, producers, logging."""

from __future__ import annotations

from ..setting import (
    ANY,
    INT_MAX,
    LONG_MAX,
    Allowed,
    Importance,
    Setting,
    SettingType,
    Value,
    at_least,
    between,
    one_of,
)
from .message_set import MESSAGE_SET_ROWS

_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
_BOOLEAN, _INT, _LIST, _LONG, _STRING = (
    SettingType.BOOLEAN,
    SettingType.INT,
    SettingType.LIST,
    SettingType.LONG,
    SettingType.STRING,
)


def _group(group: str, *rows: Setting) -> tuple[Setting, ...]:
    return tuple(
        Setting(
            row.name,
            row.type,
            row.default,
            row.doc,
            row.allowed,
            row.importance,
            row.dynamic,
            group=group,
            own=row.own,
            why_different=row.why_different,
            internal=row.internal,
        )
        for row in rows
    )


def _row(
    name: str,
    kind: SettingType,
    default: Value,
    allowed: Allowed,
    importance: Importance,
    doc: str,
    *,
    dynamic: bool = False,
    own: bool = False,
    internal: bool = False,
    why_different: str = "",
) -> Setting:
    return Setting(
        name,
        kind,
        default,
        doc,
        allowed,
        importance,
        dynamic,
        internal=internal,
        own=own,
        why_different=why_different,
    )


_NETWORK = _group(
    "Network",
    _row(
        "listeners",
        _LIST,
        ("PLAINTEXT://127.0.0.1:9092",),
        Allowed(at_least_one=True),
        _HIGH,
        "Where clients connect: NAME://HOST:PORT, several separated by commas. An empty host is every interface, an "
        "IPv6 address goes in brackets, port 0 is any free one and is shown in the ready line. Names that "
        "controller.listener.names lists are left out: there is no controller to connect to.",
        why_different="loopback only, until you say that others may connect; Kafka listens on every interface",
    ),
    _row(
        "advertised.listeners",
        _LIST,
        None,
        ANY,
        _HIGH,
        "The addresses that clients are told to connect to, one for each listener that needs it. Without it a client "
        "is told the address that it dialled, which is right unless a proxy or a port mapping lies between.",
    ),
    _row(
        "listener.security.protocol.map",
        _STRING,
        "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
        ANY,
        _LOW,
        "NAME:PROTOCOL pairs for listeners whose name is not a protocol. Protocols are PLAINTEXT, SSL, SASL_PLAINTEXT and "
        "SASL_SSL.",
    ),
    _row(
        "controller.listener.names",
        _LIST,
        (),
        ANY,
        _HIGH,
        "Listeners that Kafka's controllers would use. There are none here; the names are taken out of listeners and "
        "advertised.listeners.",
        why_different="not required: there are no controllers",
    ),
    _row(
        "http.listener",
        _STRING,
        "127.0.0.1:9404",
        ANY,
        _HIGH,
        "HOST:PORT for metrics, health and the console over HTTP, or https://HOST:PORT for TLS with the settings of TLS "
        "(listener.name.http.ssl.… for its own); port 0 is any free one, an empty value switches it off.",
        own=True,
    ),
    _row(
        "socket.request.max.bytes",
        _INT,
        100 * 1024 * 1024,
        at_least(1),
        _HIGH,
        "Largest request in bytes. A client that announces a larger one is disconnected.",
    ),
    _row(
        "socket.send.buffer.bytes",
        _INT,
        100 * 1024,
        at_least(1, also=(-1,)),
        _HIGH,
        "SO_SNDBUF of a connection in bytes; -1 leaves it to the operating system.",
        why_different="Kafka leaves the check to the operating system",
    ),
    _row(
        "socket.receive.buffer.bytes",
        _INT,
        100 * 1024,
        at_least(1, also=(-1,)),
        _HIGH,
        "SO_RCVBUF of a connection in bytes; -1 leaves it to the operating system.",
        why_different="Kafka leaves the check to the operating system",
    ),
    _row(
        "socket.listen.backlog.size",
        _INT,
        50,
        at_least(1),
        _MEDIUM,
        "Connections that may wait to be accepted; the operating system's limit holds too.",
    ),
    _row(
        "connection.outbound.max.bytes",
        _INT,
        1024 * 1024,
        at_least(1024),
        _MEDIUM,
        "Bytes of answers that may wait for one client to read them. Above it no more of that client's requests are "
        "read until it has caught up, so a slow reader costs a bounded amount of memory.",
        own=True,
    ),
    _row(
        "connections.max.idle.ms",
        _LONG,
        10 * 60 * 1000,
        at_least(1),
        _MEDIUM,
        "Milliseconds without a request after which a connection is closed.",
        why_different="Kafka checks no range",
    ),
)

_NODE = _group(
    "Node and directories",
    _row(
        "node.id",
        _INT,
        -1,
        at_least(0, also=(-1,)),
        _HIGH,
        "This node's id. -1 takes the one that meta.properties has, and 1 for a new directory.",
        why_different="not required: one node can name itself",
    ),
    _row("broker.id", _INT, -1, at_least(0, also=(-1,)), _HIGH, "The older name of node.id."),
    _row(
        "broker.rack",
        _STRING,
        None,
        ANY,
        _MEDIUM,
        "The rack that clients are told this node stands in; they may use it to choose where they read.",
    ),
    _row(
        "log.dirs",
        _LIST,
        None,
        Allowed(at_least_one=True),
        _HIGH,
        "Directories for the logs, several separated by commas: a new partition goes to the one with the fewest. The "
        "first one also has metadata.db. Without it, log.dir holds.",
    ),
    _row(
        "log.dir",
        _LIST,
        ("./data",),
        Allowed(at_least_one=True),
        _HIGH,
        "The directory for the logs where log.dirs is not set.",
        why_different="Kafka's /tmp/kafka-logs does not outlive a reboot on many machines",
    ),
    _row(
        "log.dir.reserve.bytes",
        _LONG,
        32 * 1024 * 1024,
        at_least(0),
        _MEDIUM,
        "Bytes of each log directory's disk that producers leave free: while less is, Produce is answered with "
        "KAFKA_STORAGE_ERROR, which clients retry, and committed offsets may use half of it. Reads, deletion and retention "
        "go on, and service resumes by itself when there is room. 0 leaves the disk to run full.",
        own=True,
    ),
)

_TOPICS = _group(
    "Topics",
    _row(
        "auto.create.topics.enable",
        _BOOLEAN,
        True,
        ANY,
        _HIGH,
        "Whether a client that asks for a topic that is not there gets it made, if it allows that itself.",
    ),
    _row(
        "num.partitions",
        _INT,
        1,
        at_least(1),
        _MEDIUM,
        "Partitions of a topic that is made without saying how many.",
    ),
    _row(
        "default.replication.factor",
        _INT,
        1,
        between(1, 1),
        _MEDIUM,
        "Copies of a topic that is made without saying how many. One node has one.",
        why_different="one node can keep one copy, and says so",
    ),
    _row("delete.topic.enable", _BOOLEAN, True, ANY, _HIGH, "Whether topics may be deleted over the protocol."),
)

_LOGS = _group(
    "Logs' upkeep",
    _row(
        "log.roll.hours",
        _INT,
        168,
        at_least(1),
        _HIGH,
        "Age in hours at which a log starts a new segment; log.roll.ms wins.",
    ),
    _row(
        "log.roll.jitter.hours",
        _INT,
        0,
        at_least(0),
        _HIGH,
        "Up to this many hours are taken off log.roll.hours, by chance; log.roll.jitter.ms wins.",
    ),
    _row(
        "log.retention.minutes",
        _INT,
        None,
        at_least(1, also=(-1,)),
        _HIGH,
        "Minutes after which a segment may go; -1 is never. log.retention.ms wins.",
        why_different="0 would delete at once: Kafka refuses it too, but names log.retention.ms",
    ),
    _row(
        "log.retention.hours",
        _INT,
        168,
        at_least(1, also=(-1,)),
        _HIGH,
        "Hours after which a segment may go; -1 is never. log.retention.ms and log.retention.minutes win.",
        why_different="0 would delete at once: Kafka refuses it too, but names log.retention.ms",
    ),
    _row(
        "log.retention.check.interval.ms",
        _LONG,
        5 * 60 * 1000,
        at_least(1),
        _MEDIUM,
        "Milliseconds between two looks for segments that may go.",
    ),
    _row(
        "log.initial.task.delay.ms",
        _LONG,
        30 * 1000,
        at_least(0),
        _LOW,
        "Milliseconds after the start before retention, syncing and checkpoints first run.",
        internal=True,
    ),
    _row(
        "log.flush.scheduler.interval.ms",
        _LONG,
        LONG_MAX,
        at_least(1),
        _HIGH,
        "Milliseconds between two looks for logs whose flush.ms has passed; where that is not set, flush.ms itself.",
        why_different="Kafka checks no range",
    ),
    _row(
        "log.flush.offset.checkpoint.interval.ms",
        _INT,
        60 * 1000,
        at_least(0),
        _HIGH,
        "Milliseconds between two writings of the recovery points: recovery after a crash reads only what lies after.",
    ),
    _row(
        "log.flush.start.offset.checkpoint.interval.ms",
        _INT,
        60 * 1000,
        at_least(0),
        _HIGH,
        "Milliseconds between two writings of the logs' start offsets.",
    ),
    _row(
        "num.recovery.threads.per.data.dir",
        _INT,
        2,
        at_least(1),
        _HIGH,
        "Threads for each log directory that load and recover logs at the start, and sync them at the end.",
        dynamic=True,
    ),
    _row(
        "background.threads",
        _INT,
        10,
        at_least(1),
        _HIGH,
        "Threads for syncing, retention, deletion and reads from disk.",
        dynamic=True,
    ),
)

_CLEANER = _group(
    "Cleaning",
    _row(
        "log.cleaner.enable",
        _BOOLEAN,
        True,
        ANY,
        _MEDIUM,
        "Whether compacted topics are cleaned. Without it they keep every record, and so does __consumer_offsets, which "
        "grows with every commit.",
    ),
    _row(
        "log.cleaner.threads",
        _INT,
        1,
        at_least(1),
        _MEDIUM,
        "Threads that clean, each one log at a time. They share log.cleaner.dedupe.buffer.size.",
        why_different="Kafka takes 0 and cleans nothing then; here log.cleaner.enable says that",
        dynamic=True,
    ),
    _row(
        "log.cleaner.dedupe.buffer.size",
        _LONG,
        128 * 1024 * 1024,
        at_least(24),
        _MEDIUM,
        "Bytes for the maps of keys, all cleaner threads together, 24 for each key. A pass goes as far as its thread's map "
        "lasts, so a larger one means fewer passes over the same log. Memory is taken while a pass runs.",
        why_different="Kafka wants 1 MiB for each thread and uses at most 2 GiB of it; here one key is enough",
        dynamic=True,
    ),
    _row(
        "log.cleaner.io.buffer.load.factor",
        SettingType.DOUBLE,
        0.9,
        Allowed(low=0.01, high=1.0),
        _MEDIUM,
        "How full a map of keys may get, as a share of its slots. A fuller one takes more keys and longer look-ups.",
        why_different="Kafka does not check it",
        dynamic=True,
    ),
    _row(
        "log.cleaner.io.buffer.size",
        _INT,
        512 * 1024,
        at_least(0),
        _MEDIUM,
        "Bytes of buffers to read into and to write from, all cleaner threads together; at least 64 KiB for each buffer. They "
        "grow for a batch that is larger, for as long as it takes.",
        dynamic=True,
    ),
    _row(
        "log.cleaner.io.max.bytes.per.second",
        SettingType.DOUBLE,
        1.7976931348623157e308,
        Allowed(low=1.0),
        _MEDIUM,
        "How many bytes a second all cleaner threads together may read and write. The default is no limit.",
        why_different="Kafka does not check it",
        dynamic=True,
    ),
    _row(
        "log.cleaner.backoff.ms",
        _LONG,
        15_000,
        at_least(0),
        _MEDIUM,
        "Milliseconds that a cleaner thread waits when no log needs it.",
        dynamic=True,
    ),
)

_GROUPS = _group(
    "Groups and producers",
    _row(
        "group.initial.rebalance.delay.ms",
        _INT,
        3000,
        at_least(0),
        _MEDIUM,
        "Milliseconds that the first member of an empty group waits for others before partitions are given out.",
        why_different="Kafka checks no range",
    ),
    _row(
        "group.min.session.timeout.ms",
        _INT,
        6000,
        at_least(0),
        _MEDIUM,
        "Shortest session time-out in milliseconds that a member may ask for.",
        why_different="Kafka checks no range",
    ),
    _row(
        "group.max.session.timeout.ms",
        _INT,
        30 * 60 * 1000,
        at_least(0),
        _MEDIUM,
        "Longest session time-out in milliseconds that a member may ask for.",
        why_different="Kafka checks no range",
    ),
    _row("group.max.size", _INT, INT_MAX, at_least(1), _MEDIUM, "Members that one group may have."),
    _row(
        "offsets.topic.num.partitions",
        _INT,
        50,
        at_least(1),
        _HIGH,
        "Partitions of __consumer_offsets when it is made. It must not change afterwards: it decides where a group is.",
    ),
    _row(
        "offsets.topic.segment.bytes",
        _INT,
        100 * 1024 * 1024,
        at_least(1),
        _HIGH,
        "Segment size in bytes of __consumer_offsets when it is made; smaller ones load faster.",
    ),
    _row(
        "offsets.retention.minutes",
        _INT,
        7 * 24 * 60,
        at_least(1),
        _HIGH,
        "Minutes after which the committed offsets of a group without members are forgotten.",
    ),
    _row(
        "offsets.retention.check.interval.ms",
        _LONG,
        10 * 60 * 1000,
        at_least(1),
        _HIGH,
        "Milliseconds between two looks for committed offsets to forget.",
    ),
    _row(
        "offset.metadata.max.bytes",
        _INT,
        4096,
        at_least(0),
        _HIGH,
        "Longest text in bytes that may go with a committed offset.",
        why_different="Kafka checks no range",
    ),
    _row(
        "producer.id.expiration.ms",
        _INT,
        24 * 60 * 60 * 1000,
        at_least(1),
        _LOW,
        "Milliseconds after which what is known of an idempotent producer that fell silent is forgotten.",
        dynamic=True,
    ),
    _row(
        "producer.id.expiration.check.interval.ms",
        _INT,
        10 * 60 * 1000,
        at_least(1),
        _LOW,
        "Milliseconds between two looks for producers to forget.",
        internal=True,
    ),
    _row(
        "transaction.state.log.num.partitions",
        _INT,
        50,
        at_least(1),
        _HIGH,
        "Partitions of __transaction_state when it is made.",
    ),
    _row(
        "transaction.state.log.segment.bytes",
        _INT,
        100 * 1024 * 1024,
        at_least(1),
        _HIGH,
        "Segment size in bytes of __transaction_state when it is made.",
    ),
)

_FETCH = _group(
    "Fetching",
    _row(
        "fetch.max.bytes",
        _INT,
        55 * 1024 * 1024,
        at_least(1024),
        _MEDIUM,
        "Most bytes of records in one answer, whatever the client asks for; the first batch always goes out whole.",
    ),
    _row(
        "max.incremental.fetch.session.cache.slots",
        _INT,
        1000,
        at_least(0),
        _MEDIUM,
        "Fetch sessions kept; clients beyond that send their whole list of partitions with every fetch.",
    ),
)

_LOGGING = _group(
    "Process, log lines and metrics",
    _row(
        "event.loop",
        _STRING,
        "uvloop",
        one_of("uvloop", "asyncio"),
        _LOW,
        "What runs the network thread: uvloop, or the standard library's loop, which takes more CPU per request.",
        own=True,
    ),
    _row(
        "logging.level",
        _STRING,
        "INFO",
        one_of("DEBUG", "INFO", "WARNING", "ERROR"),
        _LOW,
        "Least important log lines that are written to stderr.",
        own=True,
    ),
    _row(
        "logging.format",
        _STRING,
        "plain",
        one_of("plain", "json"),
        _LOW,
        "Form of the log lines: plain for people, or one JSON object a line.",
        own=True,
    ),
    _row(
        "metrics.per.topic",
        _BOOLEAN,
        True,
        ANY,
        _LOW,
        "Whether metrics are also given for each topic. Switch it off where there are thousands of them.",
        dynamic=True,
        own=True,
    ),
)

BROKER_ROWS: tuple[Setting, ...] = (
    _NETWORK + MESSAGE_SET_ROWS + _NODE + _TOPICS + _LOGS + _CLEANER + _FETCH + _GROUPS + _LOGGING
)
