"""Groups of every type: their members, how far each has come, and how many records that leaves."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..html import Element, element
from ..layout import (
    badge,
    button_link,
    card,
    choice,
    cut,
    document,
    facts,
    field,
    get_form,
    group_link,
    link,
    quiet,
    table,
)
from ..layout import topic_link as to_topic
from ..units import count_text, plural
from .group_facts import Listed, Position, describe_group, find_group, list_groups, positions, total

if TYPE_CHECKING:
    from ..page_request import Page, PageRequest
    from ..state import ConsoleState

MAX_GROUPS = 500
COUNTING_S = 1.0
"""Time that one page may spend counting records; the next page continues there."""
MAX_MEMBERS = 500
MAX_POSITIONS = 2000
_GOOD = {"stable", "preparingrebalance", "completingrebalance", "assigning", "reconciling"}
LAG_HINT = (
    "Lag: records that a member would still be handed between the committed offset and the high watermark, counted one by one. "
    "In offsets: the plain difference, never less; compaction and transactions' markers leave offsets without a record."
)


def groups(state: ConsoleState, request: PageRequest) -> Page:
    """Page of all groups, or those whose name contains a text."""
    wanted, kind = request.text("q").lower(), request.text("type")
    listed = list_groups(state)
    types = sorted({group.type for group in listed} | ({kind} if kind else set()))
    found = [group for group in listed if wanted in group.group_id.lower() and kind in ("", group.type)]
    rows = []
    deadline = time.monotonic() + COUNTING_S
    with state.counting() as counts:
        for listed_group in found[:MAX_GROUPS]:
            at = positions(state, listed_group, counts, lambda: time.monotonic() >= deadline)
            known = [position for position in at if position.lag_offsets is not None]
            rows.append(
                (
                    group_link(listed_group.group_id), listed_group.type, state_badge(listed_group.state),
                    count_text(len({position.topic for position in at})), count_text(len(at)),
                    lag_text(total([position.lag_records for position in known])),
                    lag_text(total([position.lag_offsets for position in known])),
                )
            )  # fmt: skip
        counts.forget_others()
    heads = ("group", "type", "state", "topics", "offsets", "lag in records", "lag in offsets")
    nothing = "No group is like this." if wanted or kind else "No groups yet."
    return document(
        state, request, "Groups",
        get_form(
            "/groups",
            field("q", "Name has", request.text("q"), kind="search"),
            choice("type", "Type", kind, [("", "all"), *((type_name, type_name) for type_name in types)]),
            button="Search",
        ),
        table(heads, rows, {3, 4, 5, 6}, caption="Groups") if rows else quiet(nothing),
        quiet(f"{plural(len(found) - MAX_GROUPS, 'more group')}: search by name.") if len(found) > MAX_GROUPS else None,
        quiet(LAG_HINT),
    )  # fmt: skip


def group(state: ConsoleState, request: PageRequest) -> Page:
    """Page of one group."""
    listed = find_group(state, request.query.get("id", ""))
    described = describe_group(state, listed)
    deadline = time.monotonic() + COUNTING_S
    with state.counting() as counts:
        at = positions(state, listed, counts, lambda: time.monotonic() >= deadline)
    known = [position for position in at if position.lag_offsets is not None]
    owners = {(topic, p): member.member_id for member in described.members for topic, ps in member.assigned for p in ps}
    member_rows = [
        (
            cut(member.member_id), cut(member.instance_id), cut(member.client), member.host,
            ", ".join(f"{topic} {list(partitions)}" for topic, partitions in member.assigned) or "nothing",
            cut(member.details, 300),
        )
        for member in described.members[:MAX_MEMBERS]
    ]  # fmt: skip
    heads = ("member", "instance", "client id", "host", "has", "")
    return document(
        state, request, listed.group_id or "(no name)",
        card(
            "Group",
            facts(
                ("type", listed.type),
                ("state", state_badge(described.state)),
                ("protocol type", listed.protocol_type or "none"),
                ("members", count_text(len(described.members))),
                ("lag in records", lag_text(total([position.lag_records for position in known]))),
                ("lag in offsets", lag_text(total([position.lag_offsets for position in known]))),
                *((name, cut(value, 300)) for name, value in described.details),
            ),
            _actions(listed) if state.may_act(request) else None,
        ),
        card("Offsets", _positions(at, owners), quiet(LAG_HINT)),
        card("Members", table(heads, member_rows, caption="Members") if member_rows else quiet("It has no members.")),
        None if described.topology is None else card("Topology", _topology(described.topology)),
        trail=(link("Groups", "/groups"),),
    )  # fmt: skip


def _topology(lines: Sequence[str]) -> Element:
    if not lines:
        return quiet("Its application has not described it: Kafka Streams does so from 4.4 on.")
    return element("pre", "\n".join(lines), class_="data", tabindex=0)


def _actions(listed: Listed) -> Element:
    return element(
        "p",
        button_link("Set offsets…", "/actions/reset-offsets", group=listed.group_id), " ",
        button_link("Delete group…", "/actions/delete-group", group=listed.group_id),
        class_="buttons",
    )  # fmt: skip


def _positions(at: list[Position], owners: dict[tuple[str, int], str]) -> Element:
    if not at:
        return quiet("It has committed nothing.")
    rows = [
        (
            to_topic(position.topic, text=position.topic), to_topic(position.topic, position.partition), position.offset,
            "deleted" if position.log_end is None else position.log_end,
            "" if position.log_end is None else lag_text(position.lag_records),
            "" if position.log_end is None else lag_text(position.lag_offsets),
            cut(owners.get((position.topic, position.partition), "")), cut(position.metadata, 80),
        )
        for position in at[:MAX_POSITIONS]
    ]  # fmt: skip
    heads = ("topic", "partition", "committed", "log end", "lag in records", "lag in offsets", "read by", "metadata")
    more = quiet(f"{plural(len(at) - MAX_POSITIONS, 'more offset')}.") if len(at) > MAX_POSITIONS else None
    return element("div", table(heads, rows, {1, 2, 3, 4, 5}, caption="Committed offsets"), more)


def lag_text(lag: int | None) -> str:
    return "being counted: load again" if lag is None else count_text(lag)


def state_badge(text: str) -> Element:
    """A group's state, with a colour."""
    return badge(text or "unknown", "good" if text.lower() in _GOOD else "plain" if text.lower() == "empty" else "warn")
