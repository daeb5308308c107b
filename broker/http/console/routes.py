"""Every page of the console: its address, what it is called, and an example that works on a daemon with `EXAMPLE_…` data.

The one list of pages. `front.py` finds a page's maker by it, the browser tests look at each example, docs/CONSOLE.md has a
heading for each. In a path `{name}` stands for one part of any text, `{number:…}` for one of digits.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

#: Topics and groups of the examples: a compacted topic, one with retention (with records from offset 0 on), a group that has
#: committed offsets of it.
EXAMPLE_COMPACTED_TOPIC = "customers"
EXAMPLE_TOPIC = "orders"
EXAMPLE_GROUP = "billing"


class Route(NamedTuple):
    """A page and its address.

    Attributes:
        name: of the module in this package, and after a dot the function, that make it.
        path: its address; parameters are handed to the function in their order.
        example: an address of it, query included.
        section: which entry of the navigation it belongs to.
        is_document: False: a style sheet, a script or bytes, not a page to look at.
        acts: it belongs to an action: only there with http.admin.enable, see `access.py`.
        is_same: it has nothing of this daemon on it, and is for everybody.
    """

    name: str
    path: str
    example: str
    section: str = ""
    is_document: bool = True
    acts: bool = False
    is_same: bool = False


_T = EXAMPLE_TOPIC
_C = EXAMPLE_COMPACTED_TOPIC

ROUTES = (
    Route("overview.overview", "/", "/", "/"),
    Route("topics.topics", "/topics", "/topics", "/topics"),
    Route("topics.topic", "/topics/{topic}", f"/topics/{_T}", "/topics"),
    Route("topics.partition", "/topics/{topic}/{number:partition}", f"/topics/{_C}/0", "/topics"),
    Route("records.browse", "/topics/{topic}/{number:partition}/records", f"/topics/{_T}/0/records?offset=0", "/topics"),
    Route("records.record", "/topics/{topic}/{number:partition}/records/{number:offset}", f"/topics/{_T}/0/records/0", "/topics"),
    Route(
        "records.value", "/topics/{topic}/{number:partition}/records/{number:offset}/value",
        f"/topics/{_T}/0/records/0/value", is_document=False,
    ),
    Route(
        "records.key", "/topics/{topic}/{number:partition}/records/{number:offset}/key",
        f"/topics/{_T}/0/records/0/key", is_document=False,
    ),
    Route("records.latest", "/topics/{topic}/{number:partition}/latest", f"/topics/{_C}/0/latest", "/topics"),
    Route("settings.topic_settings", "/topics/{topic}/settings", f"/topics/{_T}/settings", "/topics"),
    Route("groups.groups", "/groups", "/groups", "/groups"),
    Route("groups.group", "/groups/group", f"/groups/group?id={EXAMPLE_GROUP}", "/groups"),
    Route("throughput.throughput", "/throughput", "/throughput", "/throughput"),
    Route("cleaner.cleaner", "/cleaner", "/cleaner", "/cleaner"),
    Route("cleaner.clean_request", "/cleaner/requests/{number:request}", f"/cleaner/requests/1?topic={_C}", "/cleaner"),
    Route("transactions.transactions", "/transactions", "/transactions", "/transactions"),
    Route("connections.connections", "/connections", "/connections", "/connections"),
    Route("disks.disks", "/disks", "/disks", "/disks"),
    Route("backup.backup", "/backup", "/backup", "/backup"),
    Route("settings.settings", "/settings", "/settings", "/settings"),
    Route("loggers.loggers", "/settings/loggers", "/settings/loggers", "/settings"),
    Route("log_actions.clean", "/actions/clean", f"/actions/clean?topic={_C}", "/topics", acts=True),
    Route("log_actions.retention", "/actions/retention", f"/actions/retention?topic={_T}", "/topics", acts=True),
    Route(
        "log_actions.delete_records", "/actions/delete-records",
        f"/actions/delete-records?topic={_T}&partition=0&offset=1", "/topics", acts=True,
    ),
    Route(
        "config_action.config", "/actions/config",
        f"/actions/config?kind=topic&name={_T}&setting=retention.ms&do=set&value=3600000", "/settings", acts=True,
    ),
    Route(
        "loggers.log_level", "/actions/log-level", "/actions/log-level?logger=tidelog&level=DEBUG", "/settings", acts=True,
    ),
    Route(
        "group_actions.reset_offsets", "/actions/reset-offsets",
        f"/actions/reset-offsets?group={EXAMPLE_GROUP}&topic={_T}&to=earliest", "/groups", acts=True,
    ),
    Route(
        "group_actions.delete_group", "/actions/delete-group",
        f"/actions/delete-group?group={EXAMPLE_GROUP}", "/groups", acts=True,
    ),
    Route("assets.style", "/console.css", "/console.css", is_document=False, is_same=True),
    Route("assets.script", "/console.js", "/console.js", is_document=False, is_same=True),
    Route("assets.icon", "/console.svg", "/console.svg", is_document=False, is_same=True),
)  # fmt: skip

#: The navigation, in its order.
SECTIONS = (
    ("/", "Overview"),
    ("/topics", "Topics"),
    ("/groups", "Groups"),
    ("/throughput", "Throughput"),
    ("/cleaner", "Cleaner"),
    ("/transactions", "Transactions"),
    ("/connections", "Connections"),
    ("/disks", "Disks"),
    ("/backup", "Backup"),
    ("/settings", "Settings"),
)


@cache
def _pattern(path: str) -> re.Pattern[str]:
    parts = re.split(r"\{(?:number:)?\w+\}", path)
    kinds = re.findall(r"\{(number:)?\w+\}", path)
    text = re.escape(parts[0])
    for kind, part in zip(kinds, parts[1:], strict=True):
        text += ("([0-9]{1,19})" if kind else "([^/]+)") + re.escape(part)
    return re.compile(text, re.ASCII)


def find(path: str) -> tuple[Route, tuple[str, ...]] | None:
    """The page at an address (decoded, without its query), and its parameters. None where there is none."""
    for route in ROUTES:
        if (found := _pattern(route.path).fullmatch(path)) is not None:
            return route, found.groups()
    return None
