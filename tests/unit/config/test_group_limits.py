"""What has to fit together among the settings of groups."""

from __future__ import annotations

import pytest
from tidelog.config.broker_config import BrokerConfig
from tidelog.config.exceptions import ConfigError
from tidelog.config.group_limits import LIMITED, broker_problems, group_problems
from tidelog.config.loader import load_config
from tidelog.config.table.resources import GROUP_SETTINGS
from tidelog.config.validation import validate


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
        ({"group_streams_num_standby_replicas": 3}, "replicas is 3, not at most 2, its limits"),
        ({"group_share_delivery_count_limit": 11}, "not within 2 … 10"),
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
        (
            {"streams.num.standby.replicas": "3"},
            "streams.num.standby.replicas is 3, not at most 2 (group.streams.max.standby.replicas)",
        ),
        ({"share.record.lock.duration.ms": "14999"}, "not within 15000 … 60000 (group.share.min.record"),
        ({"share.delivery.count.limit": "11"}, "not within 2 … 10"),
        ({"share.partition.max.record.locks": "4001"}, "not within 100 … 4000"),
        ({"share.session.timeout.ms": "60001"}, "not within 45000 … 60000"),
        ({"streams.heartbeat.interval.ms": "4999"}, "not within 5000 … 15000"),
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


def test_every_setting_that_the_broker_has_too_is_limited() -> None:
    unlimited = {"share.auto.offset.reset", "share.isolation.level", "share.renew.acknowledge.enable"}
    idle = {
        "errors.deadletterqueue.copy.record.enable",
        "errors.deadletterqueue.topic.name",
        "streams.assignor.name",
        "streams.rack.aware.assignment.tags",
    }
    assert GROUP_SETTINGS.keys() - LIMITED.keys() == unlimited | idle
    without = {name for name, names in LIMITED.items() if names.lowest is names.highest is None}
    assert without == {"streams.initial.rebalance.delay.ms"}


@pytest.mark.parametrize(
    ("name", "taken", "refused"),
    [
        ("errors.deadletterqueue.topic.name", "", "dead"),
        ("streams.assignor.name", "sticky", "mine"),
        ("streams.rack.aware.assignment.tags", "", "zone"),
    ],
)
def test_what_cannot_be_done_is_taken_as_its_default_alone(name: str, taken: str, refused: str) -> None:
    assert validate({name: taken}, GROUP_SETTINGS)[1] == []
    (problem,) = validate({name: refused}, GROUP_SETTINGS)[1]
    assert problem.startswith(f"{name}={refused!r}")


def test_limits_that_were_widened_count() -> None:
    config = BrokerConfig(group_streams_max_standby_replicas=5, group_share_min_record_lock_duration_ms=1_000)
    own = {"streams.num.standby.replicas": "5", "share.record.lock.duration.ms": "1000"}
    assert group_problems(own, config) == []
    assert validate(own, GROUP_SETTINGS)[1] == []
