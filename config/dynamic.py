"""Settings of brokers that Apache Kafka kept in its metadata (set while it ran), on top of those from file and command.

As in Kafka, one node's own beat those of all nodes, and both beat what the node was started with.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from .broker_config import BrokerConfig, broker_config, unknown_listener
from .definitions import HONOURED_BROKER, listener_setting, rows_of
from .exceptions import ConfigError
from .validation import validate

_DYNAMIC = frozenset(row.name for row in HONOURED_BROKER if row.dynamic)
ALL_NODES = ""


class DynamicConfig(NamedTuple):
    """`config` with the settings in `taken`; `refused` are sentences about values that can't be."""

    config: BrokerConfig
    taken: dict[str, str]
    refused: tuple[str, ...]


def with_dynamic_settings(
    config: BrokerConfig, by_node: Mapping[str, Mapping[str, str]], node_id: int
) -> DynamicConfig:
    """`config` with the settings that Kafka let change while running; what has no meaning here is left out."""
    wanted = {**by_node.get(ALL_NODES, {}), **by_node.get(str(node_id), {})}
    taken: dict[str, str] = {}
    refused: list[str] = []
    for name, text in wanted.items():
        own = listener_setting(name)
        if name in _DYNAMIC or own is not None:
            _, problems = validate({name: text}, rows_of((name,)))
            if own is not None:
                problems += unknown_listener(name, own.listener, config.listeners)
            refused += problems
            if not problems:
                taken[name] = text
    if not taken:
        return DynamicConfig(config, {}, tuple(refused))
    given = {**config.given, **taken}
    values, _ = validate(given, rows_of(given))
    try:
        return DynamicConfig(broker_config(values, given, config.notices, config.origins), taken, tuple(refused))
    except ConfigError as error:  # each is right, together they are not
        return DynamicConfig(config, {}, (*refused, *error.problems))
