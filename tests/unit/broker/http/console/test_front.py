"""Each page of a small world: what it says, that it is whole, and that every link on it leads somewhere."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from types import SimpleNamespace
from typing import Any

import pytest
from support.cleaning import CleaningWorld, put
from support.nodes import fake_node
from tidelog.broker.http.console.front import HEADERS, Console
from tidelog.broker.http.console.page_request import PageRequest
from tidelog.broker.metadata.creation_limits import Makers
from tidelog.broker.monitoring.node_state import NodeState
from tidelog.config.broker_config import BrokerConfig


class ConsoleOfTopics:
    """A console over two topics, one of them with a name that must be escaped in an address."""

    def __init__(self) -> None:
        self.world = CleaningWorld()
        self.world.start(segment_bytes=300)
        for number in range(20):
            put(self.world.log("t"), f"k{number % 3}", "v" * 20)
        put(self.world.log("with.dots_and-dashes", 2), "k", "v")
        self.topics: dict[str, Any] = {}
        self.node = fake_node(
            ready=True,
            config=BrokerConfig(),
            logs=self.world.manager,
            cleaner=SimpleNamespace(manager=self.world.cleaners, is_enabled=True),
            time=self.world.time,
            topics=SimpleNamespace(get=self.topics.get),
        )
        self.console = Console(self.node, SimpleNamespace(problems=list))  # type: ignore[arg-type]

    def get(self, path: str, **more: Any) -> tuple[str, str]:
        page = self.console.page(PageRequest("GET", path, authority="localhost", peer="127.0.0.1", **more))
        assert page is not None
        return page.status, page.body.decode()


@pytest.fixture
def console() -> Any:
    made = ConsoleOfTopics()
    yield made
    made.world.stop()


class Whole(HTMLParser):
    """Fails where an element is not closed in its order; keeps links and ids."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "link", "input", "br"):
            self.open.append(tag)
        self.links += [value or "" for name, value in attrs if name == "href"]
        assert not [name for name, _ in attrs if name.startswith("on") or name == "style"], "no script, no inline style"

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def check(body: str) -> Whole:
    parser = Whole()
    parser.feed(body)
    parser.close()
    assert parser.open == []
    assert body.startswith("<!doctype html>\n<html lang=")
    return parser


PAGES = ("/topics", "/topics/t", "/topics/t/0", "/topics/with.dots_and-dashes", "/topics/with.dots_and-dashes/2")


@pytest.mark.parametrize("path", PAGES)
def test_pages_are_whole_and_lead_to_each_other(console: ConsoleOfTopics, path: str) -> None:
    status, body = console.get(path)
    assert status == "200 OK", body
    links = check(body).links
    assert "/topics" in links
    assert path in links or path.rpartition("/")[0] in links


def test_topics_and_what_they_have(console: ConsoleOfTopics) -> None:
    _, body = console.get("/topics")
    row = r'<a href="/topics/t">t</a> </td><td class="number" data-label="partitions">1</td>'
    assert re.search(row, body)
    assert "the latest of each key" in body
    _, body = console.get("/topics", query={"q": "DOTS"})
    assert 'href="/topics/t"' not in body
    assert 'href="/topics/with.dots_and-dashes"' in body
    assert 'value="DOTS"' in body
    assert "No topic has such a name." in console.get("/topics", query={"q": "<b>"})[1]


def test_a_topic_says_who_made_it_and_its_partitions(console: ConsoleOfTopics) -> None:
    assert "nobody in particular" in console.get("/topics/t")[1]
    makers = Makers("User:<alice>", {"User:<alice>": 2, "User:bob": 1})
    console.topics["t"] = SimpleNamespace(makers=makers)
    assert "User:&lt;alice&gt;, User:bob (1 partition)" in console.get("/topics/t")[1]


def test_actions_are_offered_to_who_may_act(console: ConsoleOfTopics) -> None:
    assert "/actions/" not in console.get("/topics/t")[1]
    console.node.config = BrokerConfig(http_admin_enable=True)
    assert "/actions/clean?topic=t" in console.get("/topics/t")[1]
    assert "/actions/delete-records?topic=t&amp;partition=0" in console.get("/topics/t/0")[1]


def test_a_partition_says_in_words_what_the_picture_shows(console: ConsoleOfTopics) -> None:
    _, body = console.get("/topics/t/0")
    log = console.world.log("t")
    assert body.count("<rect ") == log.segment_count
    for segment in log.segments:
        assert f'<td class="number" data-label="segment">{segment.base_offset}</td>' in body
    assert '<span class="key active">active</span>' in body
    assert "min.cleanable.dirty.ratio" in body or "active" in body


def test_what_is_not_there(console: ConsoleOfTopics) -> None:
    for path in ("/topics/no", "/topics/t/7", "/topics/<b>"):
        status, body = console.get(path)
        assert status == "404 Not Found"
        assert "<b>" not in body
        check(body)
    for path in ("/other", "/topicsx", "/topics/t/x", "/topics/t/0/more"):
        assert console.console.page(PageRequest("GET", path)) is None


def test_while_logs_are_loaded(console: ConsoleOfTopics) -> None:
    console.node.ready = False
    status, body = console.get("/topics/t")
    assert status == "503 Service Unavailable"
    check(body)
    assert console.get("/console.css")[0] == "200 OK"


def test_before_a_node_has_its_parts() -> None:
    """While the directories are locked: what is no document says so too, and a page's frame needs no part of the node."""
    node = NodeState(BrokerConfig(), None, None)  # type: ignore[arg-type]
    console = Console(node, SimpleNamespace(problems=list))  # type: ignore[arg-type]
    for path in ("/", "/topics/t", "/topics/t/0/records/0/value"):
        page = console.page(PageRequest("GET", path, authority="localhost", peer="127.0.0.1"))
        assert page is not None
        assert page.status == "503 Service Unavailable"
        assert b"The daemon is loading its logs, or stops." in page.body


def test_names_that_somebody_else_may_have(console: ConsoleOfTopics) -> None:
    page = console.console.page(PageRequest("GET", "/topics/t", authority="evil.example"))
    assert page is not None
    assert page.status == "421 Misdirected Request"
    assert b"segments" not in page.body


def test_pages_that_only_show_take_no_post(console: ConsoleOfTopics) -> None:
    page = console.console.page(PageRequest("POST", "/topics", authority="localhost"))
    assert page is not None
    assert page.status == "405 Method Not Allowed"


@pytest.mark.parametrize("error", [OSError("disk <b>"), ValueError("secret")])
def test_a_page_that_can_not_be_made(
    console: ConsoleOfTopics, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: Any) -> Any:
        raise error

    monkeypatch.setattr("tidelog.broker.http.console.pages.topics.topics", fail)
    status, body = console.get("/topics")
    assert status == "500 Internal Server Error"
    assert "secret" not in body, "what is no error of the disk's is in the log"
    assert "disk &lt;b&gt;" in body or isinstance(error, ValueError)
    check(body)


def test_headers_of_an_answer(console: ConsoleOfTopics) -> None:
    """A page may load its own style and script and nothing else; nothing of it is kept, framed or guessed at."""
    page = console.console.answer({"PATH_INFO": "/topics", "HTTP_HOST": "127.0.0.1:9404", "REMOTE_ADDR": "127.0.0.1"})
    assert page is not None
    headers = dict(page.headers)
    assert set(HEADERS) <= set(page.headers)
    assert headers["Content-Length"] == str(len(page.body))
    policy = dict(part.strip().split(" ", 1) for part in headers["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert {policy[name] for name in ("style-src", "script-src", "connect-src", "form-action", "img-src")} == {"'self'"}
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-store"
    assert headers["Referrer-Policy"] == "same-origin", "no-referrer makes the Origin of our own forms null"
    bad = console.console.answer({"PATH_INFO": "/topics", "QUERY_STRING": "a" * 100_000, "HTTP_HOST": "localhost"})
    assert bad is not None
    assert bad.status == "413 Content Too Large"
    assert console.console.answer({"PATH_INFO": "/nothing"}) is None
