"""Actions on logs: clean now, apply retention, delete records. See `confirming.py`."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import TYPE_CHECKING

from .....cleaner.log_facts import steady_views
from .....cleaner.removal_counts import removed_by_retention
from .....protocol.api_keys import ApiKey
from .....protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from .....storage.exceptions import StorageError
from .....storage.retention.plan import plan_deletions
from ....cleaning.requests import TooManyRequestsError
from ....cleaning.why import situation_of
from ....metadata.topics import INTERNAL_TOPICS
from ..confirming import Plan, ask, nothing_to_do, told
from ..layout import address, facts, field, get_form, note, quiet, table, topic_link
from ..loop_calls import ACTION_TIMEOUT_S
from ..page_request import BAD_REQUEST, SEE_OTHER, UNAVAILABLE, Page, PageError
from ..units import plural, size_text
from .cleaner import removed_text
from .group_facts import error_name

if TYPE_CHECKING:
    from .....storage.log.unified_log import UnifiedLog
    from .....storage.retention.plan import SegmentDeletion
    from ..html import Element
    from ..page_request import PageRequest
    from ..state import ConsoleState

COUNTING_S = 1.0


def clean(state: ConsoleState, request: PageRequest) -> Page:
    """A pass over each partition of ?topic now, and retention."""
    topic = request.text("topic")
    logs = state.logs_of(topic)
    if request.method == "POST":
        try:
            asked = state.services.cleaner.requests.ask(topic, logs)
        except TooManyRequestsError as error:
            raise PageError(UNAVAILABLE, f"{error}.") from None
        return Page(
            SEE_OTHER, "text/plain", b"", (("Location", address(f"/cleaner/requests/{asked.number}", topic=topic)),)
        )
    rows = []
    is_compacted = "compact" in logs[0].config.cleanup_policy
    for log in logs:
        situation = situation_of(log, state.services.cleaner.manager)
        found, going = situation.found, _due(state, log)
        active = log.segments[-1].size
        rows.append(
            (
                topic_link(topic, log.partition),
                f"{size_text(found.dirty_bytes)} and up to {size_text(active)} of the active segment" if is_compacted else "",
                _segments_text(going), size_text(sum(deletion.size for deletion in going)) if going else "",
            )
        )  # fmt: skip
    says = [
        note(
            "Records that a later one of the same key supersedes go for good, deletion marks and transaction markers whose time "
            "has come too. The active segment is closed first; lags, open transactions and delete horizons are honoured."
            if is_compacted
            else "This topic is not compacted: its active segment is closed, and retention is applied.",
            kind="warn",
        ),
        table(
            ("partition", "looked through", "retention deletes", "bytes"),
            rows,
            {3},
            caption=f"What cleaning {topic} does",
        ),
    ]
    return ask(
        state,
        request,
        Plan(f"Clean {topic} now?", says, {"topic": topic}, "Clean now", topic_link(topic, text="the topic")),
    )


def retention(state: ConsoleState, request: PageRequest) -> Page:
    """Action: apply retention to ?topic now."""
    topic = request.text("topic")
    logs = state.logs_of(topic)
    back = topic_link(topic, text="the topic")
    if request.method == "POST":
        return _apply_retention(state, request, topic, logs)
    rows = [
        (
            topic_link(topic, log.partition),
            _segments_text(going),
            one_policy(going),
            size_text(sum(deletion.size for deletion in going)),
        )
        for log in logs
        if (going := _due(state, log))
    ]
    if not rows:
        return nothing_to_do(
            state, request, f"Retention of {topic}", quiet("Nothing is due: no segment is to be deleted now."), back=back
        )  # fmt: skip
    says = [
        note("These segments go for good, with all records in them.", kind="warn"),
        table(("partition", "segments, by offset", "because of", "bytes"), rows, {3}, caption="What retention deletes"),
    ]
    return ask(
        state, request, Plan(f"Apply retention to {topic} now?", says, {"topic": topic}, "Delete these segments", back)
    )


def _due(state: ConsoleState, log: UnifiedLog) -> list[SegmentDeletion]:
    """Segments that retention would delete now."""
    situation = situation_of(log, state.services.cleaner.manager)
    return plan_deletions(steady_views(log), situation.log, situation.policies).deletions


def one_policy(going: list[SegmentDeletion]) -> str:
    return ", ".join(dict.fromkeys(deletion.policy for deletion in going))


def _segments_text(going: list[SegmentDeletion]) -> str:
    if not going:
        return "nothing"
    return f"{plural(len(going), 'segment')}: offsets {going[0].base_offset} to {going[-1].next_base_offset - 1}"


def _apply_retention(state: ConsoleState, request: PageRequest, topic: str, logs: list[UnifiedLog]) -> Page:
    rows, segments, errors = [], 0, 0
    with state.acting():
        for log in logs:
            try:
                gone = log.delete_old_segments()
            except (OSError, StorageError) as error:
                errors += 1
                rows.append((topic_link(topic, log.partition), f"failed: {error}", "", ""))
                continue
            if gone:
                segments += len(gone)
                rows.append(
                    (
                        topic_link(topic, log.partition), _segments_text(gone), removed_text(removed_by_retention(gone)),
                        size_text(sum(segment.size for segment in gone)),
                    )
                )  # fmt: skip
    heads = ("partition", "segments", "records", "bytes")
    return told(
        state, request, f"Retention of {topic}", f"{plural(segments, 'segment')} deleted.",
        table(heads, rows, {3}, caption="What was deleted") if rows else None,
        back=topic_link(topic, text="the topic"), is_well=not errors,
    )  # fmt: skip


def delete_records(state: ConsoleState, request: PageRequest) -> Page:
    """Action: delete all records of a partition below an offset."""
    topic, number = request.text("topic"), request.text("partition")
    log = state.log_of(topic, number)
    back = topic_link(topic, log.partition, text="the partition")
    title = f"Delete records of {log.name}"
    if request.method == "POST":
        return _delete(state, request, log, title, back)
    refused = _refusal(log)
    if refused is not None:
        return nothing_to_do(state, request, title, note(refused, kind="warn"), back=back)
    start, high = log.log_start_offset, log.high_watermark
    form = get_form(
        request.path,
        field(
            "offset", "Delete all records below offset", request.text("offset", str(high)),
            hint=f"{start} is the first one now, {high} deletes all", inputmode="numeric",
        ),
        topic=topic, partition=number, button="Show what would go",
    )  # fmt: skip
    if not request.text("offset"):
        return nothing_to_do(state, request, title, form, back=back)
    offset = request.number("offset", 0)
    if not start < offset <= high:
        text = f"Offset {offset} is not within {start + 1} and {high}: nothing would go."
        return nothing_to_do(state, request, title, note(text, kind="warn"), form, back=back)
    says = [
        note(f"All records of {log.name} below offset {offset} go for good.", kind="warn"),
        facts(
            ("first offset now", str(start)),
            ("first offset then", str(offset)),
            ("records", _records_text(state, log, start, offset)),
            ("files that go with retention's next run", _files_text(log, offset)),
        ),
    ]
    fields = {"topic": topic, "partition": number, "offset": offset}
    return ask(state, request, Plan(f"{title}?", says, fields, f"Delete all below {offset}", back, form))


def _refusal(log: UnifiedLog) -> str | None:
    """Text that says why the log's records can't be deleted, as the API would; None if they can."""
    if log.topic in INTERNAL_TOPICS:
        return "The broker's own topics keep what they have."
    if "delete" not in log.config.cleanup_policy:
        return "This topic is only compacted (cleanup.policy): its records can't be deleted by offset."
    if log.log_start_offset == log.high_watermark:
        return "There are no records."
    return None


def _records_text(state: ConsoleState, log: UnifiedLog, start: int, offset: int) -> str:
    deadline = time.monotonic() + COUNTING_S
    with state.counting() as counts:
        every = counts.count(log, start, lambda: time.monotonic() >= deadline)
        kept = counts.count(log, offset, lambda: time.monotonic() >= deadline)
    spanned = plural(offset - start, "offset")
    return spanned if every is None or kept is None else f"{plural(every - kept, 'record')} in {spanned}"


def _files_text(log: UnifiedLog, offset: int) -> str:
    view = log.segments
    going = [segment for segment, following in pairwise(view) if following.base_offset <= offset]
    return (
        f"{plural(len(going), 'segment')}, {size_text(sum(deletion.size for deletion in going))}"
        if going
        else "none yet"
    )


def _delete(state: ConsoleState, request: PageRequest, log: UnifiedLog, title: str, back: Element) -> Page:
    offset = request.number("offset", -1)
    if offset < 0:
        raise PageError(BAD_REQUEST, "The form has no offset.")
    part = DeleteRecordsPartition(partition_index=log.partition, offset=offset)
    asked = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=log.topic, partitions=[part])], timeout_ms=30_000)
    answer = state.calls.ask(ApiKey.DELETE_RECORDS, asked, timeout_s=ACTION_TIMEOUT_S)
    result = answer.topics[0].partitions[0]
    if result.error_code:
        text = (
            f"Refused: {error_name(result.error_code)}. Its offsets are {log.log_start_offset} to {log.high_watermark}."
        )
        return told(state, request, title, text, back=back, is_well=False)
    text = f"Done: the first record that can be read is at offset {result.low_watermark} or after it."
    return told(state, request, title, text, back=back)
