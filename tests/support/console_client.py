"""A browser of few abilities for the console: pages as text, forms as they are sent, and what a page says of itself."""

from __future__ import annotations

import http.client
import re
import urllib.parse
from collections.abc import Mapping
from html.parser import HTMLParser
from typing import NamedTuple

_VOID = ("meta", "link", "input", "br", "img", "hr")


class Answer(NamedTuple):
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def words(self) -> str:
        """What a reader sees, spaces made one."""
        parser = Page()
        parser.feed(self.text)
        return re.sub(r"\s+", " ", " ".join(parser.words))

    @property
    def page(self) -> Page:
        parser = Page()
        parser.feed(self.text)
        parser.close()
        assert parser.open == [], "an element is not closed"
        return parser


class Page(HTMLParser):
    """Fails where an element is not closed in its order, and on script or style within the page."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.words: list[str] = []
        self.tags: list[str] = []
        self.forms: list[dict[str, str]] = []
        self.inputs: dict[str, str] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.tags.append(tag)
        if tag not in _VOID:
            self.open.append(tag)
        if tag == "a":
            self.links.append(given["href"])
        if tag == "form":
            self.forms.append(given)
        if tag == "input" and self.forms and self.forms[-1].get("method") == "post":
            self.inputs[given["name"]] = given.get("value", "")
        assert not [name for name in given if name.startswith("on") or name == "style"], given
        assert tag != "script" or given.get("src") == "/console.js"

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}>"

    def handle_data(self, data: str) -> None:
        self.words.append(data)


class Browser:
    """Asks one console. Keeps its cookie, as a browser does."""

    def __init__(self, url: str, host: str = "127.0.0.1") -> None:
        self.address = urllib.parse.urlsplit(url).netloc
        self.host = f"{host}:{self.address.rpartition(':')[2]}"
        self.cookie = ""

    def ask(self, method: str, path: str, body: str | None = None, headers: Mapping[str, str] | None = None) -> Answer:
        connection = http.client.HTTPConnection(self.address, timeout=60)
        sent = {"Host": self.host, **({"Cookie": self.cookie} if self.cookie else {}), **(headers or {})}
        try:
            connection.request(method, path, body, {name: value for name, value in sent.items() if value})
            answer = connection.getresponse()
            found = Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
        finally:
            connection.close()
        if cookie := found.headers.get("set-cookie"):
            self.cookie = cookie.partition(";")[0]
        return found

    def get(self, path: str) -> Answer:
        return self.ask("GET", path)

    def post(self, path: str, fields: Mapping[str, str], **headers: str) -> Answer:
        """A form of a page of the console itself, unless `headers` say otherwise (names with underscores)."""
        given = {
            "Content-Type": "application/x-www-form-urlencoded",
            "Origin": f"http://{self.host}",
            "Sec-Fetch-Site": "same-origin",
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        return self.ask("POST", path, urllib.parse.urlencode(fields), given)

    def confirm(self, path: str) -> Answer:
        """Loads an action's page and says yes; follows where that leads."""
        asked = self.get(path)
        assert asked.status == 200, asked.words
        page = asked.page
        confirming = [form for form in page.forms if form["method"] == "post"]
        assert len(confirming) == 1, f"nothing to confirm: {asked.words}"
        (form,) = confirming
        answer = self.post(form["action"], page.inputs)
        return self.get(answer.headers["location"]) if answer.status == 303 else answer
