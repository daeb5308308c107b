"""Strangers show what users show. What is compared is made here by hand, as an attacker would sort names."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from tidelog.broker.security.credentials import KAFKAS, MOST_SHAPES, Credential, Shape, Users, shape_of
from tidelog.broker.security.sasl.disguise import Disguise

MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
NAMES = [f"name-{number}" for number in range(1000)]
SECRET = b"kept in metadata.db"


class Store:
    def set_resource(self, *what: object) -> asyncio.Future[None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        future.set_result(None)
        return future


def users(*credentials: tuple[int, bytes]) -> Users:
    """One for each pair of iterations and salt, with SCRAM-SHA-256 alone."""
    store: Any = Store()
    stored = {
        f"user-{number}": {"SCRAM-SHA-256": Credential(salt, b"k", b"k", iterations).text()}
        for number, (iterations, salt) in enumerate(credentials)
    }
    return Users(stored, store)


def test_a_stranger_has_another_salt_for_each_mechanism_as_users_have() -> None:
    disguise = Disguise(SECRET)
    shown = {disguise.credential(mechanism, name).salt for mechanism in MECHANISMS for name in NAMES}
    assert len(shown) == len(NAMES) * len(MECHANISMS)


def test_a_stranger_shows_the_same_to_whoever_has_the_secret_and_something_else_under_another() -> None:
    for mechanism in MECHANISMS:
        for name in NAMES[:20]:
            assert Disguise(SECRET).credential(mechanism, name) == Disguise(SECRET).credential(mechanism, name)
            assert Disguise(SECRET).credential(mechanism, name) != Disguise(b"other").credential(mechanism, name)


def test_where_there_are_no_users_strangers_show_what_users_would_that_are_made_here() -> None:
    assert {shape_of(Disguise(SECRET, users().shapes).credential("SCRAM-SHA-256", name)) for name in NAMES} == {
        Shape(4096, 16)
    }


def test_strangers_have_the_iterations_and_sizes_of_salts_that_users_have_as_often_as_they_do() -> None:
    known = users(*[(4096, b"\xff" * 16)] * 6, *[(16384, b"\xff" * 16)] * 3, *[(8192, b"\xff" * 40)])
    disguise = Disguise(SECRET, known.shapes)
    shown = [shape_of(disguise.credential("SCRAM-SHA-256", name)) for name in NAMES]
    assert 520 < shown.count(Shape(4096, 16)) < 680
    assert 230 < shown.count(Shape(16384, 16)) < 370
    assert 60 < shown.count(Shape(8192, 40)) < 140
    assert {*shown} == {Shape(4096, 16), Shape(16384, 16), Shape(8192, 40)}
    other = [shape_of(disguise.credential("SCRAM-SHA-512", name)) for name in NAMES]
    assert {*other} == {Shape(4096, 16)}, "which nobody has credentials of"


def test_salts_of_kafkas_admin_clients_are_met_by_salts_like_them() -> None:
    disguise = Disguise(SECRET, users((4096, b"1v4mxv6ixvbvz57dqv8emxlazp")).shapes)
    salts = [disguise.credential("SCRAM-SHA-256", name).salt.decode() for name in NAMES]
    assert all(re.fullmatch("[0-9a-z]+", salt) for salt in salts)
    numbers = [int(salt, 36) for salt in salts]
    assert max(numbers) < 1 << 130
    assert 400 < sum(number >= 1 << 129 for number in numbers) < 600
    assert {shape_of(disguise.credential("SCRAM-SHA-256", name)).salt_bytes for name in NAMES} == {KAFKAS}


async def test_few_strangers_change_when_a_user_is_added_and_none_when_a_password_is_changed() -> None:
    known = users(*[(4096, b"\xff" * 16)] * 50, *[(8192, b"\xff" * 16)] * 50)
    disguise = Disguise(SECRET, known.shapes)
    before = [disguise.credential("SCRAM-SHA-256", name) for name in NAMES]
    await known.change("user-0", {"SCRAM-SHA-256": Credential(b"\xfe" * 16, b"other", b"other", 4096)})
    assert [disguise.credential("SCRAM-SHA-256", name) for name in NAMES] == before
    await known.change("new", {"SCRAM-SHA-256": Credential(b"\xfe" * 16, b"k", b"k", 16384)})
    after = [disguise.credential("SCRAM-SHA-256", name) for name in NAMES]
    changed = [new for old, new in zip(before, after, strict=True) if old != new]
    assert 0 < len(changed) < 30
    assert {credential.iterations for credential in changed} == {16384}
    await known.change("new", {"SCRAM-SHA-256": None})
    assert [disguise.credential("SCRAM-SHA-256", name) for name in NAMES] == before


def test_work_for_a_stranger_is_bounded_however_many_kinds_of_credentials_there_are() -> None:
    known = users(*[(4096 + number, b"\xff" * 16) for number in range(5 * MOST_SHAPES)], (4096, b"\xff" * 16))
    assert len(known.shapes("SCRAM-SHA-256")) == MOST_SHAPES
    assert known.shapes("SCRAM-SHA-256")[0] == (Shape(4096, 16), 2)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_keys_of_a_stranger_are_of_the_hashes_size(mechanism: str) -> None:
    credential = Disguise(SECRET).credential(mechanism, "x")
    assert len(credential.stored_key) == len(credential.server_key) == {"6": 32, "2": 64}[mechanism[-1]]
