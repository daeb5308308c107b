"""Apache Kafka's own Java clients, of the release `--java-clients`: the cases are in java/Compat.java, here each is a test."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from support.clients.base import CODECS
from support.clients.programs import java_command, run_cases

CASES = [
    *(f"roundtrip-{codec}" for codec in CODECS),
    "idempotence",
    "group",
    "group-consumer-protocol",
    "rebalance-eager",
    "rebalance-cooperative",
    "static-member",
    "seek-by-time",
    "large-message",
    "too-large-message",
    "many-partitions",
    "admin",
    "transactions",
    "exactly-once",
    "fencing",
    "hanging-transaction",
]


@pytest.fixture(scope="module")
def results(pytestconfig: pytest.Config, bootstrap: str) -> Mapping[str, str]:
    return run_cases(java_command(release=pytestconfig.getoption("--java-clients")), bootstrap, 180)


@pytest.mark.parametrize("case", CASES)
def test_java(results: Mapping[str, str], case: str) -> None:
    assert results.get(case, "did not run").startswith("PASS "), results.get(case, "did not run")


def test_no_case_is_forgotten(results: Mapping[str, str]) -> None:
    assert sorted(results) == sorted(CASES)
