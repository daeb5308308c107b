"""A group's own settings, the broker's, and the broker's limits."""

from __future__ import annotations

import pytest
from support.heartbeat_groups import make_environment

NAME = "consumer.session.timeout.ms"


@pytest.mark.parametrize(
    ("own", "expected"), [(None, 46_000), ("50000", 50_000), ("1", 45_000), ("999999", 60_000), ("60000", 60_000)]
)
def test_own_value_within_the_limits(own, expected):
    settings = make_environment(
        own={"g": {} if own is None else {NAME: own}}, group_consumer_session_timeout_ms=46_000
    ).settings
    assert settings.int_of("g", NAME) == expected
    assert settings.int_of("another", NAME) == 46_000


def test_limits_follow_the_broker():
    own = {"g": {NAME: "1000", "consumer.assignment.interval.ms": "99"}}
    settings = make_environment(own=own, group_consumer_min_session_timeout_ms=500).settings
    assert settings.int_of("g", NAME) == 1000
    assert settings.int_of("g", "consumer.assignment.interval.ms") == 99
    assert settings.config.group_consumer_max_size == 2**31 - 1


def test_a_limit_without_a_least() -> None:
    own = {"g": {"streams.num.standby.replicas": "2"}}
    assert make_environment(own=own).settings.int_of("g", "streams.num.standby.replicas") == 2
    narrowed = make_environment(own=own, group_streams_max_standby_replicas=1).settings
    assert narrowed.int_of("g", "streams.num.standby.replicas") == 1
    assert narrowed.int_of("h", "streams.initial.rebalance.delay.ms") == 3000
