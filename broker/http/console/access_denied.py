"""The page that a browser gets instead of one it may not see: in the console's style, and nothing on it about this daemon."""

from __future__ import annotations

from .front import HEADERS
from .html import element
from .layout import html_text, note
from .page_request import Page
from .units import visible


def access_denied(status: str, text: str) -> Page:
    """Return the page; the caller adds the headers of its own refusal."""
    title = status.partition(" ")[2]
    body = element(
        "body",
        element("header", element("a", "tidelog", href="/", class_="brand")),
        element(
            "main",
            element("h1", title),
            note(visible(text), kind="bad"),
            element("p", element("a", "Sign in", href="/")),
            id="content",
        ),
    )
    page = html_text(title, body)
    own = (("Content-Type", "text/html; charset=utf-8"), ("Content-Length", str(len(page))))
    return Page(status, own[0][1], page, own + tuple(pair for pair in HEADERS if pair[0] != "Cache-Control"))
