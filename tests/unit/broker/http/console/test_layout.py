"""The shell of a page: whatever is put into it stays text."""

from __future__ import annotations

from html.parser import HTMLParser
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

from hypothesis import given
from hypothesis import strategies as st
from tidelog.broker.http.console import layout
from tidelog.broker.http.console.page_request import PageRequest
from tidelog.config.broker_config import BrokerConfig

HOSTILE = st.text(min_size=1, max_size=30) | st.sampled_from(
    ["<script>alert(1)</script>", "\"><img src=x onerror=alert(1)>", "' onmouseover='x", "</title><b>", "&lt;b&gt;",
    "javascript:alert(1)"]
)  # fmt: skip
STATE: Any = SimpleNamespace(
    node=SimpleNamespace(ready=True, config=BrokerConfig()),
    services=SimpleNamespace(logs=SimpleNamespace(node_id=1)),
    may_act=lambda request: False,
)


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, tuple[str, ...]]] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, tuple(name for name, _ in attrs)))
        self.links += [value or "" for name, value in attrs if name in ("href", "action", "src")]


def tags(text: str) -> Tags:
    parser = Tags()
    parser.feed(text)
    parser.close()
    return parser


def page(text: str) -> str:
    """Everything that a page can have, with one text in each place."""
    made = layout.document(
        STATE, PageRequest("GET", "/topics", {"q": text}), text,
        layout.table((text, "b"), [(text, layout.topic_link(text, 5)), (text, layout.group_link(text))], {0}, caption=text),
        layout.facts((text, text)), layout.card(text, text), layout.badge(text), layout.note(text), layout.quiet(text),
        layout.get_form("/topics", layout.field("q", text, text, hint=text), layout.choice("c", text, text, [(text,
        text)]), kept=text),
        layout.live("live", text), layout.progress(1, 2, text), layout.button_link("Do it", "/actions/clean", topic=text),
        trail=(layout.link(text, "/topics", q=text),), is_live=True,
    )  # fmt: skip
    return made.body.decode()


PLAIN = tags(page("x"))


@given(HOSTILE)
def test_hostile_text_makes_no_markup(text: str) -> None:
    """The same elements with the same attributes, whatever is put in; every address is one of ours."""
    found = tags(page(text))
    assert found.found == PLAIN.found
    assert all((link.startswith("/") and not link.startswith("//")) or link == "#content" for link in found.links)


@given(HOSTILE)
def test_addresses_bring_back_what_was_put_in(text: str) -> None:
    parts = urlsplit(layout.address("/groups/group", id=text, none=None))
    assert parts.path == "/groups/group"
    assert parse_qs(parts.query, keep_blank_values=True) == {"id": [text.encode("utf-8", "replace").decode()]}


def test_a_live_page_renews_itself_with_and_without_scripts() -> None:
    live = layout.document(STATE, PageRequest("GET", "/cleaner"), "t", is_live=True).body.decode()
    assert '<noscript><meta http-equiv="refresh" content="5"></noscript>' in live
    assert '<script src="/console.js" defer=""></script>' in live
    assert 'href="/cleaner?live=no"' in live
    still = layout.document(STATE, PageRequest("GET", "/cleaner", {"live": "no"}), "t", is_live=True).body.decode()
    assert "<script" not in still
    assert "refresh" not in still


def test_where_one_is() -> None:
    body = layout.document(STATE, PageRequest("GET", "/topics/t/0"), "t-0").body.decode()
    assert '<a href="/topics" aria-current="page">Topics</a>' in body
    assert body.count("aria-current") == 1


def test_long_names_are_cut() -> None:
    assert layout.cut("x" * 500) == "x" * layout.LINE_CHARACTERS + "…"
    assert layout.cut("short") == "short"


def test_the_fields_of_an_address_may_have_any_name() -> None:
    """`?path=x` of a live page was a 500: its link took the field for its own path."""
    given = dict.fromkeys(("path", "text", "name", "query", "state", "request", "title"), "x")
    made = layout.document(STATE, PageRequest("GET", "/", given), "t", is_live=True).body.decode()
    (stop,) = [found for found in tags(made).links if "live=no" in found]
    assert parse_qs(urlsplit(stop).query) == {**{name: ["x"] for name in given}, "live": ["no"]}
