"""Settings of one listener: `listener.name.<name>.<setting>`, and of one mechanism of it:
`listener.name.<name>.<mechanism>.<setting>`, as in Kafka. Names of listeners and mechanisms are in lower case there.

What a listener does not say, the broker's setting of that name says for all.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from .setting import Setting
from .table.limits import LIMIT_ROWS
from .table.security import MECHANISMS, SECURITY_ROWS

PREFIX = "listener.name."

LIMITS = ("max.connections", "max.connection.creation.rate")
"""Limits that a listener may have beside the broker's, which holds as well."""

PER_LISTENER: dict[str, Setting] = {
    row.name: row
    for row in (*SECURITY_ROWS, *LIMIT_ROWS)
    if row.name.startswith(("ssl.", "sasl.")) or row.name in ("connections.max.reauth.ms", *LIMITS)
}
"""Settings that a listener may have of its own."""

_MECHANISMS = {mechanism.lower() for mechanism in MECHANISMS}
_PER_MECHANISM = frozenset(
    name for name in PER_LISTENER if name.startswith(("sasl.jaas.", "sasl.oauthbearer.", "connections."))
)
"""Settings that a mechanism of a listener may have of its own."""


class ListenerSetting(NamedTuple):
    """Parts of the name of a listener's setting. `mechanism` is "" if the setting is for all mechanisms."""

    listener: str
    mechanism: str
    setting: str


def split_name(name: str) -> ListenerSetting | None:
    """The parts of `listener.name.…`, or None where that is not such a name, or ends in none that a listener may have.

    Names of listeners may have dots in them: the shortest one counts that leaves a setting.
    """
    if not name.startswith(PREFIX):
        return None
    rest = name[len(PREFIX) :]
    dot = rest.find(".")
    while dot > 0:
        head, setting = rest[:dot], rest[dot + 1 :]
        if setting in PER_LISTENER:
            listener, _, mechanism = head.rpartition(".")
            if listener and mechanism in _MECHANISMS and setting in _PER_MECHANISM:
                return ListenerSetting(listener, mechanism, setting)
            return ListenerSetting(head, "", setting)
        dot = rest.find(".", dot + 1)
    return None


def listener_row(name: str) -> Setting | None:
    """The row of a listener's setting, under its whole name; None where it is none."""
    parts = split_name(name)
    if parts is None:
        return None
    row = PER_LISTENER[parts.setting]
    if parts.setting in LIMITS:
        return replace(row, name=name, default=None, doc=f"{parts.setting} of the listener {parts.listener} alone.")
    return replace(row, name=name)


def whole_name(listener: str, setting: str, mechanism: str = "") -> str:
    """The name that `split_name` takes apart."""
    middle = f"{mechanism.lower()}." if mechanism else ""
    return f"{PREFIX}{listener.lower()}.{middle}{setting}"
