from __future__ import annotations

import threading

import pytest
from tidelog.broker.security.sasl.login_attempts import (
    LINE_INTERVAL_S,
    MOST_ADDRESSES,
    MOST_FAILURES,
    MOST_OF_ADDRESS,
    MOST_USERS,
    WINDOW_S,
    Attempts,
    Failures,
    HttpFailures,
    TurnedAway,
)


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_who_fails_too_often_waits_until_the_first_failure_is_a_window_ago() -> None:
    failures = Failures(3, 10)
    for now in (0.0, 1.0, 2.0):
        assert failures.wait_s("x", now) == 0
        failures.add("x", now)
    assert failures.wait_s("x", 3.0) == WINDOW_S - 3
    assert failures.wait_s("y", 3.0) == 0
    assert failures.wait_s("x", WINDOW_S) == 0
    failures.add("x", WINDOW_S)
    assert failures.wait_s("x", WINDOW_S) == 1, "the second one was a second after the first"


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
    fail(attempts, one, "alice", MOST_FAILURES)
    assert (turned_away(attempts, other, "alice") is not None) == same


def test_what_is_remembered_is_bounded() -> None:
    failures = Failures(MOST_FAILURES, 100)
    for number in range(300):
        failures.add(f"{number}", 0.0)
    assert len(failures) == 100
    for _ in range(100):
        failures.add("299", 0.0)
    assert len(failures.times("299")) == MOST_FAILURES


def test_a_flood_by_http_is_one_line_a_second(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    failures = HttpFailures(clock)
    for _ in range(100):
        failures.failed("10.0.0.1", "the password is wrong")
        failures.was_turned_away("10.0.0.1")
    assert [record.getMessage() for record in caplog.records] == [
        "http 10.0.0.1: authentication failed: the password is wrong"
    ]
    clock.now += LINE_INTERVAL_S
    failures.failed("10.0.0.1", "the password is wrong")
    assert caplog.records[1].getMessage().endswith("(200 such since the last line)")
    assert (failures.failures, failures.turned_away) == (101, 100)


def test_threads_of_http_lose_no_failure() -> None:
    attempts = Attempts(Clock())
    threads = [threading.Thread(target=fail, args=(attempts, "10.0.0.1", f"name-{n}")) for n in range(MOST_OF_ADDRESS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert turned_away(attempts, "10.0.0.1", "alice") is not None


def fail(attempts: Attempts, peer: str, name: str, times: int = 1) -> None:
    for _ in range(times):
        attempt = attempts.attempt(peer)
        attempt.claims(name)
        attempt.failed()


def turned_away(attempts: Attempts, peer: str, name: str, known: str | None = None) -> TurnedAway | None:
    try:
        attempts.attempt(peer, known).claims(name)
    except TurnedAway as error:
        return error
    return None


def test_who_guesses_a_users_password_is_turned_away_and_the_user_elsewhere_is_not() -> None:
    clock = Clock()
    attempts = Attempts(clock)
    fail(attempts, "10.0.0.66", "alice", MOST_FAILURES)
    away = turned_away(attempts, "10.0.0.66", "alice")
    assert away is not None
    assert (str(away), away.is_all) == (f"too many attempts have failed; try again in {WINDOW_S:.0f} s", False)
    assert turned_away(attempts, "10.0.0.1", "alice") is None, "nobody is locked out by who knows a name"
    assert turned_away(attempts, "10.0.0.66", "bob") is None
    assert attempts.turned_away == 1
    clock.now += WINDOW_S
    assert turned_away(attempts, "10.0.0.66", "alice") is None


def test_users_who_go_on_with_a_wrong_password_keep_nobody_else_out() -> None:
    """What is turned away is no failure: a client that tries for ever fills its own count and no more."""
    clock = Clock()
    attempts = Attempts(clock)
    for _ in range(1000):
        for name in ("old-1", "old-2", "old-3"):
            if turned_away(attempts, "10.0.0.1", name) is None:
                fail(attempts, "10.0.0.1", name)
        clock.now += 0.05
    assert turned_away(attempts, "10.0.0.1", "alice") is None


def test_who_tries_many_names_is_turned_away_with_all_from_there_and_nobody_else_is() -> None:
    attempts = Attempts(Clock())
    for number in range(MOST_OF_ADDRESS):
        fail(attempts, f"2001:db8::{number:x}", f"name-{number}")
    away = turned_away(attempts, "2001:db8::ffff", "alice")
    assert away is not None
    assert away.is_all
    assert turned_away(attempts, "2001:db8:0:1::1", "alice") is None


def test_no_more_than_ten_guesses_are_looked_at_however_they_come() -> None:
    """A thousand connections say a name before the first of them is refused: each is asked for again when its turn comes."""
    attempts = Attempts(Clock())
    begun = [attempts.attempt("10.0.0.66") for _ in range(1000)]
    for attempt in begun:
        attempt.claims("alice")
    looked_at = 0
    for attempt in begun:
        try:
            attempt.claims("alice")
        except TurnedAway:
            continue
        looked_at += 1
        attempt.failed()
    assert looked_at == MOST_FAILURES


def test_who_is_known_already_is_not_turned_away_from_going_on() -> None:
    attempts = Attempts(Clock())
    fail(attempts, "10.0.0.1", "alice", MOST_FAILURES)
    assert turned_away(attempts, "10.0.0.1", "alice", known="alice") is None
    assert turned_away(attempts, "10.0.0.1", "alice", known="bob") is not None


def test_what_is_remembered_of_users_is_bounded_whatever_they_are_called() -> None:
    clock = Clock()
    attempts = Attempts(clock)
    for number in range(2 * MOST_USERS):
        fail(attempts, f"10.{number >> 14}.{number >> 7 & 127}.1", f"{number}" + "n" * 10_000)
        clock.now += WINDOW_S / MOST_FAILURES
    assert len(attempts.of_users) == MOST_USERS
    assert len(attempts.of_addresses) <= MOST_ADDRESSES
    assert {len(key) for key in attempts.of_users._times} == {16}
