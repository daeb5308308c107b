"""Plan of the segments to delete, and the policy that names each: `plan_deletions`, a pure function of values, which
`log/retention_executor.py` acts on. A log's `RetentionRecord`, here too, keeps what went and which policy could not be asked.

The policies are asked in turn, each about what the others have left, until none names a segment any more: one call deletes all
that repeated calls would. A policy is offered only what may go at all: nothing at or above the high watermark, and the active
segment only when it asks for it and has a record in it (the executor rolls it first). Its answer must be the first of the offered
segments, in order. A policy that answers anything else, or fails, deletes nothing in this run, and the caller is told.

The policies themselves, built in and others, are `deletion_policy.py`'s.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from ..deletion_policy import START_OFFSET, DeletionPolicy, LogFacts, NamedPolicy, find_policy
from ..exceptions import DeletionPolicyError

if TYPE_CHECKING:
    from ..values import SegmentView


DELETE_POLICY = "delete"


class SegmentDeletion(NamedTuple):
    """One segment that must go, and the policy that named it."""

    base_offset: int
    next_base_offset: int
    size: int
    policy: str
    live: int
    """Records in it, as far as they are counted without reading it: its offsets, where no cleaner has been."""


class PolicyFailure(NamedTuple):
    """A policy that was left out of this run, and why."""

    policy: str
    cause: str


class RetentionPlan(NamedTuple):
    """The answer of a plan. `deletions` are the first segments of the log, in order."""

    deletions: list[SegmentDeletion]
    failures: list[PolicyFailure]


def plan_deletions(segments: Iterable[SegmentView], log: LogFacts, policies: Sequence[NamedPolicy]) -> RetentionPlan:
    """Decide what to delete now. `policies` hold where cleanup.policy has delete in it, logStartOffset always.

    `segments` (all of the log, in offset order) is read only as far as a policy reads, so it may be a generator over ten
    thousand that opens files.
    """
    asked = [START_OFFSET, *(policies if DELETE_POLICY in log.config.cleanup_policy else ())]
    offer = _Offer(segments, log.high_watermark)
    failures: list[PolicyFailure] = []
    while True:
        deletions, failure = _ask(offer, log, asked)
        if failure is None:
            return RetentionPlan(deletions, failures)
        # Once more without it, so that nothing goes on the word of a policy that failed later.
        failures.append(failure)
        asked = [named for named in asked if named.name != failure.policy]


def _ask(
    offer: _Offer, log: LogFacts, asked: Sequence[NamedPolicy]
) -> tuple[list[SegmentDeletion], PolicyFailure | None]:
    deletions: list[SegmentDeletion] = []
    remaining = log.size
    named_any = True
    while named_any:
        named_any = False
        for name, policy in asked:
            takes_active = bool(getattr(policy, "takes_active", False))
            try:
                for segment in _chosen(policy, offer, len(deletions), takes_active, log._replace(size=remaining)):
                    base, end = segment.base_offset, segment.next_base_offset
                    deletions.append(SegmentDeletion(base, end, segment.size, name, end - base))
                    remaining -= segment.size
                    named_any = True
            except Exception as error:
                offer.raise_error()
                return [], PolicyFailure(name, f"{type(error).__name__}: {error}")
            offer.raise_error()
    return deletions, None


def _chosen(
    policy: DeletionPolicy, offer: _Offer, start: int, takes_active: bool, log: LogFacts
) -> Iterator[SegmentView]:
    """Yield what the policy answers; ValueError unless each segment is the next of those it was offered."""
    for position, segment in enumerate(policy.choose(offer.after(start, takes_active), log), start):
        expected = offer.get(position, takes_active)
        if expected is None:
            raise ValueError(f"it named {_shown(segment)}, which it was not offered")
        if expected != segment:
            raise ValueError(f"it named {_shown(segment)}, and segment {expected.base_offset} comes before that")
        yield expected


def _shown(segment: object) -> str:
    return f"segment {segment.base_offset}" if hasattr(segment, "base_offset") else repr(segment)[:80]


class _Offer:
    """The segments that may go, read from their source when they are first looked at."""

    def __init__(self, segments: Iterable[SegmentView], high_watermark: int) -> None:
        self._source = iter(segments)
        self._high_watermark = high_watermark
        self._read: list[SegmentView] = []
        self._error: Exception | None = None

    def raise_error(self) -> None:
        """Raise the error that reading a segment's facts met, if any: it is no policy's fault, whatever the policy made of it."""
        if self._error is not None:
            raise self._error

    def get(self, position: int, takes_active: bool) -> SegmentView | None:
        """The segment at `position`, or None if no segment there may go."""
        while position >= len(self._read):
            try:
                segment = next(self._source, None)
            except Exception as error:
                self._error = error
                raise
            if segment is None or segment.next_base_offset > self._high_watermark:
                self._source = iter(())
                return None
            self._read.append(segment)
        segment = self._read[position]
        return None if segment.is_active and not (takes_active and segment.size) else segment

    def after(self, start: int, takes_active: bool) -> Iterator[SegmentView]:
        """All segments that may go, from position `start` on."""
        position = start
        while (segment := self.get(position, takes_active)) is not None:
            yield segment
            position += 1


logger = logging.getLogger(__name__)

_SETTINGS = {
    "start-offset": "log start offset",
    "time": "retention.ms",
    "append-time": "retention.ms since the last append",
    "size": "retention.bytes",
}


class Deleted(NamedTuple):
    """Segments of a log that a policy has deleted since the start, and the bytes of their `.log` files."""

    segments: int
    bytes: int


class RetentionRecord:
    """Retention's results for one log. Written under its deletion lock; any thread reads the attributes: each is replaced.

    Attributes:
        deleted: policy → what it has deleted.
        failed_runs: policy → runs in which it could not be used.
        failures: what was wrong in the last run; empty when all went well.
    """

    __slots__ = ("_name", "deleted", "failed_runs", "failures")

    def __init__(self, name: str) -> None:
        """`name`: the log's, for log lines."""
        self._name = name
        self.deleted: dict[str, Deleted] = {}
        self.failed_runs: dict[str, int] = {}
        self.failures: Sequence[PolicyFailure] = ()

    def plan(self, segments: Iterable[SegmentView], facts: LogFacts) -> list[SegmentDeletion]:
        """Ask the policies of the log's settings what to delete now. A policy that can't be used is counted, and logged once."""
        missing: list[PolicyFailure] = []
        plan = plan_deletions(segments, facts, list(_policies(facts.config.deletion_policies, missing)))
        failures = (*missing, *plan.failures)
        for failure in failures:
            self.failed_runs = {**self.failed_runs, failure.policy: self.failed_runs.get(failure.policy, 0) + 1}
            if failure not in self.failures:
                logger.error("%s: deletion policy %s deletes nothing: %s", self._name, failure.policy, failure.cause)
        self.failures = failures
        return plan.deletions

    def note(self, deletions: Iterable[SegmentDeletion]) -> None:
        """Count and log `deletions`, which were carried out."""
        deleted = dict(self.deleted)
        for policy, group in groupby(deletions, key=lambda deletion: deletion.policy):
            run = list(group)
            size = sum(deletion.size for deletion in run)
            before = deleted.get(policy, Deleted(0, 0))
            deleted[policy] = Deleted(before.segments + len(run), before.bytes + size)
            which = f"segment {run[0].base_offset}"
            if len(run) > 1:
                which = f"{len(run)} segments, {run[0].base_offset} to {run[-1].base_offset}"
            cause = _SETTINGS.get(policy, f"deletion policy {policy}")
            logger.info("%s: deleted %s, %d bytes (%s)", self._name, which, size, cause)
        self.deleted = deleted


def _policies(names: Iterable[str], missing: list[PolicyFailure]) -> Iterator[NamedPolicy]:
    for name in names:
        try:
            yield find_policy(name)
        except DeletionPolicyError as error:
            missing.append(PolicyFailure(name, str(error)))
