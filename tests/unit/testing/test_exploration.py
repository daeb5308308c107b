"""`explore` without a client: which runs a test has, how a failure is told, what is no failure."""

from __future__ import annotations

import inspect
import threading
from typing import Any

import pytest
from tidelog.testing import Broker, StuckError, explore
from tidelog.testing.schedule import Rule, Schedule, answer_error, lose_answer, request


class Failing:
    """In place of runs with a broker: the test fails when the rules have all of `causes`; all rules strike."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, causes: set[Rule], *, times: int = 1_000) -> None:
        from tidelog.testing.exploration import Exploration, Run

        self.rules: list[tuple[Rule, ...]] = []

        def run(_: object, rules: Any, **__: object) -> Run:
            self.rules.append(tuple(rules))
            fails = bool(causes) and causes <= set(rules) and len(self.rules) <= times
            return Run(tuple(rules), AssertionError("lost") if fails else None, tuple(rules), "the trace")

        monkeypatch.setattr(Exploration, "run", run)


@explore(seeds=50)
def explored(broker: Broker) -> None:
    raise NotImplementedError


def note_of(error: BaseException) -> str:
    (note,) = error.__notes__
    return str(note)


def test_it_runs_without_faults_first_and_then_each_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = Failing(monkeypatch, set())
    explored()
    assert runs.rules == [(), *(Schedule(seed=seed).rules for seed in range(50))]


def test_a_failure_has_the_shortest_rules_as_code_and_the_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    causes = set(next(rules for seed in range(50) if len(rules := Schedule(seed=seed).rules) >= 5)[1:4:2])
    Failing(monkeypatch, causes)
    with pytest.raises(AssertionError, match="lost") as raised:
        explored()
    note = note_of(raised.value)
    seed = int(note.split("seed ")[1].split()[0])
    assert causes <= set(Schedule(seed=seed).rules)
    assert "by 2 rules" in note
    assert f"pytest --explore-seed {seed}" in note
    names: dict[str, Any] = {}
    code = note.split("\n\n")
    exec(code[1], names)
    assert set(eval(code[2].removeprefix("Broker(faults=").removesuffix(")"), names)) == causes
    assert explored.exploration.sections == [("what tidelog saw and did", "the trace")]  # type: ignore[attr-defined]


def test_what_happens_once_is_told_as_that(monkeypatch: pytest.MonkeyPatch) -> None:
    Failing(monkeypatch, set(Schedule(seed=0).rules[:1]), times=2)
    with pytest.raises(AssertionError, match="lost") as raised:
        explored()
    assert "none failed so" in note_of(raised.value)


def test_one_seed_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = Failing(monkeypatch, set())
    monkeypatch.setattr(explored.exploration, "only_seed", 17)  # type: ignore[attr-defined]
    explored()
    assert runs.rules == [Schedule(seed=17).rules]


def test_a_test_that_fails_without_faults_is_not_explored() -> None:
    @explore(seeds=5)
    def fails(broker: Broker) -> None:
        raise KeyError("its own")

    with pytest.raises(KeyError) as raised:
        fails()
    assert note_of(raised.value) == "tidelog: it fails without any fault"
    assert fails.exploration.runs == 1  # type: ignore[attr-defined]


def test_each_run_has_a_broker_of_its_own_with_topics_and_settings() -> None:
    seen: list[str] = []

    @explore(seeds=2, topics={"orders": 3}, settings={"num.partitions": 7})
    async def test(extra: int, tidelog_broker: Broker) -> None:
        services = tidelog_broker._running().services
        topic = services.topics.get("orders")
        assert topic is not None
        assert (extra, topic.partition_count, services.config.num_partitions) == (5, 3, 7)
        seen.append(str(tidelog_broker.directory))

    assert list(inspect.signature(test).parameters) == ["extra"]
    test(extra=5)
    assert len(set(seen)) == 3


def test_a_test_that_hangs_has_failed_and_says_where() -> None:
    forever = threading.Event()

    @explore(seeds=1, within=0.2)
    def hangs(broker: Broker) -> None:
        forever.wait()

    with pytest.raises(StuckError, match=r"forever\.wait"):
        hangs()
    forever.set()


def test_skips_are_no_failures_and_pytests_fail_is_one() -> None:
    @explore(seeds=1)
    def skips(broker: Broker) -> None:
        pytest.skip("not here")

    @explore(seeds=1)
    def fails(broker: Broker) -> None:
        pytest.fail("so it is")

    with pytest.raises(pytest.skip.Exception):
        skips()
    with pytest.raises(pytest.fail.Exception, match="so it is"):
        fails()


def test_wrong_uses_are_refused_where_they_are_written() -> None:
    with pytest.raises(TypeError, match="no parameter broker"):
        explore()(lambda: None)
    with pytest.raises(ValueError, match="leaders"):
        explore(kinds=["leader"])(lambda broker: None)


def test_a_broker_takes_plain_rules_too() -> None:
    rules = [Rule(request("Produce"), lose_answer()), Rule(request("Fetch"), answer_error("NOT_LEADER_OR_FOLLOWER"))]
    with Broker(faults=rules) as broker:
        assert (broker.struck, str(broker.trace)) == ((), "")
