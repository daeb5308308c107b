"""Accounts of who made what, and the bounds on them."""

from __future__ import annotations

import pytest
from tidelog.broker.metadata.creation_limits import NOBODY, NOBODYS, Makers, PrincipalTopicCounts, released
from tidelog.config.broker_config import BrokerConfig
from tidelog.protocol.errors import ErrorCode, ProtocolError

ALICE, BOB, ROOT = "User:alice", "User:bob", "User:root"


def accounts(topics: int = 3, partitions: int = 10, in_all: int = 100) -> PrincipalTopicCounts:
    return PrincipalTopicCounts(
        BrokerConfig(
            max_topics_per_principal=topics,
            max_partitions_per_principal=partitions,
            max_partitions=in_all,
            super_users=f"User:x; {ROOT}",
        )
    )


def refusal(made: PrincipalTopicCounts, principal: str, topics: int, partitions: int) -> str:
    with pytest.raises(ProtocolError) as caught:
        made.claim(principal, topics, partitions)
    assert caught.value.code is ErrorCode.POLICY_VIOLATION
    return str(caught.value)


def test_a_topic_belongs_to_who_made_it_and_partitions_to_who_added_them() -> None:
    made = Makers.of_new(ALICE, 2).grown(BOB, 3).grown(BOB, 1).grown(NOBODY, 5)
    assert made == Makers(ALICE, {ALICE: 2, BOB: 4})
    assert Makers.of_new(NOBODY, 2) == NOBODYS
    assert NOBODYS.grown(BOB, 1) == Makers(NOBODY, {BOB: 1})
    assert NOBODYS.partitions == {}


def test_what_is_there_counts_until_it_is_gone() -> None:
    made = accounts()
    makers = Makers(ALICE, {ALICE: 2, BOB: 4})
    made.appeared(makers, 7)
    assert (made.topics_of(ALICE), made.partitions_of(ALICE)) == (1, 2)
    assert (made.topics_of(BOB), made.partitions_of(BOB), made.total) == (0, 4, 7)
    assert made.largest == (1, 4)
    made.disappeared(makers, 7)
    assert (made.principals, made.total, made.largest) == (0, 0, (0, 0))


def test_a_claim_counts_from_the_moment_that_it_is_made() -> None:
    made = accounts(topics=2, partitions=10)
    first = made.claim(ALICE, 1, 6)
    said = refusal(made, ALICE, 1, 5)
    assert said == (
        "User:alice has 6 partitions, and wants 5 more; max.partitions.per.principal is 10: delete topics that are not needed, "
        "or have the operator of the broker raise it"
    )
    second = made.claim(ALICE, 1, 4)
    assert refusal(made, ALICE, 1, 0).startswith("User:alice has 2 topics; max.topics.per.principal is 2: delete some")
    refusal(made, ALICE, 0, 1)
    made.claim(BOB, 1, 10)
    first.release()
    first.release()  # harmless
    assert (made.topics_of(ALICE), made.partitions_of(ALICE)) == (1, 4)
    second.release()
    assert made.principals == 1
    assert made.refused == {"topics_of_principal": 1, "partitions_of_principal": 2, "partitions": 0}


def test_growth_needs_no_topic() -> None:
    made = accounts(topics=0)
    made.claim(ALICE, 0, 5)
    refusal(made, ALICE, 1, 1)


def test_super_users_and_nobody_have_no_bound_of_their_own() -> None:
    made = accounts(topics=0, partitions=0, in_all=20)
    made.claim(ROOT, 5, 15)
    assert made.partitions_of(ROOT) == 15, "it is counted all the same"
    assert refusal(made, ROOT, 1, 6).startswith("there are 15 partitions, and 6 more are wanted; max.partitions is 20")
    made.claim(NOBODY, 1, 50)
    assert refusal(made, ROOT, 1, 1).startswith("there are 65 partitions")
    assert made.topics_of(NOBODY) == 0
    refusal(made, "User:root2", 1, 1)


def test_a_lower_bound_takes_nothing_away() -> None:
    made = accounts()
    made.appeared(Makers.of_new(ALICE, 10), 10)
    made.use(BrokerConfig(max_partitions_per_principal=5))
    assert refusal(made, ALICE, 0, 1).startswith("User:alice has 10 partitions")
    made.use(BrokerConfig())
    made.claim(ALICE, 1000, 100_000)


def test_what_was_claimed_is_released_whatever_happens() -> None:
    made = accounts()
    with released(made.claim(ALICE, 1, 1)) as principal:
        assert principal == ALICE
    assert made.principals == 0
    with pytest.raises(KeyError), released(made.claim(ALICE, 1, 1)):
        raise KeyError
    assert made.principals == 0
    with released(None) as principal:
        assert principal == NOBODY
