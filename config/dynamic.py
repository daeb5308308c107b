"""Settings of brokers that Apache Kafka kept in its metadata (set while it ran), on top of those from file and command.

As in Kafka, one node's own beat those of all nodes, and both beat what the node was started with.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from .broker_config import BrokerConfig, broker_config
from .definitions import find_broker_setting, rows_of
from .exceptions import ConfigError
from .group_limits import broker_problems
from .listener_checks import unknown_listener
from .listener_settings import split_name
from .setting import Status
from .validation import validate

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
        row, own = find_broker_setting(name), split_name(name)
        if row is not None and row.dynamic and row.status is Status.HONOURED:
            _, problems = validate({name: text}, {name: row})
            if own is not None:
                problems += unknown_listener(name, own, config.securable_listeners)
            refused += problems
            if not problems:
                taken[name] = text
    if not taken:
        return DynamicConfig(config, {}, tuple(refused))
    given = {**config.given, **taken}
    values, _ = validate(given, rows_of(given))
    try:
        changed = broker_config(values, given, config.notices, config.origins)
        if problems := broker_problems(changed):
            raise ConfigError(problems)
    except ConfigError as error:  # each is right, together they are not
        return DynamicConfig(config, {}, (*refused, *error.problems))
    return DynamicConfig(changed, taken, tuple(refused))
