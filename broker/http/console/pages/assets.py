"""The style sheet, the script and the icon, as pages load them: files of this package, read when first asked for.

The style sheet has light and dark by what the reader's system says, and holds for small screens. Sections of a log have the same
colour everywhere. Text has a contrast of 4.5 or more on the ground, on cards and on every section; lines of charts and borders
of inputs 3 or more. The script renews the live parts of a page while it is looked at; parts that hold the keyboard's focus wait
until it has left. The icon is the clean, dirty and active section of a log.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from ..page_request import OK, Page

if TYPE_CHECKING:
    from ..page_request import PageRequest
    from ..state import ConsoleState


FOLDER = Path(__file__).parent.parent


@cache
def asset(name: str) -> bytes:
    """Content of a file beside the console's modules."""
    return (FOLDER / name).read_bytes()


def style(state: ConsoleState, request: PageRequest) -> Page:
    return Page(OK, "text/css; charset=utf-8", asset("console.css"))


def script(state: ConsoleState, request: PageRequest) -> Page:
    return Page(OK, "text/javascript; charset=utf-8", asset("console.js"))


def icon(state: ConsoleState, request: PageRequest) -> Page:
    return Page(OK, "image/svg+xml", asset("console.svg"))
