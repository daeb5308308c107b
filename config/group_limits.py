"""Settings of groups that have to fit together: the broker's limits, its own values, and what a group was given.

Kafka 4.3's rules: a value lies between `group.KIND.min.…` and `group.KIND.max.…`, and a session is longer than a heartbeat
interval. Any thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .broker_config import BrokerConfig

KINDS = ("consumer", "share", "streams")
_BROKER_KINDS = ("consumer", "streams")  # the broker's own for share groups are in `broker_config`, with more of them
SESSION, HEARTBEAT, ASSIGNMENT = "session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms"


def broker_problems(config: BrokerConfig) -> list[str]:
    """One sentence for each of the broker's own settings of groups that does not fit to another."""
    problems = []
    if "classic" not in config.group_coordinator_rebalance_protocols:
        problems.append("group.coordinator.rebalance.protocols lacks classic, which cannot be turned off")
    for kind in _BROKER_KINDS:
        for name in (SESSION, HEARTBEAT, ASSIGNMENT):
            value, low, high = (_broker(config, f"group.{kind}.{part}{name}") for part in ("", "min.", "max."))
            if value is None or low is None or high is None:
                continue  # a kind of group that has none of these
            if low > high:
                problems.append(f"group.{kind}.min.{name} is {low}, above group.{kind}.max.{name}, {high}")
            elif not low <= value <= high:
                problems.append(f"group.{kind}.{name} is {value}, not within {low} … {high}, its limits")
        session, beat = (_broker(config, f"group.{kind}.{name}") for name in (SESSION, HEARTBEAT))
        if session is not None and beat is not None and session <= beat:
            problems.append(f"group.{kind}.{SESSION} is {session}, not above group.{kind}.{HEARTBEAT}, {beat}")
    return problems


def group_problems(own: Mapping[str, str], config: BrokerConfig) -> list[str]:
    """One sentence for each of a group's own settings, valid in themselves, that does not fit to the broker's."""
    problems = []
    for kind in KINDS:
        for name in (SESSION, HEARTBEAT, ASSIGNMENT):
            text = own.get(f"{kind}.{name}")
            low, high = (_broker(config, f"group.{kind}.{part}{name}") for part in ("min.", "max."))
            if text is not None and low is not None and high is not None and not low <= int(text) <= high:
                problems.append(
                    f"{kind}.{name} is {text}, not within {low} … {high} (group.{kind}.min.{name} and .max.{name})"
                )
        session, beat = (
            int(own[f"{kind}.{name}"]) if f"{kind}.{name}" in own else _broker(config, f"group.{kind}.{name}")
            for name in (SESSION, HEARTBEAT)
        )
        if session is not None and beat is not None and session <= beat:
            problems.append(f"{kind}.{SESSION} is {session}, not above {kind}.{HEARTBEAT}, {beat}")
    return problems


def _broker(config: BrokerConfig, name: str) -> int | None:
    value = getattr(config, name.replace(".", "_"), None)
    return None if value is None else int(value)
