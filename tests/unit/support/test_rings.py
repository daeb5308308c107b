from __future__ import annotations

from support.rings import RINGS, SLOWER, Result, limit_of, report

BY_NAME = {ring.name: ring for ring in RINGS}


def test_the_slices_of_all_rings_take_64_minutes_at_most() -> None:
    assert sum(limit_of(ring, "check") for ring in RINGS) <= 64
    assert all(limit_of(ring, "check") > 0 for ring in RINGS if ring.check)


def test_a_ring_that_is_late_fails_the_run_only_where_the_others_leave_it_no_time() -> None:
    on_time = [Result(ring, limit_of(ring, "check") / 2, 0) for ring in RINGS if ring.check]
    late = [
        result._replace(minutes=2 * result.minutes + 1) if result.ring.name == "lint" else result for result in on_time
    ]
    table, code = report("check", late)
    assert code == 0
    assert [line.split()[0] for line in table.splitlines() if line.endswith("late")] == ["lint"]


def test_all_rings_together_may_be_as_much_later_as_a_shared_machine_is_slower() -> None:
    limits = [Result(ring, limit_of(ring, "check"), 0) for ring in RINGS if ring.check]
    for times, code, verdict in (
        (0.99, 0, "within their time"),
        (SLOWER * 0.99, 0, "ok, late"),
        (SLOWER * 1.01, 1, "too slow"),
    ):
        table, found = report("check", [result._replace(minutes=result.minutes * times) for result in limits])
        assert found == code
        assert table.endswith(verdict)
    assert SLOWER * sum(limit_of(ring, "check") for ring in RINGS) + 5 <= 90


def test_a_ring_that_fails_fails_the_run() -> None:
    table, code = report("check", [Result(BY_NAME["lint"], 0.1, 2)])
    assert code == 1
    assert "FAILED (2)" in table
    assert "within their time" in table
