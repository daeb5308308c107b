"""Apache Kafka's own programs, those behind its shell scripts: the cases are in java/Tools.java, here each is a test."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from support.clients.base import CODECS
from support.clients.programs import run_cases, tools_command

CASES = [
    *("topics", "console", "console-share", "offsets", "offsets-formatter", "group-metadata-formatter"),
    *("share-group-formatter", "share-state-formatter", "transaction-formatter", "group-configs", "groups", "configs"),
    *("delete-records", "log-dirs", "leader-election"),
    *("reassignment", "broker-api-versions", "features", "metadata-quorum", "cluster-id", "client-metrics"),
    "transactions",
    *(f"producer-perf-{codec}" for codec in CODECS),
    *("producer-perf-transactions", "consumer-perf", "verifiable", "end-to-end-latency", "compatibility-test"),
    "delete-topic",
]


@pytest.fixture(scope="module")
def results(bootstrap: str) -> Mapping[str, str]:
    return run_cases(tools_command(), bootstrap, 280)


@pytest.mark.parametrize("case", CASES)
def test_kafka_tools(results: Mapping[str, str], case: str) -> None:
    assert results.get(case, "did not run").startswith("PASS "), results.get(case, "did not run")


def test_no_case_is_forgotten(results: Mapping[str, str]) -> None:
    assert sorted(results) == sorted(CASES)
