"""Transactions over crashes, at every step of them; see support/transaction_ring.py. `--crash-distinct 10000`: as `make slow`."""

from __future__ import annotations

import pytest
from support.crash_exploration import Exploration
from support.transaction_ring import TransactionRing

pytestmark = pytest.mark.damaged("the ring judges each state itself")


@pytest.mark.parametrize(("power", "version"), [(False, 0), (False, 2), (True, 2)], ids=["kill-1", "kill-2", "power-2"])
def test_every_step_of_commits_and_aborts(crash_limit: int | Exploration, power: bool, version: int) -> None:
    ring = TransactionRing(power=power, version=version, states_per_moment=crash_limit)
    producer = ring.node.init()
    producer = ring.transaction(producer, 1, commit=True)
    producer = ring.transaction(producer, 2, commit=False)
    if not power:
        producer = ring.transaction(producer, 3, commit=True)
    assert ring.finish() > 30


@pytest.mark.parametrize("power", [False, True], ids=["kill", "power"])
def test_every_step_of_a_new_instance(crash_limit: int | Exploration, power: bool) -> None:
    ring = TransactionRing(power=power, version=2, states_per_moment=crash_limit)
    producer = ring.node.init()
    ring.node.produce("tx", producer, "t", 0, "1")
    ring.node.commit_offsets("tx", producer, "g", ("t", 0, 1))
    producer = ring.node.init()
    if not power:
        ring.transaction(producer, 2, commit=True)
    assert ring.finish() > 20


@pytest.mark.parametrize("power", [False, True], ids=["kill", "power"])
def test_every_step_of_a_time_out(crash_limit: int | Exploration, power: bool) -> None:
    ring = TransactionRing(power=power, version=2, states_per_moment=crash_limit)
    producer = ring.node.init()
    ring.node.produce("tx", producer, "t", 0, "1")
    ring.node.produce("tx", producer, "u", 0, "1")
    ring.node.time.advance(seconds=80)
    ring.node.settle()
    assert ring.node.state() == "CompleteAbort"
    assert ring.finish() > 10
