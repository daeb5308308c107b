"""A store that fails as stores do: deterministically, by a plan that says what becomes of each request.

    base = MemoryStore()
    for name, plan in every_single_fault(trace_of_a_run_without_faults):
        store = FlakyStore(copy_of(base), plan)
        ...

What may become of a request:

- `BEFORE`: Unavailable, and nothing happened.
- `AFTER`: Unavailable, and it worked: the answer was lost. A `delete` worked for all keys, an `upload` is whole.
- `TORN`: cut in the middle. An `upload` takes half of its blocks, raises Unavailable and leaves nothing; a `delete` removed the
  first half of its keys; a `read` or `list` broke off (as BEFORE: half an answer is no answer). A `create` is as BEFORE.
- `REPEATED`: done twice, as by a client that asked again when an answer was lost: a `create` then finds its own object and says
  AlreadyThere; anything else works.
- `STALE`: a `list` shows what was there some requests ago (`staleness`): objects that were just created are missing, some that
  were deleted are still in it. Anything else works.
- `SLOW`: it works, and the clock that is given moves by `slow_s` first.
- `KILL`: the process ends before this request (`Killed`, which no code handles); `KILL_AFTER`: after it worked, before it was
  told so.

A listing is one request, made when it is begun. The base store is not locked: one thread at a time.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from typing import Any, NamedTuple

from tidelog.backup.store import NotThere, ObjectStore, Stored, Unavailable
from tidelog.backup.store.memory import MemoryStore
from tidelog.storage.clock import Time


class Killed(BaseException):
    """The process stops here."""


class Fault(Enum):
    """What becomes of one request."""

    BEFORE = "before"
    AFTER = "after"
    TORN = "torn"
    REPEATED = "repeated"
    STALE = "stale"
    SLOW = "slow"
    KILL = "kill"
    KILL_AFTER = "kill after"


class Request(NamedTuple):
    """One call: its operation, its key (first key, prefix), and what became of it."""

    operation: str
    key: str
    fault: Fault | None


Plan = Callable[[int, str, str], Fault | None]
"""Number of the request (from 0), operation, key → its fault, or None."""


def no_faults(number: int, operation: str, key: str) -> None:
    """The plan of a store that works."""


def fault_at(number: int, fault: Fault, *, count: int = 1) -> Plan:
    """`fault` for `count` requests from `number` on."""
    return lambda n, operation, key: fault if number <= n < number + count else None


def several(*plans: Plan) -> Plan:
    """The first of the plans that has a fault for a request."""

    def plan(number: int, operation: str, key: str) -> Fault | None:
        return next((fault for each in plans if (fault := each(number, operation, key)) is not None), None)

    return plan


def random_faults(seed: int, share: float = 0.2, faults: Sequence[Fault] | None = None) -> Plan:
    """Each request fails with the probability `share`; never with KILL or KILL_AFTER unless `faults` has them.

    What becomes of a request depends on seed and number alone.
    """
    kinds = faults or [fault for fault in Fault if fault not in (Fault.KILL, Fault.KILL_AFTER)]

    def plan(number: int, operation: str, key: str) -> Fault | None:
        chance = random.Random(seed * 1_000_003 + number)
        return chance.choice(kinds) if chance.random() < share else None

    return plan


def matters(fault: Fault, operation: str) -> bool:
    """False for a fault that is the same as another one, or as none, for this operation."""
    match fault:
        case Fault.TORN:
            return operation in ("upload", "delete")
        case Fault.STALE:
            return operation == "list"
        case Fault.REPEATED:
            return operation in ("create", "upload", "delete")
        case Fault.AFTER | Fault.KILL_AFTER:
            return operation in ("create", "upload", "delete")
        case _:
            return True


def every_single_fault(trace: Sequence[Request]) -> Iterator[tuple[str, Plan]]:
    """One plan for each request of a run without faults and each fault that matters to it, with its name."""
    for number, request in enumerate(trace):
        for fault in Fault:
            if matters(fault, request.operation):
                yield f"{number} {request.operation} {request.key}: {fault.value}", fault_at(number, fault)


def every_pair_of_faults(trace: Sequence[Request], within: int = 6) -> Iterator[tuple[str, Plan]]:
    """Two faults, the second up to `within` requests behind the first (what follows a fault is not the run of before)."""
    for name, first in every_single_fault(trace):
        start = int(name.split(" ", 1)[0])
        for later in range(start + 1, start + 1 + within):
            for fault in (Fault.BEFORE, Fault.AFTER, Fault.TORN, Fault.STALE, Fault.KILL, Fault.KILL_AFTER):
                yield f"{name}; {later}: {fault.value}", several(first, fault_at(later, fault))


class FlakyStore:
    """An `ObjectStore` over another one, by a plan. `trace`: the requests so far.

    Several of them over one base are several daemons that write to one place; each has its own numbers of requests.
    """

    def __init__(
        self,
        base: ObjectStore,
        plan: Plan = no_faults,
        *,
        staleness: int = 8,
        slow_s: float = 30.0,
        sleep: Callable[[float], object] = lambda seconds: None,
    ) -> None:
        self.name = base.name
        self.trace: list[Request] = []
        self.base = base
        self.plan = plan
        self._staleness = staleness
        self._slow_s = slow_s
        self._sleep = sleep
        self._past: list[list[Stored]] = []  # listings of the whole base before each request

    def create(self, key: str, data: bytes) -> None:
        self._request("create", key, lambda: self.base.create(key, data))

    def upload(self, key: str, size: int, blocks: Iterable[bytes]) -> None:
        taken = iter(blocks)

        def half() -> None:
            seen = 0
            for block in taken:
                seen += len(block)
                if 2 * seen >= size:
                    return

        content: list[bytes] = []

        def whole() -> None:
            if not content:
                content.append(b"".join(taken))
            self.base.upload(key, size, content)

        self._request("upload", key, whole, half)

    def read(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        return self._request("read", key, lambda: self.base.read(key, start, length))

    def list(self, prefix: str, after: str = "") -> Iterator[Stored]:
        found = self._request("list", prefix, lambda: list(self.base.list(prefix, after)))
        if self.trace[-1].fault is Fault.STALE:
            back = self._past[max(0, len(self._past) - 1 - self._staleness)]
            found = [stored for stored in back if stored.key.startswith(prefix) and stored.key > after]
        return iter(found)

    def delete(self, keys: Sequence[str]) -> None:
        keys = list(keys)

        def half() -> None:
            self.base.delete(keys[: (len(keys) + 1) // 2])

        self._request("delete", keys[0] if keys else "", lambda: self.base.delete(keys), half)

    def close(self) -> None:
        """The base stays open: others use it."""

    def _request(
        self, operation: str, key: str, work: Callable[[], Any], half: Callable[[], object] = lambda: None
    ) -> Any:
        fault = self.plan(len(self.trace), operation, key)
        self.trace.append(Request(operation, key, fault))
        self._past.append(list(self.base.list("")))
        match fault:
            case Fault.KILL:
                raise Killed
            case Fault.SLOW:
                self._sleep(self._slow_s)
            case Fault.BEFORE:
                raise Unavailable(operation, self.name, key, "planned: it failed before it worked")
            case Fault.TORN:
                half()
                raise Unavailable(operation, self.name, key, "planned: it was cut")
            case Fault.REPEATED:
                work()
        done = work()
        if fault is Fault.AFTER:
            raise Unavailable(operation, self.name, key, "planned: it worked, and its answer was lost")
        if fault is Fault.KILL_AFTER:
            raise Killed
        return done


def copy_of(base: MemoryStore, time: Time | None = None) -> MemoryStore:
    """Another store with the same objects of the same times: what one run leaves, for many that go on from it."""
    copy = MemoryStore(base.name, time)
    copy._objects = dict(base._objects)
    return copy


def contents(store: ObjectStore) -> dict[str, bytes]:
    """All objects."""
    found: dict[str, bytes] = {}
    for stored in store.list(""):
        try:
            found[stored.key] = store.read(stored.key)
        except NotThere:
            continue
    return found
