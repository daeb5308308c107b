from __future__ import annotations

import importlib
from urllib.parse import unquote, urlsplit

import pytest
from tidelog.broker.http.console.routes import ROUTES, SECTIONS, Route, find


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.path)
def test_an_example_leads_to_its_page(route: Route) -> None:
    found = find(unquote(urlsplit(route.example).path))
    assert found is not None
    assert found[0] is route
    module, _, function = route.name.partition(".")
    assert callable(getattr(importlib.import_module(f"tidelog.broker.http.console.pages.{module}"), function))
    assert route.section in ("", *(path for path, _ in SECTIONS))


def test_the_navigation_leads_to_pages() -> None:
    for path, _ in SECTIONS:
        found = find(path)
        assert found is not None
        assert found[0].section == path


@pytest.mark.parametrize(
    ("path", "name", "parameters"),
    [("/topics/settings/settings", "settings.topic_settings", ("settings",)), ("/topics/a.b-_/12", "topics.partition",
    ("a.b-_", "12")),
     ("/topics/12", "topics.topic", ("12",))],
)  # fmt: skip
def test_parameters(path: str, name: str, parameters: tuple[str, ...]) -> None:
    found = find(path)
    assert found is not None
    assert (found[0].name, found[1]) == (name, parameters)


@pytest.mark.parametrize("path", ["", "//", "/topicsx", "/topics/", "/topics/t/x", "/topics/t/-1", "/topics/t/0/more",
"/x", "/Topics",
                                  "/topics/t/١"])  # fmt: skip
def test_no_page(path: str) -> None:
    assert find(path) is None
