"""What axe-core says of a page as a browser has it: the rules of WCAG 2.2, levels A and AA, and axe's own good practices."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page


def axe_findings(page: Page, *, only: list[str] | None = None) -> list[str]:
    """One line for each element that breaks a rule: the rule, what it asks, the element. `only`: these rules."""
    from axe_playwright_python.sync_playwright import Axe  # only the browser ring has it

    options = {"resultTypes": ["violations"]} | ({"runOnly": {"type": "rule", "values": only}} if only else {})
    answer = Axe().run(page, options=options).response
    return [
        f"{rule['id']}: {rule['help']}: {node['html'][:160]}" for rule in answer["violations"] for node in rule["nodes"]
    ]
