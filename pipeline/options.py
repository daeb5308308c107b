"""The options of the source, named and meant as those of Spark's own Kafka source where it has them.

    path                                         log directories of a daemon, comma-separated (or load([...])), and/or
    bootstrap.servers, kafka.*                   brokers, and settings of the client (`wire/settings.py`)
    subscribe, subscribePattern, assign          which topics or partitions
    startingOffsets, endingOffsets               earliest | latest | {"topic": {"0": 23, "1": -2, "2": -1}}, −2 and −1 as words;
                                                 the former a stream's offset too, which has the topics' ids beside them
    startingTimestamp, endingTimestamp           ms since 1970: from the first record of that time or later, or up to it
    startingOffsetsByTimestamp, ending…          the same for each partition: {"topic": {"0": 1700000000000}}
    startingOffsetsByTimestampStrategy           error | latest: where to start when no record is so young
    failOnDataLoss                               true: an offset that is asked for and gone is an error
    includeHeaders                               adds the column `headers`
    columns                                      key,offset: those alone, in that order
    minPartitions, maxRecordsPerPartition        splits are made smaller until there are so many, or so small
    maxOffsetsPerTrigger, minOffsetsPerTrigger, maxTriggerDelay     of streams
    isolation, kafka.isolation.level             read_uncommitted | read_committed
    groupIdPrefix, kafka.group.id, …             taken; there are no groups here

and of our own: `view` (latest | changelog) with `keysStayInPartition` (check | true | false) and `latestMemoryBytes`,
`splitBytes`, `checkCrcs`, `corruptBatches` (fail | skip), `decode` with what it needs (`decode_options.py`). Names are read
without regard to case, as Spark does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import Enum

from ..clients.schemas.decoder import Decoding, Pinned
from .decode_options import DECODE_NAMES, parse_decoding
from .exceptions import OptionError
from .reading.columns import LATEST_MEMORY
from .wire.settings import ClientSettings

EARLIEST, LATEST = -2, -1
#: Beside the topics of a stream's offset: topic → its id. No topic can have this name.
TOPIC_IDS = "topic ids"
#: Beside them too, in the end of a query's first batch: topic → partition → offset, where that batch begins.
FIRST_OFFSETS = "first offsets"

#: Topic → partition → offset, EARLIEST or LATEST; or a timestamp in ms.
Offsets = Mapping[str, Mapping[int, int]]

#: Taken, as Spark's source takes them, without a meaning here: each fetch is one, and there are no consumer groups.
_WITHOUT_MEANING = (
    "groupIdPrefix", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs", "kafkaConsumer.pollTimeoutMs",
)  # fmt: skip
_KNOWN = (
    "path", "paths", "bootstrap.servers", "kafka.bootstrap.servers", "subscribe", "subscribePattern", "assign", "startingOffsets",
    "endingOffsets", "startingTimestamp", "endingTimestamp", "startingOffsetsByTimestamp", "endingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy", "failOnDataLoss", "includeHeaders", "minPartitions", "maxRecordsPerPartition",
    "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "isolation", "kafka.isolation.level",
    "kafka.group.id", "kafka.check.crcs", "columns", "view", "keysStayInPartition", "latestMemoryBytes", "splitBytes",
    "checkCrcs", "corruptBatches", *DECODE_NAMES, *_WITHOUT_MEANING,
)  # fmt: skip
_NAMES = {name.lower(): name for name in _KNOWN}
#: Offsets and timestamps have 64 bits.
_MOST = (1 << 63) - 1
_OFFSET_WORDS = {"earliest": EARLIEST, "latest": LATEST}
#: With all units that Spark has for times.
_DELAY = re.compile(r"(\d{1,15})\s*(us|ms|s|sec|second|m|min|minute|h|hour|d|day)?s?")
_DELAY_MS = {"ms": 1, "s": 1000, "sec": 1000, "second": 1000, "m": 60_000, "min": 60_000, "minute": 60_000,
             "h": 3_600_000, "hour": 3_600_000, "d": 86_400_000, "day": 86_400_000}  # fmt: skip
_ISOLATIONS = ("read_uncommitted", "read_committed")


class View(Enum):
    """Views of a topic as rows."""

    RECORDS = "records"
    LATEST = "latest"
    CHANGELOG = "changelog"


class KeysStay(Enum):
    """Settings that say whether a key always stays in the same partition."""

    CHECK = "check"
    TRUE = "true"
    FALSE = "false"


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a read. Pickled with each task's source.

    Attributes:
        starting: None when nothing was said: a batch begins with the earliest, a stream with the latest.
        starting_ids: ids of topics in startingOffsets, as a stream's offset has them: such a topic is no other of that name.
        columns: names as the user gave them; the source knows which there are. None given: all.
        split_bytes: None when nothing was said: as it suits the cluster (`SplitSize`).
        pinned: by which schema values are decoded, once that was looked up. No option.
        cores: of the cluster, which the session told when the source was registered; 0 if unknown. No option.
    """

    paths: tuple[str, ...] = ()
    client: ClientSettings | None = None
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: Mapping[str, tuple[int, ...]] | None = None
    starting: Offsets | int | None = None
    starting_ids: Mapping[str, str] = field(default_factory=dict)
    ending: Offsets | int | None = None
    starting_timestamp: int | Offsets | None = None
    ending_timestamp: int | Offsets | None = None
    latest_if_too_young: bool = False
    fail_on_data_loss: bool = True
    include_headers: bool = False
    columns: tuple[str, ...] = ()
    min_partitions: int = 0
    max_records_per_partition: int | None = None
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = 15 * 60_000
    read_committed: bool = False
    view: View = View.RECORDS
    keys_stay: KeysStay = KeysStay.CHECK
    latest_memory: int = LATEST_MEMORY
    split_bytes: int | None = None
    decode: Decoding | None = None
    pinned: Pinned | None = None
    cores: int = 0
    check_crc: bool = True
    skip_corrupt: bool = False


def parse_options(given: Mapping[str, str], cores: int = 0) -> Options:
    """OptionError: one is unknown (with the nearest that there is), missing or makes no sense."""
    found: dict[str, str] = {}
    settings: dict[str, str] = {}
    for name, text in given.items():
        if known := _NAMES.get(name.lower()):
            found[known] = str(text).strip()
        elif name.lower().startswith("kafka."):
            settings[name.lower().removeprefix("kafka.")] = str(text).strip()
        else:
            raise OptionError(f"unknown option {name}{_hint(name)}")
    paths = (*_listed_paths(found), *(part.strip() for part in found.get("path", "").split(",") if part.strip()))
    servers = found.get("bootstrap.servers") or found.get("kafka.bootstrap.servers")
    if not paths and not servers:
        raise OptionError("set path to a daemon's log.dirs, or bootstrap.servers to brokers, or both")
    if settings and not servers:
        raise OptionError(f"kafka.{min(settings)} is for brokers; set bootstrap.servers too")
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
        paths=paths,
        client=ClientSettings.parse(servers, settings) if servers else None,
        topics=topics,
        pattern=found.get("subscribePattern"),
        assigned=_assigned(found["assign"]) if "assign" in found else None,
        starting=_offsets("startingOffsets", found["startingOffsets"]) if "startingOffsets" in found else None,
        starting_ids=_topic_ids(found.get("startingOffsets", "earliest")),
        ending=_offsets("endingOffsets", found["endingOffsets"]) if "endingOffsets" in found else None,
        starting_timestamp=_timestamps(found, "starting"),
        ending_timestamp=_timestamps(found, "ending"),
        latest_if_too_young=_choice(found, "startingOffsetsByTimestampStrategy", ("error", "latest")) == "latest",
        fail_on_data_loss=_boolean(found, "failOnDataLoss", default=True),
        include_headers=_boolean(found, "includeHeaders", default=False),
        columns=_columns(found["columns"]) if "columns" in found else (),
        min_partitions=_number(found, "minPartitions") or 0,
        max_records_per_partition=_number(found, "maxRecordsPerPartition", least=1),
        max_offsets_per_trigger=_number(found, "maxOffsetsPerTrigger", least=1),
        min_offsets_per_trigger=_number(found, "minOffsetsPerTrigger", least=1),
        max_trigger_delay_ms=_delay(found.get("maxTriggerDelay", "15m")),
        read_committed=_isolation(found),
        view=View(_choice(found, "view", tuple(choice.value for choice in View))),
        keys_stay=KeysStay(_choice(found, "keysStayInPartition", tuple(choice.value for choice in KeysStay))),
        latest_memory=_number(found, "latestMemoryBytes", least=1) or LATEST_MEMORY,
        split_bytes=_number(found, "splitBytes", least=1),
        check_crc=_boolean(found, "checkCrcs", default=_boolean(found, "kafka.check.crcs", default=True)),
        decode=parse_decoding(found, topics),
        skip_corrupt=_choice(found, "corruptBatches", ("fail", "skip")) == "skip",
        cores=cores,
    )


def check_batch(options: Options) -> None:
    """OptionError: what has been asked for is no batch."""
    for name, value, nothing in (
        ("startingOffsets", options.starting, LATEST),
        ("endingOffsets", options.ending, EARLIEST),
    ):
        word = "latest" if nothing == LATEST else "earliest"
        if value == nothing:
            raise OptionError(f"{name} can't be {word}: nothing would be read")
        for topic, partitions in value.items() if isinstance(value, Mapping) else ():
            for number, offset in partitions.items():
                if offset == nothing:
                    raise OptionError(f"{name}: {offset} for {topic}-{number} makes no sense: nothing would be read")
    for name, limit in (
        ("maxOffsetsPerTrigger", options.max_offsets_per_trigger),
        ("minOffsetsPerTrigger", options.min_offsets_per_trigger),
    ):
        if limit is not None:
            raise OptionError(f"{name} is for streams; a batch has endingOffsets")


def check_stream(options: Options) -> None:
    """OptionError: what has been asked for is no stream."""
    if options.ending is not None or options.ending_timestamp is not None:
        raise OptionError(
            "a stream has no endingOffsets and no endingTimestamp; use trigger(availableNow=True), or spark.read"
        )
    if options.view is View.CHANGELOG:
        raise OptionError(
            "view=changelog is for spark.read: in a stream every key must be remembered, as "
            "tidelog.pipeline.changes(spark, …, stream=True) has it"
        )
    most, least = options.max_offsets_per_trigger, options.min_offsets_per_trigger
    if most is not None and least is not None and least > most:
        raise OptionError(f"minOffsetsPerTrigger is {least}, which is more than maxOffsetsPerTrigger, {most}")


def _hint(name: str) -> str:
    near = get_close_matches(name.lower(), _NAMES, 1, 0.6)
    return f"; did you mean {_NAMES[near[0]]}?" if near else f"; there are {', '.join(_KNOWN)}"


def _number(found: Mapping[str, str], name: str, least: int = 0) -> int | None:
    if name not in found:
        return None
    try:
        value = int(found[name])
    except ValueError:
        raise OptionError(f"{name} is {found[name]!r}, which is no number") from None
    if value < least:
        raise OptionError(f"{name} is {value}; it can be {least} or more")
    if value > _MOST:
        raise OptionError(f"{name} is {value}; it can be {_MOST} or less")
    return value


def _boolean(found: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = found.get(name, str(default)).lower()
    if text not in ("true", "false"):
        raise OptionError(f"{name} is {text!r}; it can be true or false")
    return text == "true"


def _choice(found: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    text = found.get(name, choices[0]).lower()
    if text not in choices:
        raise OptionError(f"{name} is {text!r}; it can be {' or '.join(choices)}")
    return text


def _columns(text: str) -> tuple[str, ...]:
    names = [part.strip() for part in text.split(",") if part.strip()]
    if not names:
        raise OptionError("columns names no column; leave it out for all, and for count() say columns=offset")
    if doubled := sorted({name for name in names if names.count(name) > 1}):
        raise OptionError(f"columns names {doubled[0]} more than once")
    return tuple(names)


def _isolation(found: Mapping[str, str]) -> bool:
    said = {name: _choice(found, name, _ISOLATIONS) for name in ("isolation", "kafka.isolation.level") if name in found}
    if len(set(said.values())) > 1:
        raise OptionError("isolation and kafka.isolation.level say different things")
    return "read_committed" in said.values()


def _delay(text: str) -> int:
    """`15m`, `90 s`, `100ms`: in ms."""
    found = _DELAY.fullmatch(text.lower())
    if found is None:
        raise OptionError(f"maxTriggerDelay is {text!r}; it can be 15m, 90s or 500ms")
    return int(found[1]) // 1000 if found[2] == "us" else int(found[1]) * _DELAY_MS[found[2] or "ms"]


def read_json(text: str) -> object:
    """What JSON says. Also as Python shows it: so PySpark 4.1 has offsets in a progress, in which nothing has a quote.

    ValueError, RecursionError.
    """
    return json.loads(text.replace("'", '"') if text.startswith("{'") else text)


def _json(name: str, text: str) -> dict[str, object]:
    try:
        content = read_json(text)
    except (ValueError, RecursionError) as error:
        raise OptionError(f"{name}: {error}") from None
    if not isinstance(content, dict):
        raise OptionError(f"{name} is no JSON object of topics")
    return content


def _listed_paths(found: Mapping[str, str]) -> tuple[str, ...]:
    """Paths of `load([...])`, which Spark turns into a JSON list."""
    try:
        paths = json.loads(found.get("paths", "[]"))
    except (ValueError, RecursionError):
        paths = None
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        raise OptionError("paths is no JSON list of directories; give them to load(), or as path, comma-separated")
    return tuple(paths)


def _offsets(name: str, text: str) -> Offsets | int:
    if text.lower() in _OFFSET_WORDS:
        return _OFFSET_WORDS[text.lower()]
    return _numbers(name, text, "an offset", EARLIEST)


def _topic_ids(text: str) -> dict[str, str]:
    """Ids in startingOffsets, where that is a stream's offset."""
    ids = {} if text.lower() in _OFFSET_WORDS else _json("startingOffsets", text).get(TOPIC_IDS, {})
    if not isinstance(ids, dict) or not all(isinstance(each, str) for each in ids.values()):
        raise OptionError(f"startingOffsets: {TOPIC_IDS!r} has no id for each topic")
    return ids


def _timestamps(found: Mapping[str, str], bound: str) -> int | Offsets | None:
    """Timestamp bounds. One for all partitions comes before those for each, as with Spark's source."""
    for_all, each = f"{bound}Timestamp", f"{bound}OffsetsByTimestamp"
    if for_all in found:
        return _number(found, for_all)
    return _numbers(each, found[each], "a timestamp in ms", 0) if each in found else None


def _numbers(name: str, text: str, what: str, least: int) -> Offsets:
    found: dict[str, dict[int, int]] = {}
    for topic, partitions in _json(name, text).items():
        if topic in (TOPIC_IDS, FIRST_OFFSETS) and name == "startingOffsets":
            continue
        if not isinstance(partitions, dict):
            raise OptionError(f"{name}: {topic} has no object of partitions, each with {what}")
        for number, value in partitions.items():
            is_number = number.isdecimal() and len(number) <= 10
            if not is_number or not isinstance(value, int) or isinstance(value, bool) or not least <= value <= _MOST:
                raise OptionError(f"{name}: {topic} has {number!r}: {value!r}; it takes a partition and {what}")
            found.setdefault(topic, {})[int(number)] = value
    return found


def _assigned(text: str) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    for topic, partitions in _json("assign", text).items():
        if not isinstance(partitions, list) or not all(
            type(partition) is int and partition >= 0 for partition in partitions
        ):
            raise OptionError(f"assign: {topic} has no list of partition numbers")
        found[topic] = tuple(dict.fromkeys(partitions))
    return found
