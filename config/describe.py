"""DescribeConfigs' rows out of the table: each setting with its value, its source, and what else could have set it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from .broker_config import BrokerConfig
from .definitions import (
    HONOURED_BROKER,
    TOPIC_OF_BROKER,
    TOPIC_SETTINGS,
    find_broker_setting,
    rows_of,
)
from .listener_settings import split_name
from .log_config import LogConfig
from .setting import Setting, SettingType, Status, Synonym, text_of
from .table.resources import GROUP_SETTINGS


class ConfigSource(IntEnum):
    """Kafka's numbers for where a value comes from (KIP-226)."""

    TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


Layers = Sequence[tuple[ConfigSource, Mapping[str, str]]]
"""Settings that were changed while running, strongest first."""


class ConfigSynonym(NamedTuple):
    """One source that a value could come from, strongest first."""

    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """One setting as it is in force. `value` is None where it is not set, or must not be shown."""

    name: str
    value: str | None
    read_only: bool
    source: ConfigSource
    sensitive: bool
    synonyms: tuple[ConfigSynonym, ...]
    type: SettingType
    documentation: str


def describe_topic(
    broker: BrokerConfig,
    log: LogConfig,
    overrides: Mapping[str, str],
    names: Iterable[str] | None = None,
    dynamic: Layers = (),
) -> list[ConfigEntry]:
    """The settings of a topic (`log`: resolved, `overrides`: its own), all of them or those of `names` that exist.

    `broker` is what the daemon was started with, `dynamic` what was changed since.

    Internal settings are shown where they are set. Any thread.
    """
    wanted = TOPIC_SETTINGS if names is None else dict.fromkeys(names)
    entries = []
    for name in wanted:
        row = TOPIC_SETTINGS.get(name)
        if row is None or (row.internal and name not in overrides):
            continue
        synonyms = _broker_synonyms(broker, row.synonyms, dynamic)
        if name in overrides:
            synonyms = (ConfigSynonym(name, overrides[name], ConfigSource.TOPIC_CONFIG), *synonyms)
        if row.internal or row.status is not Status.HONOURED:
            value = overrides.get(name, text_of(row.default))
        else:
            effective = getattr(log, row.attribute)
            value = ",".join(sorted(effective)) if isinstance(effective, frozenset) else text_of(effective)
        source = synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG
        entries.append(_entry(row, value, source, synonyms, read_only=False))
    return entries


def describe_broker(
    broker: BrokerConfig,
    names: Iterable[str] | None = None,
    actual: Mapping[str, str] | None = None,
    dynamic: Layers = (),
) -> list[ConfigEntry]:
    """The broker's honoured settings, all of them or those of `names`. `actual`: values known only at run time.

    `broker` is what the daemon was started with, `dynamic` what was changed since.
    """
    if names is None:
        set_ones = dict.fromkeys(name for given in (broker.given, *(layer for _, layer in dynamic)) for name in given)
        listeners = (name for name in set_ones if split_name(name) is not None)
        names = (*(row.name for row in HONOURED_BROKER if not row.internal), *listeners)
    entries = []
    for name in names:
        row = find_broker_setting(name)
        if row is None or row.status is not Status.HONOURED:
            continue
        synonyms = _broker_synonyms(broker, _family(name), dynamic)
        source = ConfigSource.STATIC_BROKER_CONFIG if name in broker.given else ConfigSource.DEFAULT_CONFIG
        value = (actual or {}).get(name) or broker.given.get(name, text_of(row.default))
        for layer, settings in reversed(dynamic):
            if name in settings:
                source, value = layer, settings[name]
        entries.append(_entry(row, value, source, synonyms, read_only=not row.dynamic))
    return entries


def describe_group(
    broker: BrokerConfig, own: Mapping[str, str], names: Iterable[str] | None = None, dynamic: Layers = ()
) -> list[ConfigEntry]:
    """The settings of a group: those that it was given, then what the broker has for all groups."""
    entries = []
    for name in GROUP_SETTINGS if names is None else dict.fromkeys(names):
        if (row := GROUP_SETTINGS.get(name)) is None:
            continue
        synonyms = _broker_synonyms(broker, row.synonyms, dynamic)
        if not synonyms:  # nothing of the broker's says it
            synonyms = (ConfigSynonym(name, text_of(row.default), ConfigSource.DEFAULT_CONFIG),)
        if name in own:
            synonyms = (ConfigSynonym(name, own[name], ConfigSource.GROUP_CONFIG), *synonyms)
        entries.append(_entry(row, synonyms[0].value, synonyms[0].source, synonyms, read_only=False))
    return entries


def describe_resource(
    table: Mapping[str, Setting], own: Mapping[str, str], source: ConfigSource, names: Iterable[str] | None = None
) -> list[ConfigEntry]:
    """The settings of a resource with a table of its own that no broker's settings stand behind; those of `names` that exist."""
    entries = []
    for name in table if names is None else dict.fromkeys(names):
        if (row := table.get(name)) is None:
            continue
        default = text_of(row.default) or ""
        synonyms = tuple(ConfigSynonym(s.name, default, ConfigSource.DEFAULT_CONFIG) for s in row.synonyms)
        if name in own:
            synonyms = (ConfigSynonym(name, own[name], source), *synonyms)
        came_from = source if name in own else ConfigSource.DEFAULT_CONFIG
        entries.append(_entry(row, own.get(name, default), came_from, synonyms, read_only=False))
    return entries


def _family(name: str) -> tuple[Synonym, ...]:
    """The broker settings that say the same thing as `name`, itself included, strongest first."""
    if (own := split_name(name)) is not None:
        return Synonym(name), Synonym(own.setting)
    topic = TOPIC_OF_BROKER.get(name)
    return TOPIC_SETTINGS[topic].synonyms if topic is not None else (Synonym(name),)


def _broker_synonyms(broker: BrokerConfig, synonyms: tuple[Synonym, ...], dynamic: Layers) -> tuple[ConfigSynonym, ...]:
    changed = [
        ConfigSynonym(s.name, settings[s.name], source)
        for s in synonyms
        for source, settings in dynamic
        if s.name in settings
    ]
    given = [
        ConfigSynonym(s.name, broker.given[s.name], ConfigSource.STATIC_BROKER_CONFIG)
        for s in synonyms
        if s.name in broker.given
    ]
    defaults = [
        ConfigSynonym(name, text_of(row.default), ConfigSource.DEFAULT_CONFIG)
        for name, row in rows_of(s.name for s in synonyms).items()
        if row.default is not None
    ]
    return (*changed, *given, *defaults)


def _entry(
    row: Setting, value: str | None, source: ConfigSource, synonyms: tuple[ConfigSynonym, ...], *, read_only: bool
) -> ConfigEntry:
    if row.sensitive:
        value, synonyms = None, tuple(synonym._replace(value=None) for synonym in synonyms)
    return ConfigEntry(row.name, value, read_only, source, row.sensitive, synonyms, row.type, row.doc)
