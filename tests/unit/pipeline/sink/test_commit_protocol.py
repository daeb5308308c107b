"""The commit protocol against a model of the broker: every crash between any two steps, time-outs, and drivers that don't know
that they have been replaced. No row twice, none lost, whatever happens.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.commit_model import Broker, Choices, Crash, Fenced, ModelCluster, every
from tidelog.pipeline.sink.commit_protocol import (
    Committer,
    LostPartError,
    Outcome,
    Part,
    Token,
    TornBatchError,
    View,
    decide,
)

TASKS = 2


def rows_of(batch: int, task: int) -> tuple[str, ...]:
    return (f"{batch}/{task}/a", f"{batch}/{task}/b")


def everything(batches: int) -> list[str]:
    return sorted(row for batch in range(batches) for task in range(TASKS) for row in rows_of(batch, task))


class World:
    """A query that is started again whenever it fails, with so many misfortunes in all."""

    def __init__(
        self, choices: Choices, *, crashes: int = 0, time_outs: int = 0, take_overs: int = 0,
        rows: Callable[[int, int, int], tuple[str, ...]] = lambda batch, task, run: rows_of(batch, task),
    ) -> None:  # fmt: skip
        self.choices, self.broker, self.rows = choices, Broker(), rows
        self.crashes, self.time_outs, self.take_overs = crashes, time_outs, take_overs
        self.runs = 0
        self.batches = self.done = 0
        """Batches of which Spark's own log knows."""

    def before(self, step: str) -> None:
        if self.time_outs:
            still_open = [part for part, one in self.broker.transactions.items() if one.outcome is Outcome.OPEN]
            if chosen := self.choices.one_of(len(still_open) + 1):
                self.time_outs -= 1
                self.broker.time_out(still_open[chosen - 1])
        if self.crashes and self.choices.one_of(2):
            self.crashes -= 1
            raise Crash
        if self.take_overs and self.done < self.batches and self.choices.one_of(2):
            self.take_overs -= 1
            known = self.done
            self.run_batch(known)  # while this driver sleeps
            self.done = max(self.done, known + 1)

    def after(self, step: str) -> None:
        if self.crashes and self.choices.one_of(2):
            self.crashes -= 1
            raise Crash

    def run_batch(self, batch: int) -> None:
        self.runs += 1
        run = f"run{self.runs}"
        cluster = ModelCluster(self.broker, self.before, self.after)
        parts = [self.broker.write_part(task, run, self.rows(batch, task, self.runs)) for task in range(TASKS)]
        Committer(cluster, run, rounds=5).commit(batch, parts)

    def run(self, batches: int, attempts: int = 8) -> None:
        self.batches = batches
        for _ in range(attempts):
            try:
                while self.done < batches:
                    batch = self.done
                    self.run_batch(batch)
                    self.done = max(self.done, batch + 1)
                return
            except (Crash, Fenced, LostPartError):
                continue
        raise AssertionError("it never ends")


def explore(batches: int, least: int, **misfortunes: int) -> None:
    """`least`: so many ways there must be, or the search has looked at nothing."""
    ways = 0
    for choices in every():
        world = World(choices, **misfortunes)
        world.run(batches)
        assert world.broker.committed_rows() == everything(batches)
        ways += 1
    assert ways >= least


def test_without_misfortune_there_is_one_way() -> None:
    explore(3, 1)


def test_drivers_may_die_between_any_two_steps() -> None:
    explore(2, 3000, crashes=3)


def test_transactions_may_run_out_between_any_two_steps() -> None:
    explore(2, 100, time_outs=2)


def test_drivers_may_die_and_transactions_run_out() -> None:
    explore(2, 1000, crashes=1, time_outs=1)


def test_a_driver_may_sleep_while_another_takes_its_place() -> None:
    explore(2, 30, take_overs=2)


def test_a_driver_may_sleep_and_its_successor_die() -> None:
    explore(1, 100, crashes=1, take_overs=1, time_outs=1)


def test_a_plan_that_is_not_repeatable_stops_rather_than_repeat_or_lose() -> None:
    """With every run's rows of their own: what is committed is one run's for each task, or the query has stopped."""
    torn = whole = 0
    for choices in every():
        world = World(choices, crashes=1, time_outs=1, rows=lambda batch, task, run: (f"{batch}/{task}/{run}",))
        try:
            world.run(1)
            whole += 1
            found = [row.split("/") for row in world.broker.committed_rows()]
            assert sorted(row[1] for row in found) == ["0", "1"]
            assert len({row[2] for row in found}) == 1
        except TornBatchError:
            torn += 1
            assert len(world.broker.committed_rows()) == 1
    assert torn
    assert whole


PARTS = tuple(Part(task, f"t{task}", 10 + task, 0, 5, task) for task in range(3))
AGAIN = tuple(Part(task, f"u{task}", 20 + task, 0, 5, task) for task in range(3))


def view(batch: int, *committed: int) -> View:
    outcomes = {part: Outcome.COMMITTED if part.task in committed else Outcome.GONE for part in PARTS}
    return View(Token(batch, "old", PARTS), outcomes)


def test_a_batch_that_is_new_gets_a_token() -> None:
    for found in (View(), view(6, 0, 1, 2)):
        assert decide(found, 7, "r", AGAIN).token == Token(7, "r", AGAIN)


@pytest.mark.parametrize("batch", [7, 9])
def test_a_batch_that_is_there_is_not_written_again(batch: int) -> None:
    decision = decide(view(batch, 0, 1, 2), 7, "r", AGAIN)
    assert decision.token is None
    assert decision.superfluous == AGAIN


def test_a_token_of_which_nothing_came_is_void() -> None:
    assert decide(view(7), 7, "r", AGAIN).token == Token(7, "r", AGAIN)


def test_of_a_batch_that_is_there_in_part_only_the_rest_is_committed() -> None:
    decision = decide(view(7, 0, 2), 7, "r", AGAIN)
    assert decision.token == Token(7, "r", (PARTS[0], AGAIN[1], PARTS[2]))
    assert decision.superfluous == (AGAIN[0], AGAIN[2])


def test_another_run_of_a_torn_batch_is_refused() -> None:
    other = (*AGAIN[:2], Part(2, "u2", 22, 0, 6, 2))
    for parts in (other, AGAIN[:2]):
        with pytest.raises(TornBatchError, match=r"of 2 of 3 tasks \(first: t1\)"):
            decide(view(7, 0), 7, "r", parts)
