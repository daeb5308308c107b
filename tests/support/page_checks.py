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
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Page

_DRAWN = (Path(__file__).parent / "page_checks.js").read_text()
#: The window is made so high to see a page whole; what is longer is looked at to here.
HIGHEST = 12_000
#: More presses of Tab than a page has stops would be a trap.
_SLACK = 10

_STOPS = """() => [...document.querySelectorAll(
    "a[href], button:not([disabled]), input:not([type=hidden]):not([disabled]), select, textarea, summary, [tabindex]")]
  .filter((one) => one.tabIndex >= 0 && one.checkVisibility({ visibilityProperty: true }) && !one.closest("[inert]"))
  .filter((one) => one.type !== "radio" || one.checked || !document.querySelector(`input[name="${one.name}"]:checked`))
  .map((one, index) => { one.stop = index; return (one.textContent || one.name || one.tagName).trim().slice(0, 60); })"""

# The look of a stop without and with the focus differs, and an outline is of a colour that can be seen.
_LOOKS = """() => {
  const look = (one) => { const s = getComputedStyle(one);
    return [s.outlineStyle, s.outlineWidth, s.outlineColor, s.boxShadow, s.backgroundColor, s.borderColor].join("|"); };
  const one = document.activeElement;
  if (!one || one === document.body) return null;
  const style = getComputedStyle(one);
  const with_ = look(one);
  const shows = one.matches(":focus-visible");
  one.blur();
  const without = look(one);
  one.focus({ preventScroll: true, focusVisible: true });
  const outline = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0;
  return { stop: one.stop ?? -1, isSeen: shows && with_ !== without && (outline || style.boxShadow !== "none"),
           text: (one.textContent || one.name || one.tagName).trim().slice(0, 60) };
}"""


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
    names: list[str] = page.evaluate(_STOPS)
    page.evaluate("() => { document.activeElement?.blur?.(); window.scrollTo(0, 0); }")
    reached: set[int] = set()
    found = []
    for _ in range(len(names) + _SLACK):
        if len(reached) == len(names):
            break
        page.keyboard.press("Tab")
        look: dict[str, Any] | None = page.evaluate(_LOOKS)
        if look is None:  # past the end: the browser's own controls
            continue
        if look["stop"] not in reached and not look["isSeen"]:
            found.append(f"keyboard: '{look['text']}' does not show that it has the focus")
        reached.add(look["stop"])
    return found + [f"keyboard: Tab never comes to '{name}'" for stop, name in enumerate(names) if stop not in reached]
