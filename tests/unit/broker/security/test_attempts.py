from __future__ import annotations

import pytest
from tidelog.broker.security.attempts import LINE_INTERVAL_S, MOST_ADDRESSES, MOST_FAILURES, WINDOW_S, Attempts


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_who_fails_too_often_waits_until_the_first_failure_is_a_window_ago() -> None:
    clock = Clock()
    attempts = Attempts(clock)
    for _ in range(MOST_FAILURES):
        assert attempts.wait_s("10.0.0.1") == 0
        attempts.failed("10.0.0.1", "wrong")
        clock.now += 1
    assert attempts.wait_s("10.0.0.1") == WINDOW_S - MOST_FAILURES
    assert attempts.wait_s("10.0.0.2") == 0
    assert (attempts.failures, attempts.turned_away) == (MOST_FAILURES, 1)
    clock.now += WINDOW_S - MOST_FAILURES
    assert attempts.wait_s("10.0.0.1") == 0
    attempts.failed("10.0.0.1", "wrong")
    assert attempts.wait_s("10.0.0.1") == 1, "the second one was a second after the first"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8::1", "2001:db8::ffff:1", True), ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:10.0.0.1", "10.0.0.1", True), ("::ffff:10.0.0.1", "::ffff:10.0.0.2", False),
        ("fe80::1%eth0", "fe80::2", True), ("10.0.0.1", "10.0.0.2", False),
    ],
)  # fmt: skip
def test_addresses_that_one_client_has_are_one(one: str, other: str, same: bool) -> None:
    attempts = Attempts(Clock())
    for _ in range(MOST_FAILURES):
        attempts.failed(one, "wrong")
    assert (attempts.wait_s(other) > 0) == same


def test_what_is_remembered_is_bounded() -> None:
    attempts = Attempts(Clock())
    for number in range(3 * MOST_ADDRESSES):
        attempts.failed(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", "wrong")
    assert len(attempts._by_address) == MOST_ADDRESSES
    for _ in range(100):
        attempts.failed("10.9.9.9", "wrong")
    assert len(attempts._by_address["10.9.9.9"]) == MOST_FAILURES


def test_a_flood_is_one_line_a_second(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    attempts = Attempts(clock)
    for _ in range(100):
        attempts.failed("10.0.0.1", "the password is wrong")
        attempts.wait_s("10.0.0.1")
    assert [record.getMessage() for record in caplog.records] == [
        "http 10.0.0.1: authentication failed: the password is wrong"
    ]
    clock.now += LINE_INTERVAL_S
    attempts.failed("10.0.0.1", "the password is wrong")
    assert caplog.records[1].getMessage().endswith("(191 such since the last line)")
