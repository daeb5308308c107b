"""What is told of a partition's ledger (`storage/ledger/ledger.py`) in JSON; `monitoring/partitions.py` has its metrics.

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
    """As JSON has it, causes of which nothing went left out; None while it is not known. Any thread."""
    ledger, end = log.ledger.value, log.log_end_offset
    if ledger is None:
        return None
    return {
        "appended": ledger.appended(end),
        "live": ledger.live(end),
        "removed": {cause: ledger.removed[cause] for cause in CAUSES if cause in ledger.removed},
    }
