"""What is told of a partition's ledger (`storage/ledger/ledger.py`): in JSON, and in `/metrics`.

    {"appended": 19, "live": 12, "removed": {"superseded": 4, "aborted": 3}}

appended = live + Σ removed, exactly and always: all is taken from one value, and from the log's end beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ...cleaner.removals import CAUSES as REMOVAL_CAUSES
from ...storage.ledger.ledger import DAMAGED, ELSEWHERE
from ..runtime.metric_family import Family

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


def ledger_families(logs: Sequence[UnifiedLog]) -> Iterator[Family]:
    """Three metrics of each partition whose ledger is known. Any thread; no I/O."""
    known = [((log.topic, str(log.partition)), log.ledger.value, log.log_end_offset) for log in logs]

    def family(name: str, kind: str, text: str, rows: Iterable[tuple[tuple[str, ...], float]], *more: str) -> Family:
        return Family(f"tidelog_log_offsets_{name}", kind, text, ("topic", "partition", *more), list(rows))

    yield family(
        "appended", "counter", "Offsets ever given out: appended = live + the sum of removed.",
        ((place, ledger.appended(end)) for place, ledger, end in known if ledger is not None),
    )  # fmt: skip
    yield family(
        "live", "gauge", "Offsets that have a record in the partition's files.",
        ((place, ledger.live(end)) for place, ledger, end in known if ledger is not None),
    )  # fmt: skip
    yield family(
        "removed", "counter",
        "Offsets whose record is gone, by cause; damaged: it lay in a .damaged file's hole; elsewhere: it "
        "was missing when the log came here.",
        (((*place, cause), ledger.removed[cause]) for place, ledger, _ in known if ledger is not None
         for cause in CAUSES if cause in ledger.removed), "cause",
    )  # fmt: skip
