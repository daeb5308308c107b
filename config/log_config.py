"""One log's settings as attributes: the broker's defaults with the topic's own on top."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .broker_config import BrokerConfig
from .definitions import HONOURED_TOPIC, TOPIC_SETTINGS, nearest_name
from .exceptions import ConfigError
from .validation import validate


@dataclass(frozen=True, slots=True, init=False)
class LogConfig:
    """One attribute for each honoured topic row, by its name with underscores. Immutable; any thread reads it.

    Sizes are bytes, times milliseconds, -1 means no limit. `segment_bytes` has `internal.segment.bytes` in it.
    What is not named has the table's default: `LogConfig(segment_bytes=1000)`.
    """

    # Segments
    segment_bytes: int
    segment_ms: int
    segment_jitter_ms: int
    segment_index_bytes: int
    index_interval_bytes: int
    preallocate: bool
    # Retention
    retention_ms: int
    retention_bytes: int
    cleanup_policy: frozenset[str]
    deletion_policies: tuple[str, ...]
    file_delete_delay_ms: int
    # Durability
    flush_messages: int
    flush_ms: int
    # Messages
    max_message_bytes: int
    message_format_version: str
    message_timestamp_type: str
    message_timestamp_before_max_ms: int
    message_timestamp_after_max_ms: int
    compression_type: str
    compression_gzip_level: int
    compression_lz4_level: int
    compression_zstd_level: int
    min_insync_replicas: int
    # Cleaning
    delete_retention_ms: int
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int
    min_cleanable_dirty_ratio: float

    def __init__(self, **values: Any) -> None:
        """Defaults for what `values` does not name. TypeError on an attribute that is not there."""
        if unknown := values.keys() - _DEFAULTS.keys():
            raise TypeError(f"no such attribute of LogConfig: {', '.join(sorted(unknown))}")
        for attribute, default in _DEFAULTS.items():
            object.__setattr__(self, attribute, values.get(attribute, default))

    @property
    def message_format(self) -> int:
        """The message format that `message_format_version` stands for: 0, 1 or 2."""
        version = self.message_format_version
        if version in ("0", "1", "2"):
            return int(version)
        major, minor = version.split("-")[0].split(".")[:2]
        if major != "0" or int(minor) >= 11:
            return 2
        return 1 if minor == "10" else 0

    @property
    def durability(self) -> str:
        """The level in force: `page cache`, `interval` or `ack after sync`."""
        if self.flush_messages == 1:
            return "ack after sync"
        defaults = _DEFAULTS["flush_messages"], _DEFAULTS["flush_ms"]
        return "page cache" if (self.flush_messages, self.flush_ms) == defaults else "interval"


_DEFAULTS: dict[str, Any] = {row.attribute: row.default for row in HONOURED_TOPIC if not row.internal}
_DEFAULTS["cleanup_policy"] = frozenset(_DEFAULTS["cleanup_policy"])

_MOST_TOLD, _MOST_GUESSES = 10, 2
"""Unknown settings of a topic that are named, and those of which it is guessed what was meant. A request may have 100,000, and
a guess takes half a millisecond of the network thread.
"""


def log_config(broker: BrokerConfig, overrides: Mapping[str, str]) -> LogConfig:
    """The settings of a topic's logs: `overrides` (topic setting → text) over the broker's.

    Raises `ConfigError` naming each setting that is unknown (with the nearest name) or out of range (with the range).
    Any thread.
    """
    problems: list[str] = []
    known = {}
    unknown = 0
    for name, text in overrides.items():
        if name in TOPIC_SETTINGS:
            known[name] = text
            continue
        unknown += 1
        if unknown <= _MOST_TOLD:
            nearest = nearest_name(name, topic=True) if unknown <= _MOST_GUESSES else None
            problems.append(f"unknown topic setting {name}" + (f"; did you mean {nearest}?" if nearest else ""))
    if unknown > _MOST_TOLD:
        problems.append(f"{unknown - _MOST_TOLD} more topic settings are unknown")
    values, wrong = validate(known, TOPIC_SETTINGS)
    if problems or wrong:
        raise ConfigError(problems + wrong)
    attributes = _from_broker(broker)
    attributes.update({TOPIC_SETTINGS[name].attribute: v for name, v in values.items()})
    internal_size = attributes.pop("internal_segment_bytes", None)
    if internal_size is not None:
        attributes["segment_bytes"] = internal_size
    attributes["cleanup_policy"] = frozenset(attributes["cleanup_policy"])
    return LogConfig(**{name: v for name, v in attributes.items() if name in _DEFAULTS})


def _from_broker(broker: BrokerConfig) -> dict[str, Any]:
    """Each topic setting from the first of its broker synonyms that is set."""
    attributes: dict[str, Any] = {}
    for row in HONOURED_TOPIC:
        for synonym in row.synonyms:
            value = getattr(broker, synonym.name.replace(".", "_"))
            if value is not None:
                # -1 hours is no limit, not minus 3.6 million milliseconds.
                scaled = synonym.multiplier > 1 and value != -1
                attributes[row.attribute] = value * synonym.multiplier if scaled else value
                break
    return attributes
