"""The settings of operating the daemon that are not Kafka's: what its metrics tell."""

from __future__ import annotations

from .setting import ANY, Importance, Setting, SettingType

GROUP = "Process, log lines and metrics"

OPERATION_ROWS: tuple[Setting, ...] = (
    Setting(
        "metrics.per.group",
        SettingType.BOOLEAN,
        True,
        "Whether metrics are also given for each consumer group: members, offsets and lag (5000 partitions at most).",
        ANY,
        Importance.LOW,
        group=GROUP,
        own=True,
    ),
)
