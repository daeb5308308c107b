"""Transaction markers: the record in a control batch that commits or aborts a transaction.

    key    0      2      4            value   0      2          6
           +------+------+                    +------+----------+    version 0 each; type 0 abort, 1 commit;
           | ver  | type |                    | ver  | coord.ep |    the coordinator's epoch fences an older coordinator
           +------+------+                    +------+----------+    big-endian

Later versions may add fields behind these.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from ...protocol.records.builder import build_batch
from ...protocol.records.exceptions import CorruptRecordError, InvalidRecordError
from ...protocol.records.record_batch import Record, iterate_records

if TYPE_CHECKING:
    from ..io.filesystem import Buffer

_KEY = Struct(">hh")
_VALUE = Struct(">hi")
_ABORT = 0
_COMMIT = 1

assert _KEY.size == 4
assert _VALUE.size == 6

MARKER_BATCH_SIZE = 78
"""Size in bytes of a control batch with one marker: no size limit may keep one out."""


class TransactionMarker(NamedTuple):
    """Outcome of a transaction, and the epoch of the coordinator that decided it."""

    is_commit: bool
    coordinator_epoch: int

    def key(self) -> bytes:
        return _KEY.pack(0, _COMMIT if self.is_commit else _ABORT)

    def value(self) -> bytes:
        return _VALUE.pack(0, self.coordinator_epoch)


def parse_transaction_marker(key: bytes | None, value: bytes | None) -> TransactionMarker | None:
    """Parse a control record's marker; None for other control records, CorruptRecordError for bytes that are none."""
    if key is None or len(key) < _KEY.size:
        raise CorruptRecordError("control record without a version and type in its key")
    version, kind = _KEY.unpack_from(key)
    if version < 0:
        raise CorruptRecordError(f"control record version {version}")
    if kind not in (_ABORT, _COMMIT):
        return None
    if value is None or len(value) < _VALUE.size:
        raise CorruptRecordError("transaction marker without a coordinator epoch")
    version, coordinator_epoch = _VALUE.unpack_from(value)
    if version < 0:
        raise CorruptRecordError(f"transaction marker version {version}")
    return TransactionMarker(kind == _COMMIT, coordinator_epoch)


def marker_batch(producer_id: int, producer_epoch: int, marker: TransactionMarker, timestamp_ms: int) -> bytearray:
    """Build the control batch that ends a producer's transaction, ready to be appended."""
    record = Record(0, timestamp_ms, marker.key(), marker.value())
    return bytearray(
        build_batch(
            [record], producer_id=producer_id, producer_epoch=producer_epoch, is_transactional=True, is_control=True
        )
    )


def marker_of(batch: Buffer) -> TransactionMarker:
    """Read the marker in a control batch. InvalidRecordError when it holds none, or something else."""
    found = [parse_transaction_marker(record.key, record.value) for record in iterate_records(batch)]
    if len(found) != 1 or found[0] is None:
        raise InvalidRecordError("a control batch with a producer id holds one transaction marker, and nothing else")
    return found[0]
