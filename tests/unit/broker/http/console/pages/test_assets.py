from __future__ import annotations

from xml.etree import ElementTree

from tidelog.broker.http.console.page_request import PageRequest
from tidelog.broker.http.console.pages.assets import asset, icon, script, style

STYLE, SCRIPT, ICON = (asset(name).decode() for name in ("console.css", "console.js", "console.svg"))


def test_assets() -> None:
    request = PageRequest("GET", "/")
    assert script(None, request).kind.startswith("text/javascript")  # type: ignore[arg-type]
    assert style(None, request).body.decode() == STYLE  # type: ignore[arg-type]
    assert icon(None, request).kind == "image/svg+xml"  # type: ignore[arg-type]
    assert ElementTree.fromstring(ICON).tag.endswith("svg")


def test_the_script_asks_its_own_page_and_makes_nothing_of_text() -> None:
    assert "location.href" in SCRIPT
    for dangerous in ("innerHTML", "eval", "document.write", "insertAdjacent", "http:", "https:", "//"):
        assert dangerous not in SCRIPT
