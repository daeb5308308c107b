"""What has to fit together among the settings of groups."""

from __future__ import annotations

import pytest
from tidelog.config.broker_config import BrokerConfig
from tidelog.config.exceptions import ConfigError
from tidelog.config.group_limits import broker_problems, group_problems
from tidelog.config.loader import load_config


def test_the_defaults_fit() -> None:
    assert broker_problems(BrokerConfig()) == []
    assert group_problems({}, BrokerConfig()) == []


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"group_consumer_session_timeout_ms": 10_000}, "not within 45000 … 60000"),
        ({"group_consumer_heartbeat_interval_ms": 20_000}, "not within 5000 … 15000"),
        ({"group_consumer_assignment_interval_ms": 15_001}, "not within 0 … 15000"),
        ({"group_consumer_min_session_timeout_ms": 70_000}, "above group.consumer.max.session.timeout.ms"),
        (
            {"group_consumer_max_heartbeat_interval_ms": 60_000, "group_consumer_heartbeat_interval_ms": 45_000},
            "not above group.consumer.heartbeat.interval.ms",
        ),
        ({"group_coordinator_rebalance_protocols": ("consumer",)}, "lacks classic"),
    ],
)
def test_what_does_not(settings: dict[str, object], says: str) -> None:
    (problem,) = broker_problems(BrokerConfig(**settings))
    assert says in problem


def test_a_start_says_so() -> None:
    with pytest.raises(ConfigError, match="not within 45000"):
        load_config(None, {}, ["group.consumer.session.timeout.ms=10000"])
    assignments = ["group.consumer.session.timeout.ms=10000", "group.consumer.min.session.timeout.ms=6000"]
    assert load_config(None, {}, assignments).group_consumer_session_timeout_ms == 10_000


@pytest.mark.parametrize(
    ("own", "says"),
    [
        ({"consumer.session.timeout.ms": "44999"}, "consumer.session.timeout.ms is 44999, not within 45000 … 60000"),
        ({"consumer.heartbeat.interval.ms": "15001"}, "not within 5000 … 15000"),
        ({"consumer.assignment.interval.ms": "15001"}, "not within 0 … 15000"),
    ],
)
def test_a_group_stays_within_the_brokers_limits(own: dict[str, str], says: str) -> None:
    (problem,) = group_problems(own, BrokerConfig())
    assert says in problem
    assert group_problems({"consumer.session.timeout.ms": "45000"}, BrokerConfig()) == []


def test_a_session_is_longer_than_a_heartbeat() -> None:
    config = BrokerConfig(group_consumer_min_session_timeout_ms=1_000)
    assert group_problems({"consumer.session.timeout.ms": "6000"}, config) == []
    (problem,) = group_problems(
        {"consumer.session.timeout.ms": "6000", "consumer.heartbeat.interval.ms": "6000"}, config
    )
    assert "not above" in problem
