"""What a line says of a group that is not there: its name once. Against a daemon: tests/client/test_admin_commands.py."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tidelog.cli.support.missing import group_failure
from tidelog.protocol.errors import ErrorCode


def client_with(*groups: str) -> Any:
    """A daemon that lists these groups."""
    listed = SimpleNamespace(groups=[SimpleNamespace(group_id=name) for name in groups])
    return SimpleNamespace(ask=lambda request, response: listed)


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("Group gg not found.", "there is no such group"),
        ("Streams group gg not found.", "there is no such group"),
        ("Group gg is not a consumer group.", "is not a consumer group."),
        ("Group ggg not found.", "Group ggg not found."),
        ("The group gg is new.", "The group gg is new."),
        (None, "there is no such group"),
    ],
)
def test_a_group_is_named_once(message: str | None, said: str) -> None:
    text = str(group_failure(client_with(), "gg", ErrorCode.GROUP_ID_NOT_FOUND, message))
    assert text == f"group gg: {said} (`tidelog groups list` shows the groups)"


def test_the_nearest_name_follows() -> None:
    failure = group_failure(client_with("billing"), "biling", ErrorCode.GROUP_ID_NOT_FOUND, "Group biling not found.")
    assert str(failure) == "group biling: there is no such group; did you mean billing?"
