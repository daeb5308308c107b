"""Lines at a bounded rate, and the number of those that were left out."""

from __future__ import annotations

import logging

import pytest
from tidelog.broker.log_flood import MOST, WINDOW_S, FloodFilter


def record(message: str, at_s: float, level: int = logging.WARNING) -> logging.LogRecord:
    made = logging.LogRecord("tidelog.broker.connection", level, "", 0, message, (), None)
    made.created = at_s
    return made


def test_so_many_of_a_kind_pass_and_the_rest_is_counted_and_told(caplog: pytest.LogCaptureFixture) -> None:
    flood = FloodFilter()
    passed = [flood.filter(record("%s: refused: %s", 100.0 + index / 1000)) for index in range(1000)]
    assert passed == [True] * MOST + [False] * (1000 - MOST)
    assert flood.filter(record("another kind", 100.5)), "one kind does not hide another"
    assert flood.left_out == 1000 - MOST
    assert flood.pending
    flood.flush(100.0 + WINDOW_S - 1)
    assert not caplog.records
    flood.flush(100.0 + WINDOW_S)
    (told,) = caplog.records
    assert told.getMessage() == f"{1000 - MOST} more lines of connection in 10 s: %s: refused: %s"
    assert told.levelno == logging.WARNING
    assert not flood.pending


def test_a_new_window_begins_with_what_the_last_one_left_out(caplog: pytest.LogCaptureFixture) -> None:
    flood = FloodFilter()
    for _ in range(MOST + 5):
        flood.filter(record("same", 5.0))
    assert flood.filter(record("same", 5.0 + WINDOW_S))
    assert [one.getMessage() for one in caplog.records] == ["5 more lines of connection in 10 s: same"]
    flood.flush(1e9)
    assert len(caplog.records) == 1
