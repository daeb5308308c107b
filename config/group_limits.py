"""Settings of groups that have to fit together: the broker's limits, its own values, and what a group was given.

Kafka's rules: a value lies between `group.KIND.min.…` and `group.KIND.max.…`, and a session is longer than a heartbeat
interval. Any thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from .definitions import BROKER_SETTINGS
from .setting import INT
from .table.resources import GROUP_SETTINGS

if TYPE_CHECKING:
    from .broker_config import BrokerConfig

KINDS = ("consumer", "share", "streams")
_SESSION, _HEARTBEAT = "session.timeout.ms", "heartbeat.interval.ms"
_NAMED_OTHERWISE = {"group.streams.max.num.standby.replicas": "group.streams.max.standby.replicas"}


class Limited(NamedTuple):
    """The broker's settings behind one of a group's, by name: what holds without it, and its limits where there are any."""

    broker: str
    lowest: str | None
    highest: str | None

    def bounds(self, config: BrokerConfig) -> tuple[int | None, int | None]:
        """Lowest and highest value, both inclusive."""
        return (
            None if self.lowest is None else int_value(config, self.lowest),
            None if self.highest is None else int_value(config, self.highest),
        )


def int_value(config: BrokerConfig, name: str) -> int:
    """The broker's value of the setting `name`, one with a number."""
    return int(getattr(config, BROKER_SETTINGS[name].attribute))


def _limited(name: str) -> Limited:
    kind, _, rest = name.partition(".")
    ends = [f"group.{kind}.{end}.{rest}" for end in ("min", "max")]
    lowest, highest = (found if (found := _NAMED_OTHERWISE.get(end, end)) in BROKER_SETTINGS else None for end in ends)
    return Limited(f"group.{name}", lowest, highest)


LIMITED: Mapping[str, Limited] = {
    name: _limited(name)
    for name, row in GROUP_SETTINGS.items()
    if row.type is INT and f"group.{name}" in BROKER_SETTINGS
}
"""A group's settings that the broker has for all groups, by the group's name for them."""


def broker_problems(config: BrokerConfig) -> list[str]:
    """Sentences about the broker's settings of groups that contradict each other."""
    problems = []
    if "classic" not in config.group_coordinator_rebalance_protocols:
        problems.append("group.coordinator.rebalance.protocols lacks classic, which cannot be turned off")
    for names in LIMITED.values():
        low, high = names.bounds(config)
        if low is not None and high is not None and low > high:
            problems.append(f"{names.lowest} is {low}, above {names.highest}, {high}")
        elif not is_within(value := int_value(config, names.broker), low, high):
            problems.append(f"{names.broker} is {value}, not {_span(low, high)}, its limits")
    for kind in KINDS:
        session, beat = (int_value(config, f"group.{kind}.{name}") for name in (_SESSION, _HEARTBEAT))
        if session <= beat:
            problems.append(f"group.{kind}.{_SESSION} is {session}, not above group.{kind}.{_HEARTBEAT}, {beat}")
    return problems


def group_problems(own: Mapping[str, str], config: BrokerConfig) -> list[str]:
    """Sentences about a group's own settings that contradict the broker's; each is valid in itself."""
    problems = []
    for name, names in LIMITED.items():
        if name not in own:
            continue
        low, high = names.bounds(config)
        if not is_within(int(own[name]), low, high):
            limits = " and ".join(limit for limit in (names.lowest, names.highest) if limit is not None)
            problems.append(f"{name} is {own[name]}, not {_span(low, high)} ({limits})")
    for kind in KINDS:
        session, beat = (
            int(own[name]) if (name := f"{kind}.{each}") in own else int_value(config, f"group.{name}")
            for each in (_SESSION, _HEARTBEAT)
        )
        if session <= beat:
            problems.append(f"{kind}.{_SESSION} is {session}, not above {kind}.{_HEARTBEAT}, {beat}")
    return problems


def is_within(value: int, low: int | None, high: int | None) -> bool:
    return (low is None or low <= value) and (high is None or value <= high)


def _span(low: int | None, high: int | None) -> str:
    return f"at most {high}" if low is None else f"at least {low}" if high is None else f"within {low} … {high}"
