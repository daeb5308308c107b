"""Rows of settings that only the broker has: the network, the message-set protocol's listeners, the node, topics' creation,
logs' upkeep, the cleaner, fetches, logging. Those of groups, producers and transactions are in `groups.py`,
limits in `limits.py`."""

from __future__ import annotations

from ..setting import (
    BOOLEAN,
    DOUBLE,
    HIGH,
    INT,
    LIST,
    LONG,
    LONG_MAX,
    LOW,
    STRING,
    Allowed,
    Group,
    Setting,
    SettingType,
    at_least,
    between,
    one_of,
)
from .groups import COORDINATOR_ROWS

# fmt: off
MESSAGE_SET_ROWS: tuple[Setting, ...] = (
    Setting(
        "message.set.listeners", type=LIST, default=(), group=Group.NETWORK, own=True,
        doc="Where clients of the message-set protocol (docs/MESSAGE_SET.md) connect: tcp://HOST:PORT, or tls://HOST:PORT for "
            "TLS with the settings of TLS, several separated by commas; an empty host is every interface, port 0 any free "
            "one, shown in the ready line. Empty: there is none.",
    ),
    Setting(
        "message.set.authentication", type=STRING, default="none", allowed=one_of("none", "plain"), group=Group.NETWORK,
        own=True,
        doc="plain: a connection by message.set.listeners begins with AUTHENTICATE, the name and password of a user that "
            "`tidelog users create` made. none: clients are not asked; by tls:// their certificates may still say who they "
            "are (ssl.client.auth).",
    ),
    Setting(
        "message.set.max.magic", type=INT, default=2, allowed=between(0, 2), group=Group.NETWORK, importance=LOW, own=True,
        doc="The newest message format that fetches by message.set.listeners are answered in: 0, 1 or 2. Newer entries are "
            "converted, which copies them through the daemon; 2 sends every log as it stands.",
    ),
)


# fmt: off
_NETWORK = (
    Setting(
        "listeners", type=LIST, default=("PLAINTEXT://127.0.0.1:9092",), allowed=Allowed(at_least_one=True),
        group=Group.NETWORK, importance=HIGH,
        doc="Where clients connect: NAME://HOST:PORT, several separated by commas. An empty host is every interface, an IPv6 "
            "address goes in brackets, port 0 is any free one and is shown in the ready line. Names that "
            "controller.listener.names lists are left out: there is no controller to connect to.",
        why_different="loopback only, until you say that others may connect; Kafka listens on every interface",
    ),
    Setting(
        "advertised.listeners", type=LIST, default=None, group=Group.NETWORK, importance=HIGH,
        doc="The addresses that clients are told to connect to, one for each listener that needs it. Without it a client is "
            "told the address that it dialled, which is right unless a proxy or a port mapping lies between.",
    ),
    Setting(
        "listener.security.protocol.map", type=STRING,
        default="PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL", group=Group.NETWORK,
        importance=LOW,
        doc="NAME:PROTOCOL pairs for listeners whose name is not a protocol. Protocols are PLAINTEXT, SSL, SASL_PLAINTEXT and "
            "SASL_SSL.",
    ),
    Setting(
        "controller.listener.names", type=LIST, default=(), group=Group.NETWORK, importance=HIGH,
        doc="Listeners that Kafka's controllers would use. There are none here; the names are taken out of listeners and "
            "advertised.listeners.",
        why_different="not required: there are no controllers",
    ),
    Setting(
        "http.listener", type=STRING, default="127.0.0.1:9404", group=Group.NETWORK, importance=HIGH, own=True,
        doc="HOST:PORT for metrics, health and the console over HTTP, or https://HOST:PORT for TLS with the settings of TLS "
            "(listener.name.http.ssl.… for its own); port 0 is any free one, an empty value switches it off.",
    ),
    Setting(
        "socket.request.max.bytes", type=INT, default=100 * 1024 * 1024, allowed=at_least(1), group=Group.NETWORK,
        importance=HIGH,
        doc="Largest request in bytes. A client that announces a larger one is disconnected.",
    ),
    Setting(
        "socket.send.buffer.bytes", type=INT, default=100 * 1024, allowed=at_least(1, also=(-1,)), group=Group.NETWORK,
        importance=HIGH,
        doc="SO_SNDBUF of a connection in bytes; -1 leaves it to the operating system.",
        why_different="Kafka leaves the check to the operating system",
    ),
    Setting(
        "socket.receive.buffer.bytes", type=INT, default=100 * 1024, allowed=at_least(1, also=(-1,)), group=Group.NETWORK,
        importance=HIGH,
        doc="SO_RCVBUF of a connection in bytes; -1 leaves it to the operating system.",
        why_different="Kafka leaves the check to the operating system",
    ),
    Setting(
        "socket.listen.backlog.size", type=INT, default=50, allowed=at_least(1), group=Group.NETWORK,
        doc="Connections that may wait to be accepted; the operating system's limit holds too.",
    ),
    Setting(
        "connection.outbound.max.bytes", type=INT, default=64 * 1024, allowed=at_least(1024), group=Group.NETWORK, own=True,
        doc="Bytes of answers that are made for requests that came together on one connection before the first are handed to "
            "its socket. If that does not take them all, none of the requests behind is handled until it has, so a slow reader "
            "costs a bounded amount of memory and work.",
    ),
    Setting(
        "connections.max.idle.ms", type=LONG, default=10 * 60 * 1000, allowed=at_least(1), group=Group.NETWORK,
        doc="Milliseconds without a request after which a connection is closed.",
        why_different="Kafka checks no range",
    ),
)

_NODE = (
    Setting(
        "node.id", type=INT, default=-1, allowed=at_least(0, also=(-1,)), group=Group.NODE, importance=HIGH,
        doc="This node's id. -1 takes the one that meta.properties has, and 1 for a new directory.",
        why_different="not required: one node can name itself",
    ),
    Setting(
        "broker.id", type=INT, default=-1, allowed=at_least(0, also=(-1,)), group=Group.NODE, importance=HIGH,
        doc="The older name of node.id.",
    ),
    Setting(
        "broker.rack", type=STRING, default=None, group=Group.NODE,
        doc="The rack that clients are told this node stands in; they may use it to choose where they read.",
    ),
    Setting(
        "log.dirs", type=LIST, default=None, allowed=Allowed(at_least_one=True), group=Group.NODE, importance=HIGH,
        doc="Directories for the logs, several separated by commas: a new partition goes to the one with the fewest. The "
            "first one also has metadata.db. Without it, log.dir holds.",
    ),
    Setting(
        "log.dir", type=LIST, default=("./data",), allowed=Allowed(at_least_one=True), group=Group.NODE, importance=HIGH,
        doc="The directory for the logs where log.dirs is not set.",
        why_different="Kafka's /tmp/kafka-logs does not outlive a reboot on many machines",
    ),
    Setting(
        "log.dir.reserve.bytes", type=LONG, default=32 * 1024 * 1024, allowed=at_least(0), group=Group.NODE, own=True,
        doc="Bytes of each log directory's disk that producers leave free: while less is, Produce is answered with "
            "KAFKA_STORAGE_ERROR, which clients retry, and committed offsets may use half of it. Reads, deletion and "
            "retention go on, and service resumes by itself when there is room. 0 leaves the disk to run full.",
    ),
)

_ONE_COPY = "one node keeps one copy"

_TOPICS = (
    Setting(
        "auto.create.topics.enable", type=BOOLEAN, default=True, group=Group.TOPICS, importance=HIGH,
        doc="Whether a client that asks for a topic that is not there gets it made, if it allows that itself.",
    ),
    Setting(
        "num.partitions", type=INT, default=1, allowed=at_least(1), group=Group.TOPICS,
        doc="Partitions of a topic that is made without saying how many.",
    ),
    Setting(
        "default.replication.factor", type=INT, default=1, allowed=at_least(1), group=Group.TOPICS,
        doc="Copies of a topic that is made without saying how many. A number above 1 is taken, so that a Kafka file starts "
            "the daemon, and read as 1 with a line in the log. CreateTopics with such a number is refused.",
        why_different=_ONE_COPY,
    ),
    *(
        Setting(
            name, type=SettingType.SHORT, default=1, allowed=at_least(1), group=Group.TOPICS, importance=HIGH,
            doc=f"Copies of {topic}. A number above 1 is taken, and read as 1 with a line in the log.",
            why_different=_ONE_COPY,
        )
        for name, topic in (
            ("offsets.topic.replication.factor", "__consumer_offsets"),
            ("transaction.state.log.replication.factor", "__transaction_state"),
            ("share.coordinator.state.topic.replication.factor", "__share_group_state"),
        )
    ),
    Setting(
        "delete.topic.enable", type=BOOLEAN, default=True, group=Group.TOPICS, importance=HIGH,
        doc="Whether topics may be deleted over the protocol.",
    ),
)

COPIES = tuple(row.name for row in _TOPICS if row.name.endswith("replication.factor"))
"""Numbers of copies: whatever is given, they are read as 1."""

_LOGS = (
    Setting(
        "log.roll.hours", type=INT, default=168, allowed=at_least(1), group=Group.UPKEEP, importance=HIGH,
        doc="Age in hours at which a log starts a new segment; log.roll.ms wins.",
    ),
    Setting(
        "log.roll.jitter.hours", type=INT, default=0, allowed=at_least(0), group=Group.UPKEEP, importance=HIGH,
        doc="Up to this many hours are taken off log.roll.hours, by chance; log.roll.jitter.ms wins.",
    ),
    Setting(
        "log.retention.minutes", type=INT, default=None, allowed=at_least(1, also=(-1,)), group=Group.UPKEEP, importance=HIGH,
        doc="Minutes after which a segment may go; -1 is never. log.retention.ms wins.",
        why_different="0 would delete at once: Kafka refuses it too, but names log.retention.ms",
    ),
    Setting(
        "log.retention.hours", type=INT, default=168, allowed=at_least(1, also=(-1,)), group=Group.UPKEEP, importance=HIGH,
        doc="Hours after which a segment may go; -1 is never. log.retention.ms and log.retention.minutes win.",
        why_different="0 would delete at once: Kafka refuses it too, but names log.retention.ms",
    ),
    Setting(
        "log.retention.check.interval.ms", type=LONG, default=5 * 60 * 1000, allowed=at_least(1), group=Group.UPKEEP,
        doc="Milliseconds between two looks for segments that may go.",
    ),
    Setting(
        "log.initial.task.delay.ms", type=LONG, default=30 * 1000, allowed=at_least(0), group=Group.UPKEEP, importance=LOW,
        internal=True,
        doc="Milliseconds after the start before retention, syncing and checkpoints first run.",
    ),
    Setting(
        "log.flush.scheduler.interval.ms", type=LONG, default=LONG_MAX, allowed=at_least(1), group=Group.UPKEEP,
        importance=HIGH,
        doc="Milliseconds between two looks for logs whose flush.ms has passed; where that is not set, flush.ms itself.",
        why_different="Kafka checks no range",
    ),
    Setting(
        "log.flush.offset.checkpoint.interval.ms", type=INT, default=60 * 1000, allowed=at_least(0), group=Group.UPKEEP,
        importance=HIGH,
        doc="Milliseconds between two writings of the recovery points: recovery after a crash reads only what lies after.",
    ),
    Setting(
        "log.flush.start.offset.checkpoint.interval.ms", type=INT, default=60 * 1000, allowed=at_least(0), group=Group.UPKEEP,
        importance=HIGH,
        doc="Milliseconds between two writings of the logs' start offsets.",
    ),
    Setting(
        "num.recovery.threads.per.data.dir", type=INT, default=2, allowed=at_least(1), group=Group.UPKEEP, importance=HIGH,
        dynamic=True,
        doc="Threads for each log directory that load and recover logs at the start, and sync them at the end.",
    ),
    Setting(
        "background.threads", type=INT, default=10, allowed=at_least(1), group=Group.UPKEEP, importance=HIGH, dynamic=True,
        doc="Threads for syncing, retention, deletion and reads from disk.",
    ),
)

_CLEANER = (
    Setting(
        "log.cleaner.enable", type=BOOLEAN, default=True, group=Group.CLEANING,
        doc="Whether compacted topics are cleaned. Without it they keep every record, and so does __consumer_offsets, which "
            "grows with every commit.",
    ),
    Setting(
        "log.cleaner.threads", type=INT, default=1, allowed=at_least(1), group=Group.CLEANING, dynamic=True,
        doc="Threads that clean, each one log at a time. They share log.cleaner.dedupe.buffer.size.",
        why_different="Kafka takes 0 and cleans nothing then; here log.cleaner.enable says that",
    ),
    Setting(
        "log.cleaner.dedupe.buffer.size", type=LONG, default=128 * 1024 * 1024, allowed=at_least(24), group=Group.CLEANING,
        dynamic=True,
        doc="Bytes for the maps of keys, all cleaner threads together, 24 for each key. A pass goes as far as its thread's "
            "map lasts, so a larger one means fewer passes over the same log. Memory is taken while a pass runs.",
        why_different="Kafka wants 1 MiB for each thread and uses at most 2 GiB of it; here one key is enough",
    ),
    Setting(
        "log.cleaner.io.buffer.load.factor", type=DOUBLE, default=0.9, allowed=Allowed(low=0.01, high=1.0),
        group=Group.CLEANING, dynamic=True,
        doc="How full a map of keys may get, as a share of its slots. A fuller one takes more keys and longer look-ups.",
        why_different="Kafka does not check it",
    ),
    Setting(
        "log.cleaner.io.buffer.size", type=INT, default=512 * 1024, allowed=at_least(0), group=Group.CLEANING, dynamic=True,
        doc="Bytes of buffers to read into and to write from, all cleaner threads together; at least 64 KiB for each buffer. "
            "They grow for a batch that is larger, for as long as it takes.",
    ),
    Setting(
        "log.cleaner.io.max.bytes.per.second", type=DOUBLE, default=1.7976931348623157e308, allowed=Allowed(low=1.0),
        group=Group.CLEANING, dynamic=True,
        doc="How many bytes a second all cleaner threads together may read and write. The default is no limit.",
        why_different="Kafka does not check it",
    ),
    Setting(
        "log.cleaner.backoff.ms", type=LONG, default=15_000, allowed=at_least(0), group=Group.CLEANING, dynamic=True,
        doc="Milliseconds that a cleaner thread waits when no log needs it.",
    ),
    Setting(
        "log.cleaner.process.enable", type=BOOLEAN, default=True, group=Group.CLEANING, dynamic=True, own=True,
        doc="Whether each cleaner thread has its passes read and write in a process of its own, at the lowest priority, so that "
            "clients do not wait for the interpreter beside a pass. It is there from a pass until a minute after, and takes some "
            "30 MiB beside its share of log.cleaner.dedupe.buffer.size. Without it passes run in the daemon, for where no "
            "process can be started or memory is very short.",
    ),
)

_FETCH = (
    Setting(
        "fetch.max.bytes", type=INT, default=55 * 1024 * 1024, allowed=at_least(1024), group=Group.FETCHING,
        doc="Most bytes of records in one answer, whatever the client asks for; the first batch always goes out whole.",
    ),
    Setting(
        "max.incremental.fetch.session.cache.slots", type=INT, default=1000, allowed=at_least(0), group=Group.FETCHING,
        doc="Fetch sessions kept; clients beyond that send their whole list of partitions with every fetch.",
    ),
)

_LOGGING = (
    Setting(
        "event.loop", type=STRING, default="uvloop", allowed=one_of("uvloop", "asyncio"), group=Group.PROCESS, importance=LOW,
        own=True,
        doc="What runs the network thread: uvloop, or the standard library's loop, which takes more CPU per request.",
    ),
    Setting(
        "logging.level", type=STRING, default="INFO", allowed=one_of("DEBUG", "INFO", "WARNING", "ERROR"),
        group=Group.PROCESS, importance=LOW, own=True,
        doc="Least important log lines that are written to stderr.",
    ),
    Setting(
        "logging.format", type=STRING, default="plain", allowed=one_of("plain", "json"), group=Group.PROCESS, importance=LOW,
        own=True,
        doc="Form of the log lines: plain for people, or one JSON object a line.",
    ),
    Setting(
        "metrics.per.topic", type=BOOLEAN, default=True, group=Group.PROCESS, importance=LOW, dynamic=True, own=True,
        doc="Whether metrics are also given for each topic. Switch it off where there are thousands of them.",
    ),
)

BROKER_ROWS: tuple[Setting, ...] = (
    _NETWORK + MESSAGE_SET_ROWS + _NODE + _TOPICS + _LOGS + _CLEANER + _FETCH + COORDINATOR_ROWS + _LOGGING
)
