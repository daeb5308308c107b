"""Random applications against a streams group's machine: threads join, heartbeat, give up and take over tasks, lose answers, die,
leave; the coordinator restarts; writes fail; topics go; the number of stand-by copies changes; time passes.

What must hold after each step:

- no task is active at two members, and none that two live threads work on;
- what a live member works on is still its own, or is to be given up by it;
- no process has a task twice, in whatever roles, as it has one directory for its state;
- what a restart reads from the records is the state.

And in the end, when the live threads work diligently and the dead ones are gone, the group is Stable: every task is active at one
of them, each has a fair share, and there are as many copies as asked for, as far as there are processes.
"""

from __future__ import annotations

import contextlib
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from support.heartbeat_groups import Image, state_of
from support.streams_groups import GROUP, StreamsClient, StreamsWorld
from tidelog.broker.groups.streams.assignor import Candidate, TaskGroup, assign
from tidelog.broker.groups.streams.tasks import NO_TASKS, Task, each_task
from tidelog.protocol.errors import ProtocolError

SESSION_MS = 45_000
PROCESSES = ("p", "q", "r")


class Application(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.clients: list[StreamsClient] = []
        self.dead: list[StreamsClient] = []
        self.count = 0

    @initialize(
        orders=st.integers(1, 5),
        delay_ms=st.sampled_from([0, 3000]),
        interval_ms=st.sampled_from([0, 1000]),
        processes=st.lists(st.sampled_from(PROCESSES), min_size=1, max_size=4),
    )
    def begin(self, orders: int, delay_ms: int, interval_ms: int, processes: list[str]) -> None:
        self.world = StreamsWorld(
            Image(orders=orders),
            group_streams_initial_rebalance_delay_ms=delay_ms,
            group_streams_assignment_interval_ms=interval_ms,
        )
        for process in processes:
            self.start(process)

    def client(self, index: int) -> StreamsClient:
        return self.clients[index % len(self.clients)]

    def beat(self, client: StreamsClient, *, answered: bool = True) -> None:
        with contextlib.suppress(ProtocolError):
            client.beat(answered=answered)

    @rule(process=st.sampled_from(PROCESSES))
    def begin_another(self, process: str) -> None:
        self.start(process)

    def start(self, process: str) -> None:
        if len(self.clients) < 6:
            self.count += 1
            self.clients.append(StreamsClient(self.world, f"m{self.count}", process))
            self.beat(self.clients[-1])

    @precondition(lambda self: self.clients)
    @rule(index=st.integers(0, 5), answered=st.booleans(), works=st.booleans())
    def heartbeat(self, index: int, answered: bool, works: bool) -> None:
        client = self.client(index)
        if works:
            client.work()
        self.beat(client, answered=answered)

    @precondition(lambda self: self.clients)
    @rule(times=st.integers(1, 3))
    def work_together(self, times: int) -> None:
        for _ in range(times):
            for client in self.clients:
                client.work()
                self.beat(client)

    @precondition(lambda self: self.clients)
    @rule(index=st.integers(0, 5))
    def leave(self, index: int) -> None:
        client = self.client(index)
        self.clients.remove(client)
        with contextlib.suppress(ProtocolError):
            client.leave()

    @precondition(lambda self: self.clients)
    @rule(index=st.integers(0, 5))
    def die(self, index: int) -> None:
        client = self.client(index)
        self.clients.remove(client)
        self.dead.append(client)

    @rule(ms=st.sampled_from([500, 3000]))
    def wait(self, ms: int) -> None:
        for client in self.clients:
            self.beat(client)
        self.world.pass_time(ms)

    @rule(replicas=st.integers(0, 2))
    def ask_for_copies(self, replicas: int) -> None:
        self.world.own[GROUP] = {"streams.num.standby.replicas": str(replicas)}

    @precondition(lambda self: self.world.image.get("store-changelog"))
    @rule()
    def delete_the_changelog(self) -> None:
        self.world.image.remove("store-changelog")

    @rule()
    def restart(self) -> None:
        self.world.restart()

    @precondition(lambda self: self.clients)
    @rule(index=st.integers(0, 5))
    def fail_to_write(self, index: int) -> None:
        self.world.fails = True
        self.beat(self.client(index))
        self.world.fails = False

    # -- what holds

    def members(self):  # type: ignore[no-untyped-def]
        group = self.world.groups.get(GROUP)
        return {} if group is None else group.members

    @invariant()
    def no_task_is_active_twice(self) -> None:
        if not hasattr(self, "world"):
            return
        given: Counter[Task] = Counter()
        for member in self.members().values():
            given.update(set(each_task(member.assigned.active)) | set(each_task(member.pending.active)))
        assert all(count == 1 for count in given.values()), given
        # A thread that is out of the group does not know that until its next heartbeat.
        worked = Counter(
            task for client in self.clients if client.member_id in self.members() for task in client.active
        )
        assert all(count == 1 for count in worked.values()), worked

    @invariant()
    def nobody_works_on_what_is_not_its_own(self) -> None:
        for client in self.clients:
            member = self.members().get(client.member_id)
            if member is not None:
                own = set(each_task(member.assigned.active)) | set(each_task(member.pending.active))
                assert client.active <= own, client.member_id

    @invariant()
    def no_process_has_a_task_twice(self) -> None:
        if not hasattr(self, "world"):
            return
        given: Counter[tuple[str, Task]] = Counter()
        for member in self.members().values():
            for owned in (member.assigned, member.pending):
                for role in owned:
                    given.update((member.process_id, task) for task in each_task(role))
        assert all(count == 1 for count in given.values()), given

    @invariant()
    def records_are_the_state(self) -> None:
        if not hasattr(self, "world"):
            return
        replayed = self.world.replayed()
        assert {name: state_of(group) for name, group in replayed.items()} == {
            name: state_of(group) for name, group in self.world.groups.items()
        }

    def teardown(self) -> None:
        if not hasattr(self, "world") or not self.clients:
            return
        for _ in range(40):
            for client in self.clients:
                self.beat(client)
                client.work()
            self.world.pass_time(2_000)
        self.check_the_end()

    def check_the_end(self) -> None:
        group = self.world.group
        assert set(group.members) == {client.member_id for client in self.clients}
        assert group.state_name == "Stable"
        plan = group.configured
        assert plan is not None
        assert plan.subtopologies is not None
        all_tasks = {Task(name, part) for name, each in plan.subtopologies.items() for part in range(each.task_count)}
        worked = [task for client in self.clients for task in client.active]
        assert sorted(worked) == sorted(all_tasks)
        share = -(-len(all_tasks) // len(self.clients))
        assert max(len(client.active) for client in self.clients) <= share
        replicas = int(self.world.own.get(GROUP, {}).get("streams.num.standby.replicas", "0"))
        processes = {client.process_id for client in self.clients}
        copies = Counter(task for client in self.clients for task in each_task(client.running.standby))
        expected = min(replicas, len(processes) - 1)
        stateful = {task for task in all_tasks if plan.subtopologies[task.subtopology].is_stateful}
        assert copies == Counter({task: expected for task in stateful if expected})


Application.TestCase.settings = settings(max_examples=100, stateful_step_count=30)
TestApplication = Application.TestCase


MEMBERS = st.lists(st.sampled_from(PROCESSES), min_size=1, max_size=8)
GROUPS = st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=4)


def task_groups(found: list[tuple[int, bool]]) -> list[TaskGroup]:
    return [TaskGroup(str(number), tasks, is_stateful) for number, (tasks, is_stateful) in enumerate(found)]


@given(MEMBERS, GROUPS, st.integers(0, 3))
def test_an_assignment_is_whole_fair_and_stays(
    processes: list[str], found: list[tuple[int, bool]], replicas: int
) -> None:
    groups = task_groups(found)
    candidates = [Candidate(f"m{number}", process) for number, process in enumerate(processes)]
    targets = assign(candidates, groups, replicas)
    active = [task for tasks in targets.values() for task in each_task(tasks.active)]
    wanted = [Task(group.subtopology, part) for group in groups for part in range(group.task_count)]
    assert sorted(active) == sorted(wanted)
    assert max(len(list(each_task(tasks.active))) for tasks in targets.values()) <= -(-len(wanted) // len(processes))
    places = Counter(
        (process, task)
        for (_, process, _), tasks in zip(candidates, targets.values(), strict=True)
        for role in tasks
        for task in each_task(role)
    )
    assert all(count == 1 for count in places.values())
    again = assign(
        [candidate._replace(previous=targets[candidate.member_id]) for candidate in candidates], groups, replicas
    )
    assert again == targets


@given(MEMBERS, GROUPS, st.integers(0, 2), st.integers(0, 7))
def test_who_goes_takes_nothing_from_others(
    processes: list[str], found: list[tuple[int, bool]], replicas: int, gone: int
) -> None:
    """What the others had active they keep."""
    groups = task_groups(found)
    candidates = [Candidate(f"m{number}", process) for number, process in enumerate(processes)]
    targets = assign(candidates, groups, replicas)
    left = [
        candidate._replace(previous=targets[candidate.member_id])
        for number, candidate in enumerate(candidates)
        if number != gone % len(candidates)
    ]
    after = assign(left, groups, replicas)
    for candidate in left:
        kept = set(each_task(after[candidate.member_id].active))
        assert kept >= set(each_task(targets.get(candidate.member_id, NO_TASKS).active))
