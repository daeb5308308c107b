from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from tidelog.config.log_config import LogConfig
from tidelog.storage import deletion_policy
from tidelog.storage.deletion_policy import ENTRY_POINTS, LogFacts, check_policies, find_policy
from tidelog.storage.exceptions import DeletionPolicyError
from tidelog.storage.retention.plan import plan_deletions
from tidelog.storage.values import SegmentView

DAY = 86_400_000
GB = 10**9
NOW = 1_700_000_000_000


def days_old(*ages: float, size: int = GB) -> list[SegmentView]:
    """Segments of ten records, oldest first; the last one is active."""
    return [
        SegmentView(i * 10, i * 10 + 10, size, round(NOW - age * DAY), i == len(ages) - 1, round(NOW - age * DAY))
        for i, age in enumerate(ages)
    ]


def gone(segments: list[SegmentView], *names: str, **settings: object) -> list[int]:
    config = LogConfig(**{"retention_ms": -1, "retention_bytes": -1} | settings)
    facts = LogFacts("t", 0, config, NOW, sum(segment.size for segment in segments), 0, 10**9)
    plan = plan_deletions(segments, facts, [find_policy(name) for name in names])
    assert plan.failures == []
    return [deletion.base_offset for deletion in plan.deletions]


def test_older_than_n_days() -> None:
    """The documents' first example."""
    segments = days_old(9, 8, 7, 6, 0)
    assert gone(segments, "time", retention_ms=7 * DAY) == [0, 10]
    assert gone(segments, "time", retention_ms=6 * DAY) == [0, 10, 20]
    assert gone(segments, "time") == []


def test_the_newest_n_gigabytes_stay() -> None:
    """The documents' second example."""
    segments = days_old(*[0] * 10)
    assert gone(segments, "size", retention_bytes=3 * GB) == [0, 10, 20, 30, 40, 50, 60]
    assert gone(segments, "size", retention_bytes=3 * GB + 1) == [0, 10, 20, 30, 40, 50]
    assert gone(segments, "size") == []


def test_append_time_does_not_ask_the_records() -> None:
    year_2100 = 4_102_444_800_000
    segments = [segment._replace(largest_timestamp=year_2100) for segment in days_old(9, 8, 0)]
    assert gone(segments, "time", retention_ms=7 * DAY) == []
    assert gone(segments, "append-time", retention_ms=7 * DAY) == [0, 10]
    assert gone(segments, "append-time", retention_ms=0) == [0, 10]
    assert gone(segments, "append-time") == []


def test_built_in_policies_need_no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deletion_policy, "installed_policy", None)
    check_policies(("time", "size", "append-time"))


@pytest.mark.usefixtures("installed_policies")
def test_a_policy_of_a_package_is_found_by_its_entry_point() -> None:
    segments = days_old(*[0] * 10)
    assert gone(segments, "newest-three") == [0, 10, 20, 30, 40, 50, 60]
    assert gone(segments, "size", "newest-three", retention_bytes=8 * GB) == [0, 10, 20, 30, 40, 50, 60]


@pytest.mark.usefixtures("installed_policies")
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("newest-four", r"no deletion policy 'newest-four' is installed; there are: .*newest-three.*size, time"),
        ("not-there", "ModuleNotFoundError"),
        ("not-a-policy", "choose"),
        ("fails-to-start", "RuntimeError: no licence"),
    ],
)
def test_a_policy_that_is_not_there_or_none_is_refused_by_name(name: str, says: str) -> None:
    for _ in range(2):
        with pytest.raises(DeletionPolicyError, match=says):
            check_policies(("time", name))


def test_the_built_in_policies_are_entry_points_too() -> None:
    """So that a tool which lists the group shows them beside the others."""
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    declared = project["entry-points"][ENTRY_POINTS]
    assert set(declared) == set(deletion_policy.BUILT_IN)
    for name, reference in declared.items():
        module, _, attribute = reference.partition(":")
        assert module == deletion_policy.__name__
        assert type(deletion_policy.BUILT_IN[name]) is getattr(deletion_policy, attribute)
