"""Layout of all pages: head, navigation, tables, lists of facts, notes, forms. Knows nothing of logs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from .html import Element, element
from .page_request import OK, Page
from .routes import SECTIONS, find
from .units import visible

if TYPE_CHECKING:
    from .page_request import PageRequest
    from .state import ConsoleState

REFRESH_S = 5
LINE_CHARACTERS = 160
"""Maximum length of a client's name in a line; the rest is cut off."""


def document(
    state: ConsoleState,
    request: PageRequest,
    title: str,
    *content: object,
    status: str = OK,
    trail: Iterable[Element] = (),
    is_live: bool = False,
    headers: tuple[tuple[str, str], ...] = (),
) -> Page:
    """A whole page. `trail`: links to what it is a part of. `is_live`: its parts made by `live` are renewed while it is looked
    at, by the script or, without scripts, by loading it again; `?live=no` is the same page at rest.
    """
    refreshes = is_live and request.query.get("live") != "no"
    found = find(request.path)
    section = found[0].section if found is not None else ""
    navigation = [
        element("li", element("a", name, href=path, aria_current="page" if path == section else None))
        for path, name in SECTIONS
    ]
    crumbs = [[crumb, element("span", " / ", aria_hidden="true")] for crumb in trail]
    node = state.node
    head = (
        element("noscript", element("meta", http_equiv="refresh", content=REFRESH_S)),
        element("script", src="/console.js", defer=True),
    )
    body = element(
        "body",
        element("a", "Skip to content", href="#content", class_="skip"),
        element(
            "header",
            element("a", "tidelog", href="/", class_="brand"),
            element("nav", element("ul", navigation), aria_label="Pages"),
        ),
        element(
            "main",
            element("nav", crumbs, class_="crumbs", aria_label="Where this is") if crumbs else None,
            element("h1", visible(title)),
            _live_line(request, refreshes) if is_live else None,
            content,
            id="content",
            tabindex=-1,
            data_refresh=REFRESH_S if refreshes else None,
        ),
        element(
            "footer",
            element("span", f"tidelog {version()}"),
            element("span", f"node {state.services.logs.node_id}") if node.ready else None,
            element("span", "actions are on" if state.may_act(request) else "shows only"),
            element("a", "metrics", href="/metrics"),
            _signed_in(request),
        ),
    )
    return Page(status, "text/html; charset=utf-8", html_text(title, body, head if refreshes else ()), headers)


def html_text(title: str, body: Element, head: Iterable[Element] = ()) -> bytes:
    """Encode a page of this title. `head`: what its head has beside what all have."""
    page = element(
        "html",
        element(
            "head",
            element("meta", charset="utf-8"),
            element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            element("meta", name="color-scheme", content="light dark"),
            element("title", f"{visible(title)} - tidelog"),
            element("link", rel="stylesheet", href="/console.css"),
            element("link", rel="icon", type="image/svg+xml", href="/console.svg"),
            head,
        ),
        body,
        lang="en",
    )
    return f"<!doctype html>\n{page}\n".encode("utf-8", "replace")


def _signed_in(request: PageRequest) -> Element | None:
    user = request.user
    if user is None:
        return None
    who = f"signed in as {visible(cut(user.name))} ({user.role.name.lower()})"
    if user.by_certificate:
        return element("span", f"{who} by a certificate")
    return element("span", f"{who}, ", link("sign out", "/sign-out", user=user.name))


@cache
def version() -> str:
    from importlib import metadata

    return metadata.version("tidelog")


def _live_line(request: PageRequest, refreshes: bool) -> Element:
    kept = {name: value for name, value in request.query.items() if name != "live"}
    if refreshes:
        stop = link("stop", request.path, **kept, live="no")
        return element("p", f"Renewed every {REFRESH_S} s. ", stop, class_="quiet small", data_live_line=True)
    return element("p", "At rest. ", link("renew it while I look", request.path, **kept), class_="quiet small")


def live(name: str, *content: object) -> Element:
    """A part of a live page; `name` is its own on the page."""
    return element("div", content, id=name, data_live=True)


def link(text: object, path: str, /, **query: object) -> Element:
    """A link. Parameters that are None are left out."""
    shown = text if isinstance(text, Element) else visible(str(text))
    return element("a", shown, href=address(path, **query))


def address(path: str, /, **query: object) -> str:
    """A path of ours with a query; names may end in an underscore."""
    given = {name.rstrip("_"): value for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(given, errors='replace')}" if given else path


def topic_path(topic: str, *more: object) -> str:
    return "/".join(["/topics", quote(topic, safe=""), *map(str, more)])


def topic_link(topic: str, partition: int | None = None, text: object = None) -> Element:
    """A link to a topic, or a partition."""
    if partition is None:
        return link(topic if text is None else text, topic_path(topic))
    return link(partition if text is None else text, topic_path(topic, partition))


def group_link(group_id: str) -> Element:
    return link(cut(group_id) or "(no name)", "/groups/group", id=group_id)


def cut(text: str, characters: int = LINE_CHARACTERS) -> str:
    """Shorten a long text to its beginning."""
    return text if len(text) <= characters else f"{text[:characters]}…"


def table(
    heads: Sequence[object], rows: Iterable[Sequence[object]], numbers: Iterable[int] = (), *, caption: str
) -> Element:
    """Columns in `numbers` are set to the right. On a small screen each cell has its head before it."""
    right = frozenset(numbers)

    def cell(name: str, column: int, head: object, value: object) -> Element:
        is_head = name == "th"
        return element(
            name, visible(value) if isinstance(value, str) else value,
            class_="number" if column in right else None,
            scope="col" if is_head else None,
            data_label=None if is_head or not head else head,
        )  # fmt: skip

    # A column without a head has no th: whoever hears the table would be told of a heading that says nothing.
    heading = [cell("th" if head else "td", column, head, head) for column, head in enumerate(heads)]
    top = element("thead", element("tr", heading))
    body = [
        element("tr", [cell("td", n, head, value) for n, (head, value) in enumerate(zip(heads, row, strict=True))])
        for row in rows
    ]
    whole = element("table", element("caption", caption, class_="unseen"), top, element("tbody", body))
    return element("div", whole, class_="wide", tabindex=0, role="region", aria_label=caption)


def facts(*pairs: tuple[str, object] | None) -> Element:
    """Names and values, side by side. Pairs that are None are left out."""
    return element(
        "dl",
        [
            element("div", element("dt", name), element("dd", visible(value) if isinstance(value, str) else value))
            for name, value in (pair for pair in pairs if pair is not None)
        ],
        class_="facts",
    )


def card(title: object, *content: object, more: Element | None = None) -> Element:
    """A part of a page with a heading; `more` is a link to where there is more."""
    return element("section", element("h2", title, [" ", more] if more is not None else None), content, class_="card")


def cards(*content: object) -> Element:
    return element("div", content, class_="cards")


def badge(text: object, kind: str = "plain") -> Element:
    """A word that stands out; kinds: plain, good, warn, bad, and the sections of a log."""
    return element("span", text, class_=f"badge {kind}")


def one_line(content: object) -> Element:
    """Words that stay on one line of a table where there is room for them."""
    return element("span", content, class_="one-line")


def note(*content: object, kind: str = "plain") -> Element:
    """A line that should be read; kinds: plain, good, warn, bad."""
    return element("p", content, class_=f"note {kind}", role="alert" if kind == "bad" else None)


def quiet(*content: object) -> Element:
    return element("p", content, class_="quiet")


def button_link(text: str, path: str, **query: object) -> Element:
    """A link that leads to an action's page."""
    return element("a", text, href=address(path, **query), class_="button")


def field(
    name: str, label: str, value: str = "", *, kind: str = "text", hint: str | None = None, **more: object
) -> Element:
    """A labelled input of a form."""
    return element(
        "p",
        element("label", label, for_=f"field-{name}"),
        element(
            "input", type=kind, name=name, id=f"field-{name}", value=value, autocomplete="off", spellcheck="false",
            aria_describedby=f"hint-{name}" if hint else None, **more,
        ),
        element("small", hint, id=f"hint-{name}", class_="quiet") if hint else None,
        class_="field",
    )  # fmt: skip


def choice(name: str, label: str, chosen: str, options: Sequence[tuple[str, str]]) -> Element:
    """A labelled list to choose from: (value, text)."""
    return element(
        "p",
        element("label", label, for_=f"field-{name}"),
        element(
            "select",
            [element("option", text, value=value, selected=value == chosen) for value, text in options],
            name=name, id=f"field-{name}",
        ),
        class_="field",
    )  # fmt: skip


def get_form(path: str, *fields: object, button: str = "Show", **kept: object) -> Element:
    """A form that asks for a page; `kept` goes with it unseen."""
    return element(
        "form",
        [
            element("input", type="hidden", name=name.rstrip("_"), value=value)
            for name, value in kept.items()
            if value is not None
        ],
        fields,
        element("p", element("button", button), class_="field"),
        action=path, method="get", class_="bar",
    )  # fmt: skip


def progress(value: float, of: float, label: str) -> Element:
    """A bar that shows `value` out of `of`, in whole units of any kind; `label` is read to those who cannot see it."""
    return element("progress", f"{label}", value=f"{value:.0f}", max=f"{max(of, 1):.0f}", aria_label=label)
