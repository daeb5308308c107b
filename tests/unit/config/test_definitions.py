"""The table against Kafka's own: tests/golden/kafka-settings.tsv is read off the newest release's ConfigDef."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest
from tidelog.config.definitions import (
    BROKER_SETTINGS,
    HONOURED_BROKER,
    HONOURED_TOPIC,
    TOPIC_SETTINGS,
    find_broker_setting,
    nearest_name,
)
from tidelog.config.setting import Setting, SettingType, Status, text_of
from tidelog.config.validation import validate

GOLDEN = Path(__file__).parents[2] / "golden" / "kafka-settings.tsv"


class KafkaRow(NamedTuple):
    scope: str
    name: str
    type: str
    default: str
    allowed: str
    importance: str
    internal: str


KAFKA = [
    KafkaRow(*line.split("\t"))
    for line in GOLDEN.read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
]
KAFKA_BROKER = {row.name: row for row in KAFKA if row.scope == "BROKER"}
KAFKA_TOPIC = {row.name: row for row in KAFKA if row.scope == "TOPIC"}

COMPARED = [(row, KAFKA_BROKER[row.name]) for row in HONOURED_BROKER if row.name in KAFKA_BROKER] + [
    (row, KAFKA_TOPIC[row.name]) for row in HONOURED_TOPIC if row.name in KAFKA_TOPIC
]


ONLY_WHILE_RUNNING = {"replica.alter.log.dirs.io.max.bytes.per.second"}
"""Kafka takes it from kafka-configs.sh and kafka-reassign-partitions.sh alone, so its list of settings lacks it."""


def test_every_broker_setting_of_kafka_is_in_the_table() -> None:
    assert [name for name in KAFKA_BROKER if find_broker_setting(name) is None] == []
    assert len(KAFKA_BROKER) == 379


def test_every_topic_setting_of_kafka_is_in_the_table() -> None:
    assert KAFKA_TOPIC.keys() == {row.name for row in TOPIC_SETTINGS.values() if not row.own}


def test_names_that_are_not_kafkas_are_marked_as_ours() -> None:
    ours = {row.name for row in HONOURED_BROKER if row.own}
    assert ours == {row.name for row in HONOURED_BROKER} - KAFKA_BROKER.keys() - ONLY_WHILE_RUNNING
    assert {row.name for row in HONOURED_TOPIC if row.own} == {row.name for row in HONOURED_TOPIC} - KAFKA_TOPIC.keys()


@pytest.mark.parametrize(("row", "kafka"), COMPARED, ids=lambda row: row.name)
def test_types_defaults_and_ranges_are_kafkas_or_say_why_not(row: Setting, kafka: KafkaRow) -> None:
    assert row.type.name == kafka.type
    default = "null" if row.default is None else text_of(row.default)
    same_default = default == ("null" if kafka.default == "" and row.default is None else kafka.default)
    same_range = _kafkas_range(kafka) is None or _kafkas_range(kafka) == _our_range(row)
    if row.name == "listener.security.protocol.map":  # a set, in whatever order
        assert default is not None
        same_default = set(default.split(",")) == set(kafka.default.split(","))
    assert (same_default and same_range) or row.why_different, (default, kafka.default, _our_range(row), kafka.allowed)


def _kafkas_range(kafka: KafkaRow) -> tuple[object, ...] | None:
    """Bounds or words; None where Kafka checks nothing."""
    if match := re.fullmatch(r"\[(-?[\d.]+),\.\.\.(?:,(-?[\d.]+))?\](?: or (-?\d+))?", kafka.allowed):
        return float(match[1]), float(match[2]) if match[2] else None, (int(match[3]),) if match[3] else ()
    if match := re.fullmatch(r"\[([\w, ]+)\]", kafka.allowed):
        return tuple(sorted(match[1].split(", ")))
    return None


def _our_range(row: Setting) -> tuple[object, ...]:
    if row.allowed.choices:
        return tuple(sorted(row.allowed.choices))
    return row.allowed.low, row.allowed.high, row.allowed.also


def test_kafkas_range_without_bounds_is_ours_too_or_says_why_not() -> None:
    """Where Kafka checks nothing, a bound of ours would refuse what Kafka takes."""
    stricter = {
        row.name
        for row, kafka in COMPARED
        if kafka.allowed == "" and row.allowed.low is not None and not row.why_different
    }
    # Kafka checks these after parsing, or when a topic takes them over.
    assert stricter == {
        "broker.id",
        "internal.segment.bytes",
        "log.flush.interval.ms",
        "log.retention.ms",
        "log.roll.jitter.ms",
        "log.roll.ms",
    }


def test_every_default_passes_its_own_validation() -> None:
    for rows in (HONOURED_BROKER, HONOURED_TOPIC):
        texts = {row.name: text_of(row.default) or "" for row in rows if row.default is not None}
        values, problems = validate(texts, {row.name: row for row in rows})
        assert problems == []
        assert values == {row.name: row.default for row in rows if row.default is not None}


def test_each_broker_setting_has_an_environment_variable_of_its_own() -> None:
    variables = [row.environment for row in BROKER_SETTINGS.values()]
    assert len(set(variables)) == len(variables)
    assert BROKER_SETTINGS["log.segment.bytes"].environment == "TIDELOG_LOG_SEGMENT_BYTES"


def test_a_topic_setting_and_its_broker_setting_share_type_and_text() -> None:
    for topic in HONOURED_TOPIC:
        for synonym in topic.synonyms[:1]:
            broker = BROKER_SETTINGS[synonym.name]
            assert broker.type is topic.type
            assert broker.doc.startswith(topic.doc)
            assert broker.status is Status.HONOURED


@pytest.mark.parametrize(
    ("wrong", "topic", "right"),
    [
        ("log.segment.byte", False, "log.segment.bytes"),
        ("segment.bytes", False, "log.segment.bytes"),
        ("file.delete.delay.ms", False, "log.segment.delete.delay.ms"),
        ("log.segment.bytes", True, "segment.bytes"),
        ("log.retention.hours", True, "retention.ms"),
        ("retention.sm", True, "retention.ms"),
        ("qqqqqqqq", False, None),
    ],
)
def test_a_wrong_name_leads_to_the_right_one(wrong: str, topic: bool, right: str | None) -> None:
    assert nearest_name(wrong, topic=topic) == right


def test_families_of_names_mean_nothing_here() -> None:
    row = find_broker_setting("zookeeper.session.timeout.ms")
    assert row is not None
    assert row.status is Status.NO_MEANING
    assert find_broker_setting("zookeper.connect") is None


def test_secrets_are_known_as_such() -> None:
    assert Setting("x", type=SettingType.PASSWORD, default=None, doc="").sensitive
    assert {row.name for row in HONOURED_BROKER if row.sensitive} == {
        *(
            row.name
            for row in HONOURED_BROKER
            if row.name in KAFKA_BROKER and KAFKA_BROKER[row.name].type == "PASSWORD"
        ),
        "backup.secret.access.key",
        "backup.session.token",
    }


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("ssl.client.auht", "ssl.client.auth"), ("ssl.key.pasword", "ssl.key.password"),
        ("sasl.enabled.mechanism", "sasl.enabled.mechanisms"),
    ],
)  # fmt: skip
def test_a_misspelt_setting_of_security_is_not_taken_for_one_without_effect(typed: str, meant: str) -> None:
    """Whole families of names were taken without effect, and a door stayed open with them."""
    assert find_broker_setting(typed) is None
    assert find_broker_setting(f"listener.name.outside.{typed}") is None
    assert nearest_name(typed, topic=False) == meant
