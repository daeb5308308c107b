"""Every setting there is, the broker's and the topics', by name. Everything else about settings is derived from these two tables.

The rows stand in modules by theme (`table/`): a new setting is a row there, and an attribute of `BrokerConfig` or `LogConfig`,
which have the values; nothing is added here. A topic's row (`segment.bytes`) makes its broker row (`log.segment.bytes`), unless
that is written out because its type or default differs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from .listener_settings import PREFIX, listener_row
from .setting import STRING, Allowed, Setting, Status
from .table.backup import BACKUP_ROWS
from .table.broker import BROKER_ROWS
from .table.groups import GROUP_ROWS, TRANSACTION_ROWS
from .table.ignored import FAMILIES, IGNORED_ROWS
from .table.limits import LIMIT_ROWS
from .table.operation import ADMINISTRATION_ROWS, OPERATION_ROWS
from .table.security import ACCESS_ROWS, HTTP_ROWS, SECURITY_ROWS
from .table.share import SHARE_ROWS
from .table.topic import TOPIC_ROWS


def _broker_row(topic: Setting) -> Setting:
    """The broker's side of a topic setting. With further synonyms behind it, unset means: the next one counts."""
    allowed = topic.allowed
    if topic.name == "retention.ms":
        # A topic may say 0 ("as soon as it is rolled"); for a whole broker Kafka takes that for a mistake.
        allowed = Allowed(low=1, also=(-1,))
    why_different = topic.why_different
    if topic.name == "min.insync.replicas":
        # Every produce with acks=all would be refused, and clients repeat it for minutes before they say why.
        allowed = Allowed(low=1, high=1, text="1, as one node keeps one copy; leave it out or set it to 1")
        why_different = "with more than the one copy, every produce with acks=all would fail"
    return Setting(
        topic.synonyms[0].name,
        type=topic.type,
        default=None if len(topic.synonyms) > 1 else topic.default,
        doc=f"{topic.doc} Topics have it as {topic.name}."
        + "".join(f" Where it is not set, {synonym.name} counts." for synonym in topic.synonyms[1:2]),
        allowed=allowed,
        importance=topic.importance,
        dynamic=True,
        group=topic.group,
        own=topic.own,
        why_different=why_different,
    )


TOPIC_SETTINGS: dict[str, Setting] = {row.name: row for row in TOPIC_ROWS}
"""Every topic setting by name, those without meaning here included."""

_DERIVED = tuple(_broker_row(row) for row in TOPIC_ROWS if row.synonyms)

_ROWS = (
    BROKER_ROWS, LIMIT_ROWS, GROUP_ROWS, SHARE_ROWS, OPERATION_ROWS, BACKUP_ROWS, ADMINISTRATION_ROWS, TRANSACTION_ROWS,
    SECURITY_ROWS,
    ACCESS_ROWS, HTTP_ROWS, _DERIVED,
    IGNORED_ROWS,
)  # fmt: skip

BROKER_SETTINGS: dict[str, Setting] = {row.name: row for rows in _ROWS for row in rows}
"""Every broker setting by name, ignored and refused ones included."""

HONOURED_BROKER: tuple[Setting, ...] = tuple(s for s in BROKER_SETTINGS.values() if s.status is Status.HONOURED)
HONOURED_TOPIC: tuple[Setting, ...] = tuple(s for s in TOPIC_SETTINGS.values() if s.status is Status.HONOURED)

TOPIC_OF_BROKER: dict[str, str] = {
    synonym.name: topic.name for topic in TOPIC_SETTINGS.values() for synonym in topic.synonyms
}
"""Broker setting → the topic setting that it is the default of."""

assert len(BROKER_SETTINGS) == sum(map(len, _ROWS)), "a name is in the table twice"


_LISTENERS_OWN = re.compile(r"listener\.name\..+?\.((?:ssl|sasl|principal)\..+)")


def find_broker_setting(name: str) -> Setting | None:
    """The row of a broker setting; a listener's own and families of ignored names (`zookeeper.…`) have one made for each."""
    row = BROKER_SETTINGS.get(name)
    if row is None:
        if name.startswith(PREFIX):
            return listener_row(name) or _without_meaning(name)
        for prefix, reason in FAMILIES:
            if name.startswith(prefix):
                return Setting(name, type=STRING, default=None, doc=reason, status=Status.NO_MEANING)
    return row


def _without_meaning(name: str) -> Setting | None:
    """The row of a listener's setting that the broker's side takes without effect, or refuses."""
    match = _LISTENERS_OWN.fullmatch(name)
    row = find_broker_setting(match[1]) if match else None
    return None if row is None or row.status is Status.HONOURED else replace(row, name=name)


_SECRET = re.compile(r"password$|passphrase$|secret|master\.key$|jaas|^rsm\.config\.|^rlmm\.config\.")


def is_secret(name: str) -> bool:
    """True for a broker setting whose value must not be shown. What is not known here, and Kafka's secrets that have no meaning
    here, are secrets too.
    """
    row = find_broker_setting(name)
    return row is None or row.sensitive or (row.status is not Status.HONOURED and _SECRET.search(name) is not None)


def rows_of(names: Iterable[str]) -> dict[str, Setting]:
    """The rows of these names, those that there are."""
    return {name: row for name in names if (row := find_broker_setting(name)) is not None}


_LONGEST_NEAR = 256
"""No longer name can be similar enough to a setting's: the longest of those has some 60 characters."""


def nearest_name(name: str, *, topic: bool) -> str | None:
    """Guess the setting that the user meant: the same one under its other name, or the one with the most similar name."""
    table, other = (TOPIC_SETTINGS, BROKER_SETTINGS) if topic else (BROKER_SETTINGS, TOPIC_SETTINGS)
    if name in other:
        counterpart = (
            TOPIC_OF_BROKER.get(name) if topic else next((s.name for s in TOPIC_SETTINGS[name].synonyms), None)
        )
        if counterpart is not None:
            return counterpart
    if len(name) > _LONGEST_NEAR:
        return None
    import difflib  # only a mistake pays for it

    candidates = [row.name for row in table.values() if row.status is Status.HONOURED]
    found = difflib.get_close_matches(name, candidates, 1, 0.6) or difflib.get_close_matches(name, table, 1, 0.6)
    return found[0] if found else None
