"""What one request may make: together, on its user's account, and at its user's rate."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tidelog.broker.metadata.creation_limits import PrincipalTopicCounts
from tidelog.broker.metadata.topics import MAX_PARTITIONS_PER_REQUEST
from tidelog.broker.requests.creation_budget import CreationBudget
from tidelog.config.broker_config import BrokerConfig
from tidelog.protocol.errors import ErrorCode, ProtocolError

ALICE = "User:alice"


class Mutations:
    """`quota_manager.Mutations`, with tokens that do not come back."""

    def __init__(self, tokens: int = 1_000_000) -> None:
        self.tokens = tokens

    def take(self, partitions: int) -> None:
        if partitions > self.tokens:
            raise ProtocolError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "too fast")
        self.tokens -= partitions


def room(mutations: Mutations, most: int | None = MAX_PARTITIONS_PER_REQUEST, bound: int = 2**31 - 1) -> Any:
    accounts = PrincipalTopicCounts(BrokerConfig(max_partitions_per_principal=bound))
    context = SimpleNamespace(services=SimpleNamespace(topics=SimpleNamespace(makers=accounts)), principal=ALICE)
    return CreationBudget(context, mutations, most), accounts  # type: ignore[arg-type]


def code(caught: pytest.ExceptionInfo[ProtocolError]) -> ErrorCode:
    return caught.value.code


def test_parts_of_a_request_are_counted_together() -> None:
    one, _ = room(Mutations())
    one.take(1, MAX_PARTITIONS_PER_REQUEST - 1)
    with pytest.raises(ProtocolError, match="over the 10000 partitions of one request") as caught:
        one.take(1, 2)
    assert code(caught) is ErrorCode.POLICY_VIOLATION
    one.take(1, 1)
    unbound, _ = room(Mutations(), most=None)
    unbound.take(0, MAX_PARTITIONS_PER_REQUEST)
    unbound.take(0, MAX_PARTITIONS_PER_REQUEST)


def test_a_refusal_takes_nothing_from_either_account() -> None:
    mutations = Mutations(5)
    one, accounts = room(mutations, bound=8)
    with pytest.raises(ProtocolError) as caught:
        one.take(1, 6)
    assert (code(caught), accounts.partitions_of(ALICE)) == (ErrorCode.THROTTLING_QUOTA_EXCEEDED, 0)
    with pytest.raises(ProtocolError) as caught:
        one.take(1, 9)
    assert (code(caught), mutations.tokens) == (ErrorCode.POLICY_VIOLATION, 5)
    one.take(1, 5)
    assert (accounts.partitions_of(ALICE), mutations.tokens) == (5, 0)


def test_what_is_only_checked_is_claimed_until_the_answer() -> None:
    one, accounts = room(Mutations(), bound=8)
    with one:
        one.check(1, 5)
        with pytest.raises(ProtocolError):
            one.check(1, 4)
        kept = one.take(1, 3)
    assert accounts.partitions_of(ALICE) == 3, "a claim that was taken is its maker's"
    kept.release()
    assert accounts.principals == 0
