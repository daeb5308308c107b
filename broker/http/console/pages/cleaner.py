"""The cleaner: passes as they run, what each of the last ones removed and why, what is next; and what retention takes next."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .....cleaner.eligibility import Cause
from .....cleaner.removal_counts import removed_by_pass
from ..html import Element, element
from ..layout import badge, card, document, facts, link, live, note, one_line, progress, quiet, table, topic_link
from ..page_request import NOT_FOUND, PageError, whole_number
from ..units import ago_text, count_text, duration_text, plural, rate_text, size_text, time_text

if TYPE_CHECKING:
    from .....cleaner.cleaner_manager import PartitionCleaning
    from .....cleaner.pass_history import EndedPass
    from .....cleaner.removal_counts import RemovalCounts
    from ..page_request import Page, PageRequest
    from ..state import ConsoleState

_NEXT = 50
_PASSES = 100
_RETENTION = 50


def cleaner(state: ConsoleState, request: PageRequest) -> Page:
    """Page of the cleaner."""
    return document(
        state, request, "Cleaner",
        live("threads", _threads(state)),
        live("running", _running(state)),
        live("next", _next(state)),
        live("passes", _passes(state)),
        live("retention", _retention(state)),
        is_live=True,
    )  # fmt: skip


def _threads(state: ConsoleState) -> Element:
    cleaner, now_ms = state.services.cleaner, state.now_ms
    pool, rate = cleaner.pool, cleaner.pool.throttler.bytes_per_second
    states = [
        "dead" if not thread.is_alive else f"cleans {thread.log_name}" if thread.log_name is not None else "idle"
        for thread in pool.threads()
    ]
    return card(
        "Threads",
        None if cleaner.is_enabled else note("log.cleaner.enable is false: only what is asked for is cleaned.", kind="warn"),
        facts(
            ("threads", ", ".join(states) or "none"),
            ("looked for work", ago_text(cleaner.manager.last_run_ms, now_ms)),
            ("busy since the start", duration_text(pool.busy_ms / 1000) if pool.busy_ms else "not yet"),
            ("throttle", "none" if math.isinf(rate) else rate_text(rate)),
            ("waited for the throttle", duration_text(pool.throttler.waited_ms / 1000) if pool.throttler.waited_ms else "never"),
            ("read and written", size_text(pool.throttler.total_bytes)),
            ("looks again after", f"{duration_text(pool.settings.backoff_ms / 1000)} (log.cleaner.backoff.ms)"),
        ),
    )  # fmt: skip


def _running(state: ConsoleState) -> Element:
    now_ms = state.now_ms
    running = state.services.cleaner.manager.history.running()
    rows = [
        (
            topic_link(found.topic, found.partition, f"{found.topic}-{found.partition}"), found.reason,
            [progress(100 * found.share, 100, f"{100 * found.share:.0f} %"), f" {100 * found.share:.0f} %"],
            f"{size_text(found.mapped_bytes)} of {size_text(found.dirty_bytes)}", count_text(found.map_entries),
            f"{size_text(found.filtered_bytes)} of {size_text(found.total_bytes)}",
            duration_text(max(0, now_ms - found.started_ms) / 1000),
        )
        for found in running
    ]  # fmt: skip
    heads = ("partition", "because of", "done", "keys read from", "keys", "filtered", "for")
    return card(
        "Running now", table(heads, rows, {4, 6}, caption="Passes that run now") if rows else quiet("No pass runs.")
    )


def _next(state: ConsoleState) -> Element:
    manager, now_ms = state.services.cleaner.manager, state.now_ms
    found = [
        cleaning
        for cleaning in manager.partitions()
        if cleaning.eligibility.cause is not Cause.NOT_COMPACTED and not cleaning.in_work
    ]
    at_rest = sum(_is_at_rest(cleaning) for cleaning in found)
    found = sorted((cleaning for cleaning in found if not _is_at_rest(cleaning)), key=_urgency)
    rows = [
        (
            topic_link(cleaning.topic, cleaning.partition, f"{cleaning.topic}-{cleaning.partition}"), _verdict(cleaning),
            f"{100 * cleaning.eligibility.dirty_ratio:.0f} %", f"{100 * cleaning.eligibility.threshold:.0f} %",
            size_text(cleaning.eligibility.dirty_bytes), _when(cleaning, now_ms),
        )
        for cleaning in found[:_NEXT]
    ]  # fmt: skip
    heads = ("partition", "why, or why not", "dirty", "cleaned above", "dirty bytes", "by time alone")
    return card(
        "What is next",
        quiet("Overdue ones first, then the dirtiest. As each was found at the last look."),
        table(heads, rows, {2, 3, 4}, caption="Compacted partitions, the next one first")
        if rows
        else quiet("Nothing." if at_rest else "No compacted partition was looked at yet."),
        quiet(f"{plural(len(found) - _NEXT, 'more partition')}.") if len(found) > _NEXT else None,
        quiet(f"{plural(at_rest, 'partition')} {'has' if at_rest == 1 else 'have'} nothing dirty.")
        if at_rest
        else None,
    )


def _is_at_rest(cleaning: PartitionCleaning) -> bool:
    """Nothing was written since the last pass, and no time is known at which a pass is due."""
    found = cleaning.eligibility
    times = (found.next_ms, cleaning.next_horizon_ms)
    return cleaning.failure is None and found.reason is None and not found.dirty_bytes and times == (None, None)


def _urgency(cleaning: PartitionCleaning) -> tuple[bool, int, float]:
    found = cleaning.eligibility
    return found.reason is None, -found.overdue_ms, -found.dirty_ratio


def _verdict(cleaning: PartitionCleaning) -> object:
    if cleaning.failure is not None:
        return [badge("uncleanable", "bad"), f" attempt {cleaning.failure.attempts}: {cleaning.failure.cause}"]
    if cleaning.eligibility.reason is not None:
        return [badge("next", "good"), f" {cleaning.eligibility.reason.value}"]
    return (cleaning.eligibility.cause or cleaning.eligibility.held_by).value


def _when(cleaning: PartitionCleaning, now_ms: int) -> Element:
    times = [
        cleaning.eligibility.next_ms,
        cleaning.next_horizon_ms,
        None if cleaning.failure is None else cleaning.failure.retry_ms,
    ]
    return one_line(time_text(min((time for time in times if time is not None), default=None), now_ms))


def _passes(state: ConsoleState) -> Element:
    now_ms = state.now_ms
    ended = state.services.cleaner.manager.history.ended()
    heads = ("ended", "partition", "because of", "took", "read", "kept", "removed", "waited")
    rows = [_pass_row(ended_pass, now_ms) for ended_pass in ended[:_PASSES]]
    return card(
        "Last passes",
        quiet("Since the start; records by what removed them. Waited: of the time that it took, for the throttle."),
        table(heads, rows, {3, 4, 5, 7}, caption="Passes that ended") if rows else quiet("None yet."),
    )


def _pass_row(ended: EndedPass, now_ms: int) -> tuple[object, ...]:
    result = ended.result
    outcome: object = removed_text(removed_by_pass(result.counts))
    if ended.failure is not None:
        outcome = [badge("ended early", "warn"), f" {ended.failure}"]
    return (
        ago_text(ended.ended_ms, now_ms), topic_link(ended.topic, ended.partition, f"{ended.topic}-{ended.partition}"),
        ended.reason,
        duration_text((result.elapsed_ms or max(0, ended.ended_ms - result.started_ms)) / 1000),
        size_text(result.counts.bytes_read), size_text(result.counts.bytes_kept), outcome,
        duration_text(result.throttled_ms / 1000) if result.throttled_ms else "",
    )  # fmt: skip


def removed_text(removed: RemovalCounts) -> str:
    """Format removals: 12 superseded, 3 tombstone."""
    shown = [f"{count_text(count)} {cause}" for cause, count in removed.by_cause().items() if count]
    return ", ".join(shown) or "nothing"


def _retention(state: ConsoleState) -> Element:
    services, now_ms = state.services, state.now_ms
    rows: list[tuple[int, tuple[object, ...]]] = []
    due_bytes = 0
    for log in services.logs.logs():
        outlook = log.retention_outlook(now_ms)
        due = sum(outlook.due_bytes.values())
        due_bytes += due
        if due or outlook.next_due_ms is not None:
            policies = ", ".join(name for name, size in outlook.due_bytes.items() if size)
            now = f"{size_text(due)} now ({policies})"
            when = now if due else one_line(time_text(outlook.next_due_ms, now_ms))
            row = (topic_link(log.topic, log.partition, log.name), when, size_text(log.size))
            rows.append((0 if due else outlook.next_due_ms or 0, row))
    rows.sort(key=lambda item: item[0])
    interval = duration_text(services.config.log_retention_check_interval_ms / 1000)
    return card(
        "What retention takes next",
        quiet(f"It looks every {interval} (log.retention.check.interval.ms). Due now: {size_text(due_bytes)}."),
        table(("partition", "due", "size"), [row for _, row in rows[:_RETENTION]], {2}, caption="Retention's next")
        if rows
        else quiet("Nothing becomes due by time or size, as far as is known without reading segments."),
        quiet(f"{plural(len(rows) - _RETENTION, 'more partition')}.") if len(rows) > _RETENTION else None,
    )


def clean_request(state: ConsoleState, request: PageRequest, number: str) -> Page:
    """Page of a request to clean: its progress, and what it removed."""
    topic = request.text("topic")
    asked = state.services.cleaner.requests.get(topic, whole_number("number", number))
    if asked is None:
        raise PageError(NOT_FOUND, f"No request {number} to clean {topic[:249]} is known: the last hundred are.")
    told, now_ms = asked.describe(), state.now_ms
    rows = [
        (
            topic_link(topic, int(partition), partition), size_text(entry["removedBytes"]),
            ", ".join(f"{count_text(count)} {cause}" for cause, count in entry["removed"].items() if count) or "nothing",
            told["errors"].get(partition, ""),
        )
        for partition, entry in told["byPartition"].items()
    ]  # fmt: skip
    rows += [
        (topic_link(topic, int(partition), partition), "", "", error)
        for partition, error in told["errors"].items()
        if partition not in told["byPartition"]
    ]
    is_done = told["finishedMs"] is not None
    done = f"{told['partitionsDone']} of {plural(told['partitions'], 'partition')} done"
    took = duration_text(((told["finishedMs"] or now_ms) - told["requestedMs"]) / 1000)
    went = f"{plural(told['removedRecords'], 'record')} and {size_text(told['removedBytes'])} went"
    if not is_done:
        status = note(f"{told['state'].capitalize()} for {took}: {done}.")
    elif told["errors"]:
        failed = plural(len(told["errors"]), "partition")
        status = note(f"Ended after {took}, and {failed} could not be cleaned: {went}.", kind="warn")
    else:
        status = note(f"Done in {took}: {went}.", kind="good")
    return document(
        state, request, f"Cleaning {topic}",
        live(
            "request",
            status,
            progress(told["partitionsDone"], told["partitions"], done),
            card(
                "What went",
                table(("partition", "bytes", "records by cause", "problem"), rows, {1}, caption="What went, by partition")
                if rows
                else quiet("Nothing yet."),
                quiet("Lags, open transactions and delete horizons are honoured: they are promises to consumers."),
            ),
        ),
        element("p", link("the topic", f"/topics/{topic}")) if "/" not in topic else None,
        trail=(link("Cleaner", "/cleaner"),),
        is_live=not is_done,
    )  # fmt: skip
