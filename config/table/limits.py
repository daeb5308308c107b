"""The settings that bound what may come in, and where to: connections, what they hold, directories for new partitions.

All are dynamic."""

from __future__ import annotations

from ..setting import INT, INT_MAX, LIST, LONG, LONG_MAX, STRING, Group, Setting, at_least, between

# fmt: off
LIMIT_ROWS: tuple[Setting, ...] = (
    Setting(
        "max.connections", type=INT, default=INT_MAX, allowed=at_least(0), group=Group.NETWORK, dynamic=True,
        doc="Connections open at once; further ones are closed with one log line. A listener can have a bound of its own "
            "beside it: listener.name.NAME.max.connections, with the listener's name in small letters.",
        why_different="Kafka leaves further ones waiting unaccepted, where neither they nor anybody else learns why.",
    ),
    Setting(
        "max.connections.per.ip", type=INT, default=INT_MAX, allowed=at_least(0), group=Group.NETWORK, dynamic=True,
        doc="Connections open at once from one address.",
    ),
    Setting(
        "max.connections.per.ip.overrides", type=STRING, default="", group=Group.NETWORK, dynamic=True,
        doc="Addresses with a bound of their own in place of max.connections.per.ip, as in "
            "10.0.0.7:200,[fd00::7]:50,localhost:10. Names other than localhost are refused: one would have to be looked up "
            "again and again.",
    ),
    Setting(
        "max.connection.creation.rate", type=INT, default=INT_MAX, allowed=at_least(0), group=Group.NETWORK, dynamic=True,
        doc="New connections a second, over the windows of quota.window.num. Those above it are taken, and read when it is "
            "their turn. A listener can have a rate of its own beside it: listener.name.NAME.max.connection.creation.rate.",
    ),
    Setting(
        "max.connections.per.principal", type=INT, default=INT_MAX, allowed=at_least(0), group=Group.NETWORK, dynamic=True,
        own=True,
        doc="Connections open at once of one user, where listeners ask who it is (SASL, client certificates). Further ones "
            "are closed when their client is known.",
    ),
    Setting(
        "max.topics.per.principal", type=INT, default=INT_MAX, allowed=at_least(0), group=Group.TOPICS, dynamic=True,
        own=True,
        doc="Topics that one user may have made and that are still there; further ones are refused with POLICY_VIOLATION. "
            "Those that were made by being asked for count too. Not for super.users. Where nobody authenticates, all are the "
            "user ANONYMOUS.",
    ),
    Setting(
        "max.partitions.per.principal", type=INT, default=INT_MAX, allowed=at_least(0), group=Group.TOPICS, dynamic=True,
        own=True,
        doc="Partitions that one user may have made and that are still there, those included that it added to others' topics. "
            "As max.topics.per.principal otherwise.",
    ),
    Setting(
        "max.partitions", type=INT, default=INT_MAX, allowed=at_least(0), group=Group.TOPICS, dynamic=True, own=True,
        doc="Partitions that there may be in all; further ones are refused with POLICY_VIOLATION, super.users included. The "
            "broker's own topics count, and are never refused.",
    ),
    Setting(
        "queued.max.request.bytes", type=LONG, default=256 * 1024 * 1024, allowed=at_least(1, also=(-1,)),
        group=Group.NETWORK, dynamic=True,
        doc="Bytes that requests which have not come whole may take in all, -1 for any number. Above it, connections that "
            "want more are not read until others are done; the request that began first always goes on, and those that come "
            "slowly are closed. Not below socket.request.max.bytes; where that is above the default, it is the default.",
        why_different="Kafka has no bound unless one is set, and a queue besides",
    ),
    Setting(
        "queued.max.response.bytes", type=LONG, default=256 * 1024 * 1024, allowed=at_least(1, also=(-1,)),
        group=Group.NETWORK, dynamic=True, own=True,
        doc="Bytes of answers that clients do not take, in all, -1 for any number; records of a Fetch in the clear are none, "
            "since they stay in their files. Above it, clients are closed that have taken nothing for longest.",
    ),
    Setting(
        "queued.max.response.bytes.per.client", type=LONG, default=128 * 1024 * 1024, allowed=at_least(1, also=(-1,)),
        group=Group.NETWORK, dynamic=True, own=True,
        doc="The same bound for the answers of all connections of one user, or of one address where clients do not say who they "
            "are; -1 for any number, and an answer counts as 4 KiB at least. From half of it on, nothing is begun for requests "
            "of 8 KiB and more of that client, nor on its new connections and those whose requests take long, until it has "
            "taken some; its connections that take nothing for 2 s meanwhile are closed. Above it, those of its connections "
            "are closed that have taken nothing for longest.",
    ),
    Setting(
        "fetch.cold.disk.percent", type=INT, default=50, allowed=between(1, 100), group=Group.NETWORK, dynamic=True, own=True,
        doc="Percentage of the time for which a disk may be kept busy by reads of records that are not in memory, as of "
            "consumers that catch up, while producers write; the rest is left to appends, syncs and tail reads. When nobody "
            "writes there is no bound. 100: those who catch up go first, with several reads at a time.",
    ),
    Setting(
        "request.receive.timeout.ms", type=LONG, default=30_000, allowed=between(1000, LONG_MAX), group=Group.NETWORK,
        dynamic=True, own=True,
        doc="Milliseconds that a request has from its first byte to its last, and one second more for each 16 KiB of it that "
            "have come. Then its connection is closed.",
    ),
    Setting(
        "response.send.timeout.ms", type=LONG, default=300_000, allowed=between(1000, LONG_MAX), group=Group.NETWORK,
        dynamic=True, own=True,
        doc="Milliseconds after which a client is closed that takes nothing of an answer.",
    ),
    Setting(
        "cordoned.log.dirs", type=LIST, default=(), group=Group.NODE, dynamic=True,
        doc="Directories of log.dirs that get no new partition, or * for all of them; the logs that are there are served as "
            "ever (KIP-1066).",
    ),
)
