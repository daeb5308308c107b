"""Rules and schedules as values: which requests a rule strikes, what a seed makes, and that printed rules are the rules."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tidelog import testing
from tidelog.testing import schedule
from tidelog.testing.schedule import KINDS, LAST_REQUEST, USUAL, Rule, Schedule, When, request

SEEDS = st.integers(0, 1 << 40)
NAMES: dict[str, Any] = {name: getattr(testing, name) for name in testing.__all__ if hasattr(schedule, name)}


@given(st.integers(1, 9), st.integers(1, 5), st.one_of(st.none(), st.integers(1, 5)))
def test_a_rule_strikes_the_nth_and_then_each_of_every_so_many(nth: int, every: int, times: int | None) -> None:
    when = When("Produce", nth=nth, every=every)
    struck = [number for number in range(1, 60) if when.strikes(number, times)]
    assert struck == list(range(nth, 60, every))[:times]


@given(SEEDS)
def test_a_seed_makes_the_same_rules_always(seed: int) -> None:
    assert Schedule(seed=seed).rules == Schedule(seed=seed).rules


@given(SEEDS, st.lists(st.sampled_from(sorted(KINDS)), min_size=1, unique=True))
def test_printed_rules_are_the_rules(seed: int, kinds: list[str]) -> None:
    made = Schedule(seed=seed, kinds=kinds)
    again = eval(repr(made), NAMES)
    assert again.rules == made.rules


@given(SEEDS, st.lists(st.sampled_from(sorted(KINDS)), min_size=1, unique=True))
def test_a_seed_strikes_no_request_twice_and_lets_everybody_through_in_the_end(seed: int, kinds: list[str]) -> None:
    rules = Schedule(seed=seed, kinds=kinds).rules
    places = [(rule.when.api, rule.when.nth) for rule in rules]
    assert len(set(places)) == len(places)
    assert all(rule.times == 1 and rule.when.nth <= LAST_REQUEST for rule in rules)


def test_a_hundred_seeds_have_every_usual_kind_of_fault_and_none_that_loses_data() -> None:
    seen = {repr(rule.what).partition("(")[0] for seed in range(100) for rule in Schedule(seed=seed)}
    assert seen == {
        "answer_error",
        "bump_epoch",
        "cut_after",
        "cut_answer",
        "cut_before",
        "late",
        "lose_answer",
        "rebalance",
        "slow_answer",
        "stuck",
        "throttle",
    }
    assert {"clock", "retention", "truncation"} == set(KINDS) - set(USUAL)


def test_kinds_name_apis_and_codes_that_there_are() -> None:
    for kind, rows in KINDS.items():
        for seed in range(200):
            for rule in Schedule(seed=seed, kinds=[kind]):
                assert request(rule.when.api, nth=rule.when.nth) == rule.when
                assert any(rule.when.api in apis for apis, _ in rows)


@given(SEEDS)
def test_apis_leave_only_rules_about_them(seed: int) -> None:
    only = Schedule(seed=seed, apis=["OFFSET_COMMIT", "Heartbeat"]).rules
    assert {rule.when.api for rule in only} <= {"OffsetCommit", "Heartbeat"}
    assert only == Schedule(seed=seed, apis=["Heartbeat", "OffsetCommit"]).rules


def test_rules_by_hand_come_first() -> None:
    rule = Rule(request("PRODUCE", topic="orders", nth=3), schedule.lose_answer())
    assert Schedule([rule], seed=7).rules == (rule, *Schedule(seed=7).rules)
    assert repr(rule) == "Rule(request('Produce', topic='orders', nth=3), lose_answer())"
    assert repr(Schedule()) == "Schedule([])"


def test_what_is_wrong_is_said_at_once() -> None:
    for wrong, said in (
        (lambda: request("Produse"), "PRODUCE"),
        (lambda: request("Produce", nth=0), "counted from 1"),
        (lambda: schedule.answer_error("NOT_CORDINATOR"), "NOT_COORDINATOR"),
        (lambda: schedule.cut_answer(1.0), "share"),
        (lambda: schedule.expire_records(0), "share"),
        (lambda: schedule.slow_answer(-1), "forward"),
        (lambda: schedule.truncate_log(0), "at least one"),
        (lambda: schedule.late("EndTx"), "END_TXN"),
        (lambda: Rule(request("Produce"), schedule.twice(), times=0), "times"),
        (lambda: Schedule(seed=1, kinds=["leader"]), "leaders"),
        (lambda: Schedule(kinds=["leaders"]), "seed"),
        (lambda: Schedule(seed=1, apis=["Hartbeat"]), "HEARTBEAT"),
    ):
        with pytest.raises(ValueError, match=said):
            wrong()
