"""RemovalCounts: numbers of removed records by cause, as `tidelog clean` and `tidelog log compact` print them. The ledger of
each partition (`storage/ledger/ledger.py`) counts under the same causes for ever.

    superseded      a later record has the same key
    tombstone       a deletion mark whose time had come
    aborted         data of an aborted transaction
    keyless         no key, from before the topic was compacted
    marker          a transaction marker that nothing needs any more
    retention       a deletion policy named its segment
    delete-records  below the log start offset, when a pass drops it or its segment goes

The unit is the record, a transaction marker is one too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from ..storage.deletion_policy import START_OFFSET

if TYPE_CHECKING:
    from ..storage.ledger.ledger import Ledger
    from ..storage.retention.plan import SegmentDeletion
    from .kernel.results import FilterCounts


class RemovalCounts(NamedTuple):
    """Number of removed records by cause, and the bytes of `.log` files freed."""

    superseded: int = 0
    tombstone: int = 0
    aborted: int = 0
    keyless: int = 0
    marker: int = 0
    retention: int = 0
    delete_records: int = 0
    bytes: int = 0

    def plus(self, other: RemovalCounts) -> RemovalCounts:
        return RemovalCounts(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))

    def by_cause(self) -> dict[str, int]:
        """The counts under the names that commands print."""
        return {cause: getattr(self, name) for name, cause in CAUSES.items()}

    @property
    def records(self) -> int:
        """Number of removed records, all causes together."""
        return sum(self) - self.bytes


CAUSES = {name: name.replace("_", "-") for name in RemovalCounts._fields if name != "bytes"}
"""Field → its name in commands and in the ledger."""


def removed_by_pass(counts: FilterCounts) -> RemovalCounts:
    """Removals of one cleaner pass."""
    return RemovalCounts(
        superseded=counts.superseded,
        tombstone=counts.tombstones_expired,
        aborted=counts.aborted,
        keyless=counts.keyless,
        marker=counts.markers_expired,
        delete_records=counts.below_start,
        bytes=max(0, counts.bytes_read - counts.bytes_kept),
    )


def removed_by_retention(deletions: Iterable[SegmentDeletion]) -> RemovalCounts:
    """Removals of a retention run, which takes whole segments."""
    total = RemovalCounts()
    for deletion in deletions:
        live, size = deletion.live, deletion.size
        is_asked = deletion.policy == START_OFFSET.name
        total = total.plus(
            RemovalCounts(delete_records=live, bytes=size) if is_asked else RemovalCounts(retention=live, bytes=size)
        )
    return total


def removed_between(before: Ledger, after: Ledger) -> RemovalCounts:
    """Removals that a log's ledger booked between two of its states; the ledger does not count bytes."""
    return RemovalCounts(
        **{name: after.removed.get(cause, 0) - before.removed.get(cause, 0) for name, cause in CAUSES.items()}
    )
