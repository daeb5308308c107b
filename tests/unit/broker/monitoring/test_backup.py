"""The backup in /metrics and /health."""

from __future__ import annotations

import pytest
from tidelog.backup.cut.status import RUNNING, STOPPED, BackupStatus, Drills, Progress, Unsent
from tidelog.backup.formats.entries import Drill
from tidelog.backup.store.counted import Tally
from tidelog.broker.cleaning.backup_facts import describe_backup
from tidelog.broker.monitoring.backup import backup_metrics
from tidelog.broker.monitoring.health import MOST_HELD, _backup_problems
from tidelog.broker.runtime.metric_family import families_of

HOUR_MS = 3_600_000
GOOD = Drill(7, 1_000, 2_000, 12.5, 3, 1 << 20)
BAD = GOOD._replace(cut=9, ended_ms=9_000, fault="packs/x is damaged")


def status(**changes: object) -> BackupStatus:
    tally = Tally()
    tally.add("upload", 3, 5, 1000, 1, 0.5)
    running = BackupStatus(RUNNING, "", "s3://b/p", 1000, 500, Progress(cuts=4, number=9), counts=tally.counts())
    return running._replace(**changes)  # type: ignore[arg-type]


def rows(told: BackupStatus) -> dict[str, dict[tuple[str, ...], float]]:
    return {family.name: dict(family.rows) for family in families_of(backup_metrics(), told)}  # type: ignore[arg-type]


def reasons(told: BackupStatus) -> list[str]:
    return [problem.reason for problem in _backup_problems(told)]


def test_requests_by_kind() -> None:
    told = rows(status())
    assert told["tidelog_backup_requests"][("upload",)] == 5
    assert told["tidelog_backup_request_bytes"][("upload",)] == 1000
    assert told["tidelog_backup_request_errors"] == {
        ("create",): 0, ("upload",): 1, ("read",): 0, ("list",): 0, ("delete",): 0,
    }  # fmt: skip
    assert told["tidelog_backup_request_seconds"][("upload",)] == 0.5
    assert describe_backup(status())["requests"]["upload"] == {
        "calls": 3, "requests": 5, "bytes": 1000, "errors": 1, "seconds": 0.5,
    }  # fmt: skip


def test_partitions_that_hold_a_cut_back_are_named_with_their_time() -> None:
    progress = Progress(
        held=(("a", 0, "its disk hangs", 1_000),),
        passes=(Unsent("b", 1, 4_000, 70),),
        waits_for=(Unsent("c", 2, 9_500, 80),),
    )
    told = status(progress=progress, now_ms=10_000, lag_ms=600_000)
    assert rows(told)["tidelog_backup_partition_behind_seconds"] == {
        ("a", "0", "held"): 9, ("b", "1", "pass"): 6, ("c", "2", "upload"): 0.5,
    }  # fmt: skip
    assert rows(status())["tidelog_backup_partition_behind_seconds"] == {}
    described = describe_backup(told)
    assert described["beforePass"] == [{"topic": "b", "partition": 1, "sinceMs": 4_000, "bytes": 70}]
    assert described["waitsFor"] == [{"topic": "c", "partition": 2, "sinceMs": 9_500, "bytes": 80}]
    (late, _) = _backup_problems(told)
    assert late.text.endswith("the cut waits for segments of c-2")


def test_no_drill_yet_has_no_rows_but_its_interval() -> None:
    told = rows(status(drill_interval_ms=24 * HOUR_MS))
    assert told["tidelog_backup_drill_interval_seconds"] == {(): 86_400}
    assert told["tidelog_backup_drill_age_seconds"] == told["tidelog_backup_drill_damaged"] == {}
    assert told["tidelog_backup_drill_running"] == {(): 0}


def test_a_drill() -> None:
    told = rows(status(drills=Drills(GOOD, GOOD), drill_age_ms=5_000))
    assert told["tidelog_backup_drill_age_seconds"] == {(): 5}
    assert told["tidelog_backup_drill_duration_seconds"] == {(): 12.5}
    assert told["tidelog_backup_drill_bytes"] == {(): 1 << 20}
    assert told["tidelog_backup_drill_damaged"] == {(): 0}
    assert rows(status(drills=Drills(BAD, GOOD)))["tidelog_backup_drill_damaged"] == {(): 1}


def test_damage_is_a_problem_that_names_the_object() -> None:
    assert reasons(status(drills=Drills(GOOD, GOOD))) == []
    (problem,) = _backup_problems(status(drills=Drills(BAD, GOOD)))
    assert problem == (
        "backup_damaged", "s3://b/p", "the drill has found cut 9 damaged: packs/x is damaged",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("interval_ms", "without_ms", "expected"),
    [
        (0, 1000 * HOUR_MS, []),
        (24 * HOUR_MS, 48 * HOUR_MS, []),
        (24 * HOUR_MS, 48 * HOUR_MS + 1, ["backup_drill_overdue"]),
    ],
)
def test_a_drill_that_does_not_come_about(interval_ms: int, without_ms: int, expected: list[str]) -> None:
    assert reasons(status(drill_interval_ms=interval_ms, without_drill_ms=without_ms)) == expected


def test_a_stopped_backup_says_that_alone() -> None:
    stopped = status(
        state=STOPPED, reason="another daemon", drills=Drills(BAD), drill_interval_ms=1, without_drill_ms=9
    )
    assert reasons(stopped) == ["backup_stopped"]


@pytest.mark.parametrize(("more", "counted"), [(0, None), (1, "1 more partition;"), (9_990, "9990 more partitions;")])
def test_partitions_that_hold_a_backup_back_are_named_up_to_a_bound_and_counted(more: int, counted: str | None) -> None:
    held = tuple(("t", number, "its disk hangs", 1_000) for number in range(MOST_HELD + more))
    told = [
        problem for problem in _backup_problems(status(progress=Progress(held=held))) if problem.subject != "s3://b/p"
    ]
    assert [problem.subject for problem in told] == [f"t-{number}" for number in range(MOST_HELD)]
    rest = [
        problem for problem in _backup_problems(status(progress=Progress(held=held))) if problem.subject == "s3://b/p"
    ]
    assert len(rest) == (counted is not None)
    assert counted is None or counted in rest[0].text


def test_a_kept_cut_that_cannot_be_read_is_a_problem() -> None:
    (problem,) = _backup_problems(status(progress=Progress(damaged=("cuts/3 is damaged; delete it",))))
    assert problem == (
        "backup_damaged", "s3://b/p", "a kept cut can't be read: cuts/3 is damaged; delete it",
    )  # fmt: skip
    (problem,) = _backup_problems(status(progress=Progress(damaged=("cuts/3 …", "cuts/4 …", "cuts/5 …"))))
    assert "(2 more cuts are damaged)" in str(problem)
    assert describe_backup(status(progress=Progress(damaged=("cuts/3 …",))))["damaged"] == ["cuts/3 …"]
