from __future__ import annotations

from tidelog.broker.groups.streams.tasks import (
    NO_TASKS,
    OWNS_NOTHING,
    OwnedTasks,
    Task,
    Tasks,
    each_task,
    grouped,
    task_set,
)

OWNED = OwnedTasks({"0": {0: 3, 1: 4}}, {"1": frozenset({2})}, {})


def tasks(active=None, standby=None, warmup=None):
    return Tasks(task_set(active or {}), task_set(standby or {}), task_set(warmup or {}))


def test_sets_without_empty_subtopologies():
    assert task_set({"0": [1, 1], "1": []}) == {"0": {1}}
    assert grouped([Task("0", 1), Task("1", 0), Task("0", 2)]) == {"0": {1, 2}, "1": {0}}
    assert sorted(each_task({"0": {1, 2}, "1": {0}})) == [("0", 1), ("0", 2), ("1", 0)]
    assert NO_TASKS.is_empty
    assert OWNS_NOTHING.is_empty
    assert not tasks(warmup={"0": [1]}).is_empty
    assert not OWNED.is_empty


def test_a_task_in_both_counts_in_the_same_role_only():
    assert tasks({"0": [1, 5]}).has_any(OWNED)
    assert tasks(standby={"1": [2]}).has_any(OWNED)
    assert not tasks({"1": [2]}, {"0": [0, 1]}, {"0": [0]}).has_any(OWNED)
    assert not NO_TASKS.has_any(OWNED)


def test_what_a_member_says_to_have_was_given_to_it():
    assert OWNED.covers(NO_TASKS)
    assert OWNED.covers(tasks({"0": [0, 1]}, {"1": [2]}))
    assert not OWNED.covers(tasks({"0": [2]}))
    assert not OWNED.covers(tasks({"2": [0]}))
    assert not OWNED.covers(tasks(standby={"0": [0]}))


def test_merging_keeps_the_epochs():
    more = OwnedTasks({"0": {2: 9}, "1": {0: 9}}, {"1": frozenset({3})}, {"0": frozenset({4})})
    assert OWNED.merged(more) == (
        {"0": {0: 3, 1: 4, 2: 9}, "1": {0: 9}}, {"1": {2, 3}}, {"0": {4}},
    )  # fmt: skip
    assert OWNED.active == {"0": {0: 3, 1: 4}}
