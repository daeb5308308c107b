"""What a reset comes to. The commands against a daemon: tests/client/test_admin_commands.py."""

from __future__ import annotations

import pytest
from tidelog.cli.groups import parse_time, picture
from tidelog.cli.support.kafka_client import KafkaFailure


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("1970-01-01", 0),
        ("2026-01-31T12:00:00", 1_769_860_800_000),
        ("2026-01-31T12:00:00.5Z", 1_769_860_800_500),
        ("2026-01-31T13:00:00+01:00", 1_769_860_800_000),
    ],
)
def test_times_are_utc_unless_they_say_otherwise(text: str, milliseconds: int) -> None:
    assert parse_time(text) == milliseconds


def test_what_is_no_time_is_refused() -> None:
    with pytest.raises(KafkaFailure, match="'yesterday' is no time"):
        parse_time("yesterday")


def test_the_picture_sums_the_lag() -> None:
    group = {
        "group": "g",
        "type": "classic",
        "state": "Stable",
        "members": [{"member": "m", "client": "c", "host": "/127.0.0.1", "partitions": 1}],
        "partitions": [
            {"topic": "t", "partition": 0, "committed": 5, "end": 1005, "lag": 1000, "member": "m"},
            {"topic": "t", "partition": 1, "committed": None, "end": 7, "lag": None, "member": None},
        ],
    }
    lines = picture(group)
    assert lines[0] == "g  Stable  1 member  lag 1,000"
    assert picture({**group, "type": "streams"})[0] == "g  streams  Stable  1 member  lag 1,000"
    assert lines[2].split() == ["t", "0", "5", "1,005", "1,000", "m"]
    assert lines[3].split() == ["t", "1", "–", "7", "–"]


def test_the_picture_of_a_consumer_group() -> None:
    member = {"member": "m", "client": "c", "host": "/h", "partitions": 2, "epoch": 6, "protocol": "classic"}
    group = {
        "group": "g",
        "type": "consumer",
        "state": "Reconciling",
        "protocol": "uniform",
        "epoch": 7,
        "assignment_epoch": 6,
        "members": [member],
        "partitions": [],
    }
    lines = picture(group)
    assert lines[0] == "g  consumer  Reconciling  1 member  lag 0  uniform, epoch 7, assigned 6"
    assert lines[-2].split() == ["member", "client", "host", "partitions", "epoch", "protocol"]
    assert lines[-1].split() == ["m", "c", "/h", "2", "6", "classic"]
