"""The settings of the listeners for the message-set protocol."""

from __future__ import annotations

from .setting import ANY, Importance, Setting, SettingType, between

MESSAGE_SET_ROWS: tuple[Setting, ...] = (
    Setting(
        "message.set.listeners",
        SettingType.LIST,
        (),
        "Where clients of the message-set protocol (docs/MESSAGE_SET.md) connect: tcp://HOST:PORT, several separated by "
        "commas; an empty host is every interface, port 0 any free one, shown in the ready line. Empty: there is none.",
        ANY,
        Importance.MEDIUM,
        group="Network",
        own=True,
    ),
    Setting(
        "message.set.max.magic",
        SettingType.INT,
        2,
        "The newest message format that fetches by message.set.listeners are answered in: 0, 1 or 2. Newer entries are "
        "converted, which copies them through the daemon; 2 sends every log as it stands.",
        between(0, 2),
        Importance.LOW,
        group="Network",
        own=True,
    ),
)
