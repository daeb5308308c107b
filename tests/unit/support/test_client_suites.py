from __future__ import annotations

import pytest
from support import client_suites
from support.client_suites import Outcome, Suite, differences, is_worse, parsed, row, score

REPORT = """<?xml version="1.0"?><testsuites><testsuite>
<testcase classname="m" name="test_a"/><testcase classname="m" name="test_b[x]"><failure message="no"/></testcase>
<testcase classname="m" name="test_c"><skipped/></testcase><testcase classname="m" name="test_d"><error/></testcase>
</testsuite></testsuites>"""
SUITE = Suite("some", "Some client")


def outcome(**cases: str) -> Outcome:
    return Outcome(cases, 1.0)


def test_cases_are_read_from_a_report() -> None:
    assert parsed(REPORT) == {"a": "passed", "b[x]": "failed", "c": "skipped", "d": "failed"}


def test_a_score_says_no_more_than_it_must() -> None:
    assert score(outcome(a="passed", b="passed")) == "2"
    assert score(outcome(a="passed", b="failed")) == "1 of 2"
    assert score(outcome(a="passed", b="skipped")) == "1 of 2, 1 skipped"


def test_what_passes_there_and_not_here_fails_the_run_unless_it_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, kafkas = outcome(a="passed", b="failed"), outcome(a="passed", b="passed")
    found = differences(SUITE, ours, kafkas)
    assert found == {"b": ""}
    assert is_worse(ours, kafkas, found)
    assert row(ours, kafkas, found) == ["2", "1 of 2", "2", "`b`: failed here, passed there"]
    monkeypatch.setattr(client_suites, "EXPLAINED", {("some", "b"): "a reason"})
    found = differences(SUITE, ours, kafkas)
    assert not is_worse(ours, kafkas, found)
    assert row(ours, kafkas, found)[-1] == "`b`: failed here, passed there: a reason"


def test_what_passes_here_alone_is_told_and_is_no_fault() -> None:
    ours, kafkas = outcome(a="passed"), outcome(a="failed")
    assert not is_worse(ours, kafkas, differences(SUITE, ours, kafkas))


def test_a_case_that_was_not_run_here_and_a_suite_without_cases_are_faults() -> None:
    kafkas = outcome(a="passed")
    assert is_worse(outcome(), kafkas, differences(SUITE, outcome(), kafkas))
    assert is_worse(outcome(), outcome(), {})
    other = outcome(b="passed")
    assert is_worse(other, kafkas, differences(SUITE, other, kafkas))
