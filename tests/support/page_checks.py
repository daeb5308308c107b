"""What must hold of a page as a browser draws it, whatever it shows.

overflow   the page is not wider than its window; what is wider than its place scrolls in a container of its own
overlap    no line of text lies on another or under something painted (SVG's texts too)
contrast   4.5:1 between letters and what is painted behind them, 3:1 for large ones (WCAG 2.2, 1.4.3)
keyboard   Tab comes to every link and control, in whatever order, and each shows that it has the focus
names      links, controls and pictures can be told apart by who hears them

page_checks.js looks; this module drives it. A finding is one line: check, where, what.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page

_DRAWN = (Path(__file__).parent / "page_checks.js").read_text()
#: The window is made so high to see a page whole; what is longer is looked at to here.
HIGHEST = 12_000
#: More presses of Tab than a page has stops would be a trap.
_SLACK = 10

# Each link and control has a number and its look without the focus; when one gets the focus, what it then looks like is noted:
# whether that differs, by an outline or a shadow, and whether it is in the window.
_WATCH = """() => {
  document.activeElement?.blur?.();
  window.scrollTo(0, 0);
  const look = (one) => { const s = getComputedStyle(one);
    return [s.outlineStyle, s.outlineWidth, s.outlineColor, s.boxShadow, s.backgroundColor, s.borderColor].join("|"); };
  const name = (one) => (one.getAttribute("aria-label") || one.textContent || one.name || one.tagName).trim().slice(0, 60);
  const stops = [...document.querySelectorAll(
      "a[href], button:not([disabled]), input:not([type=hidden]):not([disabled]), select, textarea, summary, [tabindex]")]
    .filter((one) => one.tabIndex >= 0 && one.checkVisibility({ visibilityProperty: true }) && !one.closest("[inert]"))
    .filter((one) => one.type !== "radio" || one.checked || !document.querySelector(`input[name="${one.name}"]:checked`));
  const before = new Map(stops.map((one) => [one, look(one)]));
  window.reached = new Map();
  document.addEventListener("focusin", ({ target }) => {
    for (const one of document.getAnimations()) one.finish();
    const style = getComputedStyle(target);
    const isMarked = (style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0) || style.boxShadow !== "none";
    const box = target.getBoundingClientRect();
    const isIn = box.right > 0 && box.bottom > 0 && box.left < innerWidth && box.top < innerHeight;
    const isOther = look(target) !== before.get(target);
    const isSeen = !before.has(target) || (target.matches(":focus-visible") && isOther && isMarked && isIn);
    window.reached.set(target, isSeen);
  });
  const findings = (which, text) => stops.filter((one) => window.reached.get(one) === which).map((one) => text(name(one)));
  window.findings = () => [
    ...findings(false, (name) => `'${name}' does not show that it has the focus`),
    ...findings(undefined, (name) => `Tab never comes to '${name}'`)];
  return stops.length;
}"""
_FOUND = "() => window.findings()"


def drawn(page: Page) -> list[str]:
    """Findings about what is drawn now. Makes the window as high as the document for as long as it looks."""
    size = page.viewport_size
    assert size is not None
    height = page.evaluate("() => document.documentElement.scrollHeight")
    try:
        page.set_viewport_size({"width": size["width"], "height": min(max(height, size["height"]), HIGHEST)})
        found: list[dict[str, str]] = page.evaluate(_DRAWN)
    finally:
        page.set_viewport_size(size)
    return [f"{one['check']}: {one['where']}: {one['text']}" for one in found]


def keyboard(page: Page) -> list[str]:
    """Findings from pressing Tab through the page once."""
    stops: int = page.evaluate(_WATCH)
    for _ in range(stops + _SLACK):
        page.keyboard.press("Tab")
    return [f"keyboard: {finding}" for finding in page.evaluate(_FOUND)]
