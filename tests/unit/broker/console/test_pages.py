"""Each page of a small world: what it says, that it is whole, and that every link on it leads somewhere."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from types import SimpleNamespace
from typing import Any

import pytest
from support.cleaning import CleaningWorld, put
from tidelog.broker.console.pages import POLICY, Console
from tidelog.broker.health import Problem


class World:
    """A console over two topics, one of them with a name that must be escaped in an address."""

    def __init__(self) -> None:
        self.world = CleaningWorld()
        self.world.start(segment_bytes=300)
        for number in range(20):
            put(self.world.log("t"), f"k{number % 3}", "v" * 20)
        put(self.world.log("with.dots_and-dashes", 2), "k", "v")
        self.problems: list[Problem] = []
        self.broker = SimpleNamespace(
            ready=True,
            logs=self.world.manager,
            cleaner=SimpleNamespace(manager=self.world.cleaners, is_enabled=True),
        )
        self.console = Console(self.broker, SimpleNamespace(problems=lambda: iter(self.problems)))  # type: ignore[arg-type]

    def get(self, path: str) -> tuple[str, str]:
        page = self.console.page(path)
        assert page is not None
        return page.status, page.body.decode()


@pytest.fixture
def console() -> Any:
    made = World()
    yield made
    made.world.stop()


class Whole(HTMLParser):
    """Fails where an element is not closed in its order; keeps links and ids."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "link"):
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
    assert "<script" not in body
    return parser


def test_every_page_is_whole_and_every_link_leads_somewhere(console: World) -> None:
    seen, ahead = set(), ["/"]
    while ahead:
        path = ahead.pop()
        if path in seen:
            continue
        seen.add(path)
        status, body = console.get(path)
        assert status == "200 OK", path
        if not path.endswith(".css"):
            ahead += check(body).links
    assert seen == {
        "/", "/console.css", "/topics/t", "/topics/t/0", "/topics/with.dots_and-dashes", "/topics/with.dots_and-dashes/2",
    }  # fmt: skip


def test_the_first_page_has_topics_and_what_is_wrong(console: World) -> None:
    _, body = console.get("/")
    assert re.search(r'<a href="/topics/t">t</a></td><td class="number" data-label="partitions">1</td>', body)
    assert "warning" not in body
    console.problems.append(Problem("flush_behind", "t-0", "late <b>"))
    assert '<p class="warning">flush_behind: t-0 late &lt;b&gt;</p>' in console.get("/")[1]


def test_a_partition_says_in_words_what_the_picture_shows(console: World) -> None:
    _, body = console.get("/topics/t/0")
    log = console.world.log("t")
    assert body.count("<rect ") == log.segment_count
    for segment in log.segments:
        assert f'<td class="number" data-label="segment">{segment.base_offset}</td>' in body
    assert '<span class="key active">active</span>' in body
    assert "min.cleanable.dirty.ratio" in body or "active" in body


def test_what_is_not_there(console: World) -> None:
    for path in ("/topics/no", "/topics/t/7", "/topics/t/x", "/topics/<b>", "/topics/t/0/more"):
        status, body = console.get(path)
        assert status == "404 Not Found"
        assert "<b>" not in body
        check(body)
    assert console.console.page("/other") is None
    assert console.console.page("/topicsx") is None


def test_while_logs_are_loaded(console: World) -> None:
    console.broker.ready = False
    status, body = console.get("/topics/t")
    assert status == "503 Service Unavailable"
    check(body)


def test_a_page_may_load_its_style_and_nothing_else() -> None:
    assert POLICY.startswith("default-src 'none'; style-src 'self'")
