"""Actions on groups find the group that is meant; what they do is tests/client's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tidelog.broker.http.console.page_request import PageError, PageRequest
from tidelog.broker.http.console.pages import group_actions

NAMES = ("g", " g", "g ", "\tg\n", " ")


class _Stopped(Exception):
    pass


@pytest.mark.parametrize("name", NAMES)
def test_the_group_that_is_deleted_is_the_one_that_was_confirmed(name: str) -> None:
    """Blanks around its name were left out: who deleted " g" lost the offsets of "g"."""
    asked: list[Any] = []

    def ask(_key: Any, request: Any, **_: Any) -> Any:
        asked.append(request)
        raise _Stopped

    state: Any = SimpleNamespace(calls=SimpleNamespace(ask=ask))
    with pytest.raises(_Stopped):
        group_actions.delete_group(state, PageRequest("POST", "/actions/delete-group", form={"group": name}))
    assert asked[0].groups_names == [name]


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("action", [group_actions.reset_offsets, group_actions.delete_group])
@pytest.mark.parametrize("name", NAMES)
def test_actions_look_for_a_group_by_its_whole_name(
    monkeypatch: pytest.MonkeyPatch, action: Any, method: str, name: str
) -> None:
    if (action, method) == (group_actions.delete_group, "POST"):
        return  # it has no need to look
    looked: list[str] = []

    def find(_state: Any, group_id: str) -> Any:
        looked.append(group_id)
        raise PageError("404 Not Found", "stop")

    monkeypatch.setattr(group_actions, "find_group", find)
    state: Any = SimpleNamespace()
    with pytest.raises(PageError):
        action(state, PageRequest(method, "/actions", {"group": name}, {"group": name}))
    assert looked == [name]
