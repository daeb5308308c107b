"""Row of the table of settings: name, type, default, allowed values, and who may change it.

Types and names are Kafka's (`ConfigDef`), so that DescribeConfigs answers as clients expect. A row never parses by
itself: `validation.py` turns its `Allowed` into a validator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from enum import Enum, IntEnum, StrEnum
from typing import Any

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

Value = bool | int | float | str | tuple[str, ...] | None
"""Value of a setting. Lists are tuples of trimmed items."""


class SettingType(IntEnum):
    """Kafka's types with the numbers that DescribeConfigs uses for them (KIP-569)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9

    @property
    def is_integer(self) -> bool:
        return self in _INTEGER_BOUNDS

    @property
    def bounds(self) -> tuple[int, int]:
        """Smallest and largest number that an integer type holds."""
        return _INTEGER_BOUNDS[self]


BOOLEAN, STRING, INT, LONG, DOUBLE, LIST, PASSWORD = (
    SettingType.BOOLEAN, SettingType.STRING, SettingType.INT, SettingType.LONG, SettingType.DOUBLE, SettingType.LIST,
    SettingType.PASSWORD,
)  # fmt: skip

_INTEGER_BOUNDS = {
    SettingType.INT: (-(2**31), INT_MAX),
    SettingType.SHORT: (-(2**15), 2**15 - 1),
    SettingType.LONG: (-(2**63), LONG_MAX),
}


class Status(Enum):
    """Status of a setting here: honoured, or how not."""

    HONOURED = "honoured"
    NO_MEANING = "no meaning"
    """Kafka has it, one node of ours has no use for it: taken with one log line, so that a Kafka file starts us."""
    REFUSED = "refused"
    """Kafka has it and leaving it out would change what the user asked for (security, say): an error, never ignored."""


class Importance(Enum):
    """Kafka's three grades; the documentation is sorted by them."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


HIGH, MEDIUM, LOW = Importance


class Group(StrEnum):
    """The heading that a setting stands under, in docs/SETTINGS.md and in the console."""

    NETWORK = "Network"
    NODE = "Node and directories"
    TOPICS = "Topics"
    UPKEEP = "Logs' upkeep"
    BACKUP = "Backup"
    FETCHING = "Fetching"
    GROUPS = "Groups and producers"
    CONSUMER_GROUPS = "Consumer groups"
    SHARE_GROUPS = "Share groups"
    TRANSACTIONS = "Transactions"
    PROCESS = "Process, log lines and metrics"
    QUOTAS = "Quotas and telemetry"
    TLS = "TLS"
    SASL = "SASL"
    ACCESS = "Access control"
    SEGMENTS = "Segments"
    RETENTION = "Retention"
    DURABILITY = "Durability"
    MESSAGES = "Messages"
    CLEANING = "Cleaning"
    NO_MEANING = "No meaning here"
    REFUSED = "Refused"
    NONE = ""
    """Settings that are neither the broker's nor a topic's."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """Restrictions of a value beyond its type. Only the parts that are set count.

    `low`, `high`: inclusive bounds of a number; `also`: numbers allowed outside the bounds; `choices`: the words that
    a string, or each item of a list, may be; `pattern`: what a string must match, explained by `text`.
    """

    low: float | None = None
    high: float | None = None
    also: tuple[int, ...] = ()
    choices: tuple[str, ...] = ()
    pattern: str | None = None
    text: str | None = None
    at_least_one: bool = False


ANY = Allowed()


def at_least(low: float, *, also: tuple[int, ...] = ()) -> Allowed:
    return Allowed(low=low, also=also)


def between(low: float, high: float, *, also: tuple[int, ...] = ()) -> Allowed:
    return Allowed(low=low, high=high, also=also)


def one_of(*choices: str) -> Allowed:
    return Allowed(choices=choices)


def some_of(*choices: str) -> Allowed:
    """A list with at least one item, each of `choices`."""
    return Allowed(choices=choices, at_least_one=True)


@dataclass(frozen=True, slots=True)
class Synonym:
    """A broker setting that a topic setting falls back to; its value times `multiplier` is the topic's unit."""

    name: str
    multiplier: int = 1


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table. `name` is the broker's name, or for a topic's row the topic's; everything else is said by keyword.

    `default` is what holds when nothing is set (None: nothing, or a fallback that `doc` names). `synonyms` (topic rows)
    are the broker settings that stand in for it, first one first. `dynamic`: may change while the daemon runs.
    `internal`: for tests of the daemon rather than for users. `own`: ours, not one of Kafka's names. `why_different` is
    set where default or range is not Kafka's, and says why.
    """

    name: str
    _: KW_ONLY
    type: SettingType
    default: Value
    doc: str
    allowed: Allowed = ANY
    importance: Importance = Importance.MEDIUM
    dynamic: bool = False
    internal: bool = False
    status: Status = Status.HONOURED
    synonyms: tuple[Synonym, ...] = ()
    group: Group = Group.NONE
    own: bool = False
    why_different: str = ""

    @property
    def attribute(self) -> str:
        """The name as an attribute of `BrokerConfig` or `LogConfig`: dots become underscores, nothing is lost."""
        return self.name.replace(".", "_")

    @property
    def environment(self) -> str:
        """The environment variable that sets a broker setting."""
        return "TIDELOG_" + self.attribute.upper()

    @property
    def sensitive(self) -> bool:
        """Never shown, neither in DescribeConfigs nor in a log line."""
        return self.type is SettingType.PASSWORD

    def allowed_text(self) -> str:
        """Format the allowed values as a phrase: `1 … 2147483647`, `one of …`."""
        return describe(self.type, self.allowed)

    def text(self, value: Any) -> str | None:
        """`value` as Kafka writes it: the form that parses back to the same value."""
        return text_of(value)


def describe(kind: SettingType, allowed: Allowed) -> str:
    """The phrase for `allowed`; "" where the type says it all."""
    if allowed.text:
        return allowed.text
    if allowed.choices:
        words = ", ".join(allowed.choices)
        return f"one or more of {words}" if kind is SettingType.LIST else f"one of {words}"
    if kind is SettingType.BOOLEAN:
        return "true or false"
    if kind.is_integer:
        lowest, highest = kind.bounds
        low = lowest if allowed.low is None else max(lowest, int(allowed.low))
        high = highest if allowed.high is None else min(highest, int(allowed.high))
        span = str(low) if low == high else f"{low} … {high}"
        return " or ".join([*(str(n) for n in allowed.also), span])
    if kind is SettingType.DOUBLE:
        low_text = "any" if allowed.low is None else f"{allowed.low:g}"
        high_text = "" if allowed.high is None else f" … {allowed.high:g}"
        return f"at least {low_text}" if allowed.high is None and allowed.low is not None else low_text + high_text
    return ""


def text_of(value: Value | Sequence[str]) -> str | None:
    """`value` in the spelling of a properties file; None stays None."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        # Java's spelling of a large double: 1.7976931348623157E308.
        return repr(value).replace("e+", "E").replace("e", "E")
    return ",".join(value)
