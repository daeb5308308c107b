from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tidelog.broker.share.settings import OffsetReset, ShareGroupSettings, parse_offset_reset
from tidelog.config.broker_config import BrokerConfig


def settings_of(own: dict[str, str], **config: Any) -> ShareGroupSettings:
    resources: Any = SimpleNamespace(own=lambda kind, group: own if group == "g" else {})
    return ShareGroupSettings(resources, BrokerConfig(**config))


def test_a_groups_own_settings_go_before_the_brokers() -> None:
    settings = settings_of(
        {
            "share.record.lock.duration.ms": "20000",
            "share.delivery.count.limit": "7",
            "share.partition.max.record.locks": "300",
            "share.renew.acknowledge.enable": "false",
            "share.isolation.level": "read_committed",
        },
        group_share_delivery_count_limit=3,
    )
    assert tuple(settings.limits("g")) == (300, 7, 20_000, False)
    assert tuple(settings.limits("h")) == (2000, 3, 30_000, True)
    assert (settings.is_committed_only("g"), settings.is_committed_only("h")) == (True, False)


def test_the_brokers_bounds_go_before_a_groups_own() -> None:
    settings = settings_of({"share.record.lock.duration.ms": "60000"})
    settings.use(BrokerConfig(group_share_max_record_lock_duration_ms=40_000))
    assert settings.limits("g").lock_ms == 40_000


@pytest.mark.parametrize(
    ("text", "reset"),
    [
        ("latest", OffsetReset("latest")),
        ("earliest", OffsetReset("earliest")),
        ("by_duration:PT1.5S", OffsetReset("by_duration", 1500)),
        pytest.param(
            "by_duration:P" + "9" * 400 + "DT1S", OffsetReset("by_duration", 1 << 62), id="longer than a float"
        ),
        ("by_duration:P999999999999999999D", OffsetReset("by_duration", 1 << 62)),
        ("by_duration:P2DT3H4M5S", OffsetReset("by_duration", ((2 * 24 + 3) * 60 + 4) * 60_000 + 5000)),
    ],
)
def test_where_a_group_begins(text: str, reset: OffsetReset) -> None:
    assert parse_offset_reset(text) == reset
    assert settings_of({"share.auto.offset.reset": text}).offset_reset("g") == reset


@pytest.mark.parametrize("text", ["", "none", "earliest:", "by_duration:-PT1S", "by_duration:1h"])
def test_no_other_beginning_is_taken(text: str) -> None:
    with pytest.raises(ValueError, match="by_duration"):
        parse_offset_reset(text)
