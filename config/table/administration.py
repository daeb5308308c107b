"""The settings of administration: how quotas are measured, what clients may push."""

from __future__ import annotations

from ..setting import Importance, Setting, SettingType, at_least


def _row(name: str, default: int, doc: str) -> Setting:
    """A number from 1 on that is read at the start."""
    return Setting(name, SettingType.INT, default, doc, at_least(1), Importance.LOW, group="Quotas and telemetry")


ADMINISTRATION_ROWS: tuple[Setting, ...] = (
    Setting(
        "telemetry.enable",
        SettingType.BOOLEAN,
        False,
        "Whether clients are offered to push metrics of their own (KIP-714). What they push is counted (tidelog_telemetry_*) and "
        "not kept; many clients log a line when a broker offers it. Apache Kafka offers it where a plug-in of metric.reporters "
        "takes it.",
        importance=Importance.LOW,
        own=True,
        group="Quotas and telemetry",
    ),
    _row(
        "quota.window.num",
        11,
        "Windows over which bytes and requests of a client are measured against its quota, the one in progress included.",
    ),
    _row(
        "quota.window.size.seconds",
        1,
        "Length of each of these windows, in seconds.",
    ),
    _row(
        "controller.quota.window.num",
        11,
        "Windows over which partitions made and deleted may be saved up against controller_mutation_rate.",
    ),
    _row(
        "controller.quota.window.size.seconds",
        1,
        "Length of each of these windows, in seconds.",
    ),
    _row(
        "telemetry.max.bytes",
        1 << 20,
        "Largest metrics, in bytes as they come, that a client may push at once (KIP-714).",
    ),
)
