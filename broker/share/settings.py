"""Settings of a share group: its own (resource type GROUP), else the broker's `group.share.*`.

A group's own value was checked when it was set; should the broker's bounds have changed since, they win. Loop thread.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from ..groups.heartbeat.machine import GroupSettings
from ..metadata.store import GROUP
from .partition import ShareLimits

if TYPE_CHECKING:
    from ...config.broker_config import BrokerConfig
    from ..metadata.resource_config import ResourceConfigs

EARLIEST, LATEST, BY_DURATION = "earliest", "latest", "by_duration"
READ_COMMITTED = "read_committed"
_DURATION = re.compile(
    r"P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)
LONGEST_MS = 1 << 62
"""A duration that is longer is this one: before all records all the same, and a time that can be reckoned with."""


class OffsetReset(NamedTuple):
    """First position of a group in a partition: its EARLIEST or LATEST offset, or BY_DURATION `back_ms` ago."""

    kind: str
    back_ms: int = 0


class ShareGroupSettings:
    """Asked anew each time: a change counts at once."""

    __slots__ = ("_config", "_numbers", "_resources")

    def __init__(self, resources: ResourceConfigs, config: BrokerConfig) -> None:
        self._resources = resources
        self._config = config
        self._numbers = GroupSettings(lambda: self._config, lambda group: resources.own(GROUP, group))

    def use(self, config: BrokerConfig) -> None:
        """Apply the broker's changed settings."""
        self._config = config

    def limits(self, group: str) -> ShareLimits:
        own = self._resources.own(GROUP, group)
        return ShareLimits(
            self._numbers.int_of(group, "share.partition.max.record.locks"),
            self._numbers.int_of(group, "share.delivery.count.limit"),
            self._numbers.int_of(group, "share.record.lock.duration.ms"),
            own.get("share.renew.acknowledge.enable", "true").lower() != "false",
        )

    def is_committed_only(self, group: str) -> bool:
        """True if records of open and aborted transactions are left out."""
        return self._resources.own(GROUP, group).get("share.isolation.level") == READ_COMMITTED

    def offset_reset(self, group: str) -> OffsetReset:
        return parse_offset_reset(self._resources.own(GROUP, group).get("share.auto.offset.reset", LATEST))


def parse_offset_reset(text: str) -> OffsetReset:
    """ValueError for what `share.auto.offset.reset` does not allow."""
    kind, colon, duration = text.partition(":")
    if not colon and kind in (EARLIEST, LATEST):
        return OffsetReset(kind)
    found = _DURATION.fullmatch(duration)
    if kind != BY_DURATION or found is None:
        raise ValueError(f"{text!r} is not earliest, latest or by_duration:PnDTnHnMn.nS")
    parts = {name: float(value or 0) for name, value in found.groupdict().items()}
    seconds = ((parts["days"] * 24 + parts["hours"]) * 60 + parts["minutes"]) * 60 + parts["seconds"]
    return OffsetReset(BY_DURATION, int(min(seconds * 1000, LONGEST_MS)))
