"""Effective settings of one group: its own (IncrementalAlterConfigs on a GROUP resource), else the broker's.

A group's own value was checked when it was set; where the broker's limits have been narrowed since, it is moved into them, as
Kafka 4.3 does. Loop thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ....config.group_limits import LIMITED, int_value

if TYPE_CHECKING:
    from ....config.broker_config import BrokerConfig


class GroupSettings:
    """`config` gives the broker's settings as they are now, `own` those that a group was given, as text."""

    __slots__ = ("_config", "_own")

    def __init__(self, config: Callable[[], BrokerConfig], own: Callable[[str], Mapping[str, str]]) -> None:
        self._config = config
        self._own = own

    @property
    def config(self) -> BrokerConfig:
        return self._config()

    def int_of(self, group_id: str, name: str) -> int:
        """`name` is the group's: `consumer.session.timeout.ms`, whose broker setting is `group.consumer.session.timeout.ms`
        and has `group.consumer.min.…` and `group.consumer.max.…` for limits. KeyError where the broker has none."""
        config, names = self._config(), LIMITED[name]
        own = self._own(group_id).get(name)
        if own is None:
            return int_value(config, names.broker)
        low, high = names.bounds(config)
        value = int(own)
        value = value if low is None else max(value, low)
        return value if high is None else min(value, high)
