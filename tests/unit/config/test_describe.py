from __future__ import annotations

from tidelog.config.broker_config import BrokerConfig
from tidelog.config.definitions import HONOURED_BROKER, TOPIC_SETTINGS
from tidelog.config.describe import ConfigEntry, ConfigSource, ConfigSynonym, describe_broker, describe_topic
from tidelog.config.loader import load_config
from tidelog.config.log_config import log_config
from tidelog.config.setting import SettingType


def topic_entry(name: str, broker: BrokerConfig, overrides: dict[str, str]) -> ConfigEntry:
    (entry,) = describe_topic(broker, log_config(broker, overrides), overrides, [name])
    return entry


def test_a_default_is_told_with_the_brokers_name_for_it() -> None:
    entry = topic_entry("segment.bytes", BrokerConfig(), {})
    assert (entry.value, entry.source, entry.type) == ("1073741824", ConfigSource.DEFAULT_CONFIG, SettingType.INT)
    assert entry.synonyms == (ConfigSynonym("log.segment.bytes", "1073741824", ConfigSource.DEFAULT_CONFIG),)
    assert entry.documentation.startswith("Size in bytes")
    assert not entry.read_only


def test_the_topics_own_value_comes_first() -> None:
    broker = load_config(None, {}, ["log.retention.minutes=10", "log.retention.hours=3"])
    entry = topic_entry("retention.ms", broker, {"retention.ms": "5000"})
    assert (entry.value, entry.source) == ("5000", ConfigSource.TOPIC_CONFIG)
    assert entry.synonyms == (
        ConfigSynonym("retention.ms", "5000", ConfigSource.TOPIC_CONFIG),
        ConfigSynonym("log.retention.minutes", "10", ConfigSource.STATIC_BROKER_CONFIG),
        ConfigSynonym("log.retention.hours", "3", ConfigSource.STATIC_BROKER_CONFIG),
        ConfigSynonym("log.retention.hours", "168", ConfigSource.DEFAULT_CONFIG),
    )


def test_a_broker_setting_in_another_unit_is_the_source() -> None:
    entry = topic_entry("retention.ms", load_config(None, {}, ["log.retention.minutes=10"]), {})
    assert (entry.value, entry.source) == ("600000", ConfigSource.STATIC_BROKER_CONFIG)


def test_all_settings_of_a_topic_are_told_but_internal_ones_that_are_not_set() -> None:
    broker = BrokerConfig()
    names = [entry.name for entry in describe_topic(broker, log_config(broker, {}), {})]
    assert set(names) == TOPIC_SETTINGS.keys() - {"internal.segment.bytes"}
    overrides = {"internal.segment.bytes": "100"}
    told = describe_topic(broker, log_config(broker, overrides), overrides, ["internal.segment.bytes", "nonsense"])
    assert [(entry.name, entry.value) for entry in told] == [("internal.segment.bytes", "100")]


def test_lists_and_truths_are_written_as_kafka_writes_them() -> None:
    broker, overrides = BrokerConfig(), {"cleanup.policy": "delete,compact"}
    told = {e.name: e.value for e in describe_topic(broker, log_config(broker, overrides), overrides)}
    assert (told["cleanup.policy"], told["preallocate"], told["unclean.leader.election.enable"]) == (
        "compact,delete",
        "false",
        "false",
    )


def test_the_brokers_settings_say_what_may_change_and_where_they_come_from() -> None:
    broker = load_config(None, {"TIDELOG_LOG_ROLL_HOURS": "2"}, ["listeners=PLAINTEXT://:0", "num.io.threads=3"])
    told = {entry.name: entry for entry in describe_broker(broker, None, {"node.id": "7"})}
    assert told.keys() == {row.name for row in HONOURED_BROKER if not row.internal}
    assert (told["listeners"].value, told["listeners"].read_only) == ("PLAINTEXT://:0", True)
    assert (told["node.id"].value, told["node.id"].source) == ("7", ConfigSource.DEFAULT_CONFIG)
    assert (told["log.roll.ms"].value, told["log.roll.ms"].read_only) == (None, False)
    assert told["log.roll.ms"].synonyms[0] == ConfigSynonym("log.roll.hours", "2", ConfigSource.STATIC_BROKER_CONFIG)
    assert describe_broker(broker, ["num.io.threads", "nonsense"]) == []
