from __future__ import annotations

import pytest
from tidelog.storage.producers.entry import BatchMetadata, ProducerStateEntry, in_sequence

LAST = 2**31 - 1


@pytest.mark.parametrize(
    ("last", "following", "expected"),
    [
        (-1, 0, True),
        (0, 1, True),
        (5, 5, False),
        (5, 7, False),
        (5, 0, False),
        (LAST, 0, True),
        (LAST, 1, False),
        (LAST - 1, LAST, True),
        (LAST - 1, 0, False),
    ],
)
def test_in_sequence(last: int, following: int, expected: bool) -> None:
    assert in_sequence(last, following) is expected


def test_first_sequence_wraps_back() -> None:
    assert BatchMetadata(4, 100, 9, 0).first_sequence == LAST - 4
    assert BatchMetadata(9, 100, 9, 0).first_sequence == 0
    assert BatchMetadata(9, 100, 9, 0).first_offset == 91


def test_five_batches_are_remembered() -> None:
    entry = ProducerStateEntry(1)
    for number in range(7):
        entry.add_batch(0, BatchMetadata(number, 100 + number, 0, number))
    assert [batch.last_sequence for batch in entry.batches] == [2, 3, 4, 5, 6]
    assert (entry.batches[0].first_sequence, entry.last_sequence, entry.last_offset) == (2, 6, 106)
    assert entry.find_duplicate(0, 1, 1) is None
    assert entry.find_duplicate(0, 2, 2) == BatchMetadata(2, 102, 0, 2)
    assert entry.find_duplicate(1, 2, 2) is None
    assert entry.find_duplicate(0, 2, 3) is None


def test_a_new_epoch_forgets_the_batches() -> None:
    entry = ProducerStateEntry(1)
    entry.add_batch(0, BatchMetadata(9, 109, 9, 5))
    entry.end_transaction(1, 4, 77)
    assert (entry.producer_epoch, entry.batches, entry.coordinator_epoch, entry.last_timestamp) == (1, [], 4, 77)
    assert (entry.last_sequence, entry.last_offset, entry.last_offset_delta) == (-1, -1, 0)
