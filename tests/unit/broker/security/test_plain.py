from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tidelog.broker.security.credentials import Credential, new_credential
from tidelog.broker.security.mechanism import Refusal
from tidelog.broker.security.plain import PlainExchange

ALICE = new_credential("SCRAM-SHA-512", "pencil", b"salt")


class Users:
    def of(self, name: str) -> dict[str, Credential]:
        return {"SCRAM-SHA-512": ALICE} if name == "alice" else {}


@pytest.fixture(scope="module")
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as executor:
        yield executor


def exchange(pool: ThreadPoolExecutor) -> PlainExchange:
    users: Any = Users()
    return PlainExchange({"bob": "sécret"}, users, pool)


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
