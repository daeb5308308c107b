"""The documentation as a site: it builds strictly, needs nothing from elsewhere, and what its pages say to run does run."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import urllib.parse
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType

import pytest
from support.documentation import DOCS, ROOT, blocks, pages
from support.page_runs import PageRun


def module_at(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(built)]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return built


class Page(HTMLParser):
    """What a built page loads, where it leads, and where one can lead in it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.leads: list[str] = []
        self.ids: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if found := given.get("id") or (given.get("name") if tag == "a" else None):
            self.ids.add(found)
        if target := given.get("src"):
            self.loads.append(target)
        if target := given.get("href"):
            (
                self.loads if tag == "link" and given.get("rel") not in ("canonical", "prev", "next") else self.leads
            ).append(target)


@pytest.fixture(scope="module")
def built(site: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in site.rglob("*.html") if path.name != "404.html"}


def test_each_page_is_there_and_can_be_reached(site: Path, built: dict[Path, Page]) -> None:
    wanted = {path.relative_to(DOCS) for path in pages() if path.is_relative_to(DOCS)}
    names = {str(path.with_suffix(".html")).replace("README.html", "index.html") for path in wanted}
    assert names == {str(path.relative_to(site)) for path in built}
    led_to = {
        (path.parent / urllib.parse.unquote(target.partition("#")[0])).resolve()
        for path, page in built.items()
        for target in page.leads
        if "://" not in target and not target.startswith("#")
    }
    assert {path for path in built if path.resolve() not in led_to} == set()


def test_no_page_loads_anything_from_elsewhere(built: dict[Path, Page]) -> None:
    for path, page in built.items():
        assert page.loads, path
        for target in page.loads:
            assert not re.match(r"([a-z]+:)?//", target), f"{path}: {target}"
            assert (path.parent / target.partition("?")[0]).exists(), f"{path}: {target}"
    styles = {path for page in built for path in page.parent.rglob("*.css")}
    assert styles
    for path in styles:
        assert not re.search(r"url\(['\"]?(https?:)?//|@import", path.read_text(encoding="utf-8")), path


def test_each_link_of_the_site_leads_somewhere(built: dict[Path, Page]) -> None:
    of = {path.resolve(): page for path, page in built.items()}
    for path, page in built.items():
        for target in page.leads:
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            found = (path.parent / urllib.parse.unquote(name)).resolve() if name else path.resolve()
            assert found.exists(), f"{path}: {target}"
            if anchor and found in of:
                assert urllib.parse.unquote(anchor) in of[found].ids, f"{path}: {target}"


# -- what is generated ----------------------------------------------------------------------------------------------------


def test_the_committed_pictures_are_what_the_console_draws() -> None:
    drawn = module_at(DOCS / "pictures/draw.py").pictures()
    there = {path.stem: path.read_text(encoding="utf-8") for path in (DOCS / "pictures").glob("*.svg")}
    assert there == drawn, "docs/pictures are not what the console draws: run `make docs`"
    assert all(kind in drawn["written-again"] for kind in ("segment clean", "segment dirty", "segment active"))
    assert "next" in drawn["expiring"].partition("</style>")[2]


def test_every_decision_is_listed() -> None:
    committed = (DOCS / "adr/README.md").read_text(encoding="utf-8")
    module = module_at(DOCS / "adr/list.py")
    assert committed == module.render(), "docs/adr/README.md is old: run `make docs`"
    heavy = [path.name for path in (DOCS / "adr").glob("*.md") if not path.read_text().startswith(module.WEIGHT)]
    assert heavy == [], "the search would show them before the guides: run `make docs`"


# -- what pages say to run ------------------------------------------------------------------------------------------------


RUNNABLE = [page for page in pages() if any(block.marks & {"run", "serves"} for block in blocks(page))]


@pytest.mark.parametrize("page", RUNNABLE, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_says_to_run_does_what_it_says(page: Path, tmp_path: Path) -> None:
    with PageRun(page, tmp_path) as run:
        assert run.run() > 0


def test_a_page_that_says_what_is_not_so_fails(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    lying = "<!-- run -->\n```sh\ntidelog topics list\n```\n\n<!-- prints -->\n```text\nnothing-of-the-kind\n```\n"
    page.write_text(lying, encoding="utf-8")
    with PageRun(page, tmp_path) as run, pytest.raises(AssertionError, match=r"page\.md:7: printed was"):
        run.run()
