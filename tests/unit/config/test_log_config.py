from __future__ import annotations

import typing

import pytest
from tidelog.config.broker_config import BrokerConfig
from tidelog.config.definitions import HONOURED_TOPIC, nearest_name
from tidelog.config.exceptions import ConfigError
from tidelog.config.log_config import LogConfig, log_config
from tidelog.config.setting import SettingType

HOUR = 3_600_000
PYTHON_TYPES = {
    SettingType.BOOLEAN: bool,
    SettingType.STRING: str,
    SettingType.INT: int,
    SettingType.LONG: int,
    SettingType.DOUBLE: float,
    SettingType.LIST: tuple[str, ...],
}


def test_there_is_one_attribute_for_each_honoured_setting_and_of_its_type() -> None:
    types = {row.attribute: PYTHON_TYPES[row.type] for row in HONOURED_TOPIC if not row.internal}
    assert typing.get_type_hints(LogConfig) == {**types, "cleanup_policy": frozenset[str]}


def test_what_is_not_named_has_its_default() -> None:
    config = LogConfig(segment_bytes=1000)
    assert (config.segment_bytes, config.retention_ms) == (1000, 168 * HOUR)
    assert config.cleanup_policy == frozenset({"delete"})
    assert log_config(BrokerConfig(), {}) == LogConfig()
    with pytest.raises(TypeError, match=r"segment_byte$"):
        LogConfig(segment_byte=1)


@pytest.mark.parametrize(
    ("broker", "attribute", "value"),
    [
        ({"log_roll_hours": 2}, "segment_ms", 2 * HOUR),
        ({"log_roll_hours": 2, "log_roll_ms": 7}, "segment_ms", 7),
        ({"log_roll_jitter_hours": 1}, "segment_jitter_ms", HOUR),
        ({"log_retention_hours": 3}, "retention_ms", 3 * HOUR),
        ({"log_retention_hours": 3, "log_retention_minutes": 5}, "retention_ms", 300_000),
        ({"log_retention_minutes": 5, "log_retention_ms": 6}, "retention_ms", 6),
        ({"log_retention_hours": -1}, "retention_ms", -1),
        ({"log_retention_ms": -1}, "retention_ms", -1),
        ({"log_flush_scheduler_interval_ms": 9}, "flush_ms", 9),
        ({"log_flush_interval_ms": 8, "log_flush_scheduler_interval_ms": 9}, "flush_ms", 8),
        ({"message_max_bytes": 5000}, "max_message_bytes", 5000),
        ({"log_segment_delete_delay_ms": 1}, "file_delete_delay_ms", 1),
        ({"log_index_size_max_bytes": 67}, "segment_index_bytes", 67),
        ({"log_cleanup_policy": ("compact", "delete")}, "cleanup_policy", frozenset({"compact", "delete"})),
        ({"log_cleaner_min_cleanable_ratio": 0.1}, "min_cleanable_dirty_ratio", 0.1),
    ],
)
def test_the_brokers_settings_stand_in(broker: dict[str, object], attribute: str, value: object) -> None:
    assert getattr(log_config(BrokerConfig(**broker), {}), attribute) == value


def test_the_topics_own_settings_win() -> None:
    broker = BrokerConfig(log_segment_bytes=5000, log_retention_ms=5)
    config = log_config(broker, {"segment.bytes": "6000", "retention.ms": "0", "cleanup.policy": "compact,delete"})
    assert (config.segment_bytes, config.retention_ms) == (6000, 0)
    assert config.cleanup_policy == frozenset({"compact", "delete"})


def test_the_internal_segment_size_wins_over_the_other() -> None:
    assert log_config(BrokerConfig(), {"segment.bytes": "6000", "internal.segment.bytes": "100"}).segment_bytes == 100


def test_settings_that_mean_nothing_here_are_taken_if_they_are_well_formed() -> None:
    assert log_config(BrokerConfig(), {"unclean.leader.election.enable": "true"}) == LogConfig()
    with pytest.raises(ConfigError, match="neither true nor false"):
        log_config(BrokerConfig(), {"unclean.leader.election.enable": "maybe"})
    with pytest.raises(ConfigError, match=r"remote\.storage\.enable='true' is not allowed; allowed: one of false"):
        log_config(BrokerConfig(), {"remote.storage.enable": "true"})


def test_everything_wrong_is_said_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        log_config(BrokerConfig(), {"log.segment.bytes": "1", "segment.ms": "0", "cleanup.policy": "shred"})
    assert caught.value.problems == (
        "unknown topic setting log.segment.bytes; did you mean segment.bytes?",
        "segment.ms='0' is out of range; allowed: 1 … 9223372036854775807",
        "cleanup.policy='shred' is not allowed; allowed: one or more of compact, delete",
    )


@pytest.mark.parametrize("size", ["13", "2147483648", "x"])
def test_a_segment_holds_one_message_at_least(size: str) -> None:
    with pytest.raises(ConfigError, match="allowed: 14 … 2147483647"):
        log_config(BrokerConfig(), {"segment.bytes": size})


@pytest.mark.parametrize(
    ("settings", "level"),
    [
        ({}, "page cache"),
        ({"flush_ms": 1000}, "interval"),
        ({"flush_messages": 10}, "interval"),
        ({"flush_messages": 1}, "ack after sync"),
    ],
)
def test_the_durability_level_has_a_name(settings: dict[str, int], level: str) -> None:
    assert LogConfig(**settings).durability == level


@pytest.mark.parametrize(
    ("text", "magic"),
    [
        ("0", 0),
        ("0.8.0", 0),
        ("0.8.2", 0),
        ("0.9.0", 0),
        ("0.9.0.1", 0),
        ("1", 1),
        ("0.10.0-IV0", 1),
        ("0.10.2", 1),
        ("0.10.2.1-IV0", 1),
        ("2", 2),
        ("0.11.0-IV2", 2),
        ("1.0", 2),
        ("1.0-IV0", 2),
        ("2.8-IV1", 2),
        ("3.0-IV1", 2),
        ("4.3", 2),
        ("10.0.1", 2),
    ],
)
def test_message_format_by_its_number_or_by_kafkas_version(text: str, magic: int) -> None:
    assert log_config(BrokerConfig(), {"message.format.version": text}).message_format == magic
    assert log_config(BrokerConfig(log_message_format_version=text), {}).message_format == magic


def test_the_newest_message_format_is_the_default() -> None:
    assert LogConfig().message_format == 2


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *[
            ("message.format.version", text)
            for text in ("", "3", "-1", "v2", "0.7.2", "0.12.0", "2.", "1.x", "2.8-IV", "0.10")
        ],
        ("message.timestamp.type", "CreatedTime"),
        ("message.timestamp.type", "createtime"),
        ("message.timestamp.before.max.ms", "-1"),
        ("message.timestamp.after.max.ms", "x"),
        ("compression.type", "brotli"),
        ("compression.gzip.level", "0"),
        ("compression.gzip.level", "10"),
        ("compression.lz4.level", "18"),
        ("compression.zstd.level", "23"),
        ("retention.ms", "-5"),
        ("segment.ms", "0"),
    ],
)
def test_bad_values_are_refused_with_what_is_allowed(name: str, text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        log_config(BrokerConfig(), {name: text})
    said = str(refused.value)
    assert name in said
    allowed = {
        "message.format.version": "0.10.2",
        "message.timestamp.type": "LogAppendTime",
        "compression.type": "zstd",
    }
    assert allowed.get(name, "") in said
    assert len(said.replace(name, "").replace(text, "")) > 10


def test_of_very_many_unknown_settings_only_the_first_are_told_and_guessed_at(monkeypatch: pytest.MonkeyPatch) -> None:
    guesses: list[str] = []
    monkeypatch.setattr("tidelog.config.log_config.nearest_name", lambda name, topic: guesses.append(name))
    with pytest.raises(ConfigError) as caught:
        log_config(BrokerConfig(), {f"unknown.{number}": "x" for number in range(1000)})
    assert guesses == ["unknown.0", "unknown.1"]
    assert len(caught.value.problems) == 11
    assert caught.value.problems[-1] == "990 more topic settings are unknown"


def test_a_name_too_long_to_resemble_any_setting_is_not_compared_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def compare(*_: object) -> list[str]:
        raise AssertionError("compared")

    monkeypatch.setattr("difflib.get_close_matches", compare)
    assert nearest_name("x" * 32_767, topic=True) is None
    assert nearest_name("x" * 32_767, topic=False) is None
