"""Flow of every action: a page that says exactly what will happen and asks, a POST, a page that says what happened.

Access to both is decided in `access.py` before anything here; the form carries its token. It also carries the facts that were
shown: an action does what was confirmed, also when the log has moved on since.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from .html import Element, element
from .layout import document, note
from .units import visible

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .page_request import Page, PageRequest
    from .state import ConsoleState

log = logging.getLogger(__name__)


class Plan(NamedTuple):
    """An action to confirm. `fields`: form fields to send back; `button`: its text; `back`: link to the page before;
    `other`: a form for another plan.
    """

    title: str
    says: Sequence[object]
    fields: Mapping[str, object]
    button: str
    back: Element
    other: Element | None = None


def ask(state: ConsoleState, request: PageRequest, plan: Plan) -> Page:
    """The page that asks for confirmation."""
    cookie, headers = state.tokens.cookie_for(request)
    fields = {**plan.fields, "token": state.tokens.token(cookie)}
    form = element(
        "form",
        [element("input", type="hidden", name=name, value=value) for name, value in fields.items()],
        element("p", element("button", plan.button, class_="act"), element("span", "or back to ", plan.back), class_="buttons"),
        method="post", action=request.path,
    )  # fmt: skip
    return document(state, request, plan.title, plan.says, form, plan.other, headers=headers)


def nothing_to_do(state: ConsoleState, request: PageRequest, title: str, *says: object, back: Element) -> Page:
    """There is nothing to confirm, and why."""
    return document(state, request, title, says, element("p", back))


def told(
    state: ConsoleState, request: PageRequest, title: str, text: str, *more: object, back: Element, is_well: bool = True
) -> Page:
    """The page that says what happened. Also a line in the daemon's log."""
    who = request.peer if request.user is None else f"{visible(request.user.name)} from {request.peer}"
    log.info("console: %s, for %s: %s", visible(title), who, visible(text))
    return document(
        state, request, title, note(visible(text), kind="good" if is_well else "bad"), more, element("p", back)
    )
