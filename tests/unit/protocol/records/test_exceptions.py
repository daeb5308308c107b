"""What a refused timestamp is told: by how much it is off, and which setting decides."""

from __future__ import annotations

import pytest
from tidelog.protocol.records._kernel import validate_and_assign
from tidelog.protocol.records.builder import build_batch
from tidelog.protocol.records.exceptions import InvalidTimestampError, timestamp_fault
from tidelog.protocol.records.record_batch import Record

EARLY = "timestamp 9 is before 10, the earliest that message.timestamp.before.max.ms allows now"
LATE = "timestamp 21 is after 20, the latest that message.timestamp.after.max.ms allows now"


@pytest.mark.parametrize(("timestamp", "text"), [(9, EARLY), (21, LATE)])
def test_a_refused_timestamp_names_the_setting(timestamp: int, text: str) -> None:
    assert timestamp_fault(timestamp, 10, 20) == text
    records = [Record(0, 15, None, b"a", ()), Record(1, timestamp, None, b"b", ())]
    batch = bytearray(build_batch(records))
    with pytest.raises(InvalidTimestampError) as caught:
        validate_and_assign(batch, 0, len(batch), 100, 0, -1, False, True, 10, 20)
    assert str(caught.value) == f"record 1: {text}"
    assert [(fault.record_index, fault.message) for fault in caught.value.faults] == [(1, text)]
