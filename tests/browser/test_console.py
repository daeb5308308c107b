"""Each page of the console, in light and dark, on a wide and a narrow screen: what page_checks.py says must hold of it.

Pictures of all of them are kept in build/screenshots, for people to look at.
"""

from __future__ import annotations

import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page
from support.axe import axe_findings
from support.console_pages import kind_of, pages
from support.daemon import Daemon
from support.page_checks import drawn, keyboard
from support.patience import PATIENCE_S
from tidelog.broker.http.console.routes import ROUTES

Pictures = Callable[[str], Path]
WIDTHS = (1280, 360)
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
#: Pictures of long pages end here.
TALLEST = 4000


@contextmanager
def opened(browser: Browser, root: str, *, scripts: bool = True) -> Iterator[tuple[Page, list[str]]]:
    """A page of its own context, and what went wrong in it so far: errors of the console, requests to elsewhere."""
    context = browser.new_context(
        java_script_enabled=scripts, viewport={"width": 1280, "height": 800}, reduced_motion="reduce"
    )
    page = context.new_page()
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(f"console: {message.text}") if message.type != "log" else None)
    page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
    page.on("dialog", lambda dialog: (wrong.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    page.on(
        "request",
        lambda request: (
            None if urllib.parse.urlsplit(request.url).netloc == root else wrong.append(f"request to {request.url}")
        ),
    )
    page.on(
        "response",
        lambda response: wrong.append(f"{response.status} {response.url}") if response.status >= 400 else None,
    )
    try:
        yield page, wrong
    finally:
        context.close()


def picture_name(address: str) -> str:
    name = re.sub(r"[^A-Za-z0-9.]+", "_", urllib.parse.unquote(address)).strip("_") or "topics"
    return name if len(name) <= 80 else f"{name[:40]}...{name[-30:]}"


def look(page: Page, address: str, pictures: Pictures | None, name: str = "", *, tabs: bool = True) -> list[str]:
    """Findings of the open page in each light and width; a picture of each. `tabs`: also of Tab."""
    found = []
    for scheme in SCHEMES:
        for width in WIDTHS:
            page.emulate_media(color_scheme=scheme)
            page.set_viewport_size({"width": width, "height": 800})
            found += [f"{address} {scheme} {width}: {finding}" for finding in drawn(page)]
            if pictures is not None:
                height = min(page.evaluate("() => document.documentElement.scrollHeight"), TALLEST)
                clip = {"x": 0, "y": 0, "width": width, "height": max(height, 200)}
                path = pictures(f"{name}{picture_name(address)}.{scheme}.{width}")
                page.screenshot(path=path, full_page=True, clip=clip)
    for width in WIDTHS if tabs else ():
        page.set_viewport_size({"width": width, "height": 800})
        found += [f"{address} {width}: {finding}" for finding in keyboard(page)]
    return found


def without_figures(text: str) -> str:
    """`text` as it is at each moment: 9.9 s ago, 10 s ago and 2 min ago are the same, and so are 1.0 MiB and 990 KiB."""
    return re.sub(r"\bN (?:ms|s|min|h|d|B|KiB|MiB|GiB)\b", "N", re.sub(r"\d+(?:\.\d+)?", "N", text))


def words(page: Page) -> tuple[list[str], list[str]]:
    """Headings and links of a page, which say whether all of it is there."""
    headings = [without_figures(text) for text in page.locator("h1, h2, h3, th, label").all_text_contents()]
    return headings, [without_figures(text) for text in page.locator("a").all_text_contents()]


@pytest.mark.parametrize("which", ["full", "empty"])
def test_each_page_can_be_read_and_used(
    browser: Browser, screenshots: Pictures, request: pytest.FixtureRequest, which: str
) -> None:
    daemon: Daemon = request.getfixturevalue(which)
    found: list[str] = []
    kinds: set[str] = set()
    with (
        opened(browser, daemon.http) as (page, wrong),
        opened(browser, daemon.http, scripts=False) as (plain, wrong_plain),
    ):
        for address in pages(daemon.http):
            page.goto(f"http://{daemon.http}{address}")
            plain.goto(f"http://{daemon.http}{address}")
            assert words(page) == words(plain), f"{address} is another page without scripts"
            plain.goto("about:blank")  # it loads itself anew each few seconds, and that would abort the next one
            if page.locator("main[data-refresh]").count():  # what is looked at must not be renewed meanwhile
                page.goto(f"http://{daemon.http}{address}{'&' if '?' in address else '?'}live=no")
            is_first = kind_of(address) not in kinds
            kinds.add(kind_of(address))
            found += look(page, address, screenshots, "empty." if which == "empty" else "", tabs=is_first)
            found += [f"{address}: {one}" for one in wrong + wrong_plain]
            wrong.clear(), wrong_plain.clear()
    assert not found, f"{len(found)} findings:\n" + "\n".join(found)


def test_axe_finds_nothing_on_a_page_of_each_kind(browser: Browser, full: Daemon) -> None:
    kinds: set[str] = set()
    found: list[str] = []
    with opened(browser, full.http) as (page, _):
        for address in pages(full.http):
            if kind_of(address) in kinds:
                continue
            kinds.add(kind_of(address))
            page.goto(f"http://{full.http}{address}{'&' if '?' in address else '?'}live=no")
            for scheme in SCHEMES:
                page.emulate_media(color_scheme=scheme)
                only = None if scheme == "light" else ["color-contrast"]  # the rest has no colours
                found += [f"{address} {scheme}: {finding}" for finding in axe_findings(page, only=only)]
    assert found == []
    assert len(kinds) > 25


def test_what_holds_a_segment_leads_to_its_setting(browser: Browser, full: Daemon) -> None:
    with opened(browser, full.http, scripts=False) as (page, wrong):
        page.goto(f"http://{full.http}/topics/customers/0")
        because = page.locator("td a[href*='/settings#']").first
        name = str(because.get_attribute("href")).partition("#")[2]
        because.click()
        assert page.locator(f"article[id='{name}']").is_visible()
        assert wrong == []


def test_every_page_that_the_console_has_can_be_reached(full: Daemon) -> None:
    """Also what belongs to actions, which only ask: nothing happens before a form is sent."""
    kinds = {kind_of(address) for address in pages(full.http)}
    documents = {route.path for route in ROUTES if route.is_document}
    assert documents - kinds - {"/cleaner/requests/{number:request}"} == set(), "no link leads there"


def test_an_action_asks_first_and_is_done(browser: Browser, full: Daemon, screenshots: Pictures) -> None:
    """From the topic's page to what was removed, by clicks; then the same form from another site."""
    with opened(browser, full.http, scripts=False) as (page, wrong):
        page.goto(f"http://{full.http}/topics/both.policies")
        page.get_by_role("link", name="Clean now").click()
        assert "/actions/clean?topic=both.policies" in page.url
        assert drawn(page) == []
        form = page.locator("form[method=post]")
        fields = {one.get_attribute("name"): one.input_value() for one in form.locator("input[type=hidden]").all()}
        action = page.evaluate("(form) => form.action", form.element_handle())
        with page.expect_navigation():
            form.get_by_role("button").first.click()
        assert "/cleaner/requests/" in page.url
        deadline = time.monotonic() + PATIENCE_S
        while "done" not in page.locator("main").inner_text().lower():
            assert time.monotonic() < deadline, page.locator("main").inner_text()
            page.wait_for_timeout(200)
            page.reload()
        page.screenshot(path=screenshots("action.done"), full_page=True)
        assert drawn(page) == []
        assert wrong == []
    body = urllib.parse.urlencode({name or "": value for name, value in fields.items()}).encode()
    for headers in ({}, {"Origin": "http://evil.example"}, {"Origin": f"http://{full.http}"}):
        request = urllib.request.Request(action, body, headers, method="POST")
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=60)
        refused.value.close()
        assert refused.value.code == 403, f"{headers}: the form's token is nothing without the cookie"


def test_another_site_cannot_act(browser: Browser, full: Daemon) -> None:
    """A page from elsewhere (another port is another origin) sends the console's own form with the visitor's cookies."""
    context = browser.new_context()
    try:
        page = context.new_page()
        page.goto(f"http://{full.http}/actions/clean?topic=customers")
        form = page.locator("form[method=post]")
        markup = page.evaluate("(form) => { form.action = form.action; return form.outerHTML; }", form.element_handle())
        action = page.evaluate("(form) => form.action", form.element_handle())
        markup = re.sub(r'action="[^"]*"', "", markup).replace("<form", f'<form action="{action}"', 1)
        page.route("http://evil.example/", lambda route: route.fulfill(body=markup, content_type="text/html"))
        page.goto("http://evil.example/")
        with page.expect_response(lambda answer: answer.request.method == "POST") as answered:
            page.locator("form button").first.click()
        assert answered.value.status == 403
    finally:
        context.close()


#: Markup that breaks one rule each, and the finding.
BROKEN = {
    "white on white": ("<p style='color: #fefefe; background: #fff'>unseen</p>", "contrast: .*unseen.* has 1.0"),
    "grey on a dark box": ("<div style='background:#222'><p style='color:#555'>dim</p></div>", "contrast: .*dim"),
    "faded": ("<p style='opacity: .4'>faded</p>", "contrast: .*faded"),
    "text of a picture": (
        "<svg width=200 height=40><rect width=200 height=40 fill=black /><text y=20 fill='#333'>letters</text></svg>",
        "contrast: .*letters",
    ),
    "label before": (
        "<style>.b::before { content: 'label'; color: #ddd }</style><p class=b>x</p>",
        "contrast: .*label",
    ),
    "a field": (
        "<label>n <input name=field style='color: #ccc; background: #fff' value=v></label>",
        "contrast: .*field",
    ),
    "wide table": ("<table style='width: 2000px'><tr><td>wide</table>", "overflow: .*the page is 2\\d\\d\\d wide"),
    # The console's own style breaks long words.
    "one long word": (f"<p style='overflow-wrap: normal'>{'w' * 500}</p>", "overflow: .*the page is"),
    "cut off": (f"<p style='overflow: hidden; white-space: nowrap'>{'words ' * 100}</p>", "overflow: .*are cut off"),
    "letters outside": (
        "<svg style='width: 50px; overflow: visible'><text x=20 y=15>far out of it</text></svg>",
        "overflow: .*leaves its picture",
    ),
    "one on another": (
        "<p>below</p><p style='margin-top: -2.5em'>above</p>",
        "overlap: .*below.*above|overlap: .*above.*below",
    ),
    "svg on svg": (
        "<svg width=300 height=40><text x=5 y=20>first</text><text x=9 y=20>second</text></svg>",
        "overlap: .*first.*second",
    ),
    "covered": (
        "<p>hidden</p><div style='position: relative; top: -3em; height: 4em; background: #eee'></div>",
        "overlap: .*covered",
    ),
    "scrolls for the mouse alone": (
        "<div style='overflow: auto; width: 100px'><p style='width: 500px'>x</p></div>",
        "keyboard: .*can't have the focus",
    ),
    "no focus": (
        "<style>a.n:focus { outline: none !important }</style><a class=n href=#>go</a>",
        "keyboard: 'go' does not",
    ),
    "skipped": ("<button onfocus='this.nextElementSibling.focus()'>trap</button><a href=#>t</a>", "keyboard: "),
    "nameless": ("<a href='#'><svg width=5 height=5></svg></a>", "names: .*has no name"),
    "no label": ("<input name=alone>", "names: .*alone has no label"),
    "two of one id": ("<p id=same>1</p><p id=same>2</p>", "names: .*same is there twice"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_page_is_found(browser: Browser, empty: Daemon, case: str) -> None:
    markup, finding = BROKEN[case]
    with opened(browser, empty.http) as (page, _):
        page.goto(f"http://{empty.http}/")
        text = re.sub("<main[^>]*>", lambda main: main[0] + markup, page.content()).replace(
            '<link rel="stylesheet" href="/console.css">', f"<style>{page.request.get(f'http://{empty.http}/console.css').text()}</style>"
        )  # fmt: skip
        sound = look_at(page, text.replace(markup, ""))
        assert sound == []
        found = look_at(page, text)
        assert any(re.match(finding, one) for one in found), found


def look_at(page: Page, text: str) -> list[str]:
    page.goto("about:blank")
    page.set_content(text)
    page.set_viewport_size({"width": 1280, "height": 800})
    return drawn(page) + keyboard(page)


def test_errors_and_requests_to_elsewhere_are_found(browser: Browser, empty: Daemon) -> None:
    with opened(browser, "127.0.0.1:1") as (page, wrong):
        page.goto(f"http://{empty.http}/nothing-here")
        assert any(one.startswith("request to") for one in wrong)
        assert any(one.startswith("404 ") for one in wrong)
        assert any(one.startswith("console: ") for one in wrong)
