"""Lines at a bounded rate, of every logger, and what is said of those that were left out."""

from __future__ import annotations

import logging
import sys
import threading

import pytest
from tidelog.broker.runtime.log_flood import MAX_EXAMPLE, MOST, MOST_OF_OTHERS, WINDOW_S, FloodFilter


def record(
    message: str, at_s: float, *args: object, name: str = "tidelog.broker.network.connection", level: int = 30, line: int = 1
) -> logging.LogRecord:  # fmt: skip
    made = logging.LogRecord(name, level, "module.py", line, message, args, None)
    made.created = at_s
    return made


def test_so_many_of_a_kind_pass_and_the_rest_is_counted_and_told(caplog: pytest.LogCaptureFixture) -> None:
    flood = FloodFilter()
    passed = [flood.filter(record("%s: refused: %s", 100.0 + n / 1000, f"peer{n}", "no")) for n in range(1000)]
    assert passed == [True] * MOST + [False] * (1000 - MOST)
    assert flood.filter(record("another kind", 100.5, line=2)), "one kind does not hide another"
    assert flood.left_out == 1000 - MOST
    assert flood.pending
    flood.flush(100.0 + WINDOW_S - 1)
    assert not caplog.records
    flood.flush(100.0 + WINDOW_S)
    (told,) = caplog.records
    assert (
        told.getMessage()
        == f"{1000 - MOST} more lines of broker.network.connection in 10 s, such as: peer{MOST}: refused: no"
    )
    assert told.levelno == logging.WARNING
    assert not flood.pending


def test_a_new_window_begins_with_what_the_last_one_left_out(caplog: pytest.LogCaptureFixture) -> None:
    flood = FloodFilter()
    for _ in range(MOST + 5):
        flood.filter(record("same", 5.0))
    assert flood.filter(record("same", 5.0 + WINDOW_S))
    assert [one.getMessage() for one in caplog.records] == [
        "5 more lines of broker.network.connection in 10 s, such as: same"
    ]
    flood.flush(1e9)
    assert len(caplog.records) == 1


def test_any_line_tells_of_the_windows_that_are_over(caplog: pytest.LogCaptureFixture) -> None:
    flood = FloodFilter()
    for _ in range(MOST + 1):
        flood.filter(record("same", 5.0))
    assert flood.filter(record("of another place", 5.0 + WINDOW_S, name="tidelog.storage.manager.log_manager", line=7))
    assert len(caplog.records) == 1
    for _ in range(MOST + 1):
        flood.filter(record("same", 100.0))
    flood.filter(record("the clock was set back", 50.0, line=9))
    assert len(caplog.records) == 2, "a window of the future is over"


def test_a_kind_is_a_place_in_the_source_whatever_its_message_has(caplog: pytest.LogCaptureFixture) -> None:
    """A message that is made before it is logged has the client's text in itself."""
    flood = FloodFilter()
    passed = [
        flood.filter(record(f"group g{n} was made", 1.0, name="tidelog.broker.groups.offset_commits"))
        for n in range(5000)
    ]
    assert sum(passed) == MOST
    assert len(flood.kinds) == 1
    flood.flush(1e9)
    assert "such as: group g20 was made" in caplog.text


def test_what_stands_for_the_rest_has_a_bound_and_a_message_that_does_not_fit_is_no_failure() -> None:
    flood = FloodFilter()
    for _ in range(MOST + 1):
        flood.filter(record("%s", 1.0, "x" * 100_000))
        flood.filter(record("%d %d", 1.0, "x", line=2))
    assert [kind.example for kind in flood.kinds.values()] == ["x" * MAX_EXAMPLE + "…", "%d %d"]


@pytest.mark.parametrize(
    ("name", "level", "most"),
    [
        ("tidelog.broker.groups.classic.rebalance", logging.INFO, MOST),
        ("tidelog.broker.groups.consumer.heartbeat", logging.ERROR, MOST),
        ("tidelog.broker.groups.classic.rebalance", logging.DEBUG, MOST_OF_OTHERS),
        ("tidelog.storage.log.loader", logging.WARNING, MOST_OF_OTHERS),
        ("asyncio", logging.ERROR, MOST_OF_OTHERS),
        ("tidelog.audit", logging.INFO, 3000),
    ],
)
def test_every_logger_has_a_bound_but_the_audit_log_which_has_its_own(name: str, level: int, most: int) -> None:
    flood = FloodFilter()
    assert sum(flood.filter(record("x", 1.0, name=name, level=level)) for _ in range(3000)) == most


def test_threads_count_together() -> None:
    flood = FloodFilter()
    passed: list[bool] = []

    def write() -> None:
        passed.extend(flood.filter(record("x", 1.0)) for _ in range(2000))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=write) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert (sum(passed), flood.left_out) == (MOST, 8000 - MOST)
