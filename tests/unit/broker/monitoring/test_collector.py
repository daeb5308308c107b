"""What Prometheus gets to see, from the loop's numbers to the text."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from tidelog.broker.monitoring import collector as metrics
from tidelog.broker.monitoring.collector import BrokerCollector, every_metric
from tidelog.broker.monitoring.node_state import NodeState
from tidelog.broker.runtime.lazy import Lazy
from tidelog.broker.server.node import Node
from tidelog.config.broker_config import BrokerConfig
from tidelog.config.loader import load_config
from tidelog.protocol.api_keys import ApiKey


async def scrape(directory: Path, *settings: str) -> dict[str, float]:
    """A started daemon's series, as Prometheus reads them, after some requests were counted."""
    fixed = ["listeners=PLAINTEXT://127.0.0.1:0", "http.listener=", f"log.dirs={directory}"]
    node = Node(load_config(None, {}, [*fixed, *settings]), asyncio.get_running_loop())
    try:
        await node.start()
        node.services.counters.latencies[ApiKey.FETCH][30] = 2
        node.services.counters.latencies[ApiKey.FETCH][40] = 1
        node.services.counters.nanoseconds[ApiKey.FETCH] = 5 * 10**9
        await node.services.topics.create("t", 2, {})
        registry = CollectorRegistry()
        registry.register(BrokerCollector(node.state))
        text = (await asyncio.to_thread(generate_latest, registry)).decode()
    finally:
        await node.stop()
    return {
        f"{sample.name}{sorted(sample.labels.items())}": sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def test_a_scrape_has_every_row_of_the_tables_in_their_order(tmp_path: Path) -> None:
    settings = ["listeners=PLAINTEXT://127.0.0.1:0", "http.listener=", f"log.dirs={tmp_path / 'data'}"]
    node = Node(load_config(None, {}, settings), asyncio.get_running_loop())
    try:
        await node.start()
        families = await asyncio.to_thread(lambda: list(BrokerCollector(node.state).families()))
    finally:
        await node.stop()
    found = [(family.name, family.kind, family.help, family.labels) for family in families]
    assert found == [(metric.name, metric.kind, metric.help, metric.labels) for metric in every_metric()]
    for family in families:
        assert all(len(row[0]) == len(family.labels) for row in family.rows), family.name


async def test_a_histogram_is_cumulative_and_ends_with_all(tmp_path: Path) -> None:
    found = await scrape(tmp_path / "data")
    fetch = {name: value for name, value in found.items() if "tidelog_request_seconds" in name}
    buckets = [value for name, value in fetch.items() if "_bucket" in name]
    assert buckets == sorted(buckets)
    assert fetch["tidelog_request_seconds_bucket[('api', 'Fetch'), ('le', '+Inf')]"] == 3
    assert fetch[f"tidelog_request_seconds_bucket[('api', 'Fetch'), ('le', '{2**30 / 1e9!r}')]"] == 2
    assert fetch["tidelog_request_seconds_count[('api', 'Fetch')]"] == 3
    assert fetch["tidelog_request_seconds_sum[('api', 'Fetch')]"] == 5
    assert found["tidelog_requests_total[('api', 'Fetch')]"] == 3
    assert found["tidelog_log_end_offset[('partition', '1'), ('topic', 't')]"] == 0


async def test_what_is_per_topic_can_be_switched_off(tmp_path: Path) -> None:
    found = await scrape(tmp_path / "data", "metrics.per.topic=false", "metrics.per.group=false")
    assert [name for name in found if "'topic'" in name] == []
    assert found["tidelog_partitions[]"] == 2


async def test_partitions_beyond_a_bound_are_in_the_sums_alone(tmp_path: Path) -> None:
    found = await scrape(tmp_path / "data", "metrics.max.partitions=1")
    places = {name.partition("[")[2] for name in found if "'topic'" in name}
    assert len({name for name in places if "'partition', '0'" in name}) > 0
    assert not [name for name in places if "'partition', '1'" in name]
    assert (found["tidelog_partitions[]"], found["tidelog_partitions_omitted[]"]) == (2, 1)


async def test_a_scrape_before_a_node_has_its_parts_says_that_it_is_not_ready() -> None:
    """While the directories are locked and their metadata read."""
    node = NodeState(BrokerConfig(), asyncio.get_running_loop(), Lazy(lambda: pytest.fail("there is nothing to make")))
    families = await asyncio.to_thread(lambda: list(BrokerCollector(node).families()))
    rows = {family.name: [row[1] for row in family.rows] for family in families}
    assert rows["tidelog_ready"] == rows["tidelog_recovery_partitions_remaining"] == [0]
    assert set(rows["tidelog_degraded"]) == {0}
    assert "tidelog_requests" not in rows
    assert "tidelog_partitions" not in rows


async def test_a_loop_that_hangs_takes_only_its_own_metrics_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When nobody is served, /metrics must still say why."""
    monkeypatch.setattr(metrics, "SNAPSHOT_TIMEOUT_S", 0.05)
    settings = ["listeners=PLAINTEXT://127.0.0.1:0", "http.listener=", f"log.dirs={tmp_path / 'data'}"]
    node = Node(load_config(None, {}, settings), asyncio.get_running_loop())
    try:
        await node.start()
        names = {
            family.name for family in BrokerCollector(node.state).families()
        }  # on the loop itself, which so stands still
    finally:
        await node.stop()
    assert names >= {"tidelog_degraded", "tidelog_ready", "tidelog_partitions", "tidelog_cleaner_enabled"}
    assert "tidelog_requests" not in names


async def test_the_switches_hold_at_once(tmp_path: Path) -> None:
    settings = ["listeners=PLAINTEXT://127.0.0.1:0", "http.listener=", f"log.dirs={tmp_path / 'data'}"]
    node = Node(load_config(None, {}, settings), asyncio.get_running_loop())

    async def rows() -> int:
        collector = BrokerCollector(node.state)
        found = await asyncio.to_thread(lambda: {family.name: len(family.rows) for family in collector.families()})
        return found["tidelog_log_end_offset"]

    try:
        await node.start()
        await node.services.topics.create("t", 2, {})
        assert await rows() == 2
        await node.services.settings.alter("", lambda present: {**present, "metrics.per.topic": "false"})
        assert await rows() == 0
    finally:
        await node.stop()
