"""The settings of operating the daemon that are not Kafka's: containers, metrics."""

from __future__ import annotations

from .setting import ANY, Importance, Setting, SettingType

GROUP = "Process, log lines and metrics"

OPERATION_ROWS: tuple[Setting, ...] = (
    Setting(
        "container.gateway.localhost",
        SettingType.BOOLEAN,
        True,
        "In a container only: whether a client that arrives from the default gateway's address, as one on the host does "
        "through a published port, is told to connect to localhost (docs/CONTAINER.md). advertised.listeners goes before it.",
        ANY,
        Importance.LOW,
        group="Network",
        own=True,
    ),
    Setting(
        "metrics.per.group",
        SettingType.BOOLEAN,
        True,
        "Whether metrics are also given for each consumer group: members, offsets and lag (5000 partitions at most).",
        ANY,
        Importance.LOW,
        dynamic=True,
        group=GROUP,
        own=True,
    ),
)
