"""The settings that bound what may come in, and where to: connections, what they hold, directories for new partitions.

All are dynamic."""

from __future__ import annotations

from ..setting import ANY, INT_MAX, LONG_MAX, Allowed, Importance, Setting, SettingType, Value, at_least, between


def _row(
    name: str,
    kind: SettingType,
    default: Value,
    allowed: Allowed,
    doc: str,
    group: str = "Network",
    why: str = "",
    own: bool = False,
) -> Setting:
    return Setting(
        name, kind, default, doc, allowed, Importance.MEDIUM, dynamic=True, group=group, why_different=why, own=own
    )


LIMIT_ROWS: tuple[Setting, ...] = (
    _row(
        "max.connections",
        SettingType.INT,
        INT_MAX,
        at_least(0),
        "Connections open at once; further ones are closed with one log line. A listener can have a bound of its own beside it: "
        "listener.name.NAME.max.connections, with the listener's name in small letters.",
        why="Kafka leaves further ones waiting unaccepted, where neither they nor anybody else learns why.",
    ),
    _row(
        "max.connections.per.ip",
        SettingType.INT,
        INT_MAX,
        at_least(0),
        "Connections open at once from one address.",
    ),
    _row(
        "max.connections.per.ip.overrides",
        SettingType.STRING,
        "",
        ANY,
        "Addresses with a bound of their own in place of max.connections.per.ip, as in 10.0.0.7:200,[fd00::7]:50,localhost:10. "
        "Names other than localhost are refused: one would have to be looked up again and again.",
    ),
    _row(
        "max.connection.creation.rate",
        SettingType.INT,
        INT_MAX,
        at_least(0),
        "New connections a second, over the windows of quota.window.num. Those above it are taken, and read when it is "
        "their turn. A listener can have a rate of its own beside it: listener.name.NAME.max.connection.creation.rate.",
    ),
    _row(
        "max.connections.per.principal",
        SettingType.INT,
        INT_MAX,
        at_least(0),
        "Connections open at once of one user, where listeners ask who it is (SASL, client certificates). Further ones are "
        "closed when their client is known.",
        own=True,
    ),
    _row(
        "max.topics.per.principal",
        SettingType.INT,
        INT_MAX,
        at_least(0),
        "Topics that one user may have made and that are still there; further ones are refused with POLICY_VIOLATION. Those that "
        "were made by being asked for count too. Not for super.users. Where nobody authenticates, all are the user ANONYMOUS.",
        "Topics",
        own=True,
    ),
    _row(
        "max.partitions.per.principal",
        SettingType.INT,
        INT_MAX,
        at_least(0),
        "Partitions that one user may have made and that are still there, those included that it added to others' topics. As "
        "max.topics.per.principal otherwise.",
        "Topics",
        own=True,
    ),
    _row(
        "max.partitions",
        SettingType.INT,
        INT_MAX,
        at_least(0),
        "Partitions that there may be in all; further ones are refused with POLICY_VIOLATION, super.users included. The broker's "
        "own topics count, and are never refused.",
        "Topics",
        own=True,
    ),
    _row(
        "queued.max.request.bytes",
        SettingType.LONG,
        256 * 1024 * 1024,
        at_least(1, also=(-1,)),
        "Bytes that requests which have not come whole may take in all, -1 for any number. Above it, connections that want more "
        "are not read until others are done; the request that began first always goes on, and those that come slowly are closed. "
        "Not below socket.request.max.bytes; where that is above the default, it is the default.",
        why="Kafka has no bound unless one is set, and a queue besides",
    ),
    _row(
        "queued.max.response.bytes",
        SettingType.LONG,
        256 * 1024 * 1024,
        at_least(1, also=(-1,)),
        "Bytes of answers that clients do not take, in all, -1 for any number; records of a Fetch in the clear are none, since "
        "they stay in their files. Above it, clients are closed that have taken nothing for longest.",
        own=True,
    ),
    _row(
        "request.receive.timeout.ms",
        SettingType.LONG,
        30_000,
        between(1000, LONG_MAX),
        "Milliseconds that a request has from its first byte to its last, and one second more for each 16 KiB of it that have "
        "come. Then its connection is closed.",
        own=True,
    ),
    _row(
        "response.send.timeout.ms",
        SettingType.LONG,
        300_000,
        between(1000, LONG_MAX),
        "Milliseconds after which a client is closed that takes nothing of an answer.",
        own=True,
    ),
    _row(
        "cordoned.log.dirs",
        SettingType.LIST,
        (),
        ANY,
        "Directories of log.dirs that get no new partition, or * for all of them; the logs that are there are served as ever "
        "(KIP-1066).",
        "Node and directories",
    ),
)
