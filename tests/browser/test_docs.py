"""The documentation's site in Chromium: its search answers newcomers, its pages fit and can be read by everybody."""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

import pytest
from playwright.sync_api import Browser, Page
from support import docs_site
from support.axe import axe_findings
from support.patience import PATIENCE_S

#: What somebody new asks → the pages that answer it, of which one has to be among the first three found.
QUESTIONS = {
    "how do I install it": ("how-to/install", "QUICKSTART"),
    "quickstart": ("QUICKSTART",),
    "upgrade to a new version": ("how-to/upgrade",),
    "backup": ("how-to/back-up",),
    "restore": ("how-to/back-up",),
    "migrate from kafka": ("how-to/kafka-migration",),
    "enable TLS": ("how-to/tls-and-users",),
    "create user password": ("how-to/tls-and-users", "AUTHENTICATION"),
    "acl": ("how-to/acls", "ACCESS_CONTROL"),
    "oauth token": ("AUTHENTICATION",),
    "audit log": ("ACCESS_CONTROL", "OPERATING"),
    "limits": ("LIMITS",),
    "threat model": ("SECURITY",),
    "prometheus": ("how-to/monitor",),
    "power loss": ("DURABILITY",),
    "fsync": ("how-to/durability", "DURABILITY"),
    "java client": ("how-to/clients",),
    "mirrormaker": ("how-to/connect-and-mirrormaker",),
    "docker": ("CONTAINER",),
    "pytest": ("TESTING_WITH_TIDELOG",),
    "retention.ms": ("SETTINGS",),
    "compaction": ("tutorials/first-compaction", "CONCEPTS", "CLEANER"),
    "disk full": ("FAQ", "RUNBOOK", "DURABILITY"),
    "consumer lag": ("how-to/monitor", "METRICS", "FAQ"),
    "why are my old records still there": ("FAQ",),
    "topic is not compacted": ("FAQ",),
    "delete old data": ("DELETION_POLICIES", "FAQ"),
    "change settings": ("QUICKSTART", "SETTINGS"),
    "kubernetes": ("how-to/kubernetes",),
    "systemd service": ("how-to/service",),
    "roll back to the old version": ("how-to/upgrade",),
    "testcontainers": ("how-to/testcontainers",),
    "kafka connect": ("how-to/connect-and-mirrormaker",),
    "macos": ("how-to/install",),
    "debian package": ("how-to/service", "how-to/install", "how-to/upgrade"),
    "min.insync.replicas": ("SETTINGS", "FAQ"),
    "replication factor 3": ("FAQ", "how-to/kafka-migration"),
    "reset offsets of a group": ("FAQ", "COMMAND_LINE"),
    "web console": ("CONSOLE",),
    "which clients work": ("COMPATIBILITY", "how-to/clients", "FAQ"),
    "advertised listeners": ("CONTAINER", "FAQ", "SETTINGS"),
    "flush.messages": ("SETTINGS", "DURABILITY"),
    "tombstone": ("CONCEPTS", "tutorials/first-compaction"),
    "spark": ("PIPELINE",),
    "replication": ("FAQ",),
}
FIRST = 3


class Site(NamedTuple):
    """The built site: its files, and where they are served."""

    directory: Path
    root: str


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    directory = docs_site.build(tmp_path_factory.mktemp("site"))
    with docs_site.served(directory) as address:
        yield Site(directory, f"http://{address}")


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    try:
        yield context.new_page()
    finally:
        context.close()


def found(page: Page, site: Site, question: str) -> list[str]:
    """Names of the pages that the site's search shows for a question, best first."""
    page.goto(f"{site.root}/index.html?q={urllib.parse.quote(question)}")
    page.wait_for_function(
        "() => /document/.test(document.querySelector('.md-search-result__meta').textContent)",
        timeout=PATIENCE_S * 1000,
    )
    links = page.locator(".md-search-result__item > a.md-search-result__link").evaluate_all(
        "all => all.map(a => a.href)"
    )
    return list(dict.fromkeys(link.partition("?")[0].partition("#")[0] for link in links))


def test_newcomers_questions_find_their_pages(site: Site, page: Page) -> None:
    wrong = []
    for question, wanted in QUESTIONS.items():
        names = [name.removeprefix(f"{site.root}/").removesuffix(".html") for name in found(page, site, question)]
        if not set(names[:FIRST]) & set(wanted):
            wrong.append(f"'{question}' found {names}")
    assert wrong == []
    assert len(QUESTIONS) >= 20


def test_a_page_that_nobody_would_look_for_is_not_found(site: Site, page: Page) -> None:
    """That the order means something: decisions come after all others where both have the word."""
    for question in ("compaction", "security", "settings", "prometheus"):
        names = [name.removeprefix(f"{site.root}/") for name in found(page, site, question)]
        decisions = [number for number, name in enumerate(names) if name.startswith("adr/")]
        others = [number for number, name in enumerate(names) if not name.startswith("adr/")]
        assert others, names
        assert not [number for number in decisions if number < FIRST], f"'{question}': {names}"


# -- how pages look -------------------------------------------------------------------------------------------------------

WIDTHS = (390, 1440)
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
#: One page of each kind: a door, blocks of commands, pictures, long entries, wide tables, what is generated, a decision.
KINDS = (
    "index.html",
    "QUICKSTART.html",
    "tutorials/first-compaction.html",
    "how-to/acls.html",
    "CONCEPTS.html",
    "DURABILITY.html",
    "SETTINGS.html",
    "COMPATIBILITY.html",
    "FORMATS.html",
    "benchmarks/full.html",
    "adr/index.html",
    "adr/0070-four-doors.html",
)


def test_no_page_is_wider_than_its_window(site: Site, page: Page) -> None:
    every = sorted(str(path.relative_to(site.directory)) for path in site.directory.rglob("*.html"))
    names = [name for name in every if not re.match(r"adr/\d|404", name)] + ["adr/0070-four-doors.html"]
    assert len(names) > 40
    wide = []
    for name in names:
        page.goto(f"{site.root}/{name}", wait_until="domcontentloaded")
        for width in WIDTHS if name in KINDS else WIDTHS[:1]:
            page.set_viewport_size({"width": width, "height": 900})
            reached = page.evaluate("() => document.documentElement.scrollWidth")
            wide += [f"{name} at {width}: {reached}"] if reached > width else []
    assert wide == []


@pytest.mark.parametrize("name", KINDS)
def test_axe_finds_nothing(site: Site, page: Page, name: str) -> None:
    page.goto(f"{site.root}/{name}")
    found = []
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        only = None if scheme == "light" else ["color-contrast"]
        found += [f"{scheme}: {finding}" for finding in axe_findings(page, only=only)]
    assert found == []


def test_axe_finds_what_is_wrong(page: Page) -> None:
    page.set_content("<html lang=en><title>t</title><main><h1>h</h1><img src=x><p style='color:#ccc'>pale</p></main>")
    assert {finding.partition(":")[0] for finding in axe_findings(page)} >= {"image-alt", "color-contrast"}
    assert {finding.partition(":")[0] for finding in axe_findings(page, only=["image-alt"])} == {"image-alt"}
