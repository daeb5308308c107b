"""Where a setting is explained: its entry in docs/SETTINGS.md, which `tidelog settings NAME` prints where there is no checkout.

Pure functions over the table; any thread.
"""

from __future__ import annotations

import re

from .definitions import TOPIC_SETTINGS, find_broker_setting
from .listener_settings import split_name
from .setting import Setting, Status

PAGE = "docs/SETTINGS.md"
MOST_NAMED = 5
"""Settings that one line points to at most: the first of a text come first."""

#: Headings of settings that have no entry of their own.
_HEADINGS = {Status.NO_MEANING: "taken-and-without-effect", Status.REFUSED: "refused"}

# A name within a sentence, neither part of a path nor of an option. The few names without a dot are words too: they count
# where the sentence gives them a value, or asks for one.
_DOTTED = re.compile(r"(?<![\w./:-])[a-z][a-z0-9_]*(?:\.[A-Za-z0-9_-]+)+(?![\w/])")
_WORD = re.compile(r"(?<![\w./-])(?:(?<=\bset )(listeners|preallocate)\b|(listeners|port|preallocate)(?==|: ))")


def address_of(row: Setting) -> str:
    """The page and the anchor of a setting's entry; a listener's own setting is explained with the broker's."""
    parts = split_name(row.name)
    return f"{PAGE}#{_HEADINGS.get(row.status) or (row.name if parts is None else parts.setting)}"


def find_setting(name: str) -> Setting | None:
    """The row of a broker's or a topic's setting."""
    return find_broker_setting(name) or TOPIC_SETTINGS.get(name)


def settings_named_in(text: str) -> list[Setting]:
    """The settings that a text for people names, in its order, each once."""
    matches = sorted((*_DOTTED.finditer(text), *_WORD.finditer(text)), key=lambda match: match.start())
    names = dict.fromkeys(match[0] for match in matches)
    return [row for name in names if (row := find_setting(name)) is not None]


def pointer(text: str) -> str | None:
    """One line that says where the settings which `text` names are explained; None where it names none."""
    rows = settings_named_in(text)[:MOST_NAMED]
    if not rows:
        return None
    return f"see {_addresses_of(rows)}, or `tidelog settings {' '.join(row.name for row in rows)}`"


def with_address(text: str) -> str:
    """An error's text for clients that are not ours: behind it, where the settings that it names are explained."""
    rows = settings_named_in(text)[:MOST_NAMED]
    return f"{text.removesuffix('.')}; see {_addresses_of(rows)}" if rows else text


def without_address(text: str) -> str:
    """What `with_address` was given, but for a full stop at its end."""
    return text.rpartition(_SEE)[0] if _SEE in text else text


#: What stands between an error's text and the addresses.
_SEE = f"; see {PAGE}#"


def _addresses_of(rows: list[Setting]) -> str:
    return ", ".join(dict.fromkeys(address_of(row) for row in rows))
