"""The browser ring: headless Chromium, driven by Playwright, over the console of real daemons."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright
from support.console_world import SETTINGS, fill
from support.daemon import Daemon

SCREENSHOTS = Path(__file__).resolve().parents[2] / "build/screenshots"


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    chromium = shutil.which("chromium")
    assert chromium is not None, "the browser ring needs Debian's chromium: run it as 'make browser'"
    with sync_playwright() as playwright:
        # Root has no sandbox; everything that is opened is ours.
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon with something on every page, whose console may act."""
    backup = {"backup.url": tmp_path_factory.mktemp("store").as_uri(), "backup.verify.interval.ms": 60_000}
    with Daemon(tmp_path_factory.mktemp("full") / "data", SETTINGS | {"http.admin.enable": "true"} | backup) as daemon:
        fill(daemon)
        yield daemon


@pytest.fixture(scope="session")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("empty") / "data", SETTINGS) as daemon:
        yield daemon


@pytest.fixture(scope="session")
def screenshots() -> Callable[[str], Path]:
    """Where the picture of that name goes. Those of earlier runs are removed first."""
    shutil.rmtree(SCREENSHOTS, ignore_errors=True)
    SCREENSHOTS.mkdir(parents=True)
    return lambda name: SCREENSHOTS / f"{name}.png"
