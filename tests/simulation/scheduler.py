"""One thread at a time, in the order that a seed decides, on a clock of its own.

A `Simulation` runs real threads, each of which waits for a lock of its own (its baton). The thread that has been given the baton
runs until it comes to a switch point: `switch` (others may run now), `block` (nothing to do before `wake` or a time), its
end. There the next thread is chosen: by the seed alone, so that the same seed runs the same steps. Virtual time
stands still while Python works; each step costs some microseconds, and when no thread can run, the clock goes to the next
thing that is due. If nothing is due either, that is a deadlock.

Two ways of choosing, by seed: at random (a walk), or by priorities that change at random steps (PCT, Burckhardt et al. 2010),
which keeps one thread away for long. Every choice, and what callers `note`, goes into `digest`.
"""

from __future__ import annotations

import _thread
import gc
import heapq
import itertools
import random
import sys
import traceback
from collections import Counter
from collections.abc import Callable
from hashlib import blake2b
from typing import ClassVar

MICROSECOND, MILLISECOND, SECOND = 1_000, 1_000_000, 1_000_000_000

WORLD = "world"
"""Group of the threads that are not the daemon's."""

MONOTONIC_START_NS = 4_000_000_000 * SECOND
"""Beyond any clock of a machine: compiled code that reads the machine's own computes a negative duration, not a huge one."""
WALL_START_NS = 1_700_000_000 * SECOND

#: Steps that one thread may take in a row while others could run, where priorities decide: some loops wait by going round.
_MOST_IN_A_ROW = 500
_HASHED_AT_ONCE = 1 << 12
#: Steps between two looks of `Simulation.watch`.
WATCH_EVERY = 16
_LEAST_STEP_NS = 200
_NEVER = 1 << 62
#: Files whose frames stacks leave out.
_ENGINE = ("/simulation/scheduler.py", "/simulation/primitives.py", "/threading.py")


def _nothing() -> None:
    pass


class Killed(BaseException):
    """Raised in the threads of a process that is killed, at each switch point that they come to from then on."""


class SimulationError(Exception):
    """A simulation that can't go on: `str` tells why, with the stacks of all threads."""


class Deadlock(SimulationError):
    """No thread can run, and no time is waited for."""


class TooManySteps(SimulationError):
    """The bound on steps was reached: something goes round without an end."""


class SimTask:
    """One thread.

    Attributes:
        group: the process that it belongs to; `kill` ends all threads of one.
        at_end: called at its end, by its thread, and must not come to a switch point.
        thread: the `SimThread` that it runs, None for the main thread.
    """

    __slots__ = (
        "alone", "at_end", "baton", "deadline", "done", "group", "ident", "is_runnable", "joiners", "killed", "name", "number",
        "priority", "started", "thread", "where", "woken",
    )  # fmt: skip

    def __init__(self, number: int, name: str, group: str) -> None:
        self.number = number
        self.alone = f"{number} {number} "  # how the digest begins a step after which the thread goes on
        self.name = name
        self.group = group
        self.thread: object = None
        self.baton = _thread.allocate_lock()
        self.baton.acquire()
        self.is_runnable = True
        self.woken = False
        self.done = False
        self.killed = False
        self.started = False
        self.deadline: int | None = None
        self.priority = 0.0
        self.where = "start"
        self.ident = 0
        self.joiners: list[SimTask] = []
        self.at_end: list[Callable[[], object]] = []

    def __repr__(self) -> str:
        return f"{self.group}/{self.name}#{self.number}"


class Simulation:
    """See the module. Called by the thread that has the baton, unless said otherwise.

    Attributes:
        rng: what the world decides by: delays, faults. The scheduler has another one, which `schedule` changes too.
        at_point: called by threads of the daemon that begin, or go on from a switch point; None: nothing. A step of a thread that
            is alone, with others blocked, may be left out.
        watch: called at every WATCH_EVERY-th step, with the baton, and must not come to a switch point.
        steps: choices made so far.
        counts: what happened below the history, for reports.
        now_ns: virtual time since the start.
    """

    active: Simulation | None = None
    tell_steps: ClassVar[Callable[[bytes], object] | None] = None
    """Told what goes into the digest."""

    def __init__(self, seed: int, *, schedule: int = 0, most_steps: int = 5_000_000) -> None:
        self.seed = seed
        self.rng = random.Random(f"world {seed}")
        self.schedule = schedule
        self._chooser = random.Random(f"schedule {seed} {schedule}" if schedule else f"schedule {seed}")
        self._most_steps = most_steps
        self.steps = 0
        self.counts: Counter[str] = Counter()
        self.now_ns = 0
        self.wall_offset_ns = 0
        self._numbers = itertools.count()
        self.object_numbers = itertools.count(1)
        self._events: list[tuple[int, int, Callable[[], object]]] = []
        self._deadlines: list[tuple[int, int, SimTask]] = []
        self._due_ns = _NEVER  # no event and no deadline is before
        self.tasks: list[SimTask] = []
        self._runnable: list[SimTask] = []
        self.by_priority = self._chooser.random() < 0.4
        self.switch_chance = self._chooser.choice((0.05, 0.2, 0.5, 0.9))
        self._change_chance = self._chooser.choice((0.001, 0.003, 0.01, 0.03))
        self.at_point: Callable[[SimTask], None] | None = None
        self.watch: Callable[[], None] = _nothing
        self.is_looking = False
        self._in_a_row = 0
        self._hash = blake2b(digest_size=8)
        self._unhashed: list[str] = []
        self._return_to: SimTask | None = None
        self.failure: SimulationError | None = None
        self.current = self._new_task("main", WORLD)
        self.current.started = True

    # --- life ---

    def __enter__(self) -> Simulation:
        assert Simulation.active is None, "one simulation at a time in a process"
        gc.collect()  # what is collected runs code: none of before, and none at moments that the seed does not decide
        self._has_collector = gc.isenabled()
        gc.disable()
        Simulation.active = self
        self.current.ident = _thread.get_ident()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            for group in dict.fromkeys(task.group for task in self.tasks):
                self.kill(group)
        finally:
            Simulation.active = None
            if self._has_collector:
                gc.enable()

    def spawn(self, name: str, run: Callable[[], object], thread: object = None, group: str | None = None) -> SimTask:
        """A new thread, which belongs to the process of this one unless a `group` is given."""
        task = self._new_task(name, self.current.group if group is None else group)
        task.thread = thread
        # A thread may start another on its way to its end, as one of a pool does that leaves work: its process is gone.
        task.killed = self.current.killed
        _thread.start_new_thread(self._carry, (task, run))
        return task

    def _new_task(self, name: str, group: str) -> SimTask:
        task = SimTask(len(self.tasks), name, group)
        task.priority = self._chooser.random()
        self.tasks.append(task)
        self._runnable.append(task)
        return task

    def _carry(self, task: SimTask, run: Callable[[], object]) -> None:
        task.baton.acquire()
        task.ident, task.started = _thread.get_ident(), True
        try:
            if self.at_point is not None and task.group != WORLD:
                self.at_point(task)
            if not task.killed:
                run()
        except Killed:
            pass
        except BaseException as error:  # an exception that ends a thread is told, as `threading.excepthook` does
            if not task.killed:
                self.thread_failed(task, error)
        finally:
            sys.settrace(None)
            task.done = True
            self._leave_row(task)
            for joiner in task.joiners:
                self.wake(joiner)
            for callback in task.at_end:
                callback()
            following, self._return_to = self._return_to, None
            self._give(following or self._choose(task))

    def thread_failed(self, task: SimTask, error: BaseException) -> None:
        """Notes that an exception has ended a thread: the run fails."""
        text = "".join(traceback.format_exception(error))
        self.failure = self.failure or SimulationError(f"{task} ended by an exception:\n{text}")

    def kill(self, group: str) -> None:
        """Ends all threads of a process but this one, which is not of it: each comes to its end now, unable to wait."""
        me = self.current
        for task in list(self.tasks):
            if task.group == group and not task.done and task is not me:
                task.killed = True
                self._return_to = me
                self._give(task)
                me.baton.acquire()
                self.current = me
                assert task.done, f"{task} outlives its kill"

    # --- switch points ---

    def note(self, what: str) -> None:
        """Something that happened: part of the digest."""
        self._unhashed.append(what)

    def _hash_now(self) -> None:
        if not self._unhashed:
            return
        text = "\n".join([*self._unhashed, ""]).encode()
        self._hash.update(text)
        if self.tell_steps is not None:
            self.tell_steps(text)
        self._unhashed.clear()

    @property
    def digest(self) -> str:
        """Hex digest of all choices and notes so far."""
        self._hash_now()
        return self._hash.hexdigest()

    def switch(self, where: str) -> None:
        """Another thread may run now."""
        me = self.current
        if me.killed:
            raise Killed
        me.where = where
        steps = self.steps + 1
        now = self.now_ns + _LEAST_STEP_NS + (steps * 2_654_435_761 >> 7 & 0xFFF)
        if now < self._due_ns and steps % WATCH_EVERY and self.failure is None:
            # What `_choose` would do, in nearly all steps.
            self.steps, self.now_ns = steps, now
            if len(self._runnable) == 1:
                self._unhashed.append(me.alone + where)
                return
            following = self._pick(me)
            if following is me:
                self._unhashed.append(me.alone + where)
                if self.at_point is not None and me.group != WORLD:
                    self.at_point(me)
                return
            self._unhashed.append(f"{following.number} {me.number} {where}")
        else:
            following = self._choose(me)
        if following is not me:
            self._hand_over(me, following)
        if self.failure is not None and me.number == 0:
            raise self.failure
        if self.at_point is not None and me.group != WORLD:
            self.at_point(me)

    def block(self, where: str, timeout_ns: int | None = None) -> bool:
        """Waits until `wake`, or for so long; False when the time is over."""
        me = self.current
        self._check(me)
        me.where, me.woken, me.is_runnable = where, False, False
        self._runnable.remove(me)
        if timeout_ns is not None:
            me.deadline = self.now_ns + max(timeout_ns, 0)
            heapq.heappush(self._deadlines, (me.deadline, me.number, me))
            self._due_ns = min(self._due_ns, me.deadline)
        following = self._choose(me)
        if following is not me:
            self._hand_over(me, following)
        if self.failure is not None and me.number == 0:
            raise self.failure
        if self.at_point is not None and me.group != WORLD:
            self.at_point(me)
        return me.woken

    def sleep(self, seconds: float) -> None:
        """Virtual sleep of this thread."""
        self.block("sleep", int(seconds * SECOND))

    def wake(self, task: SimTask) -> None:
        """Lets a thread go on that blocks. No switch point."""
        if not task.is_runnable and not task.done:
            task.woken = True
            self._enter_row(task)

    def at(self, delay_ns: int, callback: Callable[[], object]) -> None:
        """Calls `callback`, which must not come to a switch point, after so long, in whichever thread is there."""
        at_ns = self.now_ns + max(delay_ns, 0)
        heapq.heappush(self._events, (at_ns, next(self._numbers), callback))
        self._due_ns = min(self._due_ns, at_ns)

    def tick(self) -> int:
        """Virtual time in ns; reading it takes a little of it. Also without the baton's thread (before and after a run)."""
        self.now_ns += 50
        return self.now_ns

    # --- inside ---

    def _leave_row(self, task: SimTask) -> None:
        if task.is_runnable:
            task.is_runnable = False
            self._runnable.remove(task)

    def _enter_row(self, task: SimTask) -> None:
        task.is_runnable, task.deadline = True, None
        self._runnable.append(task)

    def _hand_over(self, me: SimTask, following: SimTask) -> None:
        self.current = following
        following.baton.release()
        me.baton.acquire()
        self.current = me
        self._check(me)

    def _check(self, me: SimTask) -> None:
        """Ends a thread that is killed, and the main thread when the run has failed."""
        assert _thread.get_ident() == me.ident, f"a thread without the baton runs beside {me}"
        if me.killed:
            raise Killed
        if me.number == 0 and self.failure is not None:
            raise self.failure

    def _give(self, task: SimTask) -> None:
        self.current = task
        task.baton.release()

    def _choose(self, me: SimTask) -> SimTask:
        """The thread that runs next; the main thread, for the failure to be raised there, when the run can't go on."""
        self.steps += 1
        steps = self.steps
        if not steps % WATCH_EVERY:
            self._look()
            if len(self._unhashed) >= _HASHED_AT_ONCE:
                self._hash_now()
            if steps > self._most_steps and self.failure is None:
                return self._fail(TooManySteps, f"{self._most_steps} steps were not enough")
        if self.failure is not None:
            return self.tasks[0]
        self.now_ns = now = self.now_ns + _LEAST_STEP_NS + (steps * 2_654_435_761 >> 7 & 0xFFF)
        if self._due_ns <= now:
            self._run_due()
        while not self._runnable:
            if self._due_ns == _NEVER:
                return self._fail(Deadlock, "no thread can run, and nothing is waited for")
            self.now_ns = max(self.now_ns, self._due_ns)
            self._run_due()
        following = self._runnable[0] if len(self._runnable) == 1 else self._pick(me)
        self._unhashed.append(f"{following.number} {me.number} {me.where}")
        return following

    def _look(self) -> None:
        """Has the invariants looked at; what is broken fails the run, in the main thread."""
        if self.failure is None:
            traces, self.is_looking = sys.gettrace(), True
            if traces is not None:
                sys.settrace(None)
            try:
                self.watch()
            except Exception as error:
                self.failure = SimulationError(f"step {self.steps}, in {self.current}: {error}")
            finally:
                self.is_looking = False
                if traces is not None:
                    sys.settrace(traces)

    def _run_due(self) -> None:
        now = self.now_ns
        while self._events and self._events[0][0] <= now:
            heapq.heappop(self._events)[2]()
        while self._deadlines and self._deadlines[0][0] <= now:
            deadline, _, task = heapq.heappop(self._deadlines)
            if task.deadline == deadline and not task.is_runnable and not task.done:
                self._enter_row(task)
        self._due_ns = min(
            self._events[0][0] if self._events else _NEVER, self._deadlines[0][0] if self._deadlines else _NEVER
        )

    def _pick(self, me: SimTask) -> SimTask:
        row, chooser = self._runnable, self._chooser
        if self.by_priority:
            best, most = row[0], row[0].priority
            for task in row:
                if task.priority > most or (task.priority == most and task.number < best.number):
                    best, most = task, task.priority
            self._in_a_row = self._in_a_row + 1 if best is me else 0
            if self._in_a_row > _MOST_IN_A_ROW or chooser.random() < self._change_chance:
                best.priority = chooser.random() * min(task.priority for task in row)
                self._in_a_row = 0
            return best
        if me.is_runnable and chooser.random() >= self.switch_chance:
            return me
        return row[int(chooser.random() * len(row))]

    def _fail(self, kind: type[SimulationError], why: str) -> SimTask:
        self.failure = kind(f"{why}\n{self.stacks()}")
        return self.tasks[0]

    def trace(self, count: int) -> str:
        """The last steps: who had the baton after whom, where, and what happened in between."""
        names = {str(task.number): str(task) for task in self.tasks}
        lines = []
        for line in self._unhashed[-count:]:
            words = line.split(" ", 2)
            if len(words) == 3 and words[0] in names and words[1] in names:
                lines.append(f"    {names[words[1]]} at {words[2]}, then {names[words[0]]}")
            else:
                lines.append(f"    {line}")
        return "\n".join(["--- trace:", *lines])

    def stacks(self) -> str:
        """Where each thread stands."""
        frames = sys._current_frames()
        lines = []
        for task in self.tasks:
            if task.done:
                continue
            lines.append(f"--- {task} at {task.where}")
            if (frame := frames.get(task.ident)) is not None:
                ours = [entry for entry in traceback.extract_stack(frame) if not entry.filename.endswith(_ENGINE)]
                lines.extend(f"    {entry.filename}:{entry.lineno} {entry.name}: {entry.line}" for entry in ours[-12:])
        return "\n".join(lines)


def simulation() -> Simulation:
    """The simulation that runs."""
    assert Simulation.active is not None, "no simulation runs"
    return Simulation.active
