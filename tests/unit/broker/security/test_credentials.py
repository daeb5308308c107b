from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tidelog.broker.security.credentials import Credential, Users, is_password, new_credential, parse_credential


class Store:
    def __init__(self) -> None:
        self.resources: dict[tuple[str, str], dict[str, str]] = {}
        self.error: Exception | None = None

    def set_resource(self, kind: str, resource: str, settings: dict[str, str]) -> asyncio.Future[None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self.error is not None:
            future.set_exception(self.error)
        else:
            self.resources[kind, resource] = settings
            future.set_result(None)
        return future


@given(st.builds(Credential, st.binary(min_size=1), st.binary(), st.binary(), st.integers(4096, 16384)))
def test_what_is_stored_is_read_again(credential: Credential) -> None:
    assert parse_credential(credential.text()) == credential


@pytest.mark.parametrize("text", ["", "salt=a", "salt=AA==,stored_key=AA==,server_key=AA==,iterations=x", "é"])
def test_what_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a stored SCRAM credential"):
        parse_credential(text)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_password_is_known_by_its_credential(mechanism: str) -> None:
    credential = new_credential(mechanism, "pencil", b"salt")
    assert is_password(credential, mechanism, "pencil")
    assert not is_password(credential, mechanism, "Pencil")
    assert "pencil" not in repr(credential)


async def test_users_are_changed_as_a_whole_and_damage_costs_one_credential(caplog: pytest.LogCaptureFixture) -> None:
    one, two = new_credential("SCRAM-SHA-256", "a", b"s"), new_credential("SCRAM-SHA-512", "a", b"t")
    store: Any = Store()
    users = Users({"alice": {"SCRAM-SHA-256": one.text(), "SCRAM-SHA-512": "rubbish"}}, store)
    assert users.names() == ["alice"]
    assert dict(users.of("alice")) == {"SCRAM-SHA-256": one}
    assert "SCRAM-SHA-512 credential of user 'alice' is damaged" in caplog.text
    await users.change("alice", {"SCRAM-SHA-512": two, "SCRAM-SHA-256": None})
    assert dict(users.of("alice")) == {"SCRAM-SHA-512": two}
    assert store.resources["scram", "alice"] == {"SCRAM-SHA-512": two.text()}
    await users.change("alice", {"SCRAM-SHA-512": None})
    assert (users.names(), dict(users.of("alice")), store.resources["scram", "alice"]) == ([], {}, {})


async def test_what_could_not_be_stored_does_not_hold() -> None:
    store: Any = Store()
    store.error = OSError("disk full")
    users = Users({}, store)
    with pytest.raises(OSError, match="disk full"):
        await users.change("alice", {"SCRAM-SHA-256": new_credential("SCRAM-SHA-256", "a", b"s")})
    assert users.names() == []


async def test_a_user_whose_password_changes_is_never_gone_meanwhile() -> None:
    """Threads of HTTP look while the loop changes: a right password would be a failed attempt."""
    seen: list[bool] = []

    class Watched(Users):
        def _count(self, *of: Any) -> None:
            seen.append(bool(self.of("alice")))
            super()._count(*of)

    one, two = new_credential("SCRAM-SHA-256", "a", b"s"), new_credential("SCRAM-SHA-256", "b", b"t")
    store: Any = Store()
    users = Watched({"alice": {"SCRAM-SHA-256": one.text()}}, store)
    await users.change("alice", {"SCRAM-SHA-256": two})
    assert seen == [True, True, True]
