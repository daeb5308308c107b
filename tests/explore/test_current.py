"""No false alarm: current releases of clients get through every seed of the usual kinds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pytest
from support.explored_clients import Client
from tidelog.testing import Schedule
from tidelog.testing.schedule import USUAL


class Case(NamedTuple):
    """A case of `worker.py`, and what seeds choose from."""

    release: str
    name: str
    kinds: Sequence[str] = USUAL
    apis: Sequence[str] | None = None


CASES = [
    Case("aiokafka-0.14.0", "aiokafka_produce"),
    Case("kafka-python-3.0.12", "kafka_python_produce", apis=["Produce", "Metadata"]),
    Case("confluent-kafka-2.16.1", "confluent_consume", apis=["Fetch", "ListOffsets", "OffsetForLeaderEpoch"]),
]
"""Left out is what current releases do not get through: librdkafka's idempotent producer under errors of replicas writes a record
twice (https://github.com/confluentinc/librdkafka/issues/4953, open).
"""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_current_client_gets_through(case: Case, pytestconfig: pytest.Config) -> None:
    with Client(case.release) as client:
        for seed in range(pytestconfig.getoption("--explore-seeds")):
            result = client.run(case.name, Schedule(seed=seed, kinds=case.kinds, apis=case.apis))
            assert result.failure is None, f"seed {seed}: {result.failure}\n{result.struck}\n{result.trace}"
