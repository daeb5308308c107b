"""Node's clients, kafkajs and @platformatic/kafka: the cases are in node/compat.js, here each is a test."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from support.clients.programs import node_command, run_cases

CASES = [
    *(
        f"kafkajs-{case}"
        for case in ("roundtrip-none", "roundtrip-gzip", "idempotence", "group-of-two", "group-goes-on")
    ),
    *("kafkajs-transactions", "kafkajs-admin"),
    *(f"platformatic-{case}" for case in ("roundtrip", "codecs", "idempotence", "admin")),
]


@pytest.fixture(scope="module")
def results(bootstrap: str) -> Mapping[str, str]:
    return run_cases(node_command(), bootstrap, 280)


@pytest.mark.parametrize("case", CASES)
def test_node(results: Mapping[str, str], case: str) -> None:
    assert results.get(case, "did not run").startswith("PASS "), results.get(case, "did not run")


def test_no_case_is_forgotten(results: Mapping[str, str]) -> None:
    assert sorted(results) == sorted(CASES)
