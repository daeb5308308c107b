"""RetentionRecord: what retention has done to one log and could not do, for log lines, metrics and `why`."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from ..deletion_policy import LogFacts, NamedPolicy, find_policy
from ..exceptions import DeletionPolicyError
from .plan import PolicyFailure, SegmentDeletion, plan_deletions

if TYPE_CHECKING:
    from ..values import SegmentView

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
