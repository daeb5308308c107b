"""The style sheet and the script, as pages load them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..page_request import OK, Page
from ..style import STYLE

if TYPE_CHECKING:
    from ..page_request import PageRequest
    from ..state import ConsoleState

#: Renews the live parts of a page while it is looked at. Parts that hold the keyboard's focus wait until it has left.
SCRIPT = """"use strict";
(() => {
  const main = document.querySelector("main[data-refresh]");
  if (!main) return;
  const line = main.querySelector("[data-live-line]");
  const says = line ? line.firstChild.data : "";
  const renew = async () => {
    const answer = await fetch(location.href, { cache: "no-store", redirect: "error" });
    if (!answer.ok) throw new Error(answer.status);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const part of document.querySelectorAll("[data-live]")) {
      const fresh = page.getElementById(part.id);
      if (fresh && !fresh.isEqualNode(part) && !part.contains(document.activeElement)) part.replaceWith(fresh);
    }
  };
  const turn = async () => {
    if (!document.hidden) {
      let text = says;
      try { await renew(); } catch (error) { text = "The daemon does not answer; this is what it said last. "; }
      if (line) line.firstChild.data = text;
    }
    setTimeout(turn, main.dataset.refresh * 1000);
  };
  setTimeout(turn, main.dataset.refresh * 1000);
})();
"""

#: The clean, dirty and active section of a log.
ICON = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect x="0" y="3" width="7" height="10" fill="#4aa564"/>
<rect x="8" y="3" width="4" height="10" fill="#e0a030"/><rect x="13" y="3" width="3" height="10" fill="#3f8ae0"/></svg>
"""


def style(state: ConsoleState, request: PageRequest) -> Page:
    return Page(OK, "text/css; charset=utf-8", STYLE.encode())


def script(state: ConsoleState, request: PageRequest) -> Page:
    return Page(OK, "text/javascript; charset=utf-8", SCRIPT.encode())


def icon(state: ConsoleState, request: PageRequest) -> Page:
    return Page(OK, "image/svg+xml", ICON.encode())
