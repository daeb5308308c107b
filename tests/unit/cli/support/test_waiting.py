"""Waits are told, not at once, and not again and again."""

from __future__ import annotations

import io

from tidelog.cli.support.waiting import Notices


def test_a_wait_is_told_when_it_lasts_and_again_when_it_goes_on() -> None:
    out, now = io.StringIO(), [100.0]
    notices = Notices(out, lambda: now[0])
    told = []
    for second in range(31):
        now[0] = 100.0 + second / 2
        before = out.getvalue()
        notices.wait("no leader")
        if out.getvalue() != before:
            told.append(second / 2)
    assert told == [2.0, 12.0]
    assert out.getvalue().splitlines()[0] == "tidelog: waiting since 2 s: no leader"


def test_a_new_wait_begins_when_nothing_was_waited_for_in_between() -> None:
    out, now = io.StringIO(), [0.0]
    notices = Notices(out, lambda: now[0])
    notices.wait("a")
    now[0] = 100.0
    notices.wait("b")
    assert out.getvalue() == "", "b begins only now"
