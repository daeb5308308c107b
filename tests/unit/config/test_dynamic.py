from __future__ import annotations

from tidelog.config.loader import load_config, with_dynamic_settings


def test_a_nodes_own_beat_those_of_all_and_both_what_it_was_started_with() -> None:
    config = load_config(None, {}, ["log.retention.ms=5", "log.segment.bytes=5000", "num.partitions=3"])
    by_node = {
        "": {"log.retention.ms": "6", "log.segment.bytes": "6000"},
        "1": {"log.retention.ms": "7"},
        "2": {"log.retention.ms": "8"},
    }
    found = with_dynamic_settings(config, by_node, 1)
    assert (found.config.log_retention_ms, found.config.log_segment_bytes, found.config.num_partitions) == (7, 6000, 3)
    assert found.taken == {"log.retention.ms": "7", "log.segment.bytes": "6000"}
    assert found.refused == ()


def test_what_has_no_meaning_here_or_cannot_change_is_left_out() -> None:
    config = load_config(None, {}, [])
    by_node = {"": {"leader.replication.throttled.rate": "5", "node.id": "7", "no.such.setting": "1"}}
    assert with_dynamic_settings(config, by_node, 1) == (config, {}, ())


def test_a_value_that_cannot_be_is_refused_alone() -> None:
    config = load_config(None, {}, [])
    found = with_dynamic_settings(config, {"": {"log.retention.ms": "x", "log.segment.bytes": "6000"}}, 1)
    assert found.config.log_segment_bytes == 6000
    assert found.taken == {"log.segment.bytes": "6000"}
    assert "log.retention.ms" in found.refused[0]


def test_a_groups_setting_outside_of_its_limits_is_refused() -> None:
    config = load_config(None, {}, [])
    for kind in ("consumer", "share", "streams"):
        name = f"group.{kind}.assignment.interval.ms"
        assert with_dynamic_settings(config, {"": {name: "15000"}}, 1).taken == {name: "15000"}
        found = with_dynamic_settings(config, {"": {name: "15001"}}, 1)
        assert (found.config, found.taken) == (config, {})
        assert name in found.refused[0]


def test_a_setting_that_does_not_fit_to_a_file_changed_since_is_left_out_alone() -> None:
    """A disk was cordoned, emptied and taken out of log.dirs: with its cordon went all that was set so, retention too."""
    by_node = {
        "": {"log.retention.ms": "-1", "cordoned.log.dirs": "/b", "max.connections": "7"},
        "1": {"queued.max.request.bytes": "1000000"},
    }
    config = load_config(None, {}, ["log.dirs=/a", "socket.request.max.bytes=2000000"])
    found = with_dynamic_settings(config, by_node, 1)
    assert found.taken == {"log.retention.ms": "-1", "max.connections": "7"}
    assert (found.config.log_retention_ms, found.config.max_connections) == (-1, 7)
    assert any("cordoned.log.dirs='/b' is not in log.dirs" in problem for problem in found.refused)
    assert len(found.refused) == 2
    assert any("queued.max.request.bytes=1000000 is below" in problem for problem in found.refused)
    assert with_dynamic_settings(config, by_node, 1, all_or_none=True).taken == {}
