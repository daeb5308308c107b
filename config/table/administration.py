"""The settings of administration: how quotas are measured, what clients may push."""

from __future__ import annotations

from ..setting import BOOLEAN, INT, LOW, Group, Setting, at_least

# fmt: off
ADMINISTRATION_ROWS: tuple[Setting, ...] = (
    Setting(
        "telemetry.enable", type=BOOLEAN, default=False, group=Group.QUOTAS, importance=LOW, own=True,
        doc="Whether clients are offered to push metrics of their own (KIP-714). What they push is counted "
            "(tidelog_telemetry_*) and not kept; many clients log a line when a broker offers it. Apache Kafka offers it "
            "where a plug-in of metric.reporters takes it.",
    ),
    Setting(
        "quota.window.num", type=INT, default=11, allowed=at_least(1), group=Group.QUOTAS, importance=LOW,
        doc="Windows over which bytes and requests of a client are measured against its quota, the one in progress included.",
    ),
    Setting(
        "quota.window.size.seconds", type=INT, default=1, allowed=at_least(1), group=Group.QUOTAS, importance=LOW,
        doc="Length of each of these windows, in seconds.",
    ),
    Setting(
        "controller.quota.window.num", type=INT, default=11, allowed=at_least(1), group=Group.QUOTAS, importance=LOW,
        doc="Windows over which partitions made and deleted may be saved up against controller_mutation_rate.",
    ),
    Setting(
        "controller.quota.window.size.seconds", type=INT, default=1, allowed=at_least(1), group=Group.QUOTAS, importance=LOW,
        doc="Length of each of these windows, in seconds.",
    ),
    Setting(
        "telemetry.max.bytes", type=INT, default=1 << 20, allowed=at_least(1), group=Group.QUOTAS, importance=LOW,
        doc="Largest metrics, in bytes as they come, that a client may push at once (KIP-714).",
    ),
)
