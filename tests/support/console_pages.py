"""Finds the pages of a console by following its links, as a reader would, and says which of them are enough to look at.

Pages of one kind differ in their topic, partition, group or offset alone; of each kind the first few are taken, in the order of
`FIRST`, since those are the topics with something special to show.
"""

from __future__ import annotations

import re
import urllib.parse
import urllib.request
from collections import Counter
from html.parser import HTMLParser
from typing import NamedTuple

from support.console_world import LONG_NAME
from tidelog.broker.http.console.routes import find

FIRST = ("customers", "hostile", LONG_NAME, "orders", "payments", "broken")
MOST_OF_A_KIND = 2
AT_REST = " at rest"
#: Kinds whose pages differ most by what they are about.
MANY = {"/topics/{topic}": 4, "/topics/{topic}/{number:partition}": 6, "/topics/{topic}/{number:partition}/records": 4}
#: Links that lead on for ever (from offset to offset) end here.
MOST_PAGES = 400


class Fetched(NamedTuple):
    """An answer of the console's."""

    kind: str
    text: str


class _Links(HTMLParser):
    """Links, and forms that only ask, as they are sent with what is in them."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._form: str | None = None
        self._hidden: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "a" and "href" in given:
            self.found.append(given["href"].partition("#")[0])  # a fragment is the browser's own
        elif tag == "form" and given.get("method", "get") == "get":
            self._form, self._hidden = given.get("action", ""), []
        elif tag == "input" and given.get("type") == "hidden" and "name" in given:
            self._hidden.append((given["name"], given.get("value", "")))

    def handle_endtag(self, tag: str) -> None:
        if tag == "form" and self._form is not None:
            self.found.append(self._form + (f"?{urllib.parse.urlencode(self._hidden)}" if self._hidden else ""))
            self._form = None


def get(url: str) -> Fetched:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return Fetched(answer.headers.get_content_type(), answer.read().decode("utf-8", "replace"))


def links(text: str) -> list[str]:
    parser = _Links()
    parser.feed(text)
    return parser.found


def kind_of(address: str) -> str:
    """What pages of one kind have in common: the route, whatever topic, offset or search it is about. A page that renews itself
    is of another kind where it is at rest."""
    parts = urllib.parse.urlsplit(address)
    path = urllib.parse.unquote(parts.path)
    found = find(path)
    kind = path if found is None else found[0].path
    return f"{kind}{AT_REST}" if "live=no" in parts.query else kind


def _rank(address: str) -> tuple[int, bool, int]:
    name = next(
        (at for at, topic in enumerate(FIRST) if f"/{urllib.parse.quote(topic, safe='')}" in address), len(FIRST)
    )
    return name, bool(re.search(r"/(?!0\b)\d+\b", urllib.parse.urlsplit(address).path)), len(address)


def pages(root: str) -> list[str]:
    """Addresses (path and query) of pages that can be reached from `root`, a few of each kind, `/` first."""
    found: list[str] = []
    of_kind: Counter[str] = Counter()
    seen, waiting = {"/"}, ["/"]
    while waiting and len(found) < MOST_PAGES:
        waiting.sort(key=_rank)
        address = waiting.pop(0)
        kind = kind_of(address)
        if of_kind[kind] >= (1 if kind.endswith(AT_REST) else MANY.get(kind, MOST_OF_A_KIND)):
            continue
        fetched = get(f"http://{root}{address}")
        if fetched.kind != "text/html":
            continue
        of_kind[kind] += 1
        found.append(address)
        for link in links(fetched.text):
            target = urllib.parse.urlsplit(urllib.parse.urljoin(f"http://{root}{address}", link))
            assert target.netloc == root, f"{address} links to elsewhere: {link}"
            onward = target.path + (f"?{target.query}" if target.query else "")
            if onward not in seen:
                seen.add(onward)
                waiting.append(onward)
    return found
