from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import pytest
from tidelog.broker.security.credentials import Credential, new_credential
from tidelog.broker.security.credentials import Users as StoredUsers
from tidelog.broker.security.sasl.login_attempts import MOST_FAILURES, Attempts, PasswordChecks, TurnedAway
from tidelog.broker.security.sasl.mechanism import Refusal
from tidelog.broker.security.sasl.plain import PlainExchange

ALICE = new_credential("SCRAM-SHA-512", "pencil", b"salt")


class Users:
    rounds: ClassVar = {"SCRAM-SHA-512": 4096}

    def of(self, name: str) -> dict[str, Credential]:
        return {"SCRAM-SHA-512": ALICE} if name == "alice" else {}


@pytest.fixture(scope="module")
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as executor:
        yield executor


def exchange(pool: ThreadPoolExecutor) -> PlainExchange:
    users: Any = Users()
    return PlainExchange({"bob": "sécret"}, users, PasswordChecks(pool))


@pytest.mark.parametrize(
    ("message", "user"),
    [(b"\0alice\0pencil", "alice"), (b"alice\0alice\0pencil", "alice"), ("\0bob\0sécret".encode(), "bob")],
)
async def test_who_has_the_password_is_let_in(pool: ThreadPoolExecutor, message: bytes, user: str) -> None:
    step = await exchange(pool).step(message)
    assert (step.reply, step.user, step.lifetime_ms) == (b"", user, None)


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (b"\0alice\0pencil2", "password is wrong"),
        (b"\0alice\0", "password is wrong"),
        (b"\0bob\0pencil", "password is wrong"),
        (b"\0mallory\0pencil", "password is wrong"),
        (b"bob\0alice\0pencil", "only as the user"),
        (b"\0alice", "not PLAIN's message"),
        (b"\0alice\0pencil\0", "not PLAIN's message"),
        (b"\0\0pencil", "not PLAIN's message"),
        (b"\0alice\0" + b"p" * 1025, "not PLAIN's message"),
        (b"\0\xff\0pencil", "not UTF-8"),
    ],
)
async def test_who_has_not_is_refused(pool: ThreadPoolExecutor, message: bytes, why: str) -> None:
    with pytest.raises(Refusal, match=why):
        await exchange(pool).step(message)


class Work:
    """What hashing was asked for, in place of the hashing."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[str, int]] = []

        def hashed(name: str, password: bytes, salt: bytes, rounds: int) -> bytes:
            self.calls.append((name, rounds))
            return bytes(hashlib.new(name).digest_size)

        monkeypatch.setattr(hashlib, "pbkdf2_hmac", hashed)

    def taken(self) -> tuple[int, dict[str, int]]:
        """Calls, and rounds of each hash."""
        rounds: dict[str, int] = {}
        for name, count in self.calls:
            rounds[name] = rounds.get(name, 0) + count
        found = len(self.calls), rounds
        self.calls.clear()
        return found


def stored(**users: dict[str, int]) -> StoredUsers:
    """Name → mechanism → iterations."""
    store: Any = None
    texts = {
        name: {mechanism: Credential(b"s" * 16, b"k", b"k", count).text() for mechanism, count in credentials.items()}
        for name, credentials in users.items()
    }
    return StoredUsers(texts, store)


async def test_a_wrong_password_costs_the_same_work_whoever_is_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work is counted in calls and rounds: a clock would tell what else the machine does."""
    known = stored(
        cheap={"SCRAM-SHA-256": 4096},
        dear={"SCRAM-SHA-256": 10_000},
        other={"SCRAM-SHA-512": 16384},
        both={"SCRAM-SHA-256": 4096, "SCRAM-SHA-512": 16384},
    )
    work = Work(monkeypatch)
    taken = {}
    with ThreadPoolExecutor(1) as pool:
        for name in ("cheap", "dear", "other", "both", "listed", "stranger", ""):
            exchange = PlainExchange({"listed": "secret"}, known, PasswordChecks(pool))
            with pytest.raises(Refusal):
                await exchange.step(f"\0{name or 'mallory'}\0wrong".encode())
            taken[name] = work.taken()
    assert len({str(one) for one in taken.values()}) == 1, taken
    assert taken["stranger"] == (4, {"sha256": 10_001, "sha512": 16385})


@pytest.mark.parametrize(
    ("users", "expected"),
    [
        ({}, (2, {"sha256": 4097})),
        ({"a": {"SCRAM-SHA-256": 4096, "SCRAM-SHA-512": 4096}}, (2, {"sha256": 4097})),
        ({"a": {"SCRAM-SHA-512": 5000}}, (2, {"sha512": 5001})),
    ],
)
async def test_nobody_pays_for_what_no_user_is_checked_with(
    users: dict[str, dict[str, int]], expected: tuple[int, dict[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    work, known = Work(monkeypatch), stored(**users)
    with ThreadPoolExecutor(1) as pool:
        for name in ("a", "stranger"):
            with pytest.raises(Refusal):
                await PlainExchange({}, known, PasswordChecks(pool)).step(f"\0{name}\0wrong".encode())
            assert work.taken() == expected


async def test_who_has_failed_too_often_costs_no_work_even_where_it_waited_already(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    work, known = Work(monkeypatch), stored(alice={"SCRAM-SHA-256": 4096})
    attempts = Attempts(lambda: 0.0)

    async def guess() -> None:
        attempt = attempts.attempt("10.0.0.66")
        try:
            await PlainExchange({}, known, checks, "10.0.0.66", attempt.claims).step(b"\0alice\0wrong")
        except TurnedAway:
            raise
        except Refusal:
            attempt.failed()
            raise

    with ThreadPoolExecutor(1) as pool:
        checks = PasswordChecks(pool)
        outcomes = await asyncio.gather(*(guess() for _ in range(200)), return_exceptions=True)
    assert sum(isinstance(outcome, TurnedAway) for outcome in outcomes) == 200 - MOST_FAILURES
    assert work.taken() == (2 * MOST_FAILURES, {"sha256": MOST_FAILURES * 4097})


@pytest.mark.parametrize("has_credentials", [False, True])
async def test_of_guesses_that_come_together_ten_are_looked_at_for_users_of_the_settings_too(
    has_credentials: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The password in the settings is compared in no time, and the first wrong one is refused when a thread has worked for it."""
    Work(monkeypatch)
    known = stored(**({"alice": {"SCRAM-SHA-256": 4096}} if has_credentials else {}))
    attempts = Attempts(lambda: 0.0)

    async def guess(password: str) -> str | None:
        attempt = attempts.attempt("10.0.0.66")
        try:
            exchange = PlainExchange({"alice": "pencil"}, known, checks, "10.0.0.66", attempt.claims, attempt.failed)
            return (await exchange.step(f"\0alice\0{password}".encode())).user
        except TurnedAway:
            raise
        except Refusal:
            attempt.failed()
            raise

    with ThreadPoolExecutor(1) as pool:
        checks = PasswordChecks(pool)
        passwords = [*(f"wrong{number}" for number in range(199)), "pencil"]
        outcomes = await asyncio.gather(*map(guess, passwords), return_exceptions=True)
    assert sum(isinstance(outcome, TurnedAway) for outcome in outcomes) == 200 - MOST_FAILURES
    assert outcomes[-1] != "alice", "the two hundredth guess was looked at"


async def test_a_user_of_the_settings_is_let_in_beside_credentials_of_another_password(
    pool: ThreadPoolExecutor,
) -> None:
    known = stored(bob={"SCRAM-SHA-256": 4096})
    attempts = Attempts(lambda: 0.0)
    for _ in range(2 * MOST_FAILURES):
        attempt = attempts.attempt("10.0.0.1")
        exchange = PlainExchange({"bob": "pencil"}, known, PasswordChecks(pool), "", attempt.claims, attempt.failed)
        assert (await exchange.step(b"\0bob\0pencil")).user == "bob"


async def test_an_empty_password_lets_nobody_in(pool: ThreadPoolExecutor) -> None:
    """`user_admin=""` is what a template makes of a secret that is missing."""
    known = stored()
    with pytest.raises(Refusal, match="password is wrong"):
        await PlainExchange({"admin": ""}, known, PasswordChecks(pool)).step(b"\0admin\0")
