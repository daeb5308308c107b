"""What the limits have done, as numbers."""

from __future__ import annotations

from types import SimpleNamespace

from tidelog.broker.metadata.creation_limits import Makers, PrincipalTopicCounts
from tidelog.broker.monitoring.limits import limit_metrics, long_request_metrics, maker_metrics
from tidelog.broker.network.request_memory import RequestMemoryBudget
from tidelog.broker.network.response_memory import ResponseMemoryBudget
from tidelog.broker.runtime.metric_family import families_of
from tidelog.config.broker_config import BrokerConfig


def test_every_limit_has_its_row() -> None:
    receiving, sending = RequestMemoryBudget(1, 1), ResponseMemoryBudget(1, 1)
    receiving.buffers.lent, receiving.waits, receiving.timed_out, receiving.shed = 1, 2, 3, 4
    sending.held, sending.timed_out, sending.shed, sending.client_shed = 5, 6, 7, 9
    sending.held_back.add("User:a")
    server = SimpleNamespace(receiving=receiving, sending=sending, fair_queue=SimpleNamespace(taken=8, put_off=10))
    rows = {
        (family.name, *labels): value
        for family in families_of(limit_metrics(), server)  # type: ignore[arg-type]
        for labels, value in family.rows  # type: ignore[union-attr]
    }
    del rows["tidelog_log_lines_left_out",]
    closed = "tidelog_connections_closed_at_limits"
    assert rows == {
        ("tidelog_incomplete_request_bytes",): 1,
        ("tidelog_incomplete_requests",): 0,
        ("tidelog_request_memory_waits",): 2,
        ("tidelog_unsent_response_bytes",): 5,
        ("tidelog_heavy_turns",): 8,
        (closed, "slow_request"): 3,
        (closed, "slow_reader"): 6,
        (closed, "request_memory"): 4,
        (closed, "response_memory"): 7,
        (closed, "client_response_memory"): 9,
        ("tidelog_held_back_clients",): 1,
        ("tidelog_held_back_requests",): 10,
    }


def test_topics_that_were_refused_and_the_largest_accounts() -> None:
    makers = PrincipalTopicCounts(BrokerConfig())
    makers.appeared(Makers("User:a", {"User:a": 2, "User:b": 5}), 7)
    makers.refused["partitions"] = 3
    rows = {
        (family.name, *labels): value
        for family in families_of(maker_metrics(), makers)
        for labels, value in family.rows  # type: ignore[union-attr]
    }
    assert rows == {
        ("tidelog_refused_topics", "topics_of_principal"): 0,
        ("tidelog_refused_topics", "partitions_of_principal"): 0,
        ("tidelog_refused_topics", "partitions"): 3,
        ("tidelog_largest_principal_topics",): 1,
        ("tidelog_largest_principal_partitions",): 5,
    }


def test_long_requests_by_what_they_do() -> None:
    rows = {
        (family.name, *labels): value
        for family in families_of(long_request_metrics(), {"look": Requests(3, 2), "change": Requests(5, 4)})  # type: ignore[arg-type]
        for labels, value in family.rows  # type: ignore[union-attr]
    }
    assert rows == {
        ("tidelog_long_requests", "look"): 3,
        ("tidelog_long_requests", "change"): 5,
        ("tidelog_waiting_long_requests", "look"): 2,
        ("tidelog_waiting_long_requests", "change"): 4,
    }


class Requests:
    def __init__(self, taken: int, waiting: int) -> None:
        self.taken, self.waiting = taken, waiting

    def __len__(self) -> int:
        return self.waiting
