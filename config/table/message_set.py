"""The settings of the listeners for the message-set protocol."""

from __future__ import annotations

from ..setting import INT, LIST, LOW, STRING, Group, Setting, between, one_of

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
