"""Examples of the sticky assignor; what holds for all of them is in tests/property/test_streams_model.py."""

from __future__ import annotations

from tidelog.broker.groups.streams.assignor import Candidate, TaskGroup, assign
from tidelog.broker.groups.streams.tasks import Tasks, task_set

STATEFUL, STATELESS = TaskGroup("1", 4, True), TaskGroup("0", 2, False)


def candidate(name, process, active=None, standby=None):
    return Candidate(name, process, Tasks(task_set(active or {}), task_set(standby or {}), {}))


def test_nobody_gets_nothing():
    assert assign([], [STATEFUL], 1) == {}
    assert assign([candidate("a", "p")], [], 1) == {"a": ({}, {}, {})}


class Name(str):
    """Counts how often it is compared with another."""

    __slots__ = ()
    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other):
        Name.compared += 1
        return str.__eq__(self, other)

    def __lt__(self, other):
        Name.compared += 1
        return str.__lt__(self, other)


def test_many_members_of_one_process_are_not_gone_through_for_each_task():
    members = [candidate(Name(f"m{number:03}"), "p") for number in range(200)]
    Name.compared = 0
    targets = assign(members, [TaskGroup("0", 1000, False)], 0)
    assert {len(tasks.active["0"]) for tasks in targets.values()} == {5}
    assert Name.compared < 50_000


def test_one_member_gets_all_and_no_copies():
    assert assign([candidate("a", "p")], [STATELESS, STATEFUL], 2) == {"a": ({"0": {0, 1}, "1": {0, 1, 2, 3}}, {}, {})}


def test_a_new_member_takes_its_share_and_no_more():
    targets = assign([candidate("a", "p", {"1": [0, 1, 2, 3]}), candidate("b", "q")], [STATEFUL], 0)
    assert targets == {"a": ({"1": {0, 1}}, {}, {}), "b": ({"1": {2, 3}}, {}, {})}


def test_a_task_goes_where_its_state_is():
    members = [candidate("a", "p", {"1": [0, 1]}), candidate("b", "q", {}, {"1": [2, 3]}), candidate("c", "r")]
    targets = assign(members, [STATEFUL], 0)
    assert targets["a"].active == {"1": {0, 1}}
    assert targets["b"].active == {"1": {2}}
    assert targets["c"].active == {"1": {3}}  # its share


def test_copies_are_in_other_processes_and_stay():
    members = [candidate("a", "p"), candidate("b", "p"), candidate("c", "q")]
    targets = assign(members, [STATELESS, STATEFUL], 1)
    of_p = targets["a"].active.get("1", set()) | targets["b"].active.get("1", set())
    assert targets["c"].standby == {"1": of_p}
    copies = {part for name in "ab" for part in targets[name].standby.get("1", ())}
    assert copies == targets["c"].active["1"]
    # What one process has more than the other has in copies is not given twice.
    assert assign(members, [STATELESS, STATEFUL], 5) == targets


def test_who_lost_a_task_keeps_its_state_as_a_copy():
    targets = assign([candidate("a", "p", {"1": [0, 1, 2, 3]}), candidate("b", "q")], [STATEFUL], 1)
    assert targets["b"].active == {"1": {2, 3}} == targets["a"].standby
    assert targets["b"].standby == {"1": {0, 1}} == targets["a"].active


def test_a_process_with_more_threads_gets_more():
    members = [candidate(name, "p") for name in "abc"] + [candidate("d", "q")]
    targets = assign(members, [STATEFUL], 0)
    assert [len(tasks.active["1"]) for tasks in targets.values()] == [1, 1, 1, 1]
