"""franz-go (kgo, kadm): the cases are in go/cases.go, here each is a test."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from support.clients.base import CODECS
from support.clients.programs import go_command, run_cases

CASES = [
    *(f"roundtrip-{codec}" for codec in CODECS),
    "idempotence",
    "group",
    "rebalance-eager",
    "rebalance-cooperative",
    "seek-by-time",
    "large-message",
    "too-large-message",
    "many-partitions",
    "admin",
]


@pytest.fixture(scope="module")
def results(bootstrap: str) -> Mapping[str, str]:
    return run_cases(go_command(), bootstrap, 180)


@pytest.mark.parametrize("case", CASES)
def test_franz_go(results: Mapping[str, str], case: str) -> None:
    assert results.get(case, "did not run").startswith("PASS "), results.get(case, "did not run")


def test_no_case_is_forgotten(results: Mapping[str, str]) -> None:
    assert sorted(results) == sorted(CASES)
