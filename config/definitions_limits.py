"""The settings that bound what may come in, and where to: connections, and directories for new partitions. All are dynamic."""

from __future__ import annotations

from .setting import ANY, INT_MAX, Allowed, Importance, Setting, SettingType, at_least


def _row(
    name: str, kind: SettingType, default: object, allowed: Allowed, doc: str, group: str = "Network", why: str = ""
) -> Setting:
    return Setting(name, kind, default, doc, allowed, Importance.MEDIUM, dynamic=True, group=group, why_different=why)  # type: ignore[arg-type]


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
        "cordoned.log.dirs",
        SettingType.LIST,
        (),
        ANY,
        "Directories of log.dirs that get no new partition, or * for all of them; the logs that are there are served as ever "
        "(KIP-1066).",
        "Node and directories",
    ),
)
