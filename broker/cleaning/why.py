"""Answer of `tidelog why` and GET /why/<topic>: gathers the facts of each log, and gives its reasons (`cleaner/explain.py`) as
JSON.

    {"topic": …, "asOfMs": …, "cleanerBackoffMs": …, "retentionCheckIntervalMs": …, "partitions": [
      {"topic", "partition", offsets, "cleanBytes", "dirtyBytes", "dirtyRatio", "minCleanableDirtyRatio", "inWork", "nextMs",
       "ledger": {"appended", "live", "removed": {cause: offsets}},
       "segments": [{"baseOffset", "endOffset", "size", "live", "section",
                     "reason", "action", "setting", "value", "untilMs", "event",
                     "backup": {"bytes", "isWhole", "sinceMs"},
                     "reasons": [{"action", "reason", "setting", "value", "untilMs", "event", "facts"}]}],
       "segmentsOmitted": 0, "backup": {"cut", "takenMs", "endOffset"},
       "scrub": {…}, "damage": [{…}], "damageOmitted": 0}]}

A segment's own reason is the first of its `reasons`. Times are milliseconds since 1970; null where only an event helps.
`live` is a number of offsets; it and `ledger` (see `ledger_facts.py`) are null where records are still to be counted.
`scrub` and `damage` are the scrubber's, see `scrub_facts.py`. `backup` (`backup_facts.py`) is null without one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from ...cleaner.eligibility import evaluate
from ...cleaner.explain import Hold, RollFacts, SegmentReasons, Situation, explain
from ...cleaner.log_facts import read_steady, steady_views
from ...storage.deletion_policy import LogFacts, NamedPolicy, find_policy
from ...storage.exceptions import DeletionPolicyError
from ...storage.ledger.ledger import SegmentExtent
from ...storage.retention.plan import PolicyFailure
from .backup_facts import NO_BACKUP, BackupFacts, describe_segment
from .ledger_facts import describe_ledger
from .scrub_facts import NOT_SCRUBBED, ScrubFacts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...backup.cut.status import SafeSegment
    from ...cleaner.cleaner_manager import CleanerManager
    from ...cleaner.explain import TransactionOwner
    from ...storage.ledger.ledger import Ledger
    from ...storage.log.unified_log import UnifiedLog

Owners: TypeAlias = "Mapping[int, TransactionOwner]"
"""Producer id → whose transaction it is."""

MAX_SEGMENTS = 2000
"""In one answer, all partitions together; of what is left out the number is told. The active one is always there."""
MAX_DAMAGE = 200
"""In one answer, all partitions together; of what is left out the number is told."""


def situation_of(
    log: UnifiedLog, manager: CleanerManager, *, is_cleaner_enabled: bool = True, owners: Owners | None = None
) -> Situation:
    """Everything that cleaning and retention of this log decide on, now. Pool threads; blocks. OSError, StorageError."""
    return read_steady(log, lambda: _situation_of(log, manager, is_cleaner_enabled, owners or {}))


def _situation_of(log: UnifiedLog, manager: CleanerManager, is_cleaner_enabled: bool, owners: Owners) -> Situation:
    facts = manager.facts(log)
    config = log.config
    active = log.segments[-1]
    transaction = log.oldest_transaction()
    policies: list[NamedPolicy] = []
    failures: list[PolicyFailure] = []
    for name in config.deletion_policies:
        try:
            policies.append(find_policy(name))
        except DeletionPolicyError as error:
            failures.append(PolicyFailure(name, str(error)))
    return Situation(
        facts,
        evaluate(facts),
        LogFacts(
            log.topic, log.partition, config, facts.now_ms, log.size, facts.log_start_offset, facts.high_watermark
        ),
        RollFacts(
            active.first_timestamp() if active.size else -1, active.created_ms, config.segment_ms - active.jitter_ms
        ),
        policies,
        failures,
        transaction,
        None if transaction is None else owners.get(transaction.producer_id),
        is_cleaner_enabled,
        manager.failed_attempts(log),
    )


def why_partition(
    log: UnifiedLog,
    manager: CleanerManager,
    *,
    is_cleaner_enabled: bool,
    owners: Owners | None = None,
    limit: int = MAX_SEGMENTS,
    scrub: ScrubFacts = NOT_SCRUBBED,
    backup: BackupFacts = NO_BACKUP,
    max_damage: int = MAX_DAMAGE,
) -> dict[str, Any]:
    """One partition's part of the answer, with at most `limit` segments and `max_damage` damaged things. As `situation_of`."""
    log.local.open_ledger()
    views = steady_views(log)
    situation = situation_of(log, manager, is_cleaner_enabled=is_cleaner_enabled, owners=owners)
    reasons = explain(views, situation)
    ledger = log.ledger.value
    safe = backup.segments(log)
    facts, found = situation.cleaning, situation.found
    shown = reasons if len(reasons) <= limit else [*reasons[: max(0, limit - 1)], reasons[-1]]
    times = [hold.until_ms for segment in reasons for hold in segment.holds if hold.until_ms is not None]
    return {
        "topic": log.topic,
        "partition": log.partition,
        "cleanupPolicy": ",".join(sorted(log.config.cleanup_policy)),
        "logStartOffset": facts.log_start_offset,
        "firstDirtyOffset": found.first_dirty if facts.is_compacted else None,
        "firstUncleanableOffset": found.first_uncleanable if facts.is_compacted else None,
        "lastStableOffset": facts.last_stable_offset,
        "highWatermark": facts.high_watermark,
        "logEndOffset": facts.log_end_offset,
        "size": situation.log.size,
        "cleanBytes": found.clean_bytes if facts.is_compacted else None,
        "dirtyBytes": found.dirty_bytes if facts.is_compacted else None,
        "dirtyRatio": found.dirty_ratio if facts.is_compacted else None,
        "minCleanableDirtyRatio": found.threshold if facts.is_compacted else None,
        "inWork": manager.is_in_work(log),
        "nextMs": min(times, default=None),
        "asOfMs": facts.now_ms,
        "ledger": describe_ledger(log),
        "holes": [{"firstOffset": hole.first_offset, "lastOffset": hole.last_offset} for hole in log.holes],
        "segments": [_segment(segment, ledger, safe) for segment in shown],
        "segmentsOmitted": len(reasons) - len(shown),
        **backup.describe(log),
        **scrub.describe(log, max_damage),
    }


def why_topic(
    topic: str,
    logs: Sequence[UnifiedLog],
    manager: CleanerManager,
    *,
    is_cleaner_enabled: bool,
    cleaner_backoff_ms: int,
    retention_check_ms: int,
    owners: Owners | None = None,
    scrub: ScrubFacts = NOT_SCRUBBED,
    backup: BackupFacts = NO_BACKUP,
) -> dict[str, Any]:
    """The whole answer for these partitions of a topic. As `situation_of`."""
    partitions = []
    left, damage_left = MAX_SEGMENTS, MAX_DAMAGE
    for log in logs:
        explained = why_partition(
            log, manager, is_cleaner_enabled=is_cleaner_enabled, owners=owners, limit=max(1, left), scrub=scrub, backup=backup,
            max_damage=damage_left,
        )  # fmt: skip
        left -= len(explained["segments"])
        damage_left -= len(explained["damage"])
        partitions.append(explained)
    return {
        "topic": topic,
        "asOfMs": max((explained["asOfMs"] for explained in partitions), default=None),
        "cleanerBackoffMs": cleaner_backoff_ms,
        "retentionCheckIntervalMs": retention_check_ms,
        "partitions": partitions,
    }


def _segment(segment: SegmentReasons, ledger: Ledger | None, safe: Mapping[int, SafeSegment] | None) -> dict[str, Any]:
    holds = [_hold(hold) for hold in segment.holds]
    first = {name: value for name, value in holds[0].items() if name != "facts"}
    return {
        "baseOffset": segment.base_offset,
        "endOffset": segment.end_offset,
        "size": segment.size,
        # A swap may have come between the list of segments and the ledger.
        "live": None if ledger is None else max(0, ledger.live_of(SegmentExtent(*segment[:3]))),
        "section": segment.section,
        "backup": describe_segment(safe, segment.base_offset, segment.size),
        **first,
        "reasons": holds,
    }


def _hold(hold: Hold) -> dict[str, Any]:
    return {
        "action": hold.action,
        "reason": hold.reason,
        "setting": hold.setting,
        "value": hold.value,
        "untilMs": hold.until_ms,
        "event": hold.event,
        "facts": dict(hold.facts),
    }
