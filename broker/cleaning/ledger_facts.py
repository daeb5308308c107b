"""Ledger of a partition (`storage/ledger/ledger.py`) as JSON; `monitoring/partitions.py` has its metrics.

    {"appended": 19, "live": 12, "removed": {"superseded": 4, "aborted": 3}}

appended = live + Σ removed, exactly and always: all is taken from one value, and from the log's end beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...cleaner.removal_counts import CAUSES as REMOVAL_CAUSES
from ...storage.ledger.ledger import DAMAGED, ELSEWHERE

if TYPE_CHECKING:
    from ...storage.log.unified_log import UnifiedLog

CAUSES = (*REMOVAL_CAUSES.values(), DAMAGED, ELSEWHERE)
"""In this order; the ledger has no others."""


def describe_ledger(log: UnifiedLog) -> dict[str, Any] | None:
    """The ledger's JSON object, without causes that have removed nothing; None while the ledger is not known. Any thread."""
    ledger, end = log.ledger.value, log.log_end_offset
    if ledger is None:
        return None
    return {
        "appended": ledger.appended(end),
        "live": ledger.live(end),
        "removed": {cause: ledger.removed[cause] for cause in CAUSES if cause in ledger.removed},
    }
