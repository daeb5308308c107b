"""The options of the source, named and meant as those of Spark's own Kafka source where it has them.

    subscribe, subscribePattern, assign          which topics or partitions
    startingOffsets, endingOffsets               earliest | latest | {"topic": {"0": 23, "1": -2, "2": -1}}, −2 and −1 as words
    startingTimestamp, endingTimestamp           ms since 1970: rows of that time or later, or before it
    failOnDataLoss                               true: an offset that is asked for and gone is an error
    includeHeaders                               adds the column `headers`
    minPartitions                                splits are made smaller until there are about so many

and of our own: `path` (log directories, comma-separated), `isolation` (read_uncommitted | read_committed), `splitBytes`,
`checkCrcs`, `corruptBatches` (fail | skip). Names are read without regard to case, as Spark does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from .exceptions import OptionError
from .splits import DEFAULT_SPLIT_BYTES

EARLIEST, LATEST = -2, -1

#: Topic → partition → offset, EARLIEST or LATEST.
Offsets = Mapping[str, Mapping[int, int]]

_KNOWN = (
    "path", "subscribe", "subscribePattern", "assign", "startingOffsets", "endingOffsets", "startingTimestamp",
    "endingTimestamp", "failOnDataLoss", "includeHeaders", "minPartitions", "isolation", "splitBytes", "checkCrcs",
    "corruptBatches",
)  # fmt: skip
_NAMES = {name.lower(): name for name in _KNOWN}


@dataclass(frozen=True, slots=True)
class Options:
    """What a read has been asked for. Pickled with each task's source."""

    paths: tuple[str, ...]
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: Mapping[str, tuple[int, ...]] | None = None
    starting: Offsets | int = EARLIEST
    ending: Offsets | int = LATEST
    starting_timestamp: int | None = None
    ending_timestamp: int | None = None
    fail_on_data_loss: bool = True
    include_headers: bool = False
    min_partitions: int = 0
    read_committed: bool = False
    split_bytes: int = DEFAULT_SPLIT_BYTES
    check_crc: bool = True
    skip_corrupt: bool = False


def parse_options(given: Mapping[str, str]) -> Options:
    """OptionError: one is unknown (with the known ones), missing or makes no sense."""
    found: dict[str, str] = {}
    for name, text in given.items():
        if name.lower() not in _NAMES:
            raise OptionError(f"unknown option {name}; there are {', '.join(_KNOWN)}")
        found[_NAMES[name.lower()]] = str(text).strip()
    if not found.get("path"):
        raise OptionError("set the option path to a daemon's log.dirs")
    ways = [name for name in ("subscribe", "subscribePattern", "assign") if name in found]
    if len(ways) != 1:
        raise OptionError(f"set one of subscribe, subscribePattern and assign, not {' and '.join(ways) or 'none'}")
    try:
        re.compile(found.get("subscribePattern", ""))
    except re.error as error:
        raise OptionError(f"subscribePattern: {error}") from None
    topics = tuple(dict.fromkeys(part.strip() for part in found.get("subscribe", "").split(",") if part.strip()))
    if "subscribe" in found and not topics:
        raise OptionError("subscribe names no topic")
    return Options(
        paths=tuple(part.strip() for part in found["path"].split(",") if part.strip()),
        topics=topics,
        pattern=found.get("subscribePattern"),
        assigned=_assigned(found["assign"]) if "assign" in found else None,
        starting=_offsets("startingOffsets", found.get("startingOffsets", "earliest"), other=LATEST),
        ending=_offsets("endingOffsets", found.get("endingOffsets", "latest"), other=EARLIEST),
        starting_timestamp=_number(found, "startingTimestamp"),
        ending_timestamp=_number(found, "endingTimestamp"),
        fail_on_data_loss=_boolean(found, "failOnDataLoss", default=True),
        include_headers=_boolean(found, "includeHeaders", default=False),
        min_partitions=_number(found, "minPartitions") or 0,
        read_committed=_choice(found, "isolation", ("read_uncommitted", "read_committed")) == 1,
        split_bytes=_number(found, "splitBytes", least=1) or DEFAULT_SPLIT_BYTES,
        check_crc=_boolean(found, "checkCrcs", default=True),
        skip_corrupt=_choice(found, "corruptBatches", ("fail", "skip")) == 1,
    )


def _number(found: Mapping[str, str], name: str, least: int = 0) -> int | None:
    if name not in found:
        return None
    try:
        value = int(found[name])
    except ValueError:
        raise OptionError(f"{name} is {found[name]!r}, which is no number") from None
    if value < least:
        raise OptionError(f"{name} is {value}; it can be {least} or more")
    return value


def _boolean(found: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = found.get(name, str(default)).lower()
    if text not in ("true", "false"):
        raise OptionError(f"{name} is {text!r}; it can be true or false")
    return text == "true"


def _choice(found: Mapping[str, str], name: str, choices: tuple[str, ...]) -> int:
    text = found.get(name, choices[0]).lower()
    if text not in choices:
        raise OptionError(f"{name} is {text!r}; it can be {' or '.join(choices)}")
    return choices.index(text)


def _json(name: str, text: str) -> dict[str, object]:
    try:
        content = json.loads(text)
    except ValueError as error:
        raise OptionError(f"{name}: {error}") from None
    if not isinstance(content, dict):
        raise OptionError(f"{name} is no JSON object of topics")
    return content


def _offsets(name: str, text: str, *, other: int) -> Offsets | int:
    """`other`: the end at which this bound makes no sense for a batch."""
    words = {"earliest": EARLIEST, "latest": LATEST}
    if text.lower() in words:
        if words[text.lower()] == other:
            raise OptionError(f"{name} can't be {text}: nothing would be read")
        return words[text.lower()]
    found: dict[str, dict[int, int]] = {}
    for topic, partitions in _json(name, text).items():
        if not isinstance(partitions, dict):
            raise OptionError(f"{name}: {topic} has no object of partitions and offsets")
        for number, offset in partitions.items():
            if not number.isdecimal() or not isinstance(offset, int) or isinstance(offset, bool) or offset < EARLIEST:
                raise OptionError(f"{name}: {topic} has {number!r}: {offset!r}; it takes a partition and an offset")
            if offset == other:
                raise OptionError(f"{name}: {offset} for {topic}-{number} makes no sense: nothing would be read")
            found.setdefault(topic, {})[int(number)] = offset
    return found


def _assigned(text: str) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    for topic, partitions in _json("assign", text).items():
        if not isinstance(partitions, list) or not all(type(one) is int and one >= 0 for one in partitions):
            raise OptionError(f"assign: {topic} has no list of partition numbers")
        found[topic] = tuple(dict.fromkeys(partitions))
    return found
