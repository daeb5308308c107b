"""Actions on groups: set their offsets, forget those of a topic, delete a group; over the APIs that Kafka's own tools use."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .....protocol.api_keys import ApiKey
from .....protocol.messages.delete_groups import DeleteGroupsRequest
from .....protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from .....protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ..confirming import Plan, ask, nothing_to_do, told
from ..layout import choice, cut, field, get_form, link, note, quiet, table
from ..loop_calls import ACTION_TIMEOUT_S
from ..page_request import BAD_REQUEST, PageError, whole_number
from ..units import plural
from .group_facts import SHARE, Position, describe_group, error_name, find_group, positions
from .records import TIME_HINT, moment_ms

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .....storage.log.unified_log import UnifiedLog
    from ..html import Element
    from ..page_request import Page, PageRequest
    from ..state import ConsoleState

EARLIEST, LATEST, OFFSET, TIME, FORGET = "earliest", "latest", "offset", "time", "forget"
_CHOICES = (
    (EARLIEST, "to the first record"),
    (LATEST, "to the end: nothing old is read"),
    (OFFSET, "to an offset"),
    (TIME, "to the first record from a time on"),
    (FORGET, "forget them: auto.offset.reset decides"),
)
_AT = "at."
MAX_PARTITIONS = 1000


class _Change(NamedTuple):
    """Change of one partition's offset. `after` is None if the offset is deleted."""

    partition: int
    before: int | None
    after: int | None


def reset_offsets(state: ConsoleState, request: PageRequest) -> Page:
    """Sets the offsets of ?group in all partitions of ?topic to where ?to says."""
    listed = find_group(state, request.exact("group"))
    back = _back(listed.group_id)
    title = f"Set offsets of {cut(listed.group_id, 60)}"
    if listed.type == SHARE:
        text = "A share group has no committed offsets of its own: kafka-share-groups changes where it begins."
        return nothing_to_do(state, request, title, note(text, kind="warn"), back=back)
    topic, to = request.text("topic"), request.text("to")
    if to not in ("", *(choice_name for choice_name, _ in _CHOICES)):
        raise PageError(BAD_REQUEST, "to is one of " + ", ".join(choice_name for choice_name, _ in _CHOICES) + ".")
    if request.method == "POST":
        return _do_reset(state, request, listed.group_id, topic, to, title)
    with state.counting() as counts:
        at = positions(state, listed, counts, lambda: True)
    described = describe_group(state, listed)
    form = _form(request, listed.group_id, at)
    warning = None
    if described.members:
        text = f"It has {plural(len(described.members), 'member')}: stop them first, or they go on from where they are."
        warning = note(text, kind="warn")
    if not topic or not to:
        return nothing_to_do(state, request, title, warning, form, back=back)
    changes = _changes(state, request, topic, to, [position for position in at if position.topic == topic])
    if not changes:
        return nothing_to_do(state, request, title, quiet("Nothing would change."), form, back=back)
    rows = [
        (
            str(change.partition), "none" if change.before is None else str(change.before),
            "forgotten" if change.after is None else str(change.after), _difference(change),
        )
        for change in changes
    ]  # fmt: skip
    says = [
        warning,
        note(f"The group's offsets in {topic} change, in {plural(len(changes), 'partition')}.", kind="warn"),
        table(("partition", "committed", "then", "reads"), rows, {0, 1, 2}, caption=f"Offsets in {topic}"),
    ]
    fields: dict[str, object] = {"group": listed.group_id, "topic": topic, "to": to}
    fields |= {f"{_AT}{change.partition}": "" if change.after is None else change.after for change in changes}
    button = "Forget these offsets" if to == FORGET else "Set these offsets"
    return ask(state, request, Plan(f"{title}?", says, fields, button, back, form))


def _form(request: PageRequest, group_id: str, at: list[Position]) -> Element:
    known = sorted({position.topic for position in at})
    chosen = request.text("topic")
    topic = (
        choice("topic", "In topic", chosen, [(name, name) for name in known])
        if known and chosen in ("", *known)
        else field("topic", "In topic", chosen)
    )
    return get_form(
        request.path,
        topic,
        choice("to", "Set them", request.text("to", LATEST), _CHOICES),
        field("offset", "The offset", request.text("offset"), inputmode="numeric", size=12),
        field("time", "The time, UTC", request.text("time"), hint=TIME_HINT),
        group=group_id, button="Show what would change",
    )  # fmt: skip


def _changes(state: ConsoleState, request: PageRequest, topic: str, to: str, at: list[Position]) -> list[_Change]:
    before = {position.partition: position.offset for position in at}
    if to == FORGET:
        return [_Change(partition, offset, None) for partition, offset in before.items()]
    time_ms = moment_ms(request.text("time")) if to == TIME else 0
    offset = request.number("offset", -1) if to == OFFSET else 0
    if offset < 0:
        raise PageError(BAD_REQUEST, "Say which offset.")
    logs = state.logs_of(topic)
    if len(logs) > MAX_PARTITIONS:
        raise PageError(BAD_REQUEST, f"{topic} has more than {MAX_PARTITIONS} partitions: use tidelog groups reset.")
    found = []
    for log in logs:
        after = _target(log, to, offset, time_ms)
        if before.get(log.partition) != after:
            found.append(_Change(log.partition, before.get(log.partition), after))
    return found


def _target(log: UnifiedLog, to: str, offset: int, time_ms: int) -> int:
    """Offset that a group would be reset to."""
    if to == EARLIEST:
        return log.log_start_offset
    if to == OFFSET:  # offsets beyond the log are moved to its ends, as Kafka's tools do
        return min(max(offset, log.log_start_offset), log.high_watermark)
    if to == TIME and (found := log.lookup_by_timestamp(time_ms)) is not None:
        return found.offset
    return log.high_watermark


def _difference(change: _Change) -> str:
    if change.after is None or change.before is None or change.after == change.before:
        return ""
    if change.after < change.before:
        return f"{plural(change.before - change.after, 'offset')} again"
    return f"{plural(change.after - change.before, 'offset')} less"


def _do_reset(state: ConsoleState, request: PageRequest, group_id: str, topic: str, to: str, title: str) -> Page:
    wanted = {
        whole_number("partition", name.removeprefix(_AT), high=2**31 - 1): text
        for name, text in request.form.items()
        if name.startswith(_AT)
    }
    if not wanted:
        raise PageError(BAD_REQUEST, "The form has no offsets.")
    failed = _forget(state, group_id, topic, wanted) if to == FORGET else _commit(state, group_id, topic, wanted)
    back = _back(group_id)
    if failed:
        rows = [(str(partition), error_name(code)) for partition, code in sorted(failed.items())]
        return told(
            state, request, title,
            f"Refused in {plural(len(failed), 'partition')} of {len(wanted)}. A group's members must be stopped first.",
            table(("partition", "why"), rows, {0}, caption="What was refused"),
            back=back, is_well=False,
        )  # fmt: skip
    return told(
        state, request, title, f"Done: offsets of {plural(len(wanted), 'partition')} of {topic} are set.", back=back
    )


def _commit(state: ConsoleState, group_id: str, topic: str, wanted: Mapping[int, str]) -> dict[int, int]:
    """Error codes by partition, of those that were refused."""
    parts = [
        OffsetCommitRequestPartition(partition_index=partition, committed_offset=whole_number("offset", text))
        for partition, text in wanted.items()
    ]
    asked = OffsetCommitRequest(group_id=group_id, topics=[OffsetCommitRequestTopic(name=topic, partitions=parts)])
    answer = state.calls.ask(ApiKey.OFFSET_COMMIT, asked, version=9, timeout_s=ACTION_TIMEOUT_S)
    return {row.partition_index: row.error_code for row in answer.topics[0].partitions if row.error_code}


def _forget(state: ConsoleState, group_id: str, topic: str, wanted: Mapping[int, str]) -> dict[int, int]:
    parts = [OffsetDeleteRequestPartition(partition_index=partition) for partition in wanted]
    asked = OffsetDeleteRequest(group_id=group_id, topics=[OffsetDeleteRequestTopic(name=topic, partitions=parts)])
    answer = state.calls.ask(ApiKey.OFFSET_DELETE, asked, timeout_s=ACTION_TIMEOUT_S)
    if answer.error_code:
        return dict.fromkeys(wanted, answer.error_code)
    return {row.partition_index: row.error_code for row in answer.topics[0].partitions if row.error_code}


def delete_group(state: ConsoleState, request: PageRequest) -> Page:
    """Deletes ?group and all its offsets."""
    group_id = request.exact("group")
    title = f"Delete group {cut(group_id, 60)}"
    if request.method == "POST":
        asked = DeleteGroupsRequest(groups_names=[group_id])
        (result,) = state.calls.ask(ApiKey.DELETE_GROUPS, asked, timeout_s=ACTION_TIMEOUT_S).results
        if result.error_code:
            text = f"Refused: {error_name(result.error_code)}. Only a group without members can be deleted."
            return told(state, request, title, text, back=_back(group_id), is_well=False)
        return told(
            state, request, title, "Done: the group and its offsets are gone.", back=link("all groups", "/groups")
        )
    listed = find_group(state, group_id)
    described = describe_group(state, listed)
    if described.members:
        text = f"It has {plural(len(described.members), 'member')}: only a group without members can be deleted."
        return nothing_to_do(state, request, title, note(text, kind="warn"), back=_back(group_id))
    with state.counting() as counts:
        at = positions(state, listed, counts, lambda: True)
    rows = [(position.topic, str(position.partition), str(position.offset)) for position in at[:MAX_PARTITIONS]]
    says = [
        note(f"The group and {plural(len(at), 'committed offset')} of it go for good.", kind="warn"),
        table(("topic", "partition", "committed"), rows, {1, 2}, caption="Offsets that go") if rows else None,
    ]
    return ask(state, request, Plan(f"{title}?", says, {"group": group_id}, "Delete the group", _back(group_id)))


def _back(group_id: str) -> Element:
    return link("the group", "/groups/group", id=group_id)
