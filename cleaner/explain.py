"""Explains why a segment is not cleaned, or not deleted, yet, and what will change that: a pure function of values.

No second opinion: the values are those that the cleaner (`eligibility.evaluate`) and retention (`retention.plan_deletions`)
decide on, and what they answered. Which segment is held, and by which rule, is read off their answer; what is added is when
the rule lets go. Each `Hold` names the setting, its value, and

    until_ms     the first millisecond at which a look at the log finds it gone, where time alone does it, or
    event        what has to happen, where time does not (with how many bytes are missing, or whose transaction it is)

How soon after that somebody looks is log.cleaner.backoff.ms and log.retention.check.interval.ms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ..storage.deletion_policy import START_OFFSET, LogFacts, NamedPolicy
from ..storage.log.roll_params import is_due_without_write
from ..storage.retention.plan import DELETE_POLICY, plan_deletions
from .eligibility import NO_LIMIT_MS, CleaningFacts, Eligibility, SegmentFacts

if TYPE_CHECKING:
    from ..storage.producers.state import OpenTransaction
    from ..storage.retention.plan import PolicyFailure
    from ..storage.values import SegmentView

ACTIVE, DIRTY, CLEAN, CLOSED = "active", "dirty", "clean", "closed"
CLEANING, DELETION = "clean", "delete"

Value = str | int | float | bool


class Hold(NamedTuple):
    """One reason why a segment stays. `setting` and `value` are None where no setting is behind it."""

    action: str
    """The action that is held up: "clean" or "delete"."""
    reason: str
    setting: str | None = None
    value: Value | None = None
    until_ms: int | None = None
    event: str | None = None
    facts: Mapping[str, Value] = {}


class SegmentReasons(NamedTuple):
    """One segment and its holds, the most important one first."""

    base_offset: int
    end_offset: int
    size: int
    section: str
    """`active`, `dirty` or `clean`; where nothing is compacted, `active` or `closed`."""
    holds: Sequence[Hold]


class RollFacts(NamedTuple):
    """Facts that decide when a quiet active segment is rolled. Times in ms; see `is_due_without_write`."""

    first_timestamp: int
    created_ms: int
    roll_after_ms: int
    """segment.ms less the segment's jitter."""


class TransactionOwner(NamedTuple):
    """Owner of an open transaction, as its coordinator knows it."""

    transactional_id: str
    aborts_ms: int | None
    """First millisecond at which the coordinator aborts it for its time-out; None when it is being ended already."""


@dataclass(frozen=True, slots=True)
class Situation:
    """Input of `explain` besides the segments."""

    cleaning: CleaningFacts
    found: Eligibility
    """Result of `evaluate(cleaning)`."""
    log: LogFacts
    roll: RollFacts
    policies: Sequence[NamedPolicy] = ()
    """The usable policies of deletion.policies."""
    policy_failures: Sequence[PolicyFailure] = ()
    """The unusable policies, and those that the last retention run left out."""
    transaction: OpenTransaction | None = None
    """The transaction that holds back the last stable offset."""
    owner: TransactionOwner | None = None
    """Owner of that transaction; None when no coordinator knows it."""
    is_cleaner_enabled: bool = True
    failed_attempts: int = 0


def explain(views: Sequence[SegmentView], situation: Situation) -> list[SegmentReasons]:
    """The reasons of each of `views`: the first segments of the log, in order, and perhaps the active one. Never raises
    but for what a policy's segments raise.
    """
    cleaning = _cleaning_holds(situation)
    deletion = _deletion_holds(views, situation)
    facts = {segment.base_offset: segment for segment in situation.cleaning.segments}
    is_compacted = situation.cleaning.is_compacted
    answer = []
    for view in views:
        segment = facts.get(view.base_offset)
        section = ACTIVE
        clean: list[Hold] = []
        if not view.is_active:
            section = DIRTY if view.next_base_offset > situation.found.first_dirty else CLEAN
            if not is_compacted:
                section = CLOSED
            if segment is not None:
                clean = cleaning.get(view.base_offset, [])
        delete = deletion[view.base_offset]
        holds = [*clean, *delete] if is_compacted else [*delete, *clean]
        if view.is_active:
            holds.insert(0, _active(view, situation))
        answer.append(SegmentReasons(view.base_offset, view.next_base_offset, view.size, section, holds))
    return answer


# --- cleaning ---


def _cleaning_holds(situation: Situation) -> dict[int, list[Hold]]:
    """Cleaning holds of each closed segment, by base offset."""
    facts, found = situation.cleaning, situation.found
    closed = facts.segments[:-1]
    ends = [segment.base_offset for segment in facts.segments[1:]]
    if not facts.is_compacted:
        held = Hold(
            CLEANING,
            "cleanup.policy",
            "cleanup.policy",
            _policy_text(situation),
            event="cleanup.policy has compact in it",
        )
        return {segment.base_offset: [held] for segment in closed}
    youngest: int | None = None
    holds: dict[int, list[Hold]] = {}
    for segment, end in zip(closed, ends, strict=True):
        is_dirty = end > found.first_dirty
        if is_dirty and facts.min_lag_ms > 0 and segment.largest_timestamp > facts.now_ms - facts.min_lag_ms:
            youngest = max(youngest or 0, segment.largest_timestamp)
        mine: list[Hold] = []
        if not situation.is_cleaner_enabled:
            event = "log.cleaner.enable is true (read at the start)"
            mine.append(Hold(CLEANING, "log.cleaner.enable", "log.cleaner.enable", False, event=event))
        if segment.base_offset >= found.first_uncleanable:
            mine += _out_of_range(situation, end, youngest)
        elif situation.is_cleaner_enabled:
            mine += _in_range(situation, segment, is_dirty)
        holds[segment.base_offset] = mine
    return holds


def _out_of_range(situation: Situation, end: int, youngest: int | None) -> Iterator[Hold]:
    """Holds of a segment outside the cleanable range: a transaction, the high watermark, or young records."""
    facts = situation.cleaning
    if end > facts.last_stable_offset and facts.last_stable_offset < facts.high_watermark:
        transaction, owner = situation.transaction, situation.owner
        event = "the transaction that is open there is committed or aborted"
        details: dict[str, Value] = {"lastStableOffset": facts.last_stable_offset}
        if transaction is not None:
            who = "" if owner is None else f" (transactional.id {owner.transactional_id})"
            event = f"producer {transaction.producer_id}{who} commits or aborts its transaction (its marker is written)"
            details |= {"producerId": transaction.producer_id, "firstOffset": transaction.first_offset}
        if owner is not None:
            details["transactionalId"] = owner.transactional_id
        # The coordinator aborts the transaction at `aborts_ms`; without a coordinator only an event ends it.
        yield Hold(
            CLEANING, "open transaction", until_ms=owner.aborts_ms if owner else None, event=event, facts=details
        )
    elif end > min(facts.last_stable_offset, facts.high_watermark):
        event = f"the high watermark passes offset {end}: a sync is pending"
        yield Hold(CLEANING, "high watermark", event=event, facts={"highWatermark": facts.high_watermark})
    if youngest is not None:
        # A segment that is old enough still waits for younger ones before it: the cleanable range has no holes.
        lag, name = facts.min_lag_ms, "min.compaction.lag.ms"
        yield Hold(CLEANING, name, name, lag, youngest + lag, facts=_newest(youngest, facts.now_ms))


def _in_range(situation: Situation, segment: SegmentFacts, is_dirty: bool) -> Iterator[Hold]:
    facts, found = situation.cleaning, situation.found
    horizon_ms = facts.horizons.get(segment.base_offset)
    if facts.failure is not None:
        yield Hold(
            CLEANING,
            "uncleanable",
            until_ms=facts.retry_ms,
            event="the topic's settings are changed",
            facts={"cause": facts.failure, "attempts": situation.failed_attempts},
        )
    elif found.reason is not None and (is_dirty or (horizon_ms is not None and horizon_ms <= facts.now_ms)):
        yield Hold(CLEANING, "due", until_ms=facts.now_ms, event=f"the next pass: {found.reason.value}")
        return
    if is_dirty:
        if found.reason is None and facts.failure is None:
            yield _below_ratio(found)
    elif horizon_ms is not None:
        # The horizon is in the batches; delete.retention.ms of today does not change it.
        setting = "delete.retention.ms"
        yield Hold(CLEANING, "tombstones", setting, situation.log.config.delete_retention_ms, horizon_ms)
    else:
        yield Hold(CLEANING, "clean", event="a newer record with one of its keys is written")


def _below_ratio(found: Eligibility) -> Hold:
    """Hold of dirty segments that may be cleaned: too few dirty bytes, unless a lag or horizon is due before."""
    details: dict[str, Value] = {
        "dirtyRatio": found.dirty_ratio,
        "dirtyBytes": found.dirty_bytes,
        "cleanBytes": found.clean_bytes,
    }
    event = "more than that share of the log is dirty; at 1 that never happens"
    if found.threshold < 1:
        missing = int(found.threshold * found.clean_bytes / (1 - found.threshold)) + 1 - found.dirty_bytes
        details["bytesToGo"] = max(1, missing)
        event = f"{max(1, missing):,} more bytes are written and rolled"
    # `next_ms`: max.compaction.lag.ms, or a delete horizon, comes whatever is written.
    name = "min.cleanable.dirty.ratio"
    return Hold(CLEANING, name, name, found.threshold, found.next_ms, event, details)


# --- the active segment ---


def _active(view: SegmentView, situation: Situation) -> Hold:
    """Hold of the active segment: nothing cleans it, and only some policies delete it, so it must be rolled first."""
    config = situation.log.config
    action = CLEANING if situation.cleaning.is_compacted else DELETION
    if not view.size:
        return Hold(action, "active", event="a record is written to it")
    setting, value, until_ms = "segment.ms", config.segment_ms, _rolls_at(situation.roll, situation.log.now_ms)
    first, max_lag = situation.roll.first_timestamp, situation.cleaning.max_lag_ms
    # The cleaner rolls an active segment for which max.compaction.lag.ms is due.
    if situation.cleaning.is_compacted and situation.is_cleaner_enabled and first > 0 and max_lag < NO_LIMIT_MS:
        lag_ms = first + max_lag + 1
        if until_ms is None or lag_ms < until_ms:
            setting, value, until_ms = "max.compaction.lag.ms", max_lag, lag_ms
    to_go = max(1, config.segment_bytes - view.size + 1)
    event = f"{to_go:,} more bytes are written (segment.bytes={config.segment_bytes}), or `tidelog clean`"
    return Hold(action, "active", setting, value, until_ms, event, {"bytesToGo": to_go})


def _rolls_at(roll: RollFacts, now_ms: int) -> int | None:
    """The first moment at which a quiet segment is rolled; a write may do it before, by its own time."""
    by_record = roll.first_timestamp + roll.roll_after_ms + 1
    by_age = roll.created_ms + roll.roll_after_ms + 1
    for time in (now_ms, *sorted((by_record, by_age))):
        if time >= now_ms and is_due_without_write(roll.first_timestamp, roll.created_ms, time, roll.roll_after_ms):
            return time if time < NO_LIMIT_MS else None
    return None


# --- deletion ---


def _deletion_holds(views: Sequence[SegmentView], situation: Situation) -> dict[int, list[Hold]]:
    log, config = situation.log, situation.log.config
    plan = plan_deletions(iter(views), log, situation.policies)
    due = {deletion.base_offset: deletion.policy for deletion in plan.deletions}
    failures = (*situation.policy_failures, *plan.failures)
    holds: dict[int, list[Hold]] = {}
    until: dict[str, int] = {}
    remaining = log.size
    for view in views:
        if view.base_offset in due:
            remaining -= view.size
            by = due[view.base_offset]
            event = f"the next retention run ({'log start offset' if by == START_OFFSET.name else by})"
            holds[view.base_offset] = [Hold(DELETION, "due", until_ms=log.now_ms, event=event)]
            continue
        if DELETE_POLICY not in config.cleanup_policy:
            # DeleteRecords is refused there.
            event = "cleanup.policy has delete in it"
            held = Hold(DELETION, "cleanup.policy", "cleanup.policy", _policy_text(situation), event=event)
            holds[view.base_offset] = [held]
            continue
        # A policy that deletes by size counts what stays, whoever takes the older ones.
        remaining -= view.size
        mine = []
        if view.next_base_offset > log.high_watermark:
            event = f"the high watermark passes offset {view.next_base_offset}"
            mine.append(Hold(DELETION, "high watermark", event=event, facts={"highWatermark": log.high_watermark}))
        for named in situation.policies:
            mine += _held_by_policy(named, view, situation, until, remaining)
        mine += [
            Hold(
                DELETION,
                "deletion.policies",
                "deletion.policies",
                failed.policy,
                event=f"it can be used: {failed.cause}",
            )
            for failed in failures
        ]
        if not mine and not situation.policies:
            event = "a deletion policy is set, or DeleteRecords passes its end"
            mine = [Hold(DELETION, "deletion.policies", "deletion.policies", "", event=event)]
        holds[view.base_offset] = mine
    return holds


def _held_by_policy(
    named: NamedPolicy, view: SegmentView, situation: Situation, until: dict[str, int], remaining: int
) -> Iterator[Hold]:
    """Holds of one policy. Of a policy that is not built in, only that it has not named the segment is known."""
    config = situation.log.config
    if named.name in ("time", "append-time"):
        limit = config.retention_ms
        if limit < 0:
            yield Hold(DELETION, "retention.ms", "retention.ms", limit, event="retention.ms is set")
        elif view.size or not view.is_active:
            began = view.largest_timestamp if named.name == "time" else view.modified_ms
            # Segments go in order: a younger one before this one holds it too.
            until[named.name] = max(until.get(named.name, 0), began + limit + 1)
            if until[named.name] > situation.log.now_ms:
                details = {"policy": named.name, **_newest(until[named.name] - limit - 1, situation.log.now_ms)}
                yield Hold(DELETION, "retention.ms", "retention.ms", limit, until[named.name], facts=details)
    elif named.name == "size":
        limit = config.retention_bytes
        if limit < 0:
            yield Hold(DELETION, "retention.bytes", "retention.bytes", limit, event="retention.bytes is set")
        elif not view.is_active and (to_go := limit - remaining) > 0:
            event = f"{to_go:,} more bytes are written"
            yield Hold(DELETION, "retention.bytes", "retention.bytes", limit, event=event, facts={"bytesToGo": to_go})
    else:
        event = f"the policy {named.name} names it, when it is asked (log.retention.check.interval.ms)"
        yield Hold(DELETION, "deletion.policies", "deletion.policies", named.name, event=event)


def _newest(timestamp: int, now_ms: int) -> dict[str, Value]:
    """Timestamp that a rule counts from, and by how much it lies in the future: a wrong date can hold a segment for
    years.
    """
    return {"newestMs": timestamp, **({"futureMs": timestamp - now_ms} if timestamp > now_ms else {})}


def _policy_text(situation: Situation) -> str:
    return ",".join(sorted(situation.log.config.cleanup_policy))
