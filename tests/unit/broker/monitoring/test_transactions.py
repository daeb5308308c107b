"""What the coordinator's state becomes in /metrics."""

from __future__ import annotations

from typing import cast

from support.transactions import Node
from tidelog.broker.monitoring.transactions import transaction_metrics
from tidelog.broker.runtime.metric_family import Family, families_of
from tidelog.broker.transactions.coordinator import TransactionCoordinator


def told(transactions: TransactionCoordinator | None) -> dict[str, float]:
    families = [cast(Family, family) for family in families_of(transaction_metrics(), transactions)]
    return {family.name.removeprefix("tidelog_transaction"): next(iter(family.rows))[1] for family in families}


def test_from_none_to_one_that_is_over_its_time() -> None:
    assert told(None) == {"al_ids": 0, "s_ongoing": 0, "s_completing": 0, "s_timed_out": 0}
    node = Node(flush_messages=1, sync_at_once=False)
    producer = node.init(timeout_ms=1000)
    node.produce("tx", producer, "t", 0, "a")
    assert told(node.transactions) == {"al_ids": 1, "s_ongoing": 1, "s_completing": 0, "s_timed_out": 0}
    node.time.advance(seconds=20)
    node.settle()
    assert told(node.transactions) == {"al_ids": 1, "s_ongoing": 0, "s_completing": 0, "s_timed_out": 1}
    node.close()
