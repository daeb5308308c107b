"""The store that fails by a plan does what its plan says."""

from __future__ import annotations

import pytest
from support.flaky_store import (
    Fault,
    FlakyStore,
    Killed,
    Plan,
    contents,
    copy_of,
    every_pair_of_faults,
    every_single_fault,
    fault_at,
    random_faults,
)
from support.store_conformance import Conformance
from tidelog.backup.store import AlreadyThere, ObjectStore, StoreError, Unavailable
from tidelog.backup.store.memory import MemoryStore


class TestWithoutFaults(Conformance):
    @pytest.fixture
    def store(self) -> ObjectStore:
        return FlakyStore(MemoryStore())

    def test_one_of_many_creates(self) -> None:  # type: ignore[override]
        """One thread at a time."""

    test_a_listing_of_more_than_a_page = test_one_of_many_creates  # type: ignore[assignment]


def flaky(fault: Fault, number: int = 0) -> tuple[MemoryStore, FlakyStore]:
    base = MemoryStore()
    base.create("a", b"old")
    base.create("b", b"old")
    return base, FlakyStore(base, fault_at(number, fault))


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.TORN])
def test_nothing_happened(fault: Fault) -> None:
    base, store = flaky(fault)
    with pytest.raises(Unavailable):
        store.create("c", b"new")
    assert "c" not in contents(base)
    base, store = flaky(fault)
    with pytest.raises(Unavailable):
        store.upload("c", 4, iter([b"ne", b"w!"]))
    assert "c" not in contents(base)
    for call in (lambda: store.read("a"), lambda: list(store.list(""))):
        store.plan = fault_at(len(store.trace), fault)
        with pytest.raises(Unavailable):
            call()


def test_it_worked_and_nobody_knows() -> None:
    for fault, error in ((Fault.AFTER, Unavailable), (Fault.KILL_AFTER, Killed)):
        base, store = flaky(fault)
        with pytest.raises(error):
            store.create("c", b"new")
        assert contents(base)["c"] == b"new"
        with pytest.raises(AlreadyThere):
            store.create("c", b"new")
        store.plan = fault_at(len(store.trace), fault)
        with pytest.raises(error):
            store.delete(["a", "b"])
        assert set(contents(base)) == {"c"}


def test_half_a_deletion() -> None:
    base, store = flaky(Fault.TORN)
    with pytest.raises(Unavailable):
        store.delete(["a", "b"])
    assert set(contents(base)) == {"b"}


def test_a_repeated_create_finds_itself() -> None:
    base, store = flaky(Fault.REPEATED)
    with pytest.raises(AlreadyThere):
        store.create("c", b"new")
    assert contents(base)["c"] == b"new"
    base, store = flaky(Fault.REPEATED)
    store.upload("c", 3, iter([b"n", b"ew"]))
    assert contents(base)["c"] == b"new"


def test_a_stale_listing() -> None:
    _, store = flaky(Fault.STALE, number=2)
    store.create("c", b"new")
    store.delete(["a"])
    assert [stored.key for stored in store.list("")] == ["a", "b"]
    assert [stored.key for stored in store.list("")] == ["b", "c"]


def test_slow_requests_move_the_clock() -> None:
    waited: list[float] = []
    store = FlakyStore(MemoryStore(), fault_at(0, Fault.SLOW), slow_s=7, sleep=waited.append)
    store.create("a", b"")
    assert waited == [7]


def test_a_process_ends_before_its_request() -> None:
    base, store = flaky(Fault.KILL)
    with pytest.raises(Killed):
        store.delete(["a"])
    assert set(contents(base)) == {"a", "b"}


def run(store: FlakyStore) -> str:
    try:
        store.create("c", b"1")
        store.upload("d", 2, [b"2", b"2"])
        store.delete(["c", "d"])
        return str([stored.key for stored in store.list("")])
    except (StoreError, Killed) as error:
        return f"{type(error).__name__} {error}"


def test_plans_are_enumerated_and_deterministic() -> None:
    base, _ = flaky(Fault.KILL)

    def outcome(plan: Plan) -> tuple[str, dict[str, bytes]]:
        store = FlakyStore(copy_of(base), plan)
        return run(store), contents(store.base)

    clean = FlakyStore(copy_of(base))
    run(clean)
    plans = list(every_single_fault(clean.trace))
    assert len({name for name, _ in plans}) == len(plans) > 20
    assert len({str(outcome(plan)) for _, plan in plans}) > 12
    pairs = list(every_pair_of_faults(clean.trace))
    assert len({name for name, _ in pairs}) == len(pairs) > 500
    for seed in range(20):
        assert outcome(random_faults(seed)) == outcome(random_faults(seed))
    assert len({str(outcome(random_faults(seed))) for seed in range(50)}) > 8
